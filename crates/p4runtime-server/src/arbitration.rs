//! Which controller is primary (specification, "Client Arbitration and Controller Replication"): a state machine
//! without I/O.

use std::collections::{BTreeMap, HashMap};

use p4runtime_proto::google::rpc;
use p4runtime_proto::p4::v1 as pb;
use tonic::Code;

use super::refusal::{Outcome, Refusal};

/// Most controllers that one role may have at a time.
const MAX_CONTROLLERS: usize = 64;

/// Most roles that a device remembers.
const MAX_ROLES: usize = 1024;
/// Longest name of a role, in bytes.
const MAX_ROLE_NAME: usize = 256;

/// A stream, numbered by the server.
pub(super) type StreamId = u64;

/// A role: by name since P4Runtime 1.4, by number before. The default role has neither.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct RoleKey {
    pub name: String,
    pub id: u64,
}

impl RoleKey {
    /// The number counts only where there is no name, so that a client may send both.
    pub fn new(name: &str, id: u64) -> Self {
        Self { name: name.to_owned(), id: if name.is_empty() { id } else { 0 } }
    }

    fn is_default(&self) -> bool {
        self.name.is_empty() && self.id == 0
    }
}

impl std::fmt::Display for RoleKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.name.as_str(), self.id) {
            ("", 0) => write!(f, "the default role"),
            ("", id) => write!(f, "role {id}"),
            (name, _) => write!(f, "role '{name}'"),
        }
    }
}

/// A message to be sent, and on which stream.
pub(super) type Notice = (StreamId, pb::MasterArbitrationUpdate);

/// The consequences of an accepted update.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// To be sent at once.
    pub now: Vec<Notice>,
    /// This stream's controller is primary. It is told with [`Arbiter::confirm`] when all writes that were under
    /// way have ended.
    pub primary: Option<StreamId>,
}

#[derive(Debug, Default)]
struct RoleState {
    /// The highest election id ever seen; it outlives the controllers.
    highest: Option<u128>,
    controllers: BTreeMap<StreamId, Option<u128>>,
}

impl RoleState {
    fn primary(&self) -> Option<StreamId> {
        let highest = self.highest?;
        self.controllers.iter().find(|(_, election)| **election == Some(highest)).map(|(stream, _)| *stream)
    }

    fn notice(&self, device: u64, role: &RoleKey, to: StreamId) -> Notice {
        let primary = self.primary();
        let (code, message) = match primary {
            Some(stream) if stream == to => (Code::Ok, ""),
            Some(_) => (Code::AlreadyExists, "another controller is primary"),
            None => (Code::NotFound, "there is no primary"),
        };
        let role = (!role.is_default()).then(|| {
            #[allow(deprecated)]
            pb::Role { id: role.id, name: role.name.clone(), config: None }
        });
        let status = rpc::Status { code: code as i32, message: message.to_owned(), details: Vec::new() };
        let election_id = self.highest.map(to_uint128);
        (to, pb::MasterArbitrationUpdate { device_id: device, role, election_id, status: Some(status) })
    }

    fn notices(&self, device: u64, role: &RoleKey) -> Vec<Notice> {
        self.controllers.keys().map(|stream| self.notice(device, role, *stream)).collect()
    }
}

/// All controllers of one device.
#[derive(Debug)]
pub(super) struct Arbiter {
    device: u64,
    roles: HashMap<RoleKey, RoleState>,
    streams: HashMap<StreamId, RoleKey>,
}

impl Arbiter {
    pub fn new(device: u64) -> Self {
        // The default role exists before any controller has asked for it.
        let roles = HashMap::from([(RoleKey::default(), RoleState::default())]);
        Self { device, roles, streams: HashMap::new() }
    }

    /// A controller's bid. An error ends its stream.
    pub fn update(&mut self, stream: StreamId, bid: &pb::MasterArbitrationUpdate) -> Outcome<Verdict> {
        #[allow(deprecated)]
        let role = bid.role.as_ref().map_or_else(RoleKey::default, |role| RoleKey::new(&role.name, role.id));
        match self.streams.get(&stream) {
            None if bid.device_id != self.device => {
                return Err(Refusal::not_found(format!(
                    "there is no device {}; this server has device {}",
                    bid.device_id, self.device
                )));
            }
            Some(_) if bid.device_id != self.device => {
                return Err(Refusal::new(
                    Code::FailedPrecondition,
                    format!("this stream is for device {}, not {}", self.device, bid.device_id),
                ));
            }
            Some(known) if *known != role => {
                return Err(Refusal::new(
                    Code::FailedPrecondition,
                    format!("this stream has {known}; open another stream for {role}"),
                ));
            }
            _ => {}
        }
        if bid.role.as_ref().is_some_and(|role| role.config.is_some()) {
            return Err(Refusal::invalid("this switch knows no role configuration; leave role.config unset"));
        }
        if !self.roles.contains_key(&role) && self.roles.len() >= MAX_ROLES {
            return Err(Refusal::new(
                Code::ResourceExhausted,
                format!("there are {MAX_ROLES} roles, which is the most"),
            ));
        }
        if role.name.len() > MAX_ROLE_NAME {
            return Err(Refusal::invalid(format!("a role's name has at most {MAX_ROLE_NAME} bytes")));
        }
        let election = bid.election_id.as_ref().map(from_uint128);
        let state = self.roles.entry(role.clone()).or_default();
        let taken = |(other, theirs): (&StreamId, &Option<u128>)| *other != stream && *theirs == election;
        if election.is_some() && state.controllers.iter().any(taken) {
            return Err(Refusal::invalid(format!(
                "another controller of {role} has this election id already"
            )));
        }
        if !state.controllers.contains_key(&stream) && state.controllers.len() >= MAX_CONTROLLERS {
            return Err(Refusal::new(
                Code::ResourceExhausted,
                format!("{role} has {MAX_CONTROLLERS} controllers, which is the most"),
            ));
        }

        let before = state.primary();
        state.controllers.insert(stream, election);
        self.streams.insert(stream, role.clone());
        let wins = election.is_some_and(|election| state.highest.is_none_or(|highest| election >= highest));
        if !wins {
            let stepped_down = before == Some(stream);
            let now = if stepped_down {
                state.notices(self.device, &role)
            } else {
                vec![state.notice(self.device, &role, stream)]
            };
            return Ok(Verdict { now, primary: None });
        }
        state.highest = election;
        let mut now = state.notices(self.device, &role);
        now.retain(|(to, _)| *to != stream);
        Ok(Verdict { now, primary: Some(stream) })
    }

    /// The message that makes a controller primary; none if it has ceased to be, and was told so, in between.
    pub fn confirm(&self, stream: StreamId) -> Option<Notice> {
        let role = self.streams.get(&stream)?;
        let state = self.roles.get(role)?;
        (state.primary() == Some(stream)).then(|| state.notice(self.device, role, stream))
    }

    /// A stream has ended.
    pub fn leave(&mut self, stream: StreamId) -> Vec<Notice> {
        let Some(role) = self.streams.remove(&stream) else { return Vec::new() };
        let Some(state) = self.roles.get_mut(&role) else { return Vec::new() };
        let was_primary = state.primary() == Some(stream);
        state.controllers.remove(&stream);
        if was_primary { state.notices(self.device, &role) } else { Vec::new() }
    }

    /// Whether this stream's controller is primary for its role.
    pub fn is_primary(&self, stream: StreamId) -> bool {
        let state = self.streams.get(&stream).and_then(|role| self.roles.get(role));
        state.is_some_and(|state| state.primary() == Some(stream))
    }

    /// The primaries of all roles.
    pub fn primaries(&self) -> impl Iterator<Item = StreamId> + '_ {
        self.roles.values().filter_map(RoleState::primary)
    }

    /// Whether a unary call may change the device: NOT_FOUND for another device or an unknown role,
    /// PERMISSION_DENIED unless it comes from the primary.
    pub fn check(&self, device: u64, role: &RoleKey, election: Option<&pb::Uint128>) -> Outcome<()> {
        self.check_device(device)?;
        let state = self.roles.get(role).ok_or_else(|| Refusal::not_found(format!("there is no {role}")))?;
        let primary = state.primary().and(state.highest);
        if primary.is_none() {
            return Err(Refusal::denied(format!(
                "{role} has no primary; open a stream and send a MasterArbitrationUpdate with an election id"
            )));
        }
        if election.map(from_uint128) != primary {
            return Err(Refusal::denied(format!("another controller is primary for {role}")));
        }
        Ok(())
    }

    /// NOT_FOUND for another device.
    pub fn check_device(&self, device: u64) -> Outcome<()> {
        if device == self.device {
            return Ok(());
        }
        Err(Refusal::not_found(format!(
            "there is no device {device}; this server has device {}",
            self.device
        )))
    }
}

fn from_uint128(id: &pb::Uint128) -> u128 {
    u128::from(id.high) << 64 | u128::from(id.low)
}

fn to_uint128(id: u128) -> pb::Uint128 {
    pb::Uint128 { high: (id >> 64) as u64, low: id as u64 }
}

#[cfg(test)]
#[path = "arbitration_tests.rs"]
mod tests;
