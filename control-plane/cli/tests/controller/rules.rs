//! `zsr check` and the controller have one mind about flows: each wrong flow is given to both, each sound one, too.

use zsr_api::controller as proto;
use zsr_plan::from_topology::create_flow_request;
use zsr_topology::Topology;

use super::rig::Rig;

const HOSTS: &str = "
hosts:
  - name: h1
    rings:
      - {name: out, role: producer, item_size: 64, size: 4096, owner: alice}
      - {name: wide, role: producer, item_size: 128, size: 4096, owner: alice}
  - name: h2
    rings:
      - {name: in, role: consumer, item_size: 64, size: 4096, owner: alice}
      - {name: bobs, role: consumer, item_size: 64, size: 4096, owner: bob}
  - {name: h3, mtu: 2048}
  - h4
";

/// What a client asks for, as the topology's keys say it.
fn request(flow: &str) -> proto::CreateFlowRequest {
    let mut request = proto::CreateFlowRequest { name: "f".into(), ..Default::default() };
    let mut settings = proto::Settings::default();
    let members = |list: &str| -> Vec<proto::Member> {
        let list = list.trim_matches(['[', ']']).split(", ").filter(|m| !m.is_empty());
        let mut count = 0;
        let member = |text: &str| {
            count += 1;
            let (host, rings) = match text.split_once('.') {
                Some((host, _)) => (host, vec![text.to_owned()]),
                None => (text, Vec::new()),
            };
            proto::Member {
                name: format!("m{count}-{}", text.replace('.', "-")),
                host: host.into(),
                rings,
                ..Default::default()
            }
        };
        list.map(member).collect()
    };
    for line in flow.lines() {
        let (key, value) = line.split_once(": ").expect("a key and a value");
        let number = || value.parse::<u32>().expect("a number");
        let us = || Some(value.strip_suffix("us").expect("a time").parse().expect("a number"));
        match key {
            "name" => request.name = value.into(),
            "producers" => request.producers = members(value),
            "consumers" => {
                request.consumers = members(value);
                request.consumers.iter_mut().for_each(|m| m.name = format!("c{}", m.name));
            }
            "kind" => {
                request.kind = match value {
                    "replicate" => proto::FlowKind::Replicate.into(),
                    "load-balance" => proto::FlowKind::LoadBalance.into(),
                    _ => proto::FlowKind::Shuffle.into(),
                }
            }
            "routing" => request.routing = value.into(),
            "schema" => request.schema = value.trim_matches(['{', '}']).into(),
            "item_size" => request.item_size = number(),
            "ring_size" => request.ring_size = number(),
            "weight" => settings.weight = Some(number()),
            "max_batch" => settings.max_batch = Some(number()),
            "poll_interval" => settings.poll_interval_us = us(),
            "poll_timeout" => settings.poll_timeout_us = us(),
            "rto" => settings.rto_us = us(),
            "dead_after" => settings.dead_after_us = us(),
            "rate_cap" => {
                let kbit: u64 = value.strip_suffix("Kbit").expect("a rate").parse().expect("a number");
                settings.rate_cap_bps = Some(kbit * 1000);
            }
            other => panic!("{other} is no key here"),
        }
    }
    request.settings = Some(settings);
    request
}

/// What `zsr check` says of the flow.
fn checked(flow: &str) -> Result<Topology, String> {
    let flow = flow.replace('\n', "\n    ");
    let flows = format!("flows:\n  - {flow}\nworkload: {{kind: file, path: x, format: delimited}}\n");
    Topology::parse("t.yaml".as_ref(), format!("{HOSTS}{flows}").as_bytes()).map_err(|e| e.to_string())
}

const SOUND: &str = "name: f\nproducers: [h1]\nconsumers: [h2, h4]";

/// `SOUND` with other lines for its keys, and more.
fn with(lines: &str) -> String {
    let key = |line: &str| line.split(": ").next().map(str::to_owned);
    let stays = SOUND.lines().filter(|line| lines.lines().all(|other| key(other) != key(line)));
    stays.chain(lines.lines()).collect::<Vec<_>>().join("\n")
}

#[test]
fn wrong_flows_are_refused_by_both_in_the_same_words() {
    let rig = Rig::of(&format!("{HOSTS}flows: []\n"));
    let (_controller, mut client) = rig.control();
    let wide: Vec<String> = (0..800).map(|n| format!("column_number_{n}: text")).collect();
    let many = |n: usize| vec!["h2"; n].join(", ");
    let cases = [
        ("name: h4".into(), "flow 'h4' has the name of a host or switch"),
        ("name: s1".into(), "flow 's1' has the name of a host or switch"),
        ("producers: []".into(), "flow 'f' has no producers"),
        ("consumers: []".into(), "flow 'f' has no consumers"),
        ("consumers: [h2, h3]".into(), "mismatched MTUs in flow 'f': host 'h3' has 2048, the others 1024"),
        (format!("kind: replicate\nconsumers: [{}]", many(39)), "flow 'f' is a replicate with 39 consumers"),
        ("kind: replicate\nrouting: hash(1)".into(), "flow 'f' is a replicate: its items are not routed"),
        ("kind: load-balance\nrouting: round-robin".into(), "its items are not routed"),
        ("routing: hash(foo)".into(), "routing of flow 'f': column 'foo' by name, but"),
        (
            "routing: hash(foo)\nschema: {id: u64, v: u32}".into(),
            "routing of flow 'f': there is no column 'foo'",
        ),
        ("routing: hash(3)\nschema: {id: u64, v: text}".into(), "routing of flow 'f': there is no column 3"),
        ("routing: range(1, [5, 9])".into(), "routing of flow 'f': 2 bounds for 2 consumers"),
        (
            "consumers: [h2, h4, h1]\nrouting: range(1, [9, 5])".into(),
            "routing of flow 'f': the bounds don't ascend",
        ),
        ("routing: range(v, [1])\nschema: {id: text, v: f32}".into(), "a column with fractions"),
        (
            "routing: explicit(id)\nschema: {id: text, v: f32}".into(),
            "the target column holds no whole numbers",
        ),
        (
            "schema: {note: bytes(100)}\nitem_size: 128".into(),
            "tuples of 100 bytes don't fit in the 128-byte items of flow 'f'",
        ),
        (format!("schema: {{{}}}", wide.join(", ")), "the schema of flow 'f' has"),
        ("item_size: 100".into(), "'item_size' of flow 'f' is 100 bytes, which is no power of two"),
        ("item_size: 2".into(), "'item_size' of flow 'f' is 2 B, which is too small"),
        ("item_size: 2097152".into(), "'item_size' of flow 'f' is 2 MiB, which is too big"),
        ("ring_size: 100".into(), "'ring_size' of flow 'f' is 100 bytes, which is no power of two"),
        ("item_size: 128\nring_size: 64".into(), "flow 'f' has items of 128 bytes but only 64 bytes of room"),
        ("max_batch: 100".into(), "max_batch of flow 'f': 100 bytes hold no whole item"),
        ("max_batch: 33000".into(), "max_batch of flow 'f': 33000 bytes are no multiple of the item size"),
        ("weight: 0".into(), "'weight' of flow 'f' is 0, which is too small"),
        ("weight: 1001".into(), "'weight' of flow 'f' is 1001, which is too big"),
        ("rate_cap: 7Kbit".into(), "rate_cap of flow 'f' is 875 bytes per second"),
        ("rate_cap: 9000000000Kbit".into(), "rate_cap of flow 'f' is 1125000000000 bytes per second"),
        ("poll_interval: 11000000us".into(), "'poll_interval' of flow 'f' is 11s, which is too big"),
        ("poll_timeout: 61000000us".into(), "'poll_timeout' of flow 'f' is 61s, which is too big"),
        ("rto: 0us".into(), "'rto' of flow 'f' is 0ns, which is too small"),
        ("dead_after: 3601000000us".into(), "'dead_after' of flow 'f' is 3601s, which is too big"),
        ("producers: [h1.out]".into(), "flow 'f' has 1 ring here for producer 'h1'"),
        (
            "producers: [h2.in]\nconsumers: [h4]".into(),
            "flow 'f' uses the consumer ring 'h2.in' as producer ring",
        ),
        ("producers: [h1.wide]\nconsumers: [h2.in]".into(), "items of 64 bytes, flow 'f' of 128"),
        (
            "producers: [h1.out]\nconsumers: [h2.bobs]".into(),
            "ring 'h2.bobs' belongs to 'bob', the others of flow 'f' to 'alice'",
        ),
        ("kind: load-balance\nproducers: [h1.out, h1.out]".into(), "flow 'f' uses ring 'h1.out' twice"),
    ];
    for (lines, words) in cases {
        let flow = with(&lines);
        let check = checked(&flow).err().unwrap_or_else(|| panic!("zsr check takes {flow}"));
        assert!(check.contains(words), "zsr check of {flow}:\n{check}\nlacks: {words}");
        assert!(check.contains("t.yaml:"), "{check}");
        let created = rig.runtime.block_on(client.create_flow(request(&flow)));
        let refused = created.err().unwrap_or_else(|| panic!("zsr flow create takes {flow}"));
        // What a topology's words say of its file, they say of a schema here.
        assert!(refused.message().contains(words), "zsr flow create of {flow}:\n{refused}\nlacks: {words}");
    }
    assert!(rig.is_clean());
}

#[test]
fn sound_flows_are_taken_by_both() {
    let rig = Rig::of(&format!("{HOSTS}flows: []\n"));
    let (_controller, mut client) = rig.control();
    let many = |n: usize| vec!["h2"; n].join(", ");
    for lines in [
        String::new(),
        format!("kind: replicate\nconsumers: [{}]", many(32)),
        "kind: load-balance".into(),
        "routing: hash(id)\nschema: {id: u64, note: text}".into(),
        "routing: range(v, [10])\nschema: {id: u64, v: i32}".into(),
        "routing: range(1, [m])".into(),
        "routing: hash(2)".into(),
        "routing: round-robin".into(),
        "weight: 1000\nrate_cap: 8000000000Kbit\nmax_batch: 4194304\nrto: 60000000us\ndead_after: 3600000000us".into(),
        "rate_cap: 8Kbit\nitem_size: 4\nring_size: 4\nmax_batch: 4\npoll_interval: 10000000us".into(),
        "producers: [h1.out]\nconsumers: [h2.in]".into(),
    ] {
        let flow = with(&lines);
        let topology = checked(&flow).unwrap_or_else(|e| panic!("zsr check of {flow}: {e}"));
        // As it stands, and as zsr up asks for it.
        for request in [request(&flow), create_flow_request(&topology, &topology.flows[0])] {
            let name = request.name.clone();
            rig.runtime.block_on(client.create_flow(request.clone())).unwrap_or_else(|e| panic!("{request:?}: {e}"));
            let delete = proto::DeleteFlowRequest { name, force: true };
            rig.runtime.block_on(client.delete_flow(delete)).expect("deleted");
        }
    }
}
