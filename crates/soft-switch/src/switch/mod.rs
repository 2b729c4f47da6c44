//! The switch: v1model as bmv2's `simple_switch` runs it. Frames and a time in, frames and notifications out.

mod asserts;
mod config;
mod digest;
mod packet;
mod replication;
mod share;
mod stats;
mod timer;

pub use asserts::{AssertReport, FailedAssert};
pub use config::{Recirculation, SwitchConfig};
pub use share::TimerShare;
pub use stats::{PortStats, Stats};
pub use timer::{Numbers, Rest, TimerId, TimerPort};

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use zsr_wire::frame::{Frame, FramePool};

use crate::control::{Notification, TableEntry};
use crate::error::ControlError;
use crate::exec::core::Core;
use crate::info::{ProgramInfo, TableId};
use crate::program::Program;
use packet::{Again, Waiting};

static INCARNATIONS: AtomicU64 = AtomicU64::new(1);

/// A switch that runs one program. It does no I/O and reads no clock.
pub struct Switch {
    pub(crate) program: Program,
    pub(crate) config: SwitchConfig,
    pub(crate) core: Core,
    pub(crate) replication: replication::Replication,
    pub(crate) digests: Vec<digest::DigestState>,
    pub(crate) ports_down: Vec<u16>,
    /// Packets that wait behind each port; none at ports beyond.
    queue_depths: Vec<u32>,
    egress_queue: VecDeque<Waiting>,
    again_queue: VecDeque<Again>,
    packet_outs: VecDeque<Box<[u8]>>,
    spare_slots: Vec<Box<[u64]>>,
    spare_values: Vec<Vec<u64>>,
    timers: timer::Timers,
    notify: Option<mpsc::SyncSender<Notification>>,
    notify_waker: Option<Arc<dyn Fn() + Send + Sync>>,
    /// The pass of the packet at hand.
    pass: u32,
    /// Ingress passes of all packets so far.
    passes: u64,
    /// Packets so far that wanted another one.
    wanted: u64,
    /// When a frame from a port last made one leave, or somebody changed something.
    quiet_since: u64,
    /// How often somebody has changed something.
    changes: u64,
    stats: stats::AllStats,
    told: asserts::Told,
    allowed: Option<Box<[bool]>>,
    incarnation: u64,
}

impl Switch {
    /// A switch in its initial state: the program's own entries and defaults, everything else zero.
    pub fn new(program: &Program, config: SwitchConfig) -> Switch {
        let allowed = (!config.ports.is_empty()).then(|| {
            let mut list = vec![false; 65536].into_boxed_slice();
            for p in &config.ports {
                list[*p as usize] = true;
            }
            list
        });
        let image = &program.image;
        let mut core =
            Core::new(image, config.seed, u64::from(config.drop_port), config.loop_limit, &config.pipes);
        core.native = !config.interpret;
        core.assert_drops = config.failed_assert == FailedAssert::Drop;
        let mut s = Switch {
            core,
            replication: replication::Replication::default(),
            digests: image.info.digests.iter().map(|_| digest::DigestState::default()).collect(),
            ports_down: Vec::new(),
            queue_depths: Vec::new(),
            egress_queue: VecDeque::with_capacity(64),
            again_queue: VecDeque::with_capacity(64),
            packet_outs: VecDeque::new(),
            spare_slots: Vec::new(),
            spare_values: Vec::new(),
            timers: timer::Timers::default(),
            notify: None,
            notify_waker: None,
            pass: 1,
            passes: 0,
            wanted: 0,
            quiet_since: 0,
            changes: 0,
            stats: stats::AllStats::default(),
            told: asserts::Told::default(),
            allowed,
            incarnation: INCARNATIONS.fetch_add(1, Ordering::Relaxed),
            program: program.clone(),
            config,
        };
        s.install_program_entries();
        s
    }

    /// The program that runs.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// A number that no other state of a switch of this process has: another one since a program was put in place.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// The objects that the program declares.
    pub fn info(&self) -> &ProgramInfo {
        self.program.info()
    }

    /// The configuration.
    pub fn config(&self) -> &SwitchConfig {
        &self.config
    }

    /// The newest time that the switch was told, in nanoseconds of the caller's clock.
    pub fn now_ns(&self) -> u64 {
        self.core.now_ns
    }

    /// Tells the switch the time. Packets and timers do, and so does [`ControlQueue::drain`](crate::ControlQueue::drain); whoever
    /// changes or reads entries in another way calls this before it. Otherwise their idle times count from an earlier packet.
    pub fn advance(&mut self, now_ns: u64) {
        self.core.now_ns = self.core.now_ns.max(now_ns);
    }

    /// Puts another program in place. All state starts as the new program says; timers, statistics and the
    /// notification receiver stay. Packets that wait for another pass are dropped.
    pub fn replace_program(&mut self, program: &Program) {
        self.adopt(Switch::new(program, self.config.clone()));
    }

    /// Puts all state back to what the program says, as [`replace_program`](Self::replace_program) does. Tables that were
    /// [unlocked](Self::table_unlock) stay so.
    pub fn reset(&mut self) {
        let unlocked: Vec<_> = self.core.tables.iter_mut().map(|table| table.unlocked).collect();
        let program = self.program.clone();
        self.replace_program(&program);
        for (table, size) in (0..).map(TableId).zip(unlocked) {
            // The table is the program's own.
            let _ = size.map(|size| self.table_unlock(table, size));
        }
    }

    /// Puts the program and the state of another switch, prepared beside this one with the same configuration, in
    /// place; what stays is as in [`replace_program`](Self::replace_program). Gives back the old program and state,
    /// which may take long to drop.
    pub fn adopt(&mut self, fresh: Switch) -> Switch {
        let mut old = std::mem::replace(self, fresh);
        std::mem::swap(&mut self.timers, &mut old.timers);
        std::mem::swap(&mut self.stats, &mut old.stats);
        self.passes = old.passes;
        self.notify = old.notify.take();
        self.notify_waker = old.notify_waker.take();
        self.ports_down = std::mem::take(&mut old.ports_down);
        self.queue_depths = std::mem::take(&mut old.queue_depths);
        self.stats.all.recirculation_drops += old.again_queue.len() as u64;
        // Idle times count from here.
        self.core.now_ns = old.core.now_ns;
        self.changes = old.changes;
        self.stir();
        for table in self.core.tables.iter_mut() {
            table.last_hit.fill(old.core.now_ns);
        }
        self.refresh_groups();
        old
    }

    /// Counters of the switch itself.
    pub fn stats(&self) -> Stats {
        let mut s = self.stats.all;
        s.assert_failures = self.core.assert_failures;
        s.loop_limit_hits = self.core.loop_limit_hits;
        s.bad_indices = self.core.bad_indices;
        s
    }

    /// Counters of one port.
    pub fn port_stats(&self, port: u16) -> PortStats {
        self.stats.port(port)
    }

    /// Starts sending notifications to a new receiver, which takes the place of an earlier one. At most `capacity`
    /// wait; more are dropped and counted.
    pub fn notifications(&mut self, capacity: usize) -> mpsc::Receiver<Notification> {
        let (tx, rx) = mpsc::sync_channel(capacity.max(1));
        self.notify = Some(tx);
        rx
    }

    /// Has `waker` called, on the packet thread, after each notification.
    pub fn set_notification_waker(&mut self, waker: Option<Arc<dyn Fn() + Send + Sync>>) {
        self.notify_waker = waker;
    }

    fn send(&mut self, n: Notification, pool: Option<&mut FramePool>) {
        let failed = match &self.notify {
            Some(tx) => tx.try_send(n).err().map(|e| match e {
                mpsc::TrySendError::Full(n) | mpsc::TrySendError::Disconnected(n) => n,
            }),
            None => Some(n),
        };
        match failed {
            None => {
                self.stats.all.notifications += 1;
                if let Some(wake) = &self.notify_waker {
                    wake();
                }
            }
            Some(n) => {
                self.stats.all.notifications_dropped += 1;
                if let (Notification::PacketIn(f), Some(pool)) = (n, pool) {
                    pool.put(f);
                }
            }
        }
    }

    pub(crate) fn tell_idle(&mut self, table: TableId, entries: Vec<TableEntry>, timestamp_ns: u64) {
        self.send(Notification::IdleTimeout { table, entries, timestamp_ns }, None);
    }

    /// Queues bytes as a packet that comes in through the CPU port; [`run_pending`](Self::run_pending) runs it. A
    /// packet-out header, if the program has one, is simply the first of the bytes.
    pub fn queue_packet_out(&mut self, bytes: &[u8]) -> Result<(), ControlError> {
        if bytes.len() > zsr_wire::frame::MAX_FRAME {
            let (len, max) = (bytes.len(), zsr_wire::frame::MAX_FRAME);
            return Err(ControlError::Invalid(format!("packet of {len} bytes; at most {max} fit")));
        }
        if self.packet_outs.len() >= self.config.packet_out_queue {
            let size = self.config.packet_out_queue;
            return Err(ControlError::Full { kind: "packet-out queue", size });
        }
        self.packet_outs.push_back(bytes.into());
        self.moved();
        Ok(())
    }

    /// Whether [`run_pending`](Self::run_pending) has something to do.
    #[inline]
    pub fn has_pending(&self) -> bool {
        !self.again_queue.is_empty() || !self.packet_outs.is_empty()
    }

    /// Runs up to `max_packets` packets that wait for another pass (recirculated or resubmitted, if
    /// [`Recirculation::Queued`]) or came as packet-outs. Returns how many were run.
    pub fn run_pending(
        &mut self,
        now_ns: u64,
        max_packets: usize,
        pool: &mut FramePool,
        out: &mut Vec<(u16, Frame)>,
    ) -> usize {
        self.advance(now_ns);
        for n in 0..max_packets {
            if let Some(again) = self.again_queue.pop_front() {
                let left = out.len();
                self.run_again(now_ns, again, pool, out);
                self.drain_egress(pool, out);
                // Whether it began with a timer is not known any more.
                if out.len() > left {
                    self.moved();
                }
            } else if let Some(bytes) = self.packet_outs.pop_front() {
                let mut frame = pool.take();
                frame.append(&bytes);
                let cpu = self.config.cpu_port;
                self.process(now_ns, cpu, frame, pool, out);
            } else {
                return n;
            }
        }
        max_packets
    }

    /// Says whether a port is up. Members of selector groups that watch a port are skipped while it is down.
    pub fn set_port_up(&mut self, port: u16, up: bool) {
        self.ports_down.retain(|p| *p != port);
        if !up {
            self.ports_down.push(port);
        }
        self.refresh_groups();
    }

    /// Says how many packets wait to leave by a port: what egress reads as `enq_qdepth` and `deq_qdepth` from now on.
    pub fn set_queue_depth(&mut self, port: u16, packets: usize) {
        // The fields have 19 bits.
        let packets = packets.min((1 << 19) - 1) as u32;
        if self.queue_depths.len() <= usize::from(port) {
            self.queue_depths.resize(usize::from(port) + 1, 0);
        }
        self.queue_depths[usize::from(port)] = packets;
    }

    /// The packets that wait to leave by a port, as was [said](Self::set_queue_depth) last.
    pub fn queue_depth(&self, port: u16) -> u32 {
        self.queue_depths.get(usize::from(port)).copied().unwrap_or(0)
    }
}

impl std::fmt::Debug for Switch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Switch({:?})", self.program)
    }
}
