//! What programs ask of a flow before they attach to it.

use zsr_api::controller as proto;
use zsr_records::Schema;
use zsr_ring::Cancel;
use zsr_ring::segment::SegmentSetupError;

use crate::error::ProgramError;
use crate::layouts::Registered;
use crate::session::{ClientError, Session};

/// What a program says when it attaches.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Which member of the flow to be; `None`: the first whose rings are free.
    pub member: Option<String>,
    /// Bytes of a record; `None`: those of the flow's tuples, or they differ.
    pub record_size: Option<u32>,
    /// What the program takes the flow's records for; `None`: whatever the flow says they are.
    pub schema: Option<Schema>,
    /// Memory that [layouts](crate::layouts) of a producer or a [`LayoutConsumer`](crate::layouts::LayoutConsumer) name, at most 16 regions.
    /// Its rings have to be in memory of the kind `layouts`.
    pub registered: Vec<Registered>,
    /// A producer's: on average one item in this many carries the time when it was pushed, so that the system's metrics say how long items
    /// take to be popped; 0: none does. `None`: what the environment variable `ZSR_STAMP_EVERY` says, or 0.
    pub stamp_every: Option<u32>,
    /// Ends blocking calls.
    pub cancel: Cancel,
}

impl Options {
    /// [`stamp_every`](Self::stamp_every), or what the environment says.
    ///
    /// # Errors
    /// [`ProgramError::Stamps`].
    pub(crate) fn stamps(&self) -> Result<u32, ProgramError> {
        match (self.stamp_every, std::env::var_os(STAMP_EVERY).filter(|said| !said.is_empty())) {
            (Some(every), _) => Ok(every),
            (None, None) => Ok(0),
            (None, Some(said)) => {
                let every = said.to_str().and_then(|said| said.parse().ok());
                every.ok_or_else(|| ProgramError::Stamps(said.to_string_lossy().into_owned()))
            }
        }
    }
}

/// Says of how many items one is to be stamped, where a program does not.
const STAMP_EVERY: &str = "ZSR_STAMP_EVERY";

/// A flow as a program finds it that is about to attach.
pub(crate) struct Found {
    pub(crate) flow: proto::Flow,
    pub(crate) schema: Option<Schema>,
    /// Bytes of a record, if all of the program's have the same.
    pub(crate) record_size: Option<u32>,
}

impl Found {
    /// Asks for `flow`, and checks what `options` says of records.
    pub(crate) fn of(session: &Session, flow: &str, options: &Options) -> Result<Self, ProgramError> {
        let flow = get(session, flow)?;
        let schema = schema_of(&flow)?;
        if let Some(asked) = options.schema.as_ref().filter(|asked| schema.as_ref() != Some(*asked)) {
            let (flow, schema) = (flow.name, flow.schema);
            return Err(ProgramError::OtherSchema { flow, schema, asked: asked.to_string() });
        }
        let record_size = check_size(&flow, schema.as_ref(), options.record_size)?;
        Ok(Found { flow, schema, record_size })
    }
}

/// What records of `flow` are, if it says so.
///
/// # Errors
/// [`ProgramError::Schema`].
pub fn schema_of(flow: &proto::Flow) -> Result<Option<Schema>, ProgramError> {
    if flow.schema.is_empty() {
        return Ok(None);
    }
    let schema = Schema::parse(&flow.schema);
    schema.map(Some).map_err(|why| ProgramError::Schema { flow: flow.name.clone(), why })
}

/// The size that a program's records have, which asks for `asked`, if the flow's items can carry them.
///
/// # Errors
/// [`ProgramError::Tuples`], [`ProgramError::Records`].
pub fn check_size(
    flow: &proto::Flow,
    schema: Option<&Schema>,
    asked: Option<u32>,
) -> Result<Option<u32>, ProgramError> {
    let size = match schema {
        Some(schema) => size_with(flow, schema, asked)?,
        None => asked,
    };
    SegmentSetupError::check(flow.item_size, size)?;
    Ok(size)
}

fn size_with(flow: &proto::Flow, schema: &Schema, asked: Option<u32>) -> Result<Option<u32>, ProgramError> {
    match (schema.tuple_size(), asked) {
        (size, None) => Ok(size),
        (Some(size), Some(asked)) if size == asked => Ok(Some(size)),
        (size, Some(asked)) => Err(ProgramError::Tuples {
            flow: flow.name.clone(),
            schema: flow.schema.clone(),
            size: size.map_or("lines of any length".into(), |s| format!("{s} B each")),
            asked,
        }),
    }
}

pub(crate) fn get(session: &Session, flow: &str) -> Result<proto::Flow, ClientError> {
    let request = proto::GetFlowRequest { name: flow.to_owned() };
    session.call(|mut c| async move { c.get_flow(request).await })
}
