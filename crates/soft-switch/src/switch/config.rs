//! The settings with which a switch is made.

use super::FailedAssert;

/// The fate of packets that a program resubmits or recirculates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recirculation {
    /// The packets run to their end within the call that brought the first, up to [`SwitchConfig::max_passes`].
    Inline,
    /// The packets wait for [`Switch::run_pending`](crate::Switch::run_pending); at most `capacity` of them.
    Queued {
        /// Most packets that wait; more are dropped and counted.
        capacity: usize,
    },
}

/// Configuration of a switch.
#[derive(Clone, Debug)]
pub struct SwitchConfig {
    /// Ports that exist; frames to others are dropped and counted. Empty: every port does.
    pub ports: Vec<u16>,
    /// The pipe that each port belongs to, by the port's number; ports beyond belong to pipe 0. Empty: there is one
    /// pipe.
    ///
    /// Each pipe has registers of its own. Ingress uses those of the port by which a packet came in. Egress uses those
    /// of the port by which it leaves. A recirculated packet comes in by the port by which it left. All else is the
    /// same in all pipes.
    pub pipes: Vec<u8>,
    /// Frames to this port become packet-ins; packet-outs come from it.
    pub cpu_port: u16,
    /// `egress_spec` value that means drop.
    pub drop_port: u16,
    /// Seed of `random()` and of the hash algorithm `random`.
    pub seed: u64,
    /// Recirculation and resubmission.
    pub recirculation: Recirculation,
    /// Most ingress passes of a packet within one call of `process`, if [`Recirculation::Inline`]; each of its copies
    /// may have as many. A packet that wants more is dropped and counted.
    pub max_passes: u32,
    /// Most ingress passes of a packet and all its copies, so that copies that copy themselves end, too.
    pub max_passes_of_all: u32,
    /// Priority queues per port. As in bmv2 a packet of a higher priority than there are queues is dropped.
    pub priority_queues: u32,
    /// Most iterations of loops (parser cycles, backward jumps) of one packet in one control.
    pub loop_limit: u32,
    /// Most packet-outs that wait.
    pub packet_out_queue: usize,
    /// How often idle entries are looked for, in nanoseconds.
    pub idle_sweep_ns: u64,
    /// The fate of packets for which an `assert` or `assume` does not hold.
    pub failed_assert: FailedAssert,
    /// Interpret the program even if there is machine code for it: much slower, and otherwise the same.
    pub interpret: bool,
    /// Whether programs that controllers bring are to be traced ([`crate::Program::traced`]).
    pub trace: bool,
}

impl Default for SwitchConfig {
    fn default() -> Self {
        SwitchConfig {
            ports: Vec::new(),
            pipes: Vec::new(),
            cpu_port: 510,
            drop_port: 511,
            seed: 1,
            recirculation: Recirculation::Inline,
            max_passes: 1024,
            max_passes_of_all: 1 << 18,
            priority_queues: 1,
            loop_limit: 65536,
            packet_out_queue: 1024,
            idle_sweep_ns: 100_000_000,
            failed_assert: FailedAssert::Count,
            interpret: false,
            trace: false,
        }
    }
}
