//! A schedule: the flows, and the events with their times and objects. All of it follows from a seed. It is a list of
//! steps, so that a schedule that fails can be made shorter step by step.

use std::fmt;
use std::time::Duration;

use zsr_api::controller::{FlowKind, Policy};
use zsr_link::{FaultRates, Rng};

/// Hosts of every simulated system.
pub const HOSTS: usize = 5;

/// A flow to be made.
#[derive(Clone, Debug)]
pub struct NewFlow {
    pub name: usize,
    pub kind: FlowKind,
    pub producers: Vec<usize>,
    pub consumers: Vec<usize>,
    /// Rings of each consumer.
    pub lanes: u32,
    pub item_size: u32,
    pub ring_size: u32,
    pub max_batch: u32,
    pub doorbell: bool,
    pub policy: Policy,
    /// Whether producers end their streams when they have pushed everything.
    pub closes: bool,
    /// Items that each producer ring gets.
    pub items: u32,
    /// A program pushes at one of this number of turns: with 1 as fast as it can, with more until the faults are over.
    pub every: u32,
    /// Rate cap in bits per second, if there is one.
    pub rate_cap: Option<u64>,
    /// Time after which a silent member counts as dead, in microseconds, if not the default's 10 s.
    pub dead_after_us: Option<u64>,
}

/// The kind of an event.
#[derive(Clone, Debug)]
pub enum What {
    Create(NewFlow),
    SetRateAndWeight {
        flow: usize,
        weight: u32,
    },
    AddProducer {
        flow: usize,
        host: usize,
    },
    AddConsumer {
        flow: usize,
        host: usize,
    },
    Remove {
        flow: usize,
        host: usize,
    },
    Delete {
        flow: usize,
    },
    Faults {
        host: usize,
        rates: FaultRates,
    },
    Cut {
        host: usize,
    },
    Mend {
        host: usize,
    },
    KillController,
    StartController,
    StallController(bool),
    /// A switch dies: number 0, or 1, the standby.
    KillSwitch(usize),
    ReturnSwitch(usize),
    /// A switch hangs, or goes on.
    HangSwitch(usize, bool),
    KillHost(usize),
    ReturnHost(usize),
    StallHost(usize, bool),
    AgentReachable(usize, bool),
    /// Connections between controller and agent break, with what is under way in them.
    AgentBreaks(usize),
    /// Whether controller and a switch reach each other.
    SwitchReachable(usize, bool),
    JournalFull(bool),
    /// The controller dies while it writes the next line of its journal; this part of the line is written.
    JournalCut(f64),
    /// The programs of a host do nothing for a while, or go on.
    ProgramsPause(usize, bool),
    /// The programs of a host leave their rings, and others come.
    ProgramsChange(usize),
    /// A program of a host writes nonsense into its ring's control word.
    Nonsense(usize),
    /// A host begins or stops to send forbidden packets to the switch.
    Forges(usize, bool),
    /// The clock of the controller alone jumps ahead.
    ControllerJumps(Duration),
    /// The clock of a host's agent alone jumps ahead.
    AgentJumps(usize, Duration),
}

impl What {
    /// The flow that an operator's call is about.
    pub fn flow(&self) -> Option<usize> {
        match self {
            What::Create(flow) => Some(flow.name),
            What::SetRateAndWeight { flow, .. }
            | What::AddProducer { flow, .. }
            | What::AddConsumer { flow, .. }
            | What::Remove { flow, .. }
            | What::Delete { flow } => Some(*flow),
            _ => None,
        }
    }

    /// Whether the event is a call of an operator, or harms only packets and connections: nothing that could end a
    /// flow.
    pub fn is_asked_for(&self) -> bool {
        let operation = matches!(
            self,
            What::Create(_)
                | What::SetRateAndWeight { .. }
                | What::AddProducer { .. }
                | What::AddConsumer { .. }
                | What::Remove { .. }
                | What::Delete { .. }
        );
        let passes =
            matches!(self, What::Faults { .. } | What::Mend { .. } | What::Forges(..) | What::AgentBreaks(_));
        operation || passes
    }
}

/// An event with its time.
#[derive(Clone, Debug)]
pub struct Step {
    pub at: Duration,
    pub what: What,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>10.3} ms  {:?}", self.at.as_secs_f64() * 1e3, self.what)
    }
}

/// The events in a system, and its links at the beginning.
#[derive(Clone, Debug)]
pub struct Schedule {
    pub seed: u64,
    pub mtu: u32,
    pub rates: FaultRates,
    pub bandwidth_bps: u64,
    /// First PSN of all connections, if they have the same.
    pub first_psn: Option<u32>,
    /// Hosts whose control words are big-endian.
    pub big_endian: Vec<usize>,
    /// How long a packet takes for another pass through the switch, in nanoseconds; 0: no time.
    pub pass_ns: u64,
    /// Whether a second switch stands by.
    pub standby: bool,
    /// Pipes of the switch: each host is at the next one.
    pub pipes: u32,
    /// Time from which on there are no faults, and everything has to come to its end.
    pub calm: Duration,
    pub steps: Vec<Step>,
}

/// Delay after which many frames overtake a frame.
const LATE_NS: u64 = 20_000;
/// Delay after which whole transfers overtake a frame.
const VERY_LATE_NS: u64 = 1_000_000;
const FLOWS: u64 = 4;
/// Time between two turns of the programs.
pub const TURN_US: u64 = 100;

struct Maker {
    rng: Rng,
    steps: Vec<Step>,
    calm_us: u64,
}

impl Maker {
    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.rng.below(of.len() as u64) as usize]
    }

    fn host(&mut self) -> usize {
        self.rng.below(HOSTS as u64) as usize
    }

    /// Some hosts, each once.
    fn hosts(&mut self, most: u64) -> Vec<usize> {
        let mut all: Vec<usize> = (0..HOSTS).collect();
        let n = 1 + self.rng.below(most);
        (0..n).map(|_| all.remove(self.rng.below(all.len() as u64) as usize)).collect()
    }

    /// Any time, or shortly after another event: most faults take milliseconds.
    fn time(&mut self) -> Duration {
        if !self.steps.is_empty() && self.rng.chance(0.4) {
            let step = self.rng.below(self.steps.len() as u64) as usize;
            let longest = self.pick(&[500, 3_000, 20_000]);
            let (at, calm) = (self.steps[step].at, Duration::from_micros(self.calm_us));
            return (at + Duration::from_micros(self.rng.below(longest))).min(calm);
        }
        Duration::from_micros(self.rng.below(self.calm_us))
    }

    fn add(&mut self, at: Duration, what: What) {
        self.steps.push(Step { at, what });
    }

    /// An event that begins, and ends after a while, which is mostly short.
    fn passing(&mut self, begin: What, end: What) {
        let at = self.time();
        let longest = self.pick(&[2_000, 20_000, 200_000, 3_000_000]);
        let lasts = Duration::from_micros(1 + self.rng.below(longest));
        self.add(at, begin);
        self.add(at + lasts, end);
    }

    fn rates(&mut self) -> FaultRates {
        let rate = self.pick(&[0.001, 0.01, 0.05, 0.2]);
        let mut rates = FaultRates { reorder_ns: LATE_NS, ..FaultRates::NONE };
        if self.rng.chance(0.6) {
            rates.loss = rate;
        }
        if self.rng.chance(0.4) {
            rates.duplicate = rate;
        }
        if self.rng.chance(0.4) {
            rates.reorder = rate;
        }
        if self.rng.chance(0.4) {
            rates.corrupt = rate;
        }
        if self.rng.chance(0.2) {
            rates.delay_ns = self.rng.below(50_000);
        }
        rates
    }

    fn flow(&mut self, name: usize) -> NewFlow {
        let kind =
            self.pick(&[FlowKind::Shuffle, FlowKind::Shuffle, FlowKind::LoadBalance, FlowKind::Replicate]);
        let item_size = self.pick(&[16, 64, 256, 1024, 4096]);
        let most = self.pick(&[5, 50, 300]);
        let slots = self.pick(&[2, 4, 16, 64]);
        let producers = self.hosts(2);
        let most_lanes = if kind == FlowKind::Shuffle { producers.len() as u64 } else { 1 };
        NewFlow {
            name,
            kind,
            lanes: 1 + self.rng.below(most_lanes) as u32,
            producers,
            consumers: self.hosts(3),
            item_size,
            ring_size: item_size * slots,
            max_batch: item_size * self.pick(&[1, 2, 8, 64]),
            doorbell: self.rng.chance(0.7),
            policy: self.pick(&[Policy::Wait, Policy::Wait, Policy::DropMember, Policy::Abort]),
            closes: self.rng.chance(0.4),
            items: 1 + self.rng.below(most) as u32,
            every: 1,
            rate_cap: None,
            dead_after_us: self.pick(&[None, None, None, Some(500_000), Some(1_500_000)]),
        }
    }

    fn fault(&mut self) {
        let host = self.host();
        match self.rng.below(16) {
            0 | 1 => {
                let rates = self.rates();
                self.passing(What::Faults { host, rates }, What::Mend { host });
            }
            2 => self.passing(What::Cut { host }, What::Mend { host }),
            3 | 4 => self.passing(What::KillController, What::StartController),
            5 => self.passing(What::StallController(true), What::StallController(false)),
            6 => self.passing(What::KillHost(host), What::ReturnHost(host)),
            7 => self.passing(What::StallHost(host, true), What::StallHost(host, false)),
            8 => self.passing(What::AgentReachable(host, false), What::AgentReachable(host, true)),
            9 => self.passing(What::SwitchReachable(0, false), What::SwitchReachable(0, true)),
            10 => self.passing(What::JournalFull(true), What::JournalFull(false)),
            11 => {
                let part = self.rng.below(1000) as f64 / 1000.0;
                self.passing(What::JournalCut(part), What::StartController);
            }
            12 | 13 => self.passing(What::KillSwitch(0), What::ReturnSwitch(0)),
            14 => self.passing(What::ProgramsPause(host, true), What::ProgramsPause(host, false)),
            _ => {
                let at = self.time();
                self.add(at, What::ProgramsChange(host));
            }
        }
    }

    /// Misbehaviour of hosts and clocks.
    fn misuse(&mut self, flows: usize) {
        let host = self.host();
        match self.rng.below(6) {
            0 => {
                let at = self.time();
                self.add(at, What::Nonsense(host));
            }
            1 | 2 => self.passing(What::Forges(host, true), What::Forges(host, false)),
            // Above what a stall makes of it, and below what an agent may be silent.
            3 => {
                let (at, by) = (self.time(), self.rng.below(7_000));
                self.add(at, What::ControllerJumps(Duration::from_millis(by)));
            }
            4 => {
                let (at, by) = (self.time(), self.rng.below(100_000));
                self.add(at, What::AgentJumps(host, Duration::from_millis(by)));
            }
            // An agent hangs while flows go.
            _ => {
                let (at, longest) = (self.time(), self.pick(&[200, 3_000, 15_000]));
                let lasts = Duration::from_millis(self.rng.below(longest));
                self.add(at, What::StallHost(host, true));
                for flow in 0..flows {
                    if self.rng.chance(0.5) {
                        self.add(at + lasts / 4, What::Delete { flow });
                    }
                }
                self.add(at + lasts, What::StallHost(host, false));
            }
        }
    }

    /// A fault of one of two switches.
    fn switch_fault(&mut self) {
        let number = self.rng.below(2) as usize;
        match self.rng.below(4) {
            0 | 1 => self.passing(What::KillSwitch(number), What::ReturnSwitch(number)),
            2 => self.passing(What::HangSwitch(number, true), What::HangSwitch(number, false)),
            _ => self.passing(What::SwitchReachable(number, false), What::SwitchReachable(number, true)),
        }
    }

    /// A switch dies, or hangs until another one has its flows, while members of a flow are at different places. One
    /// does not pop, the link of another loses packets.
    fn torn(&mut self, name: usize, standby: bool) {
        let (at, us) = (self.time(), Duration::from_micros);
        let mut flow = NewFlow { policy: Policy::Wait, dead_after_us: None, items: 300, ..self.flow(name) };
        if self.rng.chance(0.6) {
            (flow.kind, flow.lanes) = (FlowKind::Replicate, 1);
        }
        flow.ring_size = flow.item_size * self.pick(&[2, 4, 16]);
        let (idle, lossy) = (flow.consumers[0], flow.consumers[flow.consumers.len() - 1]);
        self.add(at, What::Create(flow));
        let mut from = at + us(1_000);
        for _ in 0..=self.rng.below(2) {
            let dies = from + us(self.rng.below(12_000));
            let hangs = standby && self.rng.chance(0.5);
            let lasts = us(if hangs { 500_000 + self.rng.below(500_000) } else { self.rng.below(10_000) });
            let (begin, end) = match hangs {
                true => (What::HangSwitch(0, true), What::HangSwitch(0, false)),
                false => (What::KillSwitch(0), What::ReturnSwitch(0)),
            };
            self.add(dies, begin);
            self.add(dies + lasts, end);
            from = dies + lasts + us(100_000);
            if self.rng.chance(0.5) {
                let pauses = dies - us(self.rng.below(1_000));
                self.add(pauses, What::ProgramsPause(idle, true));
                self.add(from, What::ProgramsPause(idle, false));
            }
            if self.rng.chance(0.5) {
                let rates = FaultRates { loss: 0.3, ..FaultRates::NONE };
                self.add(dies - us(1_000), What::Faults { host: lossy, rates });
                self.add(from, What::Mend { host: lossy });
            }
        }
    }

    fn operation(&mut self, flows: usize) {
        let (at, flow, host) = (self.time(), self.rng.below(flows as u64) as usize, self.host());
        let what = match self.rng.below(6) {
            0 => What::SetRateAndWeight { flow, weight: 1 + self.rng.below(8) as u32 },
            1 => What::AddProducer { flow, host },
            2 | 3 => What::AddConsumer { flow, host },
            4 => What::Remove { flow, host },
            _ => What::Delete { flow },
        };
        self.add(at, what);
    }
}

impl Schedule {
    /// The schedule of a seed.
    pub fn new(seed: u64) -> Schedule {
        let mut maker = Maker { rng: Rng::new(seed), steps: Vec::new(), calm_us: 0 };
        maker.calm_us = maker.pick(&[2_000, 20_000, 100_000, 500_000, 2_000_000]);
        let rates = if maker.rng.chance(0.4) { maker.rates() } else { FaultRates::NONE };
        let flows = 1 + maker.rng.below(FLOWS) as usize;
        for flow in 0..flows {
            let at = if flow == 0 { Duration::ZERO } else { maker.time() / 2 };
            let what = What::Create(maker.flow(flow));
            maker.add(at, what);
        }
        for _ in 0..maker.rng.below(5) {
            maker.operation(flows);
        }
        for _ in 0..maker.rng.below(6) {
            maker.fault();
        }
        let mtu = maker.pick(&[256, 1024, 4096]);
        let bandwidth_bps = maker.pick(&[1_000_000_000, 10_000_000_000, 100_000_000_000]);
        for _ in 0..maker.rng.below(3) {
            maker.misuse(flows);
        }
        // Much at a time.
        if maker.rng.chance(0.25) {
            for _ in 0..maker.rng.below(8) {
                maker.operation(flows);
            }
            for _ in 0..maker.rng.below(12) {
                maker.fault();
            }
        }
        // Just before they wrap, and so close that those of different connections can be taken for each other.
        let first_psn = maker.pick(&[None, None, Some(0), Some(0xff_fff0), Some(0x7f_fff0)]);
        let big_endian = if maker.rng.chance(0.3) { maker.hosts(HOSTS as u64) } else { Vec::new() };
        let pass_ns = maker.pick(&[0, 0, 0, 100, 400]);
        for step in &mut maker.steps {
            if let What::Create(flow) = &mut step.what
                && maker.rng.chance(0.15)
            {
                flow.rate_cap = Some(8_000_000 << maker.rng.below(8));
            }
        }
        // Faults that come later do not harm flows that move nothing any more.
        for step in &mut maker.steps {
            if let What::Create(flow) = &mut step.what
                && maker.rng.chance(0.6)
            {
                // Three items or so at each of these.
                flow.every = (3 * maker.calm_us / TURN_US / u64::from(flow.items)).max(1) as u32;
            }
        }
        let mut rates = rates;
        let of_steps = maker.steps.iter_mut().filter_map(|step| match &mut step.what {
            What::Faults { rates, .. } => Some(rates),
            _ => None,
        });
        for rates in of_steps.chain([&mut rates]) {
            if maker.rng.chance(0.3) {
                rates.reorder_ns = VERY_LATE_NS;
            }
        }
        let standby = maker.rng.chance(0.25);
        for _ in 0..if standby { 1 + maker.rng.below(4) } else { 0 } {
            maker.switch_fault();
        }
        if maker.rng.chance(0.125) {
            maker.torn(flows, standby);
        }
        for _ in 0..if maker.rng.chance(0.2) { 1 + maker.rng.below(3) } else { 0 } {
            let (at, host) = (maker.time(), maker.host());
            maker.add(at, What::AgentBreaks(host));
        }
        let pipes = maker.pick(&[1, 1, 1, 1, 2, 4]);
        let Maker { mut steps, calm_us, .. } = maker;
        steps.sort_by_key(|step| step.at);
        let calm = Duration::from_micros(calm_us);
        Schedule {
            seed,
            mtu,
            rates,
            bandwidth_bps,
            first_psn,
            big_endian,
            pass_ns,
            standby,
            pipes,
            calm,
            steps,
        }
    }

    /// The schedule without some of its steps.
    pub fn keeping(&self, keep: impl Fn(usize) -> bool) -> Schedule {
        let steps = self.steps.iter().enumerate().filter(|(i, _)| keep(*i)).map(|(_, s)| s.clone()).collect();
        Schedule { steps, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_seeds_have_every_fault() {
        let schedules: Vec<Schedule> = (0..1000).map(Schedule::new).collect();
        let steps = || schedules.iter().flat_map(|s| &s.steps).map(|step| &step.what);
        let faults: [fn(&What) -> bool; 11] = [
            |what| matches!(what, What::Nonsense(_)),
            |what| matches!(what, What::Forges(_, true)),
            |what| matches!(what, What::ControllerJumps(_)),
            |what| matches!(what, What::AgentJumps(..)),
            |what| matches!(what, What::KillSwitch(0)),
            |what| matches!(what, What::KillSwitch(1)),
            |what| matches!(what, What::HangSwitch(..)),
            |what| matches!(what, What::AgentBreaks(_)),
            |what| matches!(what, What::JournalCut(_)),
            |what| matches!(what, What::Faults { rates, .. } if rates.reorder_ns == VERY_LATE_NS),
            |what| matches!(what, What::Create(flow) if flow.rate_cap.is_some()),
        ];
        for (number, is_it) in faults.iter().enumerate() {
            let times = steps().filter(|what| is_it(what)).count();
            assert!(times > 20, "fault {number}: {times} times");
        }
        for pass_ns in [0, 100, 400] {
            assert!(schedules.iter().filter(|s| s.pass_ns == pass_ns).count() > 50);
        }
        for pipes in [1, 2, 4] {
            assert!(schedules.iter().filter(|s| s.pipes == pipes).count() > 50);
        }
        assert!(schedules.iter().filter(|s| s.first_psn == Some(0xff_fff0)).count() > 50);
        assert!(schedules.iter().filter(|s| !s.big_endian.is_empty()).count() > 50);
    }
}
