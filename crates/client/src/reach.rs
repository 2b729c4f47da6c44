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
    flow: &str,
    members: &'f [proto::FlowMember],
    wanted: Option<&str>,
) -> Result<Vec<&'f proto::FlowMember>, ProgramError> {
    let asked: Vec<_> = members.iter().filter(|m| wanted.is_none_or(|name| name == m.name)).collect();
    if asked.is_empty() {
        let member = wanted.unwrap_or_default().to_owned();
        return Err(ProgramError::NoMember { flow: flow.to_owned(), member });
    }
    sort(flow, asked, &Machine::this())
}

fn sort<'f>(
    flow: &str,
    asked: Vec<&'f proto::FlowMember>,
    here: &Machine,
) -> Result<Vec<&'f proto::FlowMember>, ProgramError> {
    let (mut near, mut far, mut silent) = (Vec::new(), Vec::new(), None);
    for member in asked {
        if !member.boot.is_empty() && member.boot != here.boot {
            far.push(Elsewhere {
                member: member.name.clone(),
                host: member.host.clone(),
                machine: member.machine.clone(),
                agent: member.agent.clone(),
            });
        } else if member.rings.iter().all(|ring| ring.programs.is_empty()) {
            silent = silent.or(Some(member));
        } else {
            near.push(member);
        }
    }
    if !near.is_empty() {
        return Ok(near);
    }
    let flow = flow.to_owned();
    Err(match silent {
        Some(member) => {
            ProgramError::NoAgent { flow, host: member.host.clone(), agent: member.agent.clone() }
        }
        None => ProgramError::Elsewhere { flow, here: here.name.clone(), members: far },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(host: &str, machine: &str, programs: &str) -> proto::FlowMember {
        proto::FlowMember {
            name: host.into(),
            host: host.into(),
            rings: vec![proto::Ring { programs: programs.into(), ..Default::default() }],
            agent: "http://10.0.0.7:7000".into(),
            machine: machine.into(),
            boot: machine.into(),
            ..Default::default()
        }
    }

    #[test]
    fn members_on_other_machines_are_passed_over_and_named() {
        let here = Machine { name: "lab1".into(), boot: "lab1".into() };
        let near = member("h1", "lab1", "/run/programs-0");
        let far = member("h2", "lab2", "/run/programs-1");
        let silent = member("h3", "", "");
        let found = sort("f", vec![&far, &near, &silent], &here).unwrap();
        assert_eq!(found, [&near]);
        let why = sort("f", vec![&far], &here).unwrap_err().to_string();
        for part in ["`lab1`", "member `h2` on machine `lab2`", "host `h2` at 10.0.0.7:7000", "--controller"]
        {
            assert!(why.contains(part), "{part} is missing in {why}");
        }
        let why = sort("f", vec![&far, &silent], &here).unwrap_err().to_string();
        assert!(why.contains("host `h3`") && why.contains("has not said"), "{why}");
    }
}
