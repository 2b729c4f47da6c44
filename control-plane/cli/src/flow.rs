//! `zsr flow` and `zsr ring`: one call to the controller each.

use super::live_args::{CreateArgs, FlowArgs, FlowCommand, Kind, RingArgs, RingCommand};
use super::{FAILED, OK, USAGE, complain, json, print, tables};
use tonic::Code;
use zsr::ClientError;
use zsr_api::controller as proto;
use zsr_topology::MemoryKind;

/// `zsr flow ...`.
pub(super) fn flow(args: &FlowArgs) -> u8 {
    finish(carry_out(args))
}

/// `zsr ring ...`.
pub(super) fn ring(args: &RingArgs) -> u8 {
    let RingCommand::List { flow } = &args.command;
    let rings = || {
        let (session, room) = (args.contact.open()?, args.wide.room());
        let request = proto::ListRingsRequest { flow: flow.clone().unwrap_or_default() };
        let rings = session.call(|mut c| async move { c.list_rings(request).await })?.rings;
        Ok(if args.json.json {
            json::lines(rings.iter().map(json::ring))
        } else {
            tables::rings(&rings, room)
        })
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
    let (json, room) = (args.json.json, args.wide.room());
    let shown =
        |flow: proto::Flow| if json { json::one(&json::flow(&flow)) } else { tables::flow(&flow, room) };
    Ok(match &args.command {
        FlowCommand::Create(create) => {
            let request = request(create)
                .map_err(|message| ClientError::Refused { message, code: Code::InvalidArgument })?;
            shown(session.change(|mut c| async move { c.create_flow(request).await })?)
        }
        FlowCommand::List => {
            let request = proto::ListFlowsRequest {};
            let flows = session.call(|mut c| async move { c.list_flows(request).await })?.flows;
            if json { json::lines(flows.iter().map(json::flow)) } else { tables::flows(&flows, room) }
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
        FlowCommand::AddProducer { name, member, memory } => {
            let request = added(name, member, memory.as_ref());
            shown(session.change(|mut c| async move { c.add_producer(request).await })?)
        }
        FlowCommand::AddConsumer { name, member, memory } => {
            let request = added(name, member, memory.as_ref());
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

fn added(flow: &str, text: &str, memory: Option<&MemoryKind>) -> proto::AddMemberRequest {
    let memory = memory.map(|m| m.to_string()).unwrap_or_default();
    proto::AddMemberRequest { flow: flow.to_owned(), member: Some(proto::Member { memory, ..member(text) }) }
}

/// The request, or which `--memory` is for nobody.
fn request(create: &CreateArgs) -> Result<proto::CreateFlowRequest, String> {
    let mut unused: Vec<&str> = create.memory.iter().map(|(of, _)| of.as_str()).collect();
    let mut members = |texts: &[String]| -> Vec<proto::Member> {
        let with_memory = |text: &String| {
            let m = member(text);
            let called = |of: &str| of == m.name || of == m.host;
            unused.retain(|of| !called(of));
            // A member's own name goes before its host's.
            let named = create.memory.iter().filter(|(of, _)| called(of)).max_by_key(|(of, _)| *of == m.name);
            proto::Member { memory: named.map(|(_, kind)| kind.to_string()).unwrap_or_default(), ..m }
        };
        texts.iter().map(with_memory).collect()
    };
    let (producers, consumers) = (members(&create.producer), members(&create.consumer));
    if let Some(of) = unused.first() {
        return Err(format!(
            "--memory {of}=...: no member is called `{of}`, and none is on a host of that name"
        ));
    }
    Ok(proto::CreateFlowRequest {
        name: create.name.clone(),
        kind: match create.kind {
            Kind::Shuffle => proto::FlowKind::Shuffle.into(),
            Kind::LoadBalance => proto::FlowKind::LoadBalance.into(),
            Kind::Replicate => proto::FlowKind::Replicate.into(),
        },
        producers,
        consumers,
        item_size: create.item_size.unwrap_or(0),
        ring_size: create.ring_size.unwrap_or(0),
        lanes: create.lanes.unwrap_or(0),
        settings: Some(create.settings.message()),
        routing: create.routing.clone().unwrap_or_default(),
        schema: create.schema.clone().unwrap_or_default(),
    })
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
    proto::Member { name: name.to_owned(), host: host.to_owned(), rings, memory: String::new() }
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

    #[test]
    fn memory_is_a_members_or_a_hosts() {
        use clap::Parser;
        #[derive(Parser)]
        struct Line {
            #[command(flatten)]
            create: CreateArgs,
        }
        let asked = |memory: &[&str]| {
            let options = memory.iter().flat_map(|m| ["--memory", m]);
            let line = ["create", "f", "-p", "h1", "b@h1", "-c", "h2"].into_iter().chain(options);
            let request = request(&Line::try_parse_from(line).map_err(|e| e.to_string())?.create)?;
            let all = request.producers.into_iter().chain(request.consumers);
            Ok::<_, String>(all.map(|m| m.memory).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(asked(&["h1=gpu:0:host"]).unwrap(), "gpu:0:host gpu:0:host ");
        assert_eq!(asked(&["h2=fpga-sim", "b=host", "h1=gpu:0:host"]).unwrap(), "gpu:0:host host fpga-sim");
        assert!(asked(&["h3=host"]).unwrap_err().contains("no member is called `h3`"));
        assert!(asked(&["h1"]).unwrap_err().contains("MEMBER=KIND"));
        assert!(asked(&["h1=gpu"]).unwrap_err().contains("'gpu' is no kind of memory"));
    }
}
