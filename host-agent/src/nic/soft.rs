//! The soft NIC, which lives in a thread of its own that also moves its packets: calls are sent there.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use zsr_api::agent::NicStats;
use zsr_soft_nic::{
    Access, Bus, Datagram, DropReason, MAX_PAYLOAD, MemoryRegion, Modify, MrError, Mtu, Nic, NicConfig,
    QpCaps, QpError, Reach, RtrAttr, RtsAttr,
};
use zsr_wire::{Qpn, Rkey, vlan};

use super::steps::Steps;
use super::{NicBackend, NicError, NicErrorKind, NicInfo, QpTarget, RingPart};
use zsr_ring::doorbell::{self, Doorbell};
use zsr_ring::memory::{Memory, Visibility};
use zsr_ring::wake;

type Command = Box<dyn FnOnce(&mut Nic) + Send>;

/// The NIC's owner is gone, so the call was not, and never will be, carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the NIC has stopped")]
pub struct NicStopped;

struct Shared {
    pending: AtomicUsize,
    wake: Box<dyn Fn() + Send + Sync>,
}

/// Calls a [`Nic`] that another thread owns, or that lies in the caller's thread.
#[derive(Clone)]
pub struct NicHandle(Way);

#[derive(Clone)]
enum Way {
    Queue { commands: mpsc::Sender<Command>, shared: Arc<Shared> },
    Held(Arc<Mutex<Nic>>),
}

/// The owner's end: carries out what handles sent.
pub struct NicQueue {
    commands: mpsc::Receiver<Command>,
    shared: Arc<Shared>,
}

/// A queue and the first handle to it. `wake` is called after each command was queued, from the
/// caller's thread: use it to end the owner's sleep (`|| ()` if it polls).
pub fn nic_queue(wake: impl Fn() + Send + Sync + 'static) -> (NicHandle, NicQueue) {
    let (tx, rx) = mpsc::channel();
    let shared = Arc::new(Shared { pending: AtomicUsize::new(0), wake: Box::new(wake) });
    let handle = NicHandle(Way::Queue { commands: tx, shared: Arc::clone(&shared) });
    (handle, NicQueue { commands: rx, shared })
}

impl NicQueue {
    /// Carries out all commands that wait; returns how many. One atomic load if there are none.
    #[inline]
    pub fn drain(&self, nic: &mut Nic) -> usize {
        if self.shared.pending.load(Ordering::Acquire) == 0 { 0 } else { self.drain_slow(nic) }
    }

    #[cold]
    fn drain_slow(&self, nic: &mut Nic) -> usize {
        let mut done = 0;
        while let Ok(command) = self.commands.try_recv() {
            self.shared.pending.fetch_sub(1, Ordering::AcqRel);
            command(nic);
            done += 1;
        }
        done
    }
}

impl NicHandle {
    /// Calls `nic` in the caller's own thread: for a simulation, in which nothing runs beside the caller.
    pub fn held(nic: Arc<Mutex<Nic>>) -> Self {
        NicHandle(Way::Held(nic))
    }

    /// Has the owner run `f` between two packets, and waits for the result. Not to be called by the
    /// owner itself, nor by async code other than through a blocking task.
    ///
    /// # Errors
    /// [`NicStopped`] when the owner is gone, or goes before it comes to this call.
    pub fn call<R: Send + 'static>(
        &self,
        f: impl FnOnce(&mut Nic) -> R + Send + 'static,
    ) -> Result<R, NicStopped> {
        let (commands, shared) = match &self.0 {
            Way::Queue { commands, shared } => (commands, shared),
            Way::Held(nic) => return Ok(f(&mut nic.lock().unwrap_or_else(PoisonError::into_inner))),
        };
        let (answer, result) = mpsc::sync_channel(1);
        // Counted before it is sent, so that the owner never counts down what was not counted up.
        shared.pending.fetch_add(1, Ordering::AcqRel);
        let command: Command = Box::new(move |nic| drop(answer.send(f(nic))));
        commands.send(command).map_err(|_| NicStopped)?;
        (shared.wake)();
        result.recv().map_err(|_| NicStopped)
    }

    /// Has the owner run `f` between two packets, without waiting for it.
    ///
    /// # Errors
    /// [`NicStopped`] when the owner is gone.
    pub fn cast(&self, f: impl FnOnce(&mut Nic) + Send + 'static) -> Result<(), NicStopped> {
        let (commands, shared) = match &self.0 {
            Way::Queue { commands, shared } => (commands, shared),
            Way::Held(nic) => {
                f(&mut nic.lock().unwrap_or_else(PoisonError::into_inner));
                return Ok(());
            }
        };
        shared.pending.fetch_add(1, Ordering::AcqRel);
        commands.send(Box::new(f)).map_err(|_| NicStopped)?;
        (shared.wake)();
        Ok(())
    }
}

/// [`NicBackend`] over a soft NIC in another thread.
pub struct SoftNicBackend {
    handle: NicHandle,
    info: NicInfo,
}

impl SoftNicBackend {
    /// The NIC behind `handle`, which was made with `config`, on a link that carries packets of path MTU
    /// `path_mtu` at most.
    ///
    /// # Errors
    /// [`NicErrorKind::Invalid`] when `path_mtu` is no path MTU.
    pub fn new(
        name: impl Into<String>,
        handle: NicHandle,
        config: &NicConfig,
        path_mtu: u32,
    ) -> Result<Self, NicError> {
        mtu(path_mtu)?;
        let vlan = Some(config.tci & vlan::ID).filter(|id| *id != 0);
        let (name, mac, ip) = (name.into(), config.mac, config.ip);
        let info = NicInfo { name, backend: "soft", mac, ip, path_mtu, vlan };
        Ok(Self { handle, info })
    }

    fn call<R: Send + 'static>(
        &self,
        f: impl FnOnce(&mut Nic) -> Result<R, NicError> + Send + 'static,
    ) -> Result<R, NicError> {
        match self.handle.call(f) {
            Ok(result) => result,
            Err(stopped) => {
                let message = format!("NIC `{}`: {stopped}", self.info.name);
                Err(NicError { kind: NicErrorKind::Stopped, message })
            }
        }
    }
}

impl NicBackend for SoftNicBackend {
    fn info(&self) -> NicInfo {
        self.info.clone()
    }

    fn make(&self, memory: Arc<dyn Memory>) -> Result<RingPart, NicError> {
        self.call(move |nic| nic.make(memory))
    }

    fn connect(&self, ring: RingPart, data: &QpTarget, poll: &QpTarget) -> Result<(), NicError> {
        let (data, poll) = (*data, *poll);
        self.call(move |nic| nic.connect(ring, &data, &poll))
    }

    fn reset(&self, ring: RingPart) -> Result<(), NicError> {
        self.call(move |nic| nic.reset(ring))
    }

    fn destroy(&self, ring: RingPart) -> Result<(), NicError> {
        self.call(move |nic| nic.destroy(ring))
    }

    fn stats(&self) -> Option<NicStats> {
        let stats = self.handle.call(|nic| *nic.stats()).ok()?;
        let damaged = [DropReason::Malformed, DropReason::Ipv4Checksum, DropReason::Icrc];
        Some(NicStats {
            received_frames: stats.rx_frames,
            received_bytes: stats.rx_bytes,
            sent_frames: stats.tx_frames,
            sent_bytes: stats.tx_bytes,
            cnps_received: stats.cnps_received,
            cnps_sent: stats.cnps_sent,
            rate_cuts: stats.rate_cuts,
            naks_sent: stats.naks.iter().sum::<u64>() + stats.rnr_naks,
            repeated_requests: stats.duplicates,
            kept_requests: stats.kept,
            dropped_frames: stats.dropped_total(),
            damaged_frames: damaged.map(|reason| stats.dropped(reason)).iter().sum(),
            marked_packets: stats.marked_packets,
        })
    }

    fn doorbell(&self, target: &QpTarget, secret: u32) -> Result<Box<dyn Doorbell>, NicError> {
        Ok(Box::new(SoftBell { handle: self.handle.clone(), target: *target, secret }))
    }
}

impl Steps for Nic {
    fn register(&mut self, memory: Arc<dyn Memory>) -> Result<Rkey, NicError> {
        Ok(register(self, memory)?)
    }

    fn deregister(&mut self, rkey: Rkey) -> Result<(), NicError> {
        Ok(self.deregister_mr(rkey)?)
    }

    fn create_qp(&mut self) -> Result<Qpn, NicError> {
        Ok(create_qp(self)?)
    }

    fn connect_qp(&mut self, qpn: Qpn, target: &QpTarget) -> Result<(), NicError> {
        connect_qp(self, qpn, target)
    }

    fn reset_qp(&mut self, qpn: Qpn) -> Result<(), NicError> {
        Ok(self.modify_qp(qpn, Modify::Reset)?)
    }

    fn destroy_qp(&mut self, qpn: Qpn) -> Result<(), NicError> {
        Ok(Nic::destroy_qp(self, qpn)?)
    }
}

/// Registers all of `memory` with a soft NIC in the caller's hand, for READs and WRITEs of the switch.
///
/// # Errors
/// The NIC's refusal. So for the following.
pub fn register(nic: &mut Nic, memory: Arc<dyn Memory>) -> Result<Rkey, MrError> {
    wake::offer(&*memory);
    nic.register_mr(Arc::new(Region(memory)), 0, REMOTE)
}

/// Makes a queue pair of a ring, which answers; it never asks, nor takes messages.
pub fn create_qp(nic: &mut Nic) -> Result<Qpn, QpError> {
    nic.create_qp(QpCaps { send_depth: 0, recv_depth: 0 })
}

/// Connects a queue pair, whatever it was before.
pub fn connect_qp(nic: &mut Nic, qpn: Qpn, target: &QpTarget) -> Result<(), NicError> {
    let mut rtr = RtrAttr::new(target.qpn, target.ip, target.rq_psn, mtu(target.path_mtu)?);
    rtr.dest_mac = Some(target.mac);
    rtr.tos = target.traffic_class;
    let rts = RtsAttr::new(target.sq_psn);
    for step in [Modify::Reset, Modify::Init { access: REMOTE }, Modify::Rtr(rtr), Modify::Rts(rts)] {
        if let Err(error) = nic.modify_qp(qpn, step) {
            // Fails only where the queue pair is unknown, which `error` says already.
            let _ = nic.modify_qp(qpn, Modify::Reset);
            return Err(error.into());
        }
    }
    Ok(())
}

/// Rings through the NIC's own thread.
struct SoftBell {
    handle: NicHandle,
    target: QpTarget,
    secret: u32,
}

impl Doorbell for SoftBell {
    fn ring(&mut self, head: u32, flags: u32) {
        let mut payload = [0; MAX_PAYLOAD];
        payload[..doorbell::LEN].copy_from_slice(&doorbell::payload(self.secret, head, flags));
        let (mac, ip) = (self.target.mac, self.target.ip);
        let datagram = Datagram { mac, ip, port: doorbell::PORT, payload, len: doorbell::LEN };
        // A doorbell that can't be sent is one that got lost: the switch polls.
        let _ = self.handle.cast(move |nic| {
            nic.send_datagram(datagram);
        });
    }
}

const REMOTE: Access = Access::REMOTE_READ.with(Access::REMOTE_WRITE);

fn mtu(bytes: u32) -> Result<Mtu, NicError> {
    Mtu::from_bytes(bytes).ok_or_else(|| NicError {
        kind: NicErrorKind::Invalid,
        message: format!("{bytes} B is no path MTU: expected 256, 512, 1024, 2048 or 4096"),
    })
}

/// A ring's memory as the soft NIC wants it.
struct Region(Arc<dyn Memory>);

// SAFETY: `Memory` promises a fixed, valid, initialised range that nobody holds references into.
unsafe impl MemoryRegion for Region {
    fn base(&self) -> *mut u8 {
        self.0.base().as_ptr()
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn watched(&self) -> usize {
        zsr_wire::ring::ITEMS as usize
    }

    fn stored(&self) {
        wake::tell(&*self.0);
    }

    fn reach(&self) -> Reach<'_> {
        if self.0.bus().is_some() {
            Reach::Bus(self)
        } else if self.0.visibility() == (Visibility::PostedWrites { combining: true }) {
            Reach::Gathered
        } else {
            Reach::Coherent
        }
    }
}

impl Bus for Region {
    fn write(&self, offset: usize, bytes: &[u8]) -> bool {
        self.0.bus().is_some_and(|bus| bus.write(offset, bytes).is_ok())
    }

    fn read(&self, offset: usize, bytes: &mut [u8]) -> bool {
        self.0.bus().is_some_and(|bus| bus.fetch(offset, bytes).is_ok())
    }

    fn expect(&self, offset: usize, len: usize) {
        if let Some(bus) = self.0.bus() {
            bus.expect(offset, len);
        }
    }

    fn is_here(&self, offset: usize, len: usize) -> bool {
        self.0.bus().is_none_or(|bus| bus.is_here(offset, len))
    }
}

impl From<MrError> for NicError {
    fn from(error: MrError) -> Self {
        let kind = match error {
            MrError::TooMany => NicErrorKind::Exhausted,
            MrError::Address { .. } => NicErrorKind::Invalid,
            MrError::Unknown(_) => NicErrorKind::Other,
        };
        Self { kind, message: error.to_string() }
    }
}

impl From<QpError> for NicError {
    fn from(error: QpError) -> Self {
        let kind = match error {
            QpError::TooMany => NicErrorKind::Exhausted,
            QpError::NoNeighbour(_) | QpError::Attribute { .. } => NicErrorKind::Invalid,
            QpError::Unknown(_) | QpError::Transition { .. } => NicErrorKind::Other,
        };
        Self { kind, message: error.to_string() }
    }
}
