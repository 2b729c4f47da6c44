//! The sockets for programs of each host: only the host's agent knows its socket, and the agent may be on another
//! machine.

use crate::Controller;
use crate::agents::answer;
use zsr_api::{agent::GetInfoRequest, controller as proto, machine::Machine};
use zsr_plan::state::ProgramsPlace;
use zsr_topology::MemoryKind;

impl Controller {
    /// Asks the agent of `host`, which has just been met.
    pub(crate) async fn learn_place(&self, host: &str) {
        let Ok(mut client) = self.0.agents.of(host) else { return };
        // An agent that does not answer this is about to be lost.
        let Ok(info) = answer(host, client.get_info(GetInfoRequest {})).await else { return };
        if !info.programs.is_empty() {
            let machine = Machine { name: info.machine, boot: info.boot };
            let place = ProgramsPlace { socket: info.programs, machine };
            self.state().places.insert(host.to_owned(), place);
        }
    }

    /// The socket for programs of `host`; empty if nobody knows it.
    pub(crate) fn programs_of(&self, host: &str) -> String {
        let state = self.state();
        let told = state.places.get(host).map(|place| place.socket.clone());
        let own = || state.hosts.get(host).and_then(|h| h.programs.as_ref());
        told.or_else(|| own().map(|p| p.display().to_string())).unwrap_or_default()
    }

    /// The fields about a host in the message of a ring: its socket for programs and its kind of memory.
    pub(crate) fn of_ring(&self, host: &str) -> (String, MemoryKind) {
        let memory = self.state().hosts.get(host).map(|h| h.memory).unwrap_or_default();
        (self.programs_of(host), memory)
    }

    /// Notes in `member`'s message where its host's programs have to run.
    pub(crate) fn place(&self, member: &mut proto::FlowMember) {
        let state = self.state();
        member.agent = state.hosts.get(&member.host).map(|h| h.agent.uri()).unwrap_or_default();
        if let Some(place) = state.places.get(&member.host) {
            (member.machine, member.boot) = (place.machine.name.clone(), place.machine.boot.clone());
        }
    }

    /// `host` with where its programs attach.
    pub(crate) fn with_place(&self, host: proto::Host) -> proto::Host {
        let programs = self.programs_of(&host.name);
        let machine = self.state().places.get(&host.name).map(|place| place.machine.clone());
        let (machine, boot) = machine.map(|m| (m.name, m.boot)).unwrap_or_default();
        proto::Host { programs, machine, boot, ..host }
    }
}
