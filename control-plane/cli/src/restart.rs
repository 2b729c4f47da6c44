//! `zsr restart`: reports what survives the end of a process before it ends the process.

use super::live_args::RestartArgs;
use super::{FAILED, OK, USAGE, complain};
use std::time::{Duration, Instant};
use zsr::{Place, Session};
use zsr_api::controller as proto;
use zsr_system::process::{Recipe, RestartError, Role};
use zsr_topology::{Bmv2, SwitchKind, Topology};

/// How long the system may take to find the process again.
const FOUND: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(50);

/// `zsr restart`.
pub(super) fn restart(args: &RestartArgs) -> u8 {
    match anew(args) {
        Ok(()) => OK,
        Err(e) => {
            complain(format_args!("error: {e}"));
            match e {
                RestartError::Unknown { .. }
                | RestartError::Service { .. }
                | RestartError::Topology(_)
                | RestartError::Layout(_) => USAGE,
                RestartError::Place(_) | RestartError::Up(_) => FAILED,
            }
        }
    }
}

fn anew(args: &RestartArgs) -> Result<(), RestartError> {
    let place = Place::find(args.system.system.as_deref())?;
    let recipe = Recipe::of(&place, &args.process)?;
    if !args.dry_run {
        recipe.is_own(&place)?;
    }
    let topology = recipe.topology(&place)?;
    let session = Session::open(&place).map(Session::telling);
    let flows =
        session.and_then(|s| s.call(|mut c| async move { c.list_flows(proto::ListFlowsRequest {}).await }));
    let flows = flows.map(|list| list.flows).map_err(|e| e.to_string());
    for line in survives(recipe.role(), &topology, flows.as_deref().map_err(String::as_str)) {
        complain(line);
    }
    if args.dry_run {
        return Ok(());
    }
    recipe.restart(&place, &topology, &|text| complain(text))?;
    if found(&place, recipe.role()) {
        complain(format_args!("{} runs again", args.process));
    } else {
        complain(format_args!(
            "{} runs again, but the controller has not found it yet: see zsr status",
            args.process
        ));
    }
    Ok(())
}

/// Lines on the state that survives the end of a process and the state that does not; `flows`, or the reason why they
/// are unknown.
fn survives(role: &Role, topology: &Topology, flows: Result<&[proto::Flow], &str>) -> Vec<String> {
    let names = |flows: &[&proto::Flow]| match flows {
        [] => "none".to_owned(),
        flows => flows.iter().map(|f| f.name.as_str()).collect::<Vec<_>>().join(", "),
    };
    let runs = |f: &&proto::Flow| f.state() != proto::FlowState::Failed;
    let known: Vec<&proto::Flow> = flows.iter().flat_map(|flows| flows.iter()).filter(runs).collect();
    let mut out = Vec::new();
    match role {
        Role::Controller => {
            out.push("survives: all flows with what is in them, which move on meanwhile, and programs at their rings".to_owned());
            out.push("ends: the list of events, barriers that are waited at, commands that wait; a change under way is completed or taken back".to_owned());
        }
        Role::Agent { host, .. } => {
            let is_on = |f: &&&proto::Flow| f.producers.iter().chain(&f.consumers).any(|m| m.host == *host);
            let hit: Vec<&proto::Flow> = known.iter().filter(is_on).copied().collect();
            out.push("survives: rings and programs of other hosts, the switch, the controller".to_owned());
            out.push(format!("ends: the rings of host {host} with what is in them; their programs are told"));
            let of = |policy| {
                hit.iter()
                    .filter(|f| f.settings.unwrap_or_default().policy() == policy)
                    .copied()
                    .collect::<Vec<_>>()
            };
            for (policy, what) in [
                (
                    proto::Policy::Wait,
                    "wait until its members there are removed with --force and added again, or they are deleted",
                ),
                (proto::Policy::DropMember, "go on without their members there"),
                (proto::Policy::Abort, "fail"),
            ] {
                let flows = of(policy);
                if !flows.is_empty() {
                    out.push(format!("flows that {what}: {}", names(&flows)));
                }
            }
            if flows.is_ok() && hit.is_empty() {
                out.push(format!("no flow has a member on host {host}"));
            }
        }
        Role::Switch if keeps_state(topology) => {
            out.push("survives: all flows; the switch itself runs elsewhere and goes on".to_owned());
            out.push("ends: ticks and links that this process serves, until it is there again".to_owned());
        }
        Role::Switch | Role::Standby { .. } => {
            out.push("survives: all flows with what is in them, and programs at their rings".to_owned());
            out.push("ends: packets under way, which are sent again; flows stand still until the switch is there again".to_owned());
            if let Some(standby) = topology.standby() {
                out.push(format!(
                    "if it moves the flows (zsr status), the other one of {} and {} takes them over at once",
                    topology.switches[0].name, standby.name
                ));
            }
        }
    }
    if let Err(why) = flows {
        out.push(format!("which flows there are is not known: {why}"));
    }
    out
}

/// Whether the switch keeps its state when its process here ends.
fn keeps_state(topology: &Topology) -> bool {
    let elsewhere =
        |kind: &SwitchKind| matches!(kind, SwitchKind::Tofino(_) | SwitchKind::Bmv2(Bmv2::Running { .. }));
    topology.switches.iter().all(|s| elsewhere(&s.kind))
}

/// Whether the controller has found the process; a process on another machine is not asked.
fn found(place: &Place, role: &Role) -> bool {
    if !place.processes().iter().any(|p| p == "controller") {
        return true;
    }
    let begun = Instant::now();
    while begun.elapsed() < FOUND {
        let system = Session::open(place)
            .and_then(|s| s.call(|mut c| async move { c.get_system(proto::GetSystemRequest {}).await }));
        let is_there = system.is_ok_and(|system| match role {
            Role::Controller => true,
            Role::Switch | Role::Standby { .. } => system.switch.is_some_and(|s| s.connected),
            Role::Agent { host, .. } => system.hosts.iter().any(|h| h.name == *host && h.connected),
        });
        if is_there {
            return true;
        }
        std::thread::sleep(PAUSE);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(name: &str, host: &str, policy: proto::Policy) -> proto::Flow {
        let member = proto::FlowMember { name: host.into(), host: host.into(), ..Default::default() };
        let settings = proto::Settings { policy: Some(policy.into()), ..Default::default() };
        proto::Flow {
            name: name.into(),
            producers: vec![member],
            settings: Some(settings),
            ..Default::default()
        }
    }

    #[test]
    fn what_goes_with_a_process_is_named() {
        let text = "hosts: [h1, h2]\nflows:\n  - {name: own, producers: [h1], consumers: [h2]}\n";
        let topology = Topology::parse("t.yaml".as_ref(), text.as_bytes()).unwrap();
        let flows = [
            flow("own", "h1", proto::Policy::Wait),
            flow("mine", "h1", proto::Policy::Abort),
            flow("far", "h2", proto::Policy::Wait),
        ];
        let said = |role: Role| survives(&role, &topology, Ok(&flows)).join("\n");
        let switch = said(Role::Switch);
        assert!(switch.starts_with("survives: all flows with what is in them"), "{switch}");
        let agent = said(Role::Agent { host: "h1".into(), listen: None });
        assert!(agent.contains("or they are deleted: own\n") && agent.ends_with("fail: mine"), "{agent}");
        assert!(said(Role::Controller).starts_with("survives: all flows"));
        assert!(
            survives(&Role::Switch, &topology, Err("nobody answers")).concat().contains("nobody answers")
        );
    }
}
