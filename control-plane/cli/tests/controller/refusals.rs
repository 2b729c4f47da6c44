//! What bad input gets: a reason that names the object, and nothing changed.

use tonic::Code;
use zsr_api::controller as proto;

use super::rig::{Rig, shuffle};

const RINGS: &str = "
hosts:
  - name: h1
    rings:
      - {name: out, role: producer, item_size: 64, size: 4096, owner: alice}
      - {name: wide, role: producer, item_size: 128, size: 4096, owner: alice}
      - {name: in, role: consumer, item_size: 64, size: 4096, owner: alice}
  - name: h2
    rings:
      - {name: in, role: consumer, item_size: 64, size: 4096, owner: alice}
      - {name: bobs, role: consumer, item_size: 64, size: 4096, owner: bob}
  - {name: h3, mtu: 2048}
flows: []
";

fn named(flow: &str, producer: &str, consumer: &str) -> proto::CreateFlowRequest {
    let member = |ring: &str| proto::Member {
        host: ring.split('.').next().expect("a host").into(),
        rings: if ring.contains('.') { vec![ring.into()] } else { Vec::new() },
        ..Default::default()
    };
    proto::CreateFlowRequest {
        name: flow.into(),
        producers: vec![member(producer)],
        consumers: vec![member(consumer)],
        ..Default::default()
    }
}

#[test]
fn refusals_name_the_object_and_change_nothing() {
    let rig = Rig::of(RINGS);
    let (controller, mut client) = rig.control();
    let busy = rig.runtime.block_on(client.create_flow(named("busy", "h1.out", "h2.in")));
    assert_eq!(busy.expect("created").into_inner().item_size, 64);
    let before = (rig.held(), rig.rings(), controller.list_flows());

    let with = |change: &dyn Fn(&mut proto::CreateFlowRequest)| {
        let mut request = shuffle("new", &["h1"], &["h2"]);
        change(&mut request);
        request
    };
    let settings = |settings: proto::Settings| with(&|r| r.settings = Some(settings));
    let cases = [
        (shuffle("busy", &["h1"], &["h2"]), Code::AlreadyExists, "flow `busy` exists"),
        (shuffle("h1", &["h1"], &["h2"]), Code::AlreadyExists, "flow 'h1' has the name of a host or switch"),
        (shuffle("", &["h1"], &["h2"]), Code::InvalidArgument, "can't be a flow's name"),
        (shuffle("a/b", &["h1"], &["h2"]), Code::InvalidArgument, "`a/b`"),
        (shuffle("new", &["h1", "h1"], &["h2"]), Code::AlreadyExists, "has a member `h1` already"),
        (shuffle("new", &["h1"], &["h1"]), Code::AlreadyExists, "has a member `h1` already"),
        (shuffle("new", &["h9"], &["h2"]), Code::InvalidArgument, "no host is called `h9`"),
        (shuffle("new", &[], &["h2"]), Code::InvalidArgument, "flow 'new' has no producers"),
        (shuffle("new", &["h1"], &["h3"]), Code::InvalidArgument, "host 'h3' has 2048"),
        (
            named("new", "h1.out", "h2"),
            Code::FailedPrecondition,
            "ring 'h1.out' is already used by flow 'busy'",
        ),
        (named("new", "h1.wide", "h2.in"), Code::FailedPrecondition, "ring 'h2.in' is already used"),
        (named("new", "h1", "h1.in"), Code::AlreadyExists, "member `h1`"),
        (named("new", "h1.wide", "h2.bobs"), Code::InvalidArgument, "items of 64 bytes"),
        (named("new", "h1.none", "h2"), Code::InvalidArgument, "declares no ring `h1.none`"),
        (
            named("new", "h2.bobs", "h1"),
            Code::InvalidArgument,
            "uses the consumer ring 'h2.bobs' as producer ring",
        ),
        (with(&|r| r.item_size = 100), Code::InvalidArgument, "'item_size' of flow 'new' is 100 bytes"),
        (with(&|r| r.ring_size = 32), Code::InvalidArgument, "only 32 bytes of room"),
        (
            with(&|r| r.routing = "sideways".into()),
            Code::InvalidArgument,
            "routing of flow 'new' is 'sideways'",
        ),
        (with(&|r| r.routing = "range(1, [5, 9])".into()), Code::InvalidArgument, "2 bounds for 1 consumers"),
        (with(&|r| r.kind = 77), Code::InvalidArgument, "kind 77"),
        (
            settings(proto::Settings { weight: Some(0), ..Default::default() }),
            Code::InvalidArgument,
            "'weight' of flow 'new' is 0",
        ),
        (
            settings(proto::Settings { max_batch: Some(63), ..Default::default() }),
            Code::InvalidArgument,
            "max_batch",
        ),
        (settings(proto::Settings { hint: Some(9), ..Default::default() }), Code::InvalidArgument, "hint 9"),
    ];
    for (request, code, part) in cases {
        let refused = rig.runtime.block_on(client.create_flow(request.clone())).expect_err("refused");
        assert_eq!(refused.code(), code, "{request:?}: {refused}");
        assert!(refused.message().contains(part), "{part:?} is missing in {:?}", refused.message());
    }

    // A group whose rings differ in size: the switch writes to one address in all of them.
    let mut group = named("group", "h2", "h1.in");
    group.kind = proto::FlowKind::Replicate.into();
    group.consumers.push(proto::Member { name: "second".into(), host: "h2".into(), ..Default::default() });
    let refused = rig.runtime.block_on(client.create_flow(group.clone())).expect_err("refused");
    assert_eq!(refused.code(), Code::InvalidArgument);
    let said = "flow 'group' replicates to ring 'h1.in' of 4 KiB and ring 'group.second' of 1 MiB: expected consumer rings of one size";
    assert!(refused.message().starts_with(said), "{refused}");

    // Rings of two owners.
    let mut mixed = named("new", "h1.out", "h2.bobs");
    mixed.producers[0] =
        proto::Member { host: "h1".into(), rings: vec!["h1.in".into()], ..Default::default() };
    mixed.consumers = vec![
        proto::Member { host: "h1".into(), rings: vec!["h1.in".into()], ..Default::default() },
        proto::Member { host: "h2".into(), rings: vec!["h2.bobs".into()], ..Default::default() },
    ];
    mixed.producers = vec![proto::Member { name: "p".into(), host: "h1".into(), ..Default::default() }];
    let refused = rig.runtime.block_on(client.create_flow(mixed)).expect_err("two owners");
    assert!(refused.message().contains("'bob'") && refused.message().contains("'alice'"), "{refused}");

    let member = |host: &str| Some(proto::Member { host: host.into(), ..Default::default() });
    let add = |flow: &str, host: &str| proto::AddMemberRequest { flow: flow.into(), member: member(host) };
    let remove = |flow: &str, member: &str| proto::RemoveMemberRequest {
        flow: flow.into(),
        member: member.into(),
        force: false,
        ..Default::default()
    };
    rig.runtime.block_on(async {
        let twice = client.add_producer(add("busy", "h1")).await.expect_err("it is there");
        assert!(twice.code() == Code::AlreadyExists && twice.message().contains("`h1`"), "{twice}");
        let nowhere = client.add_consumer(add("none", "h1")).await.expect_err("no flow");
        assert!(nowhere.code() == Code::NotFound && nowhere.message().contains("`none`"), "{nowhere}");
        let last = client.remove_member(remove("busy", "h1")).await.expect_err("the last one");
        assert!(
            last.code() == Code::FailedPrecondition && last.message().contains("last producer"),
            "{last}"
        );
        let nobody = client.remove_member(remove("busy", "h7")).await.expect_err("no member");
        assert!(nobody.code() == Code::NotFound && nobody.message().contains("`h7`"), "{nobody}");
        let settings = Some(proto::Settings { weight: Some(0), ..Default::default() });
        let set = client.set_flow(proto::SetFlowRequest { name: "busy".into(), settings }).await;
        assert!(set.expect_err("weight 0").message().contains("'weight' of flow 'busy' is 0"));
    });

    // What an agent refuses is taken back at the others.
    let huge =
        proto::CreateFlowRequest { ring_size: 1 << 30, item_size: 64, ..shuffle("new", &["h1"], &["h2"]) };
    rig.agents[1]
        .create_ring(zsr_host_agent::agent::RingRequest::new("small.h2", zsr_ring::Role::Consumer, 64, 4096))
        .expect("a ring that nobody told the controller of");
    let clash = proto::CreateFlowRequest { ring_size: 4096, name: "small".into(), ..huge };
    let refused = rig.runtime.block_on(client.create_flow(clash)).expect_err("taken at the agent");
    assert!(refused.code() == Code::AlreadyExists && refused.message().contains("`small.h2`"), "{refused}");
    rig.agents[1].destroy_ring("small.h2").expect("there");

    assert_eq!((rig.held(), rig.rings(), controller.list_flows()), before);
    let system =
        rig.runtime.block_on(client.get_system(proto::GetSystemRequest {})).expect("there").into_inner();
    let switch = system.switch.expect("there");
    assert_eq!(
        (switch.workers, switch.producer_rings, switch.queue_pairs),
        (1, 1, 4),
        "numbers were given back"
    );
}

/// Its PCI device is one that no machine has.
const MEMORIES: &str = "
hosts:
  - h1
  - {name: h2, memory: 'pci:fffffffe:ff:1f.7:0'}
  - {name: h3, memory: 'gpu:0'}
  - {name: h4, memory: fpga-sim}
flows: []
";

#[test]
fn memory_that_a_machine_has_not_is_refused_and_flows_go_on() {
    let rig = Rig::of(MEMORIES);
    let (controller, mut client) = rig.control();
    rig.runtime.block_on(client.create_flow(shuffle("busy", &["h1"], &["h4"]))).expect("created");
    let rings = rig.agents[3].rings().expect("the agent runs");
    let memory = rings[0].ring.memory().describe();
    assert!(memory.contains("simulated PCIe bus"), "{memory}");
    let before = (rig.held(), rig.rings(), controller.list_flows());

    let refused = |answer: Result<tonic::Response<proto::Flow>, tonic::Status>, words: &[&str]| {
        let status = answer.map(|_| ()).expect_err("no such memory");
        assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
        words.iter().for_each(|w| assert!(status.message().contains(w), "`{}` lacks {w}", status.message()));
    };
    let device = ["host `h2`", "ring `new.h2`", "no PCI device fffffffe:ff:1f.7", "lspci"];
    let answer = rig.runtime.block_on(client.create_flow(shuffle("new", &["h1"], &["h2"])));
    refused(answer, &device);
    let answer = rig.runtime.block_on(client.create_flow(shuffle("new", &["h3"], &["h1"])));
    refused(answer, &["host `h3`", "`gpu:0`", "libcuda.so.1"]);
    let member = proto::Member { host: "h2".into(), ..Default::default() };
    let request = proto::AddMemberRequest { flow: "busy".into(), member: Some(member) };
    let answer = rig.runtime.block_on(client.add_consumer(request));
    refused(answer, &["host `h2`", "fffffffe:ff:1f.7"]);

    assert_eq!((rig.held(), rig.rings(), controller.list_flows()), before);
    rig.runtime.block_on(client.create_flow(shuffle("new", &["h1"], &["h4"]))).expect("all is well");
}

/// A host's rings need not be in one memory.
#[test]
fn a_member_says_where_its_rings_are() {
    let rig = Rig::new(3, "");
    let (controller, mut client) = rig.control();
    let on = |host: &str, memory: &str| proto::Member {
        host: host.into(),
        memory: memory.into(),
        ..Default::default()
    };
    let request = proto::CreateFlowRequest {
        producers: vec![on("h1", "fpga-sim")],
        consumers: vec![on("h2", "")],
        ..shuffle("f", &[], &[])
    };
    let flow = rig.runtime.block_on(client.create_flow(request)).expect("created").into_inner();
    assert_eq!(
        (flow.producers[0].rings[0].memory.as_str(), flow.consumers[0].rings[0].memory.as_str()),
        ("fpga-sim", "host")
    );
    let add = |member| proto::AddMemberRequest { flow: "f".into(), member: Some(member) };
    rig.runtime.block_on(client.add_consumer(add(on("h3", "fpga-sim")))).expect("added");

    let described = |host: usize| -> Vec<(String, bool)> {
        let rings = rig.agents[host].rings().expect("the agent runs");
        let simulated = |m: &str| m.contains("simulated PCIe bus");
        rings.iter().map(|r| (r.name.clone(), simulated(&r.ring.memory().describe()))).collect()
    };
    // The lane to the new consumer is where the producer's first one is.
    assert_eq!(described(0), [("f.h1.h2".into(), true), ("f.h1.h3".into(), true)]);
    assert_eq!((described(1), described(2)), (vec![("f.h2".into(), false)], vec![("f.h3".into(), true)]));

    let before = (rig.held(), controller.list_flows());
    let mut refused = |member, words: &[&str]| {
        let said =
            rig.runtime.block_on(client.add_producer(add(member))).expect_err("refused").message().to_owned();
        words.iter().for_each(|w| assert!(said.contains(w), "`{said}` lacks {w}"));
    };
    let more = |memory| proto::Member { name: "more".into(), ..on("h2", memory) };
    refused(more("gpu"), &["flow `f`", "host `h2`", "'gpu' is no kind of memory", "gpu:N:host"]);
    refused(more("gpu:0"), &["host `h2`", "ring `f.more.h2`", "`gpu:0`", "libcuda.so.1"]);
    let declared = proto::Member { rings: vec!["h2.out".into()], ..more("host") };
    refused(declared, &["`h2.out`", "write `memory:` there"]);
    assert_eq!((rig.held(), controller.list_flows()), before);
}

#[test]
fn a_second_controller_is_refused() {
    let rig = Rig::new(2, "");
    let (_controller, mut client) = rig.control();
    rig.runtime.block_on(client.create_flow(shuffle("f", &["h1"], &["h2"]))).expect("created");
    let before = rig.held();
    let refused = rig.try_start().map(|_| ()).expect_err("one is there").to_string();
    assert!(refused.contains("`s1`") && refused.contains("another controller"), "{refused}");
    assert_eq!(rig.held(), before);
    rig.runtime
        .block_on(client.create_flow(shuffle("g", &["h1"], &["h2"])))
        .expect("the first is none the worse");
}
