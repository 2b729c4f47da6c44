//! A log's flows and members.

use zsr::api::{
    AddMemberRequest, CreateFlowRequest, DeleteFlowRequest, Flow, FlowKind, GetFlowRequest, Member, Policy,
    Settings,
};
use zsr::{ClientError, Contact, Session};

use crate::error::LogError;
use crate::message::HEAD;

/// Bytes of an item: one message each.
const ITEM: u32 = 32 << 10;
/// Bytes of a ring.
const RING: u32 = 512 << 10;
/// Bytes of an item besides one record.
const SEGMENT: usize = 64;

/// A client or a replica: the name of its member in both flows, and its host.
#[derive(Clone, Copy, Debug)]
pub struct Party<'a> {
    /// Unique in the log, at most 63 bytes.
    pub name: &'a str,
    /// A host of the system.
    pub host: &'a str,
}

/// A log that exists.
#[derive(Clone, Debug)]
pub struct Log {
    pub(crate) name: String,
    pub(crate) contact: Contact,
}

impl Log {
    /// The longest command, and the longest answer, in bytes.
    pub const MAX_MESSAGE: usize = ITEM as usize - SEGMENT - HEAD;

    /// Makes the two flows of a log, with these replicas (at most 32) and clients.
    ///
    /// # Errors
    /// The controller refuses, such as a name that is taken; nothing is left then.
    pub fn create(
        controller: impl Into<Contact>,
        name: &str,
        replicas: &[Party<'_>],
        clients: &[Party<'_>],
    ) -> Result<Self, LogError> {
        let log = Log::named(controller, name);
        let session = Session::open(&log.contact)?;
        let members = |parties: &[Party<'_>]| parties.iter().copied().map(Party::member).collect::<Vec<_>>();
        let request = |name: String, kind: FlowKind, producers, consumers| CreateFlowRequest {
            name,
            kind: kind.into(),
            producers,
            consumers,
            item_size: ITEM,
            ring_size: RING,
            settings: Some(Settings { policy: Some(Policy::DropMember.into()), ..Settings::default() }),
            ..CreateFlowRequest::default()
        };
        let answers = request(log.answers(), FlowKind::Shuffle, members(replicas), members(clients));
        let order = request(name.to_owned(), FlowKind::Replicate, members(clients), members(replicas));
        session.change(|mut c| async move { c.create_flow(answers).await })?;
        if let Err(refused) = session.change(|mut c| async move { c.create_flow(order).await }) {
            log.delete_flow(&session, log.answers())?;
            return Err(refused.into());
        }
        Ok(log)
    }

    /// A log that somebody has created.
    pub fn named(controller: impl Into<Contact>, name: &str) -> Self {
        Log { name: name.to_owned(), contact: controller.into() }
    }

    /// Another client.
    ///
    /// # Errors
    /// The controller refuses.
    pub fn add_client(&self, client: Party<'_>) -> Result<(), LogError> {
        let session = Session::open(&self.contact)?;
        self.add(&session, &self.answers(), client, End::Consumer)?;
        self.add(&session, &self.name, client, End::Producer)
    }

    /// Deletes both flows. Programs that are at them are told.
    ///
    /// # Errors
    /// The controller refuses.
    pub fn delete(self) -> Result<(), LogError> {
        let session = Session::open(&self.contact)?;
        self.delete_flow(&session, self.name.clone())?;
        self.delete_flow(&session, self.answers())
    }

    fn delete_flow(&self, session: &Session, name: String) -> Result<(), LogError> {
        let request = DeleteFlowRequest { name, force: true };
        session.change(|mut c| async move { c.delete_flow(request).await })?;
        Ok(())
    }

    /// The name of the flow of answers.
    pub(crate) fn answers(&self) -> String {
        format!("{}-answers", self.name)
    }

    pub(crate) fn flow(&self, session: &Session, name: &str) -> Result<Flow, ClientError> {
        let request = GetFlowRequest { name: name.to_owned() };
        session.call(|mut c| async move { c.get_flow(request).await })
    }

    /// Makes `party` a member at this end of a flow, if it is none.
    pub(crate) fn add(
        &self,
        session: &Session,
        flow: &str,
        party: Party<'_>,
        end: End,
    ) -> Result<(), LogError> {
        let found = self.flow(session, flow)?;
        let members = if end == End::Producer { &found.producers } else { &found.consumers };
        if members.iter().any(|member| member.name == party.name) {
            return Ok(());
        }
        let request = AddMemberRequest { flow: flow.to_owned(), member: Some(party.member()) };
        match end {
            End::Producer => session.change(|mut c| async move { c.add_producer(request).await })?,
            End::Consumer => session.change(|mut c| async move { c.add_consumer(request).await })?,
        };
        Ok(())
    }
}

/// The two ends of a flow.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Producer,
    Consumer,
}

impl Party<'_> {
    fn member(self) -> Member {
        Member { name: self.name.to_owned(), host: self.host.to_owned(), ..Member::default() }
    }
}
