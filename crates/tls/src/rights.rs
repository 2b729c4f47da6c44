//! Which call needs which right, and which role has it: the only place that says so. A call that is not in the table is nobody's.

use crate::caller::Role;

/// The permission for a kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// Look at the system: flows, rings, figures, events.
    Read,
    /// Take part in flows: push, pop, wait at barriers.
    Use,
    /// Make, change and delete flows.
    Change,
    /// End the system.
    End,
    /// Make rings in a host's memory, connect them, and learn their keys.
    Rings,
    /// Write and read the entries of a switch.
    Entries,
    /// Run parts of queries at SQL workers.
    Query,
}

impl Right {
    /// The word for it, and what it is.
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            Right::Read => ("read", "look at flows, rings, figures and events"),
            Right::Use => ("use", "take part in flows"),
            Right::Change => ("change", "make, change and delete flows"),
            Right::End => ("end", "end the system"),
            Right::Rings => ("rings", "command a host's agent"),
            Right::Entries => ("entries", "command a switch"),
            Right::Query => ("query", "run parts of queries at workers"),
        }
    }
}

/// The rights of a role.
pub fn of(role: Role) -> &'static [Right] {
    match role {
        Role::Controller => &[Right::Read, Right::Rings, Right::Entries],
        Role::Operator => &[Right::Read, Right::Use, Right::Change, Right::End, Right::Query],
        Role::Worker => &[Right::Read, Right::Use, Right::Change, Right::Query],
        Role::Program => &[Right::Read, Right::Use],
        Role::Reader => &[Right::Read],
        // They are called, and call nobody.
        Role::Switch | Role::Agent => &[],
    }
}

/// Service, call, right.
pub const CALLS: [(&str, &str, Right); 41] = [
    ("zsr.controller.v1.Controller", "GetSystem", Right::Read),
    ("zsr.controller.v1.Controller", "CreateFlow", Right::Change),
    ("zsr.controller.v1.Controller", "ListFlows", Right::Read),
    ("zsr.controller.v1.Controller", "GetFlow", Right::Read),
    ("zsr.controller.v1.Controller", "SetFlow", Right::Change),
    ("zsr.controller.v1.Controller", "AddProducer", Right::Change),
    ("zsr.controller.v1.Controller", "AddConsumer", Right::Change),
    ("zsr.controller.v1.Controller", "RemoveMember", Right::Change),
    ("zsr.controller.v1.Controller", "DeleteFlow", Right::Change),
    ("zsr.controller.v1.Controller", "ListRings", Right::Read),
    ("zsr.controller.v1.Controller", "WatchEvents", Right::Read),
    ("zsr.controller.v1.Controller", "GetStats", Right::Read),
    ("zsr.controller.v1.Controller", "Barrier", Right::Use),
    ("zsr.controller.v1.Controller", "GetPass", Right::Use),
    ("zsr.controller.v1.Controller", "Shutdown", Right::End),
    ("zsr.agent.v1.Agent", "GetInfo", Right::Read),
    ("zsr.agent.v1.Agent", "CreateRing", Right::Rings),
    ("zsr.agent.v1.Agent", "ConnectRing", Right::Rings),
    ("zsr.agent.v1.Agent", "DisconnectRing", Right::Rings),
    ("zsr.agent.v1.Agent", "AbortRing", Right::Rings),
    ("zsr.agent.v1.Agent", "DestroyRing", Right::Rings),
    ("zsr.agent.v1.Agent", "OpenRings", Right::Rings),
    ("zsr.agent.v1.Agent", "CloseRings", Right::Rings),
    ("zsr.agent.v1.Agent", "EndRings", Right::Rings),
    ("zsr.agent.v1.Agent", "SuspendRings", Right::Rings),
    ("zsr.agent.v1.Agent", "ResumeRings", Right::Rings),
    ("zsr.agent.v1.Agent", "ReadItems", Right::Rings),
    ("zsr.agent.v1.Agent", "AdmitProgram", Right::Rings),
    // Its answer about a ring has the ring's key.
    ("zsr.agent.v1.Agent", "GetRing", Right::Rings),
    ("zsr.agent.v1.Agent", "ListRings", Right::Rings),
    ("zsr.agent.v1.Agent", "WatchEvents", Right::Rings),
    ("p4.v1.P4Runtime", "Write", Right::Entries),
    // Entries have keys of rings and secrets of doorbells.
    ("p4.v1.P4Runtime", "Read", Right::Entries),
    ("p4.v1.P4Runtime", "SetForwardingPipelineConfig", Right::Entries),
    ("p4.v1.P4Runtime", "GetForwardingPipelineConfig", Right::Entries),
    ("p4.v1.P4Runtime", "StreamChannel", Right::Entries),
    ("p4.v1.P4Runtime", "Capabilities", Right::Read),
    // Workers of crates/datafusion. The first three calls are those of datafusion-distributed.
    ("worker.WorkerService", "CoordinatorChannel", Right::Query),
    ("worker.WorkerService", "ExecuteTask", Right::Query),
    ("worker.WorkerService", "GetWorkerInfo", Right::Query),
    ("zsr.sql.v1.Exchange", "Fill", Right::Query),
];

/// The right that a call needs, by its path (`/SERVICE/CALL`).
pub fn needed(path: &str) -> Option<Right> {
    let (service, call) = path.strip_prefix('/')?.split_once('/')?;
    CALLS.iter().find(|(s, c, _)| *s == service && *c == call).map(|(_, _, right)| *right)
}

/// Roles that have a right, in words.
pub(crate) fn who(right: Right) -> String {
    let roles: Vec<&str> =
        Role::ALL.into_iter().filter(|role| of(*role).contains(&right)).map(Role::word).collect();
    roles.join(", ")
}
