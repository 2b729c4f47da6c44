//! Times that the controller waits, and intervals at which it asks or looks, by module. Times of the switch's client
//! are in `zsr-switch`, times in a flow's settings in `crates/topology/src/settings.rs`.

use std::time::Duration;

/// A change of a flow.
pub(crate) mod transaction {
    use super::Duration;

    /// How long a worker may take to come to rest.
    pub(crate) const QUIESCE: Duration = Duration::from_secs(10);
    /// The same where a leaving member is known not to answer.
    pub(crate) const SHORT_QUIESCE: Duration = Duration::from_millis(200);
}

/// Calls of clients.
pub(crate) mod operations {
    use super::Duration;

    /// How long rings may keep their items before they count as not being emptied.
    pub(crate) const PATIENCE: Duration = Duration::from_secs(2);
    /// How long no program can take a ring that is about to go. Each look renews it. It ends by itself, as a controller
    /// may die meanwhile, and sooner than programs lose their patience.
    pub(crate) const HOLD: Duration = Duration::from_secs(2);
    /// Between two looks at rings.
    pub(crate) const LOOK: Duration = Duration::from_millis(5);
}

/// Workers that come to rest.
pub(crate) mod quiesce {
    use super::Duration;

    /// How long the first answer may take before the question is repeated. Each pause is longer than the one before.
    pub(crate) const ANSWER: Duration = Duration::from_millis(100);
    /// The longest pause before a question is repeated.
    pub(crate) const LATE_ANSWER: Duration = Duration::from_secs(1);
    /// How long all questions together may take. A switch counts as lost (`session`) after a shorter silence, so a
    /// switch that is only late, on a busy machine, ends no flow.
    pub(crate) const NO_ANSWER: Duration = Duration::from_secs(20);
    /// How long numbers that were given back wait for others: one turn, one question and one write serve all of them.
    pub(crate) const GATHER: Duration = Duration::from_millis(50);
    /// How long the last commit record of a worker without producers may take.
    pub(crate) const LAST_COMMIT: Duration = Duration::from_secs(1);
    /// Between two questions to a worker that is not at rest.
    pub(crate) const PAUSE: Duration = Duration::from_micros(500);
}

/// Whether an agent is there.
pub(crate) mod agents {
    use super::Duration;

    /// How long an agent may take to accept a connection.
    pub(crate) const CONNECT: Duration = Duration::from_secs(2);
    /// How often an agent is asked whether it is there. An agent whose process ends is lost at once.
    pub(crate) const ASK: Duration = Duration::from_secs(2);
    /// How long the answer may take before the agent counts as lost: on a machine with too much to do answers take
    /// seconds.
    pub(crate) const SAY: Duration = Duration::from_secs(8);
    /// An agent that has answered within this time is not asked whether it is there.
    pub(crate) const FRESH: Duration = Duration::from_millis(100);
}

/// A question to an agent.
pub(crate) mod call {
    use super::Duration;

    /// How long an agent may take to answer, over all attempts.
    pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
    /// Between two attempts.
    pub(crate) const AGAIN: Duration = Duration::from_millis(100);
    /// From when on an agent that has not answered is reported.
    pub(crate) const LATE: Duration = Duration::from_millis(500);
}

/// The session with the switch.
pub(crate) mod session {
    use super::Duration;

    /// The longest time between two questions whether the switch is still there.
    pub(crate) const ASK: Duration = Duration::from_secs(2);
    /// Between two looks whether the client that keeps the switch is still primary.
    pub(crate) const OTHERS: Duration = Duration::from_secs(1);
    /// For how long a lost switch is looked for often, so that a switch that is started anew at once is found at once.
    pub(crate) const SOON: Duration = Duration::from_secs(5);
    /// How often the switch is looked for then.
    pub(crate) const AT_ONCE: Duration = Duration::from_millis(10);
    /// The longest pause before the next session, where another client takes each session away at once.
    pub(crate) const RARELY: Duration = Duration::from_secs(5);
    /// How long a session must last so that it does not count as taken away.
    pub(crate) const LASTING: Duration = Duration::from_secs(10);
    /// How long a change waits for a session that is being begun.
    pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
}

/// A switch that was started anew.
pub(crate) mod reconnect {
    use super::Duration;

    /// Between two attempts to begin a session.
    pub(crate) const AGAIN: Duration = Duration::from_millis(200);
    /// How long a switch may take to accept a session.
    pub(crate) const CONNECT: Duration = Duration::from_secs(5);
    /// How long the switch may take to load a program.
    pub(crate) const PROGRAM: Duration = Duration::from_secs(60);
}

/// A standby switch.
pub(crate) mod standby {
    use super::Duration;

    /// Between two looks whether the standby is there.
    pub(crate) const LOOK: Duration = Duration::from_millis(500);
}

/// A switch that is read back.
pub(crate) mod reconcile {
    use super::Duration;

    /// How long it may take to read the switch back and set it right.
    pub(crate) const RECONCILE: Duration = Duration::from_secs(60);
}

/// A start of the controller.
pub(crate) mod start {
    use super::Duration;

    /// How long the switch may take to notice that an earlier controller is gone.
    pub(crate) const PREDECESSOR: Duration = Duration::from_secs(1);
}

/// Changes that an earlier controller had begun.
pub(crate) mod unfinished {
    use super::Duration;

    /// How long watchers may take to have asked their agents for the first time.
    pub(crate) const FIRST: Duration = Duration::from_secs(10);
}

/// Flows at a switch that was started anew.
pub(crate) mod resume {
    use super::Duration;

    /// Between two attempts, while an agent or the switch does not answer.
    pub(crate) const AGAIN: Duration = Duration::from_millis(100);
    /// How long agents may take to say that they are there, at first. Flows of agents that do not are tried later.
    pub(crate) const KNOCK: Duration = Duration::from_millis(250);
    /// The same at most.
    pub(crate) const LONG_KNOCK: Duration = Duration::from_secs(8);
}

/// Agents that are watched, and the journal.
pub(crate) mod watch {
    use super::Duration;

    /// Between two attempts to reach an agent.
    pub(crate) const AGAIN: Duration = Duration::from_millis(200);
    /// How long an agent may take to accept the call for its events.
    pub(crate) const SAY: Duration = Duration::from_secs(8);
    /// Between two attempts to write a journal.
    pub(crate) const JOURNAL: Duration = Duration::from_secs(1);
}

/// Members of a transfer that do not answer.
pub(crate) mod failure_detector {
    use super::Duration;

    /// Between two looks at who answers.
    pub(crate) const LOOK: Duration = Duration::from_millis(200);
    /// How long a transfer in which all members answer may take to end, at least: they may be slow.
    pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
}

/// Members that are polled.
pub(crate) mod polls {
    use super::Duration;

    /// Between two looks at a flow, at least.
    pub(crate) const SHORTEST: Duration = Duration::from_millis(50);
    /// The pause without flows, until the next look whether there are any.
    pub(crate) const IDLE: Duration = Duration::from_secs(1);
}

/// Flows that do not move.
pub(crate) mod stall {
    use super::Duration;

    /// Between two looks.
    pub(crate) const LOOK: Duration = Duration::from_secs(2);
    /// How much each ring adds to that, so that questions do not keep a host with thousands of rings busy.
    pub(crate) const PER_RING: Duration = Duration::from_millis(1);
    /// Between the report of a stream's end and the look. Most flows that end are deleted at once, and need no look.
    pub(crate) const ENDED: Duration = Duration::from_millis(50);
    /// How long an agent may take to answer a look.
    pub(crate) const ANSWER: Duration = Duration::from_secs(1);
    /// How long nothing may move before the flow is stalled.
    pub(crate) const STALL: Duration = Duration::from_secs(3);
}

/// Frames that no host should send.
pub(crate) mod foreign_frames {
    use super::Duration;

    /// Between two looks at the counters.
    pub(crate) const LOOK: Duration = Duration::from_secs(2);
    /// Between two events of one kind and port: a host that sends such frames sends many.
    pub(crate) const AGAIN: Duration = Duration::from_secs(60);
}

/// Counters for clients.
pub(crate) mod counters {
    use super::Duration;

    /// How long the switch and an agent may take to return their counters.
    pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
}

/// Frames that were dropped.
pub(crate) mod drops {
    use super::Duration;

    /// How long the switch may take to answer.
    pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
}

/// Timeouts while packets are lost.
pub(crate) mod losses {
    use super::Duration;

    /// Between two looks at the packets that were sent again.
    pub(crate) const LOOK: Duration = Duration::from_millis(100);
    /// How much each worker adds to that.
    pub(crate) const PER_WORKER: Duration = Duration::from_micros(100);
    /// For how long a flow has to lose nothing before it gets its own settings back.
    pub(crate) const CALM: Duration = Duration::from_secs(2);
    /// How long counters are watched to see how long a round trip takes, and of how many workers.
    pub(crate) const CLOCKING: Duration = Duration::from_millis(25);
}

/// Limits by weight.
pub(crate) mod shares {
    use super::Duration;

    /// Between two measurements.
    pub(crate) const PERIOD: Duration = Duration::from_millis(100);
    /// How much each ring adds to that, so that measurements do not cost more than they gain.
    pub(crate) const PER_RING: Duration = Duration::from_micros(50);
    /// How long the first measurement takes. The time is short, so that limits follow soon.
    pub(crate) const FIRST: Duration = Duration::from_millis(40);
}

/// How often workers tick.
pub(crate) mod tick_rate {
    use super::Duration;

    /// Between two looks at what has moved.
    pub(crate) const LOOK: Duration = Duration::from_millis(250);
    /// How much each worker adds to that.
    pub(crate) const PER_WORKER: Duration = Duration::from_micros(100);
    /// How long a flow has to move nothing before its workers tick rarely. With a look before and one after, that is a
    /// second.
    pub(crate) const AFTER: Duration = Duration::from_millis(600);
}

/// Timeouts of many busy workers.
pub(crate) mod timeouts {
    use super::Duration;

    /// The time that each busy worker adds to a round, on the two cores of bench/results/processes.md, with some
    /// margin.
    pub(crate) const PER_WORKER: Duration = Duration::from_micros(200);
}

/// Loops that must come round.
pub(crate) mod watchdog {
    use super::Duration;

    /// Between two looks.
    pub const LOOK: Duration = Duration::from_secs(1);
}
