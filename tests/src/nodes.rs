//! The switch and the NICs as nodes of a simulated network.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use zsr_link::PcapSink;
use zsr_simnet::Node;
use zsr_soft_nic::Nic;
use zsr_soft_switch::{ControlQueue, Switch};
use zsr_topology::Traffic;
use zsr_wire::roce::IP_AT;
use zsr_wire::{Frame, FramePool, icrc, vlan};

use crate::wire::{Kind, Wire};

/// Whether a packet at a port is to vanish.
pub type Filter = Box<dyn FnMut(u16, Kind) -> bool>;

/// A capture for each simulated switch, in the folder that ZSR_CAPTURES names, for other programs to read
/// (tests/captures/run). Without that variable there are no captures. ZSR_CAPTURES_OF limits them to tests whose names
/// begin with one of its words, separated by commas.
fn capture() -> Option<PcapSink> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let folder = PathBuf::from(std::env::var_os("ZSR_CAPTURES")?);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("test");
    let unwanted =
        std::env::var("ZSR_CAPTURES_OF").is_ok_and(|of| !of.split(',').any(|o| test.starts_with(o)));
    if unwanted {
        return None;
    }
    let test = test.replace(':', "-");
    let path = folder.join(format!("{test}-{}-{number}.pcap", std::process::id()));
    Some(PcapSink::create(&path).unwrap_or_else(|e| panic!("{e}")))
}

fn record(capture: Option<&PcapSink>, now_ns: u64, frame: &[u8]) {
    if let Some(capture) = capture.filter(|_| icrc::verify_frame(frame)) {
        capture.record(now_ns, frame);
    }
}

fn without_tag(bytes: &[u8]) -> Cow<'_, [u8]> {
    match vlan::tag(bytes) {
        None => bytes.into(),
        Some(_) => {
            let mut frame = Frame::copy_from(bytes).expect("it was a frame");
            vlan::take(&mut frame);
            frame.bytes().to_vec().into()
        }
    }
}

/// Frames that a switch keeps for packets that it makes itself.
const OWN: usize = 64;

/// Packets that have another pass at the same time, where they are queued.
const PASSES: usize = 2;

/// Frames that wait at a switch that hangs; more are dropped.
const HELD: usize = 256;

/// A switch that hangs. Its timer does nothing: time has to pass even if there is nothing else to wait for.
struct Hung {
    held: Vec<(u16, Frame)>,
    timer: u64,
}

/// Time between two ticks of that timer, in nanoseconds.
const BEAT: u64 = 1_000_000;

/// ECN bits of the type of service; all of them: marked.
const ECN: u8 = 3;

/// Checks the marks of a frame to a NIC: DSCP, priority and VLAN are as they should be, and items have the ECN bits of
/// the frame that brought them.
fn check_marks(frame: &[u8], kind: Kind, on: Option<u16>, ecn: u8) {
    let Traffic { data, .. } = Traffic::default();
    let (dscp, priority) = match kind {
        // The kind of a damaged frame is unknown.
        Kind::Other => return,
        Kind::Cnp => (48, 6),
        _ => (data.dscp, data.priority),
    };
    assert_eq!(vlan::tag(frame), on.map(|id| vlan::tci(id, priority)), "{kind:?}");
    let tos = without_tag(frame)[IP_AT + 1];
    assert_eq!(tos >> 2, dscp, "{kind:?}");
    match kind {
        Kind::Write(_) if ecn != 0 => assert!([ecn, ECN].contains(&(tos & ECN)), "{kind:?}: {tos:#x}"),
        _ => assert_eq!(tos & ECN, 0, "{kind:?}"),
    }
}

/// The switch, with a witness and a filter at its ports.
pub struct SwitchNode {
    /// The switch.
    pub switch: Switch,
    /// The witness that checks the packets.
    pub wire: Wire,
    /// The filter that takes packets away, on their way in and out.
    pub filter: Filter,
    /// The VLANs of ports. Frames that leave there have the VLAN's tag and the priority of RoCE; the witness sees them
    /// without a tag.
    pub vlans: BTreeMap<u16, u16>,
    /// How long a packet takes for another pass, nanoseconds, if the switch queues them; others come in meanwhile.
    pub pass_ns: u64,
    /// When the next waiting packets have their pass.
    pass_at: Option<u64>,
    out: Vec<(u16, Frame)>,
    queue: VecDeque<(u16, Frame)>,
    depths: BTreeMap<u16, usize>,
    /// The most packets that have waited at a port.
    pub deepest: BTreeMap<u16, usize>,
    pool: FramePool,
    /// `None`: the switch runs.
    hung: Option<Hung>,
    /// Packets that links have not damaged: the switch passes damaged items on.
    capture: Option<PcapSink>,
}

impl SwitchNode {
    /// A switch whose packets all pass.
    pub fn new(switch: Switch, wire: Wire) -> SwitchNode {
        SwitchNode {
            switch,
            wire,
            filter: Box::new(|_, _| false),
            vlans: BTreeMap::new(),
            pass_ns: 0,
            pass_at: None,
            out: Vec::new(),
            queue: VecDeque::new(),
            depths: BTreeMap::new(),
            deepest: BTreeMap::new(),
            pool: FramePool::default(),
            hung: None,
            capture: capture(),
        }
    }

    /// From now on nothing passes `port` in either direction; with `None`, everything passes again.
    pub fn cut(&mut self, port: Option<u16>) {
        self.filter = Box::new(move |at, _| port == Some(at));
    }

    /// Makes the switch hang, or go on with the frames that have come in meanwhile.
    pub fn hang(&mut self, now_ns: u64, hangs: bool) {
        if hangs {
            self.hung.get_or_insert(Hung { held: Vec::new(), timer: now_ns + BEAT });
        } else if let Some(hung) = self.hung.take() {
            let mut pool = std::mem::take(&mut self.pool);
            hung.held.into_iter().for_each(|(port, frame)| self.handle(now_ns, port, frame, &mut pool));
            self.pool = pool;
        }
    }

    /// Lets a frame come in at `port` as if from its host.
    pub fn inject(&mut self, now_ns: u64, port: u16, bytes: &[u8]) {
        let mut pool = std::mem::take(&mut self.pool);
        let mut frame = pool.take();
        assert!(frame.append(bytes), "a frame holds {} bytes", bytes.len());
        self.handle(now_ns, port, frame, &mut pool);
        self.pool = pool;
    }

    /// The frame that leaves for a frame that comes in at `port`, unseen by the witness; at most one frame may leave.
    pub fn ask(&mut self, port: u16, bytes: &[u8]) -> Option<Vec<u8>> {
        let frame = Frame::copy_from(bytes).expect("a frame");
        let mut out = Vec::new();
        self.switch.process(0, port, frame, &mut self.pool, &mut out);
        assert!(out.len() < 2, "{} frames leave", out.len());
        out.pop().map(|(_, frame)| frame.bytes().to_vec())
    }

    /// Carries out the controller's requests in `control`; returns whether there were any.
    pub fn serve(&mut self, now_ns: u64, control: &ControlQueue) -> bool {
        if self.hung.is_some() {
            return false;
        }
        let served = control.drain(&mut self.switch, now_ns) > 0;
        let mut pool = std::mem::take(&mut self.pool);
        while self.pass_ns == 0 && self.switch.has_pending() {
            self.switch.run_pending(now_ns, 16, &mut pool, &mut self.out);
            self.send(now_ns, None, &mut pool);
        }
        self.pool = pool;
        self.plan(now_ns);
        served
    }

    /// Plans the pass of packets that wait for one.
    fn plan(&mut self, now_ns: u64) {
        if self.pass_ns > 0 && self.switch.has_pending() {
            self.pass_at.get_or_insert(now_ns + self.pass_ns);
        }
    }

    /// Counts a packet that begins or ends to wait at a port.
    fn queued(&mut self, port: u16, change: isize) {
        let depth = self.depths.entry(port).or_default();
        *depth = depth.saturating_add_signed(change);
        let deepest = self.deepest.entry(port).or_default();
        *deepest = (*deepest).max(*depth);
        self.switch.set_queue_depth(port, *depth);
    }

    fn send(&mut self, now_ns: u64, cause: Option<(u16, &[u8])>, pool: &mut FramePool) {
        let kinds = if self.vlans.is_empty() {
            self.wire.leaves(cause, &self.out)
        } else {
            let plain = self.out.iter().map(|(port, frame)| {
                (*port, Frame::copy_from(&without_tag(frame.bytes())).expect("it was a frame"))
            });
            self.wire.leaves(cause, &plain.collect::<Vec<_>>())
        };
        let ecn = cause.and_then(|(_, frame)| Some(frame.get(IP_AT + 1)? & ECN));
        for ((port, frame), kind) in self.out.iter().zip(&kinds) {
            check_marks(frame.bytes(), *kind, self.vlans.get(port).copied(), ecn.unwrap_or(0));
        }
        let mut out = std::mem::take(&mut self.out);
        for ((port, frame), kind) in out.drain(..).zip(kinds) {
            record(self.capture.as_ref(), now_ns, frame.bytes());
            if (self.filter)(port, kind) {
                pool.put(frame);
            } else {
                self.queue.push_back((port, frame));
                self.queued(port, 1);
            }
        }
        self.out = out;
    }
}

impl Node for SwitchNode {
    fn handle(&mut self, now_ns: u64, port: u16, frame: Frame, pool: &mut FramePool) {
        if let Some(Hung { held, .. }) = &mut self.hung {
            return if held.len() < HELD { held.push((port, frame)) } else { pool.put(frame) };
        }
        let bytes = without_tag(frame.bytes()).into_owned();
        if (self.filter)(port, self.wire.kind_of_arrival(port, &bytes)) {
            return pool.put(frame);
        }
        record(self.capture.as_ref(), now_ns, &bytes);
        self.wire.arrives(port, &bytes);
        self.switch.process(now_ns, port, frame, pool, &mut self.out);
        self.send(now_ns, Some((port, &bytes)), pool);
        self.plan(now_ns);
        // Frames that the switch has sent end in the network's pool.
        while self.pool.available() < OWN && pool.available() > 0 {
            self.pool.put(pool.take());
        }
    }

    fn poll_transmit(&mut self, _now_ns: u64, _pool: &mut FramePool) -> Option<(u16, Frame)> {
        if self.hung.is_some() {
            return None;
        }
        let (port, frame) = self.queue.pop_front()?;
        self.queued(port, -1);
        Some((port, frame))
    }

    fn next_timer(&self) -> Option<u64> {
        if let Some(hung) = &self.hung {
            return Some(hung.timer);
        }
        [self.switch.next_timer(), self.pass_at].into_iter().flatten().min()
    }

    fn on_timer(&mut self, now_ns: u64) {
        if let Some(hung) = &mut self.hung {
            hung.timer = now_ns + BEAT;
            return;
        }
        let mut pool = std::mem::take(&mut self.pool);
        if self.pass_at.take_if(|at| *at <= now_ns).is_some() {
            self.switch.run_pending(now_ns, PASSES, &mut pool, &mut self.out);
            self.send(now_ns, None, &mut pool);
        }
        self.switch.fire_timers(now_ns, &mut pool, &mut self.out);
        self.send(now_ns, None, &mut pool);
        self.pool = pool;
        self.plan(now_ns);
    }
}

/// A host's NIC.
pub struct NicNode(pub Nic);

impl Node for NicNode {
    fn handle(&mut self, now_ns: u64, _port: u16, frame: Frame, pool: &mut FramePool) {
        self.0.handle(now_ns, frame, pool);
    }

    fn poll_transmit(&mut self, now_ns: u64, pool: &mut FramePool) -> Option<(u16, Frame)> {
        self.0.poll_transmit(now_ns, pool).map(|frame| (0, frame))
    }

    fn next_timer(&self) -> Option<u64> {
        self.0.next_timeout()
    }

    fn on_timer(&mut self, now_ns: u64) {
        self.0.on_timeout(now_ns);
    }
}
