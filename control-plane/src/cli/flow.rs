//! `zsr flow` and `zsr ring`: one call to the controller each.

use super::live_args::{CreateArgs, FlowArgs, FlowCommand, Kind, RingArgs, RingCommand};
use super::{FAILED, OK, USAGE, complain, json, print, tables};
use tonic::Code;
use zsr::ClientError;
use zsr_api::controller as proto;

/// `zsr flow ...`.
pub(super) fn flow(args: &FlowArgs) -> u8 {
    finish(carry_out(args))
}

/// `zsr ring ...`.
pub(super) fn ring(args: &RingArgs) -> u8 {
    let RingCommand::List { flow } = &args.command;
    let rings = || {
        let session = args.contact.open()?;
        let request = proto::ListRingsRequest { flow: flow.clone().unwrap_or_default() };
        let rings = session.call(|mut c| async move { c.list_rings(request).await })?.rings;
        Ok(if args.json.json { json::lines(rings.iter().map(json::ring)) } else { tables::rings(&rings) })
    };
    finish(rings())
}

/// Prints a result, or why there is none.
pub(super) fn finish(result: Result<String, ClientError>) -> u8 {
    match result {
        Ok(text) => {
            print(&text);
            OK
        }
        Err(e) => {
            complain(format_args!("error: {e}"));
            match e {
                ClientError::Refused { code: Code::InvalidArgument, .. } => USAGE,
                _ => FAILED,
            }
        }
    }
}

fn carry_out(args: &FlowArgs) -> Result<String, ClientError> {
    let session = args.contact.open()?;
    let json = args.json.json;
    let shown = |flow: proto::Flow| if json { json::one(&json::flow(&flow)) } else { tables::flow(&flow) };
    Ok(match &args.command {
        FlowCommand::Create(create) => {
            let request = request(create);
            shown(session.change(|mut c| async move { c.create_flow(request).await })?)
        }
        FlowCommand::List => {
            let request = proto::ListFlowsRequest {};
            let flows = session.call(|mut c| async move { c.list_flows(request).await })?.flows;
            if json { json::lines(flows.iter().map(json::flow)) } else { tables::flows(&flows) }
        }
        FlowCommand::Show { name } => {
            let request = proto::GetFlowRequest { name: name.clone() };
            shown(session.call(|mut c| async move { c.get_flow(request).await })?)
        }
        FlowCommand::Set { name, settings: changed } => {
            let settings = changed.message();
            if settings == proto::Settings::default() {
                let message =
                    "name at least one setting to change (zsr flow set --help lists them)".to_owned();
                return Err(ClientError::Refused { message, code: Code::InvalidArgument });
            }
            let request = proto::SetFlowRequest { name: name.clone(), settings: Some(settings) };
            shown(session.change(|mut c| async move { c.set_flow(request).await })?)
        }
        FlowCommand::AddProducer { name, member } => {
            let request = proto::AddMemberRequest { flow: name.clone(), member: Some(self::member(member)) };
            shown(session.change(|mut c| async move { c.add_producer(request).await })?)
        }
        FlowCommand::AddConsumer { name, member } => {
            let request = proto::AddMemberRequest { flow: name.clone(), member: Some(self::member(member)) };
            shown(session.change(|mut c| async move { c.add_consumer(request).await })?)
        }
        FlowCommand::RemoveMember { name, members, force } => {
            let mut others = members.clone();
            let (flow, member, force) = (name.clone(), others.remove(0), *force);
            let request = proto::RemoveMemberRequest { flow, member, force, others };
            shown(session.change(|mut c| async move { c.remove_member(request).await })?)
        }
        FlowCommand::Delete { name, force } => {
            let request = proto::DeleteFlowRequest { name: name.clone(), force: *force };
            session.change(|mut c| async move { c.delete_flow(request).await })?;
            if json { json::one(&serde_json::json!({"deleted": name})) } else { String::new() }
        }
    })
}

fn request(create: &CreateArgs) -> proto::CreateFlowRequest {
    let members = |texts: &[String]| texts.iter().map(|t| member(t)).collect();
    proto::CreateFlowRequest {
        name: create.name.clone(),
        kind: match create.kind {
            Kind::Shuffle => proto::FlowKind::Shuffle.into(),
            Kind::LoadBalance => proto::FlowKind::LoadBalance.into(),
            Kind::Replicate => proto::FlowKind::Replicate.into(),
        },
        producers: members(&create.producer),
        consumers: members(&create.consumer),
        item_size: create.item_size.unwrap_or(0),
        ring_size: create.ring_size.unwrap_or(0),
        settings: Some(create.settings.message()),
        routing: create.routing.clone().unwrap_or_default(),
        schema: create.schema.clone().unwrap_or_default(),
    }
}

/// `HOST`, `NAME@HOST`, `HOST.RING,HOST.RING`, `NAME@HOST.RING`.
fn member(text: &str) -> proto::Member {
    let (name, place) = text.split_once('@').unwrap_or(("", text));
    let rings: Vec<String> = if place.contains('.') {
        place.split(',').map(|r| r.trim().to_owned()).collect()
    } else {
        Vec::new()
    };
    let host = rings.first().map_or(place, |r| r.split('.').next().unwrap_or(r));
    proto::Member { name: name.to_owned(), host: host.to_owned(), rings }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_as_they_are_written() {
        let of = |text| {
            let m = member(text);
            (m.name, m.host, m.rings.join(" "))
        };
        assert_eq!(of("h1"), (String::new(), "h1".into(), String::new()));
        assert_eq!(of("a@h1"), ("a".into(), "h1".into(), String::new()));
        assert_eq!(of("h1.out"), (String::new(), "h1".into(), "h1.out".into()));
        assert_eq!(of("a@h1.x,h1.y"), ("a".into(), "h1".into(), "h1.x h1.y".into()));
    }
}
