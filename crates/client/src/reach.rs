//! Which members a program can be: rings are shared memory, so it has to run on the machine of their agent.

use std::fmt;

use crate::error::ProgramError;
use zsr_api::{controller as proto, machine::Machine};

/// A member whose rings are on another machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// The member.
    pub member: String,
    /// The member's host.
    pub host: String,
    /// The host name of its agent's machine.
    pub machine: String,
    /// Where its agent listens.
    pub agent: String,
}

impl fmt::Display for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Elsewhere { member, host, machine, agent } = self;
        let at = agent
            .strip_prefix("http://")
            .or(agent.strip_prefix("https://"))
            .map_or(String::new(), |at| format!(" at {at}"));
        write!(f, "member `{member}` on machine `{machine}` (the agent of host `{host}`{at})")
    }
}

/// Those of `members` that a program on this machine can be: the one that is named, or all.
///
/// # Errors
/// [`ProgramError::NoMember`], [`ProgramError::Elsewhere`], [`ProgramError::NoAgent`].
pub(crate) fn members_here<'f>(
    system: &proto::System,
    flow: &str,
    members: &'f [proto::FlowMember],
    wanted: Option<&str>,
) -> Result<Vec<&'f proto::FlowMember>, ProgramError> {
    let asked: Vec<_> = members.iter().filter(|m| wanted.is_none_or(|name| name == m.name)).collect();
    if asked.is_empty() {
        let member = wanted.unwrap_or_default().to_owned();
        return Err(ProgramError::NoMember { flow: flow.to_owned(), member });
    }
    sort(flow, asked, &system.hosts, &Machine::this())
}

fn sort<'f>(
    flow: &str,
    asked: Vec<&'f proto::FlowMember>,
    hosts: &[proto::Host],
    here: &Machine,
) -> Result<Vec<&'f proto::FlowMember>, ProgramError> {
    let (mut near, mut far, mut silent) = (Vec::new(), Vec::new(), None);
    for member in asked {
        let Some(host) = hosts.iter().find(|h| h.name == member.host) else { continue };
        if !host.boot.is_empty() && host.boot != here.boot {
            far.push(Elsewhere {
                member: member.name.clone(),
                host: host.name.clone(),
                machine: host.machine.clone(),
                agent: host.agent.clone(),
            });
        } else if host.programs.is_empty() {
            silent = silent.or(Some(host));
        } else {
            near.push(member);
        }
    }
    if !near.is_empty() {
        return Ok(near);
    }
    let flow = flow.to_owned();
    Err(match silent {
        Some(host) => ProgramError::NoAgent { flow, host: host.name.clone(), agent: host.agent.clone() },
        None => ProgramError::Elsewhere { flow, here: here.name.clone(), members: far },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, machine: &str, programs: &str) -> proto::Host {
        proto::Host {
            name: name.into(),
            agent: "http://10.0.0.7:7000".into(),
            programs: programs.into(),
            machine: machine.into(),
            boot: machine.into(),
            ..Default::default()
        }
    }

    #[test]
    fn members_on_other_machines_are_passed_over_and_named() {
        let here = Machine { name: "lab1".into(), boot: "lab1".into() };
        let hosts = [
            host("h1", "lab1", "/run/programs-0"),
            host("h2", "lab2", "/run/programs-1"),
            host("h3", "", ""),
        ];
        let member =
            |host: &str| proto::FlowMember { name: host.into(), host: host.into(), ..Default::default() };
        let (near, far, silent) = (member("h1"), member("h2"), member("h3"));
        let found = sort("f", vec![&far, &near, &silent], &hosts, &here).unwrap();
        assert_eq!(found, [&near]);
        let why = sort("f", vec![&far], &hosts, &here).unwrap_err().to_string();
        for part in ["`lab1`", "member `h2` on machine `lab2`", "host `h2` at 10.0.0.7:7000", "--controller"]
        {
            assert!(why.contains(part), "{part} is missing in {why}");
        }
        let why = sort("f", vec![&far, &silent], &hosts, &here).unwrap_err().to_string();
        assert!(why.contains("host `h3`") && why.contains("has not said"), "{why}");
    }
}
