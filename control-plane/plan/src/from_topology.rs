//! The request for a flow that a topology declares.

use crate::messages;
use crate::settings;
use std::collections::HashSet;
use zsr_api::controller as proto;
use zsr_records::Schema;
use zsr_records::{Bound, KeyRef, Routing};
use zsr_topology::{Endpoint, Flow, Topology, default_schema};
use zsr_workload::input_columns;

/// The request for a flow of a topology.
pub fn create_flow_request(topology: &Topology, flow: &Flow) -> proto::CreateFlowRequest {
    // A host may be on both sides; the controller knows members by one name each.
    let mut taken = HashSet::new();
    let mut members = |endpoints: &[Endpoint]| -> Vec<proto::Member> {
        let all = endpoints.iter().map(|e| member(topology, flow, e));
        all.map(|m| proto::Member { name: unused(&mut taken, m.name), ..m }).collect()
    };
    let made = flow.producers.iter().chain(&flow.consumers).flat_map(|e| &e.rings).copied();
    let made = made.map(|r| &topology.rings[r]).find(|r| r.name.starts_with(&format!("{}.", flow.name)));
    proto::CreateFlowRequest {
        name: flow.name.clone(),
        kind: messages::kind(flow.kind).into(),
        producers: members(&flow.producers),
        consumers: members(&flow.consumers),
        lanes: flow.lanes as u32,
        item_size: flow.item_size,
        ring_size: made.map_or(0, |r| r.size),
        settings: Some(proto::Settings {
            // If the file does not say it, the caller that makes the flow chooses.
            doorbell: flow.doorbell_said.then_some(flow.settings.doorbell),
            ..settings::message(&flow.settings)
        }),
        // Only a shuffle has a routing.
        routing: if flow.kind.routes() { routing(&by_header(flow)) } else { String::new() },
        schema: schema(flow),
    }
}

/// `name`, or else that with `~2`, `~3` and so on.
fn unused(taken: &mut HashSet<String>, name: String) -> String {
    let more = (2..).map(|n: u32| format!("{name}~{n}"));
    let free = std::iter::once(name.clone()).chain(more).find(|n| !taken.contains(n)).unwrap_or(name);
    taken.insert(free.clone());
    free
}

fn member(topology: &Topology, flow: &Flow, endpoint: &Endpoint) -> proto::Member {
    let own = format!("{}.", flow.name);
    let rings = || endpoint.rings.iter().map(|r| &topology.rings[*r]);
    let made = rings().find(|r| r.name.starts_with(&own));
    proto::Member {
        name: endpoint.name.clone(),
        host: topology.hosts[endpoint.host].name.clone(),
        rings: rings().map(|r| r.name.clone()).filter(|n| !n.starts_with(&own)).collect(),
        memory: made.and_then(|r| r.memory).map(|m| m.to_string()).unwrap_or_default(),
    }
}

/// The schema that a flow's file declares. The default schema of a workload is left out, as programs bring their own
/// records.
fn schema(flow: &Flow) -> String {
    match flow.schema == default_schema(&flow.workload) {
        true => String::new(),
        false => Schema::of(&flow.schema).to_string(),
    }
}

/// The routing, with a column of the input's header replaced by its number: programs bring their own records, but in
/// these columns. If the header can't be read, the name stays, and the controller refuses it.
fn by_header(flow: &Flow) -> Routing {
    let columns = input_columns(&flow.workload);
    match (flow.routing.key(), columns) {
        (KeyRef::Name(name), Some(columns)) => match columns.iter().position(|column| column == name) {
            Some(index) => flow.routing.with_key(KeyRef::Number(index as u32 + 1)),
            None => flow.routing.clone(),
        },
        _ => flow.routing.clone(),
    }
}

/// The text of a routing function.
fn routing(routing: &Routing) -> String {
    let key = |k: &KeyRef| match k {
        KeyRef::Whole => "*".to_owned(),
        KeyRef::Name(name) => name.clone(),
        KeyRef::Number(n) => n.to_string(),
        KeyRef::Bytes { offset, length } => format!("{offset}:{length}"),
    };
    match routing {
        Routing::Hash(k) => format!("hash({})", key(k)),
        Routing::Explicit(KeyRef::Whole) => "round-robin".into(),
        Routing::Explicit(k) => format!("explicit({})", key(k)),
        Routing::Range { key: k, bounds } => {
            let bounds: Vec<String> = bounds
                .iter()
                .map(|b| match b {
                    Bound::Int(n) => n.to_string(),
                    Bound::Text(t) => t.clone(),
                })
                .collect();
            format!("range({}, [{}])", key(k), bounds.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zsr_records::parse_routing;

    #[test]
    fn routing_is_written_as_it_is_read() {
        for text in ["hash(*)", "hash(3)", "round-robin", "explicit(2)", "range(1, [5, 9])", "hash(0:8)"] {
            let parsed = parse_routing(text).unwrap();
            assert_eq!(routing(&parsed), text);
            assert_eq!(parse_routing(&routing(&parsed)), Some(parsed));
        }
    }

    #[test]
    fn a_host_on_both_sides_is_two_members() {
        let text = "hosts: [h1, h2]\nflows:\n  - {name: f, producers: [h1, h2], consumers: [h2, h1]}\n";
        let t = Topology::parse("t.yaml".as_ref(), text.as_bytes()).unwrap();
        let request = create_flow_request(&t, &t.flows[0]);
        let names = |members: &[proto::Member]| members.iter().map(|m| m.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&request.producers), ["h1", "h2"]);
        assert_eq!(names(&request.consumers), ["h2~2", "h1~2"]);
    }

    #[test]
    fn a_topologys_flow_is_asked_for_as_it_stands() {
        let text = "
hosts:
  - {name: h1, rings: [{name: out, role: producer, item_size: 64, size: 4096}]}
  - h2
flows:
  - {name: f, producers: [h1.out], consumers: [{host: h2, memory: 'gpu:0:host'}], ring_size: 8KiB, weight: 3, kind: replicate}
workload: {kind: synthetic}
";
        let t = Topology::parse("t.yaml".as_ref(), text.as_bytes()).unwrap();
        let request = create_flow_request(&t, &t.flows[0]);
        assert_eq!(request.producers[0].rings, ["h1.out"]);
        assert_eq!(
            (request.producers[0].memory.as_str(), request.consumers[0].memory.as_str()),
            ("", "gpu:0:host")
        );
        assert!(request.consumers[0].rings.is_empty());
        assert_eq!(
            (request.item_size, request.ring_size, request.kind()),
            (64, 8192, proto::FlowKind::Replicate)
        );
        assert_eq!(request.settings.unwrap().weight, Some(3));
    }
}
