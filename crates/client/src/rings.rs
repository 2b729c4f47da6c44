//! Rings for a program that pushes and pops at their memory itself, such as a GPU's kernels. The library keeps the lease.

use std::path::Path;
use std::sync::Arc;

use zsr_api::controller as proto;
use zsr_records::Schema;
use zsr_ring::{Ring, Role};

use crate::contact::Contact;
use crate::error::ProgramError;
use crate::flow::{Found, Options};
use crate::pu;
use crate::reach::members_here;
use crate::session::{Session, with_pass};

/// All rings of one member of a flow, held for as long as this lives. Dropping it leaves: the agent sees in the rings' memory whether
/// their streams have ended or were given up.
pub struct FlowRings {
    member: String,
    schema: Option<Schema>,
    rings: Vec<HeldRing>,
}

/// One of them.
pub struct HeldRing {
    /// The ring's name.
    pub name: String,
    /// The consumer that it leads to; empty where all consumers share it, and for a consumer's own ring.
    pub consumer: String,
    /// The ring, whose memory lives as long. Its flags say CLOSED or ABORTED, also when its agent has ended.
    pub ring: Arc<Ring>,
    /// What stands in the headers of segments that this program writes there, so that a successor's are not taken for gaps.
    pub number: u32,
}

impl FlowRings {
    /// Takes all rings of a producer ([`Role::Producer`]) or a consumer of `flow`. Consumers that join later are none of this
    /// program's: they are told the end of the stream by the controller.
    ///
    /// # Errors
    /// [`ProgramError`]: no system, flow or member of that name, rings taken by others.
    pub fn attach(
        controller: impl Into<Contact>,
        flow: &str,
        role: Role,
        options: &Options,
    ) -> Result<Self, ProgramError> {
        let session = Session::shared(controller)?;
        let Found { flow: found, schema, .. } = Found::of(&session, flow, options)?;
        let members = if role == Role::Consumer { &found.consumers } else { &found.producers };
        let mut why = None;
        for member in members_here(flow, members, options.member.as_deref())? {
            match take(&session, &found, member, role) {
                Ok(rings) => return Ok(FlowRings { member: member.name.clone(), schema, rings }),
                Err(e) => why = why.or(Some(e)),
            }
        }
        let none = format!("it has no {role} ring on this machine");
        Err(why.unwrap_or(ProgramError::Ended { flow: flow.to_owned(), why: none }))
    }

    /// The member that it is.
    pub fn member(&self) -> &str {
        &self.member
    }

    /// What the flow's records are, if it says so.
    pub fn schema(&self) -> Option<&Schema> {
        self.schema.as_ref()
    }

    /// Its rings, in the order of the flow's consumers where there is one for each.
    pub fn rings(&self) -> &[HeldRing] {
        &self.rings
    }
}

/// All rings of a member, or none of them.
fn take(
    session: &Session,
    flow: &proto::Flow,
    member: &proto::FlowMember,
    role: Role,
) -> Result<Vec<HeldRing>, ProgramError> {
    let per_consumer = role == Role::Producer && flow.kind() == proto::FlowKind::Shuffle;
    let rings = member.rings.iter().enumerate().map(|(at, ring)| {
        let consumer = flow.consumers.get(at).filter(|_| per_consumer).map_or("", |c| &c.name);
        Ok(HeldRing {
            name: ring.name.clone(),
            consumer: consumer.to_owned(),
            ring: with_pass(
                || session.pass(&ring.name),
                |pass| pu::hold_by(pass, Path::new(&ring.programs), &ring.name, role),
            )?,
            number: std::process::id() ^ (at as u32) << 22,
        })
    });
    rings.collect()
}
