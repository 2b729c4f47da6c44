//! Reports of the data plane.

use super::info::{Filter, Info};
use super::proto as bf;
use crate::ClientError;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use zsr_plan::dataplane::report::FIELDS;
use zsr_plan::p4::schema::number;

/// Reports of one switch, as they come. Servers acknowledge them themselves.
pub struct BfrtDigests {
    pub(super) name: String,
    pub(super) report: Option<Filter>,
    pub(super) responses: tonic::Streaming<bf::StreamMessageResponse>,
    /// The session ends with the last holder of its stream.
    pub(super) _requests: mpsc::Sender<bf::StreamMessageRequest>,
}

impl BfrtDigests {
    /// The next list: its messages, each with its members in the order of `FIELDS`.
    pub async fn next(&mut self) -> Result<Vec<Vec<u64>>, ClientError> {
        while let Some(message) = self.responses.next().await {
            let message = message.map_err(|e| ClientError::Refused {
                switch: self.name.clone(),
                what: "the stream".into(),
                message: super::client::explain(&e),
            })?;
            let Some(bf::stream_message_response::Update::Digest(list)) = message.update else { continue };
            if let Some(report) = self.report.as_ref().filter(|r| r.id == list.digest_id) {
                return Ok(list.data.iter().map(|data| members(report, data)).collect());
            }
        }
        Err(ClientError::Lost { switch: self.name.clone() })
    }
}

fn members(report: &Filter, data: &bf::TableData) -> Vec<u64> {
    let member = |name: &str| {
        let id = report.fields.iter().find(|f| f.name == name)?.id;
        match data.fields.iter().find(|f| f.field_id == id)?.value.as_ref()? {
            bf::data_field::Value::Stream(bytes) => Some(number(bytes)),
            bf::data_field::Value::BoolVal(is) => Some(u64::from(*is)),
            _ => None,
        }
    };
    // A message that lacks one of the fields is no report; its length shows that.
    FIELDS.iter().map_while(|name| member(name)).collect()
}

/// The digest of reports.
pub(super) fn filter(info: &Info) -> Option<Filter> {
    super::schema::report_of(info).cloned()
}
