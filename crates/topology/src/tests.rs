//! Every kind of error with its place, the defaults, and that no input stops the reader.

use std::path::Path;

use proptest::prelude::*;
use zsr_records::{FileFormat, KeyRef, Routing};

use super::*;

const BASE: &str = "\
switches:
  - name: s1
hosts:
  - name: h1
    rings:
      - {name: out, role: producer, item_size: 4KiB, size: 64KiB}
      - {name: odd, role: producer, item_size: 2KiB, size: 64KiB}
  - name: h2
    rings:
      - {name: in, role: consumer, item_size: 4KiB, size: 64KiB}
links:
  - h1 -> s1:1
  - {from: h2, to: s1:2}
flows:
  - name: f
    producers: [h1.out]
    consumers: [h2.in]
workload: {kind: synthetic, items: 10}
";

fn parse(text: &str) -> Result<Topology, Diagnostics> {
    Topology::parse(Path::new("t.yaml"), text.as_bytes())
}

/// The places and messages of what is wrong with `text`.
fn errors(text: &str) -> Vec<(u32, u32, String)> {
    match parse(text) {
        Ok(_) => Vec::new(),
        Err(e) => e.list().iter().map(|d| (d.place.line, d.place.column, d.message.clone())).collect(),
    }
}

/// `BASE` with one text replaced has exactly one error, at this place, whose message contains `part`.
#[track_caller]
fn one_error(from: &str, to: &str, line: u32, column: u32, part: &str) {
    assert!(BASE.contains(from), "{from:?} is not in the base topology");
    let found = errors(&BASE.replacen(from, to, 1));
    assert_eq!(found.len(), 1, "{found:#?}");
    let (l, c, message) = &found[0];
    assert!(message.contains(part), "{message:?} lacks {part:?}");
    assert_eq!((*l, *c), (line, column), "{message}");
}

#[test]
fn a_link_has_a_latency_and_a_rate() {
    let text = BASE.replacen("to: s1:2", "to: s1:2, latency: 5us, rate: 100Gbit", 1);
    let t = parse(&text).unwrap_or_else(|e| panic!("{e}"));
    let (latency, rate) = (t.links[1].latency, t.links[1].rate);
    assert_eq!((latency, rate), (std::time::Duration::from_micros(5), Some(100_000_000_000)));
    assert!(t.links[0].is_plain() && !t.links[1].is_plain());
    // A chip's cables are what they are.
    let found = errors(
        "switches:\n  - {name: s1, kind: tofino, chip: tofino2, address: '127.0.0.1:50052'}\nhosts:\n  - {name: h1, nic: {interface: eth1}}\n\
         links:\n  - {from: h1, to: s1:1, latency: 1us}\nflows: []\n",
    );
    assert!(
        found.iter().any(|(line, _, e)| *line == 6 && e.contains("nobody can make faults, latency")),
        "{found:?}"
    );
}

#[test]
fn the_base_is_sound() {
    let t = parse(BASE).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(t.flows[0].producers[0].rings, [0]);
    assert_eq!(t.flows[0].consumers[0].rings, [2]);
    assert_eq!(t.flows[0].item_size, 4096);
    assert_eq!(t.links[1].port, 2);
    assert_ne!(t.hosts[0].ip, t.hosts[1].ip);
}

#[test]
fn unknown_keys() {
    one_error("item_size: 2KiB", "iten_size: 4KiB", 7, 37, "did you mean 'item_size'?");
    one_error("workload:", "worklode:", 18, 1, "unknown key 'worklode' in the topology");
    one_error("    producers: [h1.out]", "    producers: [h1.out]\n    zzz: 1", 17, 5, "unknown key 'zzz'");
}

#[test]
fn nodes() {
    let twin = "  - name: h2\n    rings:\n      - {name: in, role: consumer, item_size: 4KiB, size: 64KiB}\n";
    one_error("links:", "  - name: h1\nlinks:", 11, 11, "the name 'h1' is used twice");
    one_error(
        "links:",
        &format!("{}links:", twin.replace("h2", "9x")),
        11,
        11,
        "'name' of this host is '9x'",
    );
    one_error("links:", "  - {mtu: 1024}\nlinks:", 11, 6, "this host has no name");
    one_error("- name: s1", "- {name: s1, ip: 300.0.0.1}", 2, 20, "'ip' of switch 's1' is '300.0.0.1'");
    one_error("- name: s1", "- {name: s1, tick: 20}", 2, 22, "'tick' of switch 's1' is '20'");
    one_error("- name: s1", "- {name: s1, tick: 2s}", 2, 22, "too big");
    one_error("- name: s1", "- {name: s1, kind: sofd}", 2, 22, "did you mean 'soft'?");
    one_error("- name: s1", "- {name: s1, chip: tofino}", 2, 16, "goes with kind: tofino");
    one_error("- name: s1", "- {name: s1, cpu_port: 512}", 2, 26, "'cpu_port' of switch 's1' is '512'");
    one_error("- name: s1", "- {name: s1, cpu_port: 1}", 2, 26, "'cpu_port' of switch 's1' is '1'");
    one_error("- name: s1", "- {name: s1, p4runtime: {listen: x}}", 2, 36, "'listen' of p4runtime");
    one_error("- name: s1", "- {name: s1, p4runtime: {keep_alive: 1ms}}", 2, 40, "too small");
    one_error("- name: s1", "- {name: s1, p4runtime: {dead_after: 1ms}}", 2, 40, "too small");
    one_error(
        "- name: s1",
        "- {name: s1, p4runtime: {keep_primary: no}}",
        2,
        42,
        "'keep_primary' of p4runtime",
    );
    let bmv2 = "- {name: s1, kind: bmv2, p4runtime: {keep_alive: 1s}}";
    one_error("- name: s1", bmv2, 2, 40, "goes with kind: soft");
    one_error(
        "links:",
        "  - {name: h3, ip: 10.1.1.1}\n  - {name: h4, ip: 10.1.1.1}\nlinks:",
        12,
        20,
        "used twice",
    );
    let macs = "  - {name: h3, mac: '02:00:00:00:00:09'}\n  - {name: h4, mac: '02:00:00:00:00:09'}\nlinks:";
    one_error("links:", macs, 12, 21, "used twice");
    one_error("links:", "  - {name: h3, mac: '01:00:00:00:00:09'}\nlinks:", 11, 21, "'mac' of host 'h3'");
    one_error("links:", "  - {name: h3, mtu: 1500}\nlinks:", 11, 21, "'mtu' of host 'h3' is '1500'");
    let memory = |text: &str, part| {
        one_error("links:", &format!("  - {{name: h3, memory: {text}}}\nlinks:"), 11, 24, part);
    };
    memory("gpu", "'memory' of host 'h3' is 'gpu'");
    memory("'pci:0000:00:05.0:9'", "'memory' of host 'h3' is 'pci:0000:00:05.0:9'");
    memory("[host]", "'memory' of host 'h3' is a list");
    one_error("links:", "  - {name: h3, stand_in: 0}\nlinks:", 11, 26, "'stand_in' of host 'h3' is '0'");
}

#[test]
fn where_rings_are() {
    let text = "hosts: [h1, {name: h2, memory: 'gpu:1:host', stand_in: 7}, {name: h3, memory: 'pci:0000:00:05.0:2:wc'}]\nflows: []\n";
    let topology = parse(text).expect("a topology");
    let memory: Vec<String> = topology.hosts.iter().map(|h| h.memory.to_string()).collect();
    assert_eq!(memory, ["host", "gpu:1:host", "pci:0000:00:05.0:2:wc"]);
    assert_eq!(topology.hosts.iter().map(|h| h.stand_in).collect::<Vec<_>>(), [None, Some(7), None]);

    let text = "
hosts: [{name: h1, memory: fpga-sim, rings: [{name: in, role: consumer, memory: host}]}, h2]
flows:
  - {name: f, producers: [h1, {host: h2, endpoints: 2, memory: 'gpu:0:host'}], consumers: [h1.in]}
";
    let topology = parse(text).expect("a topology");
    let memory = |r: &Ring| (r.name.clone(), r.memory.map(|m| m.to_string()).unwrap_or_default());
    let gpu = |name: &str| (name.to_owned(), "gpu:0:host".to_owned());
    let rings: Vec<_> = topology.rings.iter().map(memory).collect();
    assert_eq!(rings[0], ("h1.in".into(), "host".into()));
    assert_eq!(rings[1..], [("f.h1.h1".into(), String::new()), gpu("f.h2~1.h1"), gpu("f.h2~2.h1")]);

    let bad = text.replace("'gpu:0:host'", "gpu");
    let said = parse(&bad).expect_err("no such memory").to_string();
    assert!(said.contains("'memory' of this entry of producers of flow 'f' is 'gpu'"), "{said}");
}

#[test]
fn peers() {
    let nic = |nic: &str| format!("  - {{name: h3, nic: {nic}}}\nlinks:");
    let bad_nic = |text: &str, column, part| one_error("links:", &nic(text), 11, column, part);
    bad_nic("vebs", 21, "did you mean 'verbs'?");
    bad_nic("{kind: soft, device: rxe0}", 34, "'device' of nic of host 'h3' goes with kind: verbs");
    bad_nic("{kind: soft, interface: a/b}", 45, "'interface' of nic of host 'h3' is 'a/b'");
    bad_nic("{kind: soft, interface: sixteen-letters-}", 45, "'sixteen-letters-'");
    one_error("links:", "  - {name: h3, nic: verbs, mac: '02:00:00:00:00:09'}\nlinks:", 11, 6, "and no ip");
    one_error("links:", "  - {name: h3, agent: 0.0.0.0:7000}\nlinks:", 11, 23, "'agent' of host 'h3'");
    let switch = |text: &str, column, part| {
        one_error("- name: s1", &format!("- {{name: s1, {text}}}"), 2, column, part)
    };
    switch("binary: /x", 16, "goes with kind: bmv2");
    switch(
        "kind: bmv2, binary: /x, address: '127.0.0.1:1', packets: '127.0.0.1:2'",
        28,
        "both a binary and an address",
    );
    switch("kind: bmv2, packets: '127.0.0.1:2'", 28, "goes with address");
    switch("kind: bmv2, address: '127.0.0.1'", 37, "'address' of switch 's1'");
    switch("tick: {interface: eth0}", 12, "has a timer of its own");
    let link = |text: &str, column, part| {
        one_error("{from: h2, to: s1:2}", &format!("{{from: h2, to: s1:2, {text}}}"), 13, column, part)
    };
    link("interface: eth1", 6, "the soft NIC of host 'h2' is at none");
    link("sockets: {switch: a}", 36, "no 'host'");
    link("interface: eth1, sockets: {switch: a, host: b}", 43, "both an interface and sockets");
    let on_eth1 = BASE.replacen("- name: h2", "- name: h2\n    nic: {interface: eth1}", 1);
    let found = errors(&on_eth1);
    assert!(found.len() == 1 && found[0].2.contains("leads to no port of the switch"), "{found:?}");
    let twice = on_eth1.replacen("{from: h2, to: s1:2}", "{from: h2, to: s1:2, interface: eth1}", 1);
    let found = errors(&twice);
    assert!(found.len() == 1 && found[0].2.contains("eth1 has two users"), "{found:?}");
}

#[test]
fn peers_as_an_operator_writes_them() {
    let t = parse(
        "insecure: true\nswitches:\n  - {name: s1, kind: bmv2, address: 'localhost:9559', tick: {interval: 5ms, interface: t0}}\n\
         hosts:\n  - {name: h1, nic: {kind: verbs, device: mlx5_0, port: 1, gid_index: 3}, ip: 10.1.0.1, \
         mac: '02:00:00:00:09:01', agent: '10.9.0.1:7000'}\n  - {name: h2, nic: {interface: {name: eth0}}}\nflows: []\n",
    );
    let t = t.unwrap_or_else(|e| panic!("{e}"));
    let address = "127.0.0.1:9559".parse().unwrap();
    assert_eq!(t.switches[0].kind, SwitchKind::Bmv2(Bmv2::Running { address, packets: None }));
    assert_eq!(t.switches[0].tick_interface.as_ref().map(|i| i.name.as_str()), Some("t0"));
    let verbs = NicKind::Verbs { device: Some("mlx5_0".into()), port: Some(1), gid_index: Some(3) };
    assert_eq!((&t.hosts[0].nic, t.hosts[0].agent), (&verbs, Some("10.9.0.1:7000".parse().unwrap())));
    assert_eq!(t.hosts[1].nic, NicKind::Soft { interface: Some(Interface::new("eth0")) });

    let t = parse(
        "tls: certs\nhosts:\n  - {name: h1, agent: '127.0.0.1:7000'}\n  - {name: h2, nic: {interface: veth2}}\nlinks:\n  \
         - {from: h1, to: s1:4, sockets: {switch: far, host: near}}\n  - {from: h2, to: s1, interface: {name: veth1, by: xdp}}\nflows: []\n",
    );
    let t = t.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((t.tls.as_deref(), t.insecure), (Some(Path::new("certs")), false));
    assert_eq!(t.links[0].cable, Cable::Sockets { switch: "far".into(), host: "near".into() });
    assert_eq!(t.links[1].cable, Cable::Interface(Interface { name: "veth1".into(), xdp: true }));
}

#[test]
fn an_address_without_certificates_needs_a_word() {
    let hosts = "hosts: [h1]\nflows: []\n";
    for (exposed, part) in [
        ("switches:\n  - {name: s1, p4runtime: {listen: '127.0.0.1:0'}}\n", "switch 's1' would obey whoever"),
        ("switches:\n  - {name: s1, p4runtime: {listen: '0.0.0.0:9559'}}\n", "reach 0.0.0.0:9559"),
    ] {
        let found = errors(&format!("{exposed}{hosts}"));
        assert!(found.len() == 1 && found[0].2.contains(part), "{found:?}");
        for word in ["tls: certs", "insecure: true"] {
            let t = parse(&format!("{word}\n{exposed}{hosts}"));
            assert!(t.is_ok(), "{word}: {t:?}");
        }
        assert_eq!(errors(&format!("insecure: false\n{exposed}{hosts}")).len(), 1);
    }
    let host = "hosts:\n  - {name: h1, nic: {interface: eth0}, agent: '127.0.0.1:7000'}\nlinks:\n  - {from: h1, to: s1, interface: e1}\nflows: []\n";
    let found = errors(host);
    assert!(
        found.len() == 1 && found[0].0 == 2 && found[0].2.contains("the agent of host 'h1'"),
        "{found:?}"
    );
    // Servers of others speak no TLS: on this machine it does not matter, elsewhere it takes the word.
    let bmv2 = |at: &str| {
        format!("switches:\n  - {{name: s1, kind: bmv2, address: '{at}', packets: '127.0.0.1:2'}}\n{hosts}")
    };
    assert!(parse(&bmv2("127.0.0.1:1")).is_ok());
    assert_eq!(errors(&format!("tls: certs\n{}", bmv2("10.0.0.9:1"))).len(), 1);
    assert!(parse(&format!("insecure: true\n{}", bmv2("10.0.0.9:1"))).is_ok());
    let layout = |listen: &str| crate::Layout { listen: Some(listen.parse().unwrap()), ..Default::default() };
    let why = parse(hosts).unwrap().lay_out(&layout("127.0.0.1:7700")).unwrap_err();
    assert!(why.contains("the controller") && why.contains("zsr ca"), "{why}");
    assert!(parse(&format!("insecure: true\n{hosts}")).unwrap().lay_out(&layout("127.0.0.1:7700")).is_ok());
}

#[test]
fn what_depends_on_a_broken_part_is_reported_too() {
    let found = errors(&BASE.replacen("switches:\n  - name: s1", "switches: s1", 1));
    assert_eq!((found[0].0, found[0].1), (1, 11), "{found:?}");
    assert!(found[0].2.contains("'switches' of the topology is 's1'"), "{found:?}");
}

#[test]
fn rings() {
    one_error(
        "size: 64KiB}\n      - {name: odd",
        "size: 60KiB}\n      - {name: odd",
        6,
        60,
        "no power of two",
    );
    one_error("item_size: 2KiB", "item_size: 3000", 7, 48, "no power of two");
    one_error("item_size: 2KiB", "item_size: 2", 7, 48, "too small");
    one_error("item_size: 2KiB", "item_size: 128KiB", 7, 62, "only 65536 bytes of room");
    one_error("name: odd", "name: out", 7, 16, "two rings named 'out'");
    one_error("role: producer, item_size: 2KiB", "item_size: 2KiB", 7, 10, "ring 'h1.odd' has no role");
    one_error("role: producer, item_size: 2KiB", "role: p, item_size: 2KiB", 7, 27, "'role' of ring");
    one_error("[h1.out]", "[h1.odd]", 17, 17, "ring 'h2.in' has items of 4096 bytes, flow 'f' of 2048");
}

#[test]
fn rings_of_a_group_have_one_size() {
    let group = |size: &str, ring: &str| {
        let rings =
            |size: &str| format!("rings: [{{name: in, role: consumer, size: {size}, item_size: 4KiB}}]");
        format!(
            "hosts:\n  - h1\n  - {{name: h2, {}}}\n  - {{name: h3, {}}}\nflows:\n  - {{name: g, kind: replicate, \
             producers: [h1], consumers: [h2.in, {ring}]}}\n",
            rings("64KiB"),
            rings(size)
        )
    };
    assert!(parse(&group("64KiB", "h3.in")).is_ok());
    for (ring, other) in [("h3.in", "ring 'h3.in' of 128 KiB"), ("h3", "of 1 MiB")] {
        let found = errors(&group("128KiB", ring));
        let said = "flow 'g' replicates to ring 'h2.in' of 64 KiB and ring ";
        assert_eq!((found.len(), found[0].0), (1, 6), "{found:?}");
        assert!(found[0].2.contains(said) && found[0].2.contains(other), "{found:?}");
    }
}

#[test]
fn links() {
    one_error("h1 -> s1:1", "h9 -> s1:1", 12, 5, "leads to 'h9', which does not exist");
    one_error("to: s1:2", "to: s7:2", 13, 20, "leads to 's7'");
    one_error("h1 -> s1:1", "h1 -> s1:500", 12, 5, "'500' is no port");
    one_error("h1 -> s1:1", "h1 -> s1:0", 12, 5, "'0' is no port");
    one_error("h1 -> s1:1", "h1:1 -> s1:1", 12, 5, "host 'h1' has only one port");
    one_error("to: s1:2", "to: s1:1", 13, 6, "already linked to host 'h1'");
    one_error("h1 -> s1:1", "h1 s1", 12, 5, "this link is 'h1 s1'");
    one_error("h1 -> s1:1", "h1 -> h2", 12, 5, "joins two hosts");
    one_error("  - h1 -> s1:1\n", "", 4, 11, "host 'h1' takes part in flow 'f' but has no link");
    one_error("  - h1 -> s1:1\n", "  - h1 -> s1:1\n  - h1 -> s1:3\n", 13, 5, "two links");
    one_error("to: s1:2", "to: s1:2, mtu: 2048", 13, 31, "mtu 2048, but its host 'h2' has mtu 1024");
    one_error("- name: h2", "- name: h2\n    mtu: 4096", 8, 11, "mismatched MTUs in flow 'f'");
    one_error("to: s1:2", "to: s1:2, faults: {loss: 2}", 13, 41, "'loss' of faults");
    one_error("to: s1:2", "to: s1:2, latency: 2s", 13, 35, "'latency' of this link is 2s, which is too big");
    one_error("to: s1:2", "to: s1:2, latency: 20", 13, 35, "'latency' of this link");
    one_error("to: s1:2", "to: s1:2, rate: 100bit", 13, 32, "'rate' of this link is 100 bit/s");
    one_error("to: s1:2", "to: s1:2, faults: {los: 0.1}", 13, 35, "did you mean 'loss'?");
}

#[test]
fn hosts_that_a_switch_has_no_ports_for_are_one_error() {
    let names: Vec<String> = (1..=600).map(|n| format!("h{n}")).collect();
    let found = errors(&format!("hosts: [{}]\nflows: []\n", names.join(", ")));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].2.contains("no free port left for this link and for 100 more"), "{found:?}");
}

#[test]
fn hint_latency_is_one_value_everywhere() {
    let text = BASE.replacen("[h2.in]", "[h2.in]\n    hint: latency", 1);
    assert_eq!(parse(&text).unwrap_or_else(|e| panic!("{e}")).flows[0].settings.poll_interval_us, 20);
    let micros = super::LATENCY_POLL.as_micros();
    // An option of the reference has several lines, a setting in the table of topologies has one.
    for (file, text, between) in [
        ("docs/reference.md", include_str!("../../../docs/reference.md"), "\n- "),
        ("topologies/README.md", include_str!("../../../topologies/README.md"), "\n"),
    ] {
        let mut parts = text.split(between).map(|p| p.split_whitespace().collect::<Vec<_>>().join(" "));
        let line = parts.find(|l| l.contains("hint") && l.contains("`latency`") && l.contains("at least"));
        let line = line.unwrap_or_else(|| panic!("{file} does not say it"));
        assert!(
            line.contains(&format!("{micros}us")) || line.contains(&format!("{micros} µs")),
            "{file}: {line}"
        );
    }
}

#[test]
fn flows() {
    let second = |ring: &str| format!("  - name: g\n    producers: [{ring}]\n    consumers: [h2]\nworkload:");
    one_error("[h1.out]", "[h1.nope]", 16, 17, "ring 'h1.nope', which does not exist");
    one_error("[h1.out]", "[h7]", 16, 17, "host 'h7', which does not exist");
    one_error("[h1.out]", "[s1]", 16, 17, "which is a switch");
    one_error("[h1.out]", "[]", 16, 5, "flow 'f' has no producers");
    one_error("[h1.out]", "h1", 16, 16, "'producers' of flow 'f' is 'h1'");
    one_error("    producers: [h1.out]\n", "", 15, 5, "flow 'f' has no producers");
    let swapped = errors(&BASE.replace("[h1.out]", "[h2.in]").replace("[h2.in]\nwork", "[h1.out]\nwork"));
    let places: Vec<_> = swapped.iter().map(|(line, column, _)| (*line, *column)).collect();
    assert_eq!(places, [(16, 17), (17, 17)], "{swapped:?}");
    assert!(swapped[0].2.contains("uses the consumer ring 'h2.in' as producer ring"), "{swapped:?}");
    assert!(swapped[1].2.contains("uses the producer ring 'h1.out' as consumer ring"), "{swapped:?}");
    one_error("[h1.out]", "[h1.out, h1.out]", 16, 25, "uses ring 'h1.out' twice");
    let twins = errors(&BASE.replace("[h1.out]", "[[h1.out, h1.odd]]").replace("2KiB", "4KiB"));
    assert_eq!(twins.len(), 1, "{twins:?}");
    assert!(twins[0].2.contains("2 rings here for producer 'h1'"), "{twins:?}");
    one_error("[h1.out]", "[[h1.out, h2.in]]", 16, 17, "rings of 2 hosts");
    one_error("workload:", &second("h1.out"), 19, 17, "ring 'h1.out' is already used by flow 'f'");
    one_error("workload:", &second("h1").replace("name: g", "name: f"), 18, 11, "two flows are named 'f'");
    one_error("  - name: f", "  - name: h1", 15, 11, "has the name of a host or switch");
    let flow = |line: &str| format!("[h2.in]\n    {line}");
    one_error("[h2.in]", &flow("lanes: 2"), 18, 12, "flow 'f' has 2 lanes for 1 producers");
    one_error("[h2.in]", &flow("lanes: 0"), 18, 12, "'lanes' of flow 'f'");
    one_error("[h2.in]", &flow("lanes: 17"), 18, 12, "'lanes' of flow 'f'");
    one_error("[h2.in]", &flow("max_batch: 6000"), 18, 16, "no multiple of the item size");
    one_error("[h2.in]", &flow("max_batch: 2000"), 18, 16, "hold no whole item");
    one_error("[h2.in]", &flow("max_batch: 8MiB"), 18, 16, "'max_batch' of flow 'f' is '8MiB'");
    one_error("[h2.in]", &flow("max_batch: 2000 items"), 18, 16, "too much for one transfer");
    one_error("[h2.in]", &flow("poll_interval: 0"), 18, 20, "too small");
    one_error("[h2.in]", &flow("kind: combine"), 18, 11, "'kind' of flow 'f' is 'combine'");
    let unknown = parse(&BASE.replacen("[h2.in]", &flow("kind: x"), 1)).unwrap_err().to_string();
    assert!(
        unknown.contains("one of shuffle, load-balance, replicate") && !unknown.contains("combine"),
        "{unknown}"
    );
    one_error("[h2.in]", &flow("kind: shufle"), 18, 11, "did you mean 'shuffle'?");
    one_error("[h2.in]", &flow("weight: 0"), 18, 13, "'weight' of flow 'f' is 0, which is too small");
    one_error("[h2.in]", &flow("rate_cap: 10bit"), 18, 15, "1 bytes per second");
    one_error("[h2.in]", &flow("routing: hash(x)"), 18, 14, "synthetic items have no columns");
    one_error("[h2.in]", &flow("routing: hsh(x)"), 18, 14, "'hsh(x)'");
    one_error("[h2.in]", &flow("schema: {a: i64}"), 18, 5, "synthetic items have no columns");
}

#[test]
fn workloads() {
    let set = |to: &str, column: u32, part: &str| {
        one_error("{kind: synthetic, items: 10}", to, 18, column, part);
    };
    set("{kind: synthetic, items: 0}", 36, "'items' of the workload is '0'");
    set("{kind: synthetic, scale: 1}", 29, "a synthetic workload has no 'scale'");
    set("{items: 10}", 12, "no kind");
    set("{kind: tpch, scale: 0}", 31, "'scale'");
    set("{kind: tpch, table: orders}", 31, "'table'");
    set("{kind: tpch, key: l_orderky}", 29, "did you mean 'l_orderkey'?");
    set("{kind: file}", 12, "no path");
    set("{kind: file, path: x, record_size: 3}", 46, "goes with format: binary");
    set("{kind: file, path: x, format: binary}", 12, "no record_size");

    set("{kind: file, path: x, format: binary, record_size: 16, key: 10:8}", 71, "outside records");
    set("{kind: file, path: x, key: 2}", 38, "lines have no columns");
    set("{kind: file, path: x, format: delimited, delimiter: ab}", 63, "'delimiter'");
    set("[1]", 11, "the workload is a list");
}

#[test]
fn binary_records_leave_room_for_the_segment_header() {
    let file = |size: u32| format!("{{kind: file, path: x, format: binary, record_size: {size}}}");
    one_error("{kind: synthetic, items: 10}", &file(4096), 15, 5, "don't fit in the 4096-byte items");
    assert_eq!(errors(&BASE.replacen("{kind: synthetic, items: 10}", &file(4096 - 32), 1)), []);
}

#[test]
fn routing_and_schema() {
    let tpch = |routing: &str| {
        BASE.replace("{kind: synthetic, items: 10}", "{kind: tpch}")
            .replace("[h2.in]", &format!("[h2.in]\n    routing: {routing}"))
    };
    assert_eq!(errors(&tpch("hash(l_orderkey)")), []);
    assert_eq!(errors(&tpch("{hash: l_partkey}")), []);
    let found = errors(&tpch("range(l_orderkey, [100])"));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].2.contains("1 bounds for 1 consumers"), "{found:?}");

    let two =
        "hosts: [a, b, c]\nflows:\n  - name: f\n    producers: [a]\n    consumers: [b, c]\n    routing: ";
    let bad = |routing: &str| errors(&format!("{two}{routing}\n"));
    assert_eq!(bad("range(l_orderkey, [100])"), []);
    assert_eq!(bad("range(l_shipdate, [1995-01-01])"), []);
    assert_eq!(bad("{range: {column: 1, bounds: [5]}}"), []);
    for (routing, part) in [
        ("range(l_orderkey, [x])", "whole numbers"),
        ("range(l_tax, [1])", "fractions"),
        ("range(l_orderkey, [1, 2])", "2 bounds for 2 consumers"),
        ("explicit(l_comment)", "no whole numbers"),
        ("hash(17)", "no column 17"),
        ("hash(0:8)", "binary"),
    ] {
        let found = bad(routing);
        assert_eq!(found.len(), 1, "{routing}: {found:?}");
        assert!(found[0].2.contains(part), "{found:?}");
        assert_eq!((found[0].0, found[0].1), (6, 14));
    }
}

#[test]
fn text_that_is_no_topology() {
    for (text, line, part) in [
        ("", 0, "empty"),
        ("# nothing\n", 0, "empty"),
        ("a: [", 2, "not YAML"),
        ("name: x\nname: y\n", 2, "key 'name' appears twice; first at line 1"),
        ("name: &a x\n", 1, "anchors"),
        ("name: !t x\n", 1, "tags"),
        ("name: x\n---\nname: y\n", 2, "second YAML document"),
        ("? [a]\n: b\n", 1, "used as a key"),
        ("- 1\n", 1, "the topology is a list"),
        ("hello", 1, "the topology is 'hello'"),
    ] {
        let found = errors(text);
        assert!(
            found.iter().any(|(l, _, message)| *l == line && message.contains(part)),
            "{text:?} gave {found:?}"
        );
    }
    let deep = "[".repeat(100_000);
    assert!(errors(&deep)[0].2.contains("nested") || errors(&deep)[0].2.contains("not YAML"));
}

#[test]
fn an_alias_bomb_is_refused_at_its_first_alias() {
    let mut text = String::from("a0: &a0 [x, x]\n");
    for n in 1..60 {
        text += &format!("a{n}: &a{n} [*a{0}, *a{0}]\n", n - 1);
    }
    assert!(errors(&text).iter().any(|(line, _, m)| *line == 2 && m.contains("aliases")));
}

#[test]
fn bytes_that_are_not_text() {
    let found = Topology::parse(Path::new("t.yaml"), b"name: x\nab\xff: 1\n").unwrap_err();
    assert_eq!(found.to_string(), "t.yaml:2:3: error: byte 0xff is not UTF-8\n    expected: text in UTF-8");
    let big = vec![b' '; yaml::MAX_BYTES + 1];
    assert!(Topology::parse(Path::new("t.yaml"), &big).unwrap_err().to_string().contains("bigger than"));
}

#[test]
fn all_errors_are_listed_with_file_line_and_column() {
    let text = BASE
        .replace("4KiB, size: 64KiB}\n      - {name: odd", "5KiB, size: 64KiB}\n      - {name: odd")
        .replace("h1 -> s1:1", "h1 -> nowhere:1")
        .replace("items: 10", "itms: 10");
    let shown = parse(&text).unwrap_err().to_string();
    assert!(shown.contains("t.yaml:6:48: error: 'item_size' of ring 'h1.out' is 5120 bytes"), "{shown}");
    assert!(shown.contains("t.yaml:12:5: error: this link leads to 'nowhere'"), "{shown}");
    assert!(shown.contains("t.yaml:18:29: error: unknown key 'itms'"), "{shown}");
    assert!(shown.contains("did you mean 'items'?"), "{shown}");
    assert!(shown.contains("    expected: "), "{shown}");
    assert_eq!(shown.matches(": error: ").count(), 3, "{shown}");
    assert!(shown.contains("      - {name: out, role: producer, item_size: 5KiB, size: 64KiB}\n"), "{shown}");
}

#[test]
fn flows_make_the_rings_that_nobody_declared() {
    let t = parse("hosts: [a, b, c]\nflows:\n  - {name: f, producers: [a, {host: b, endpoints: 2}], consumers: [b, c]}\n")
        .unwrap_or_else(|e| panic!("{e}"));
    let names: Vec<&str> = t.rings.iter().map(|r| r.name.as_str()).collect();
    assert_eq!(names, ["f.a.b", "f.a.c", "f.b~1.b", "f.b~1.c", "f.b~2.b", "f.b~2.c", "f.b", "f.c"]);
    let f = &t.flows[0];
    assert_eq!(f.producers[1].rings, [2, 3]);
    assert_eq!(f.consumers[1].rings, [7]);
    assert_eq!((f.item_size, t.rings[0].size, f.settings.max_batch), (32768, 1 << 20, 1 << 20));
    assert_eq!(f.routing, Routing::Hash(KeyRef::Number(1)));
    let ports: Vec<u32> = t.links.iter().map(|l| l.port).collect();
    assert_eq!(ports, [1, 2, 3]);
}

#[test]
fn the_shipped_topologies_are_sound() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../topologies");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "yaml") {
            Topology::load(&path).unwrap_or_else(|e| panic!("{e}"));
            count += 1;
        }
    }
    assert!(count >= 6, "only {count} topologies found");
}

#[test]
fn options_change_flows() {
    let mut t = parse("hosts: [a, b]\nflows:\n  - {name: f, producers: [a], consumers: [b]}\n").unwrap();
    t.apply(&Overrides { items: Some(7), item_size: Some(64), ..Default::default() }).unwrap();
    assert_eq!(t.flows[0].workload, Workload::Synthetic { items: 7 });
    assert!(t.rings.iter().all(|r| r.item_size == 64));
    let wrong = t.apply(&Overrides { item_size: Some(63), ..Default::default() }).unwrap_err();
    assert!(wrong[0].contains("power of two"), "{wrong:?}");

    let file = Overrides {
        input: Some("x.csv".into()),
        key: Some("name".into()),
        item_size: Some(4096),
        ..Default::default()
    };
    t.apply(&file).unwrap();
    let format = FileFormat::Delimited { delimiter: b',', header: true, quoted: false };
    assert_eq!(
        t.flows[0].workload,
        Workload::File(FileInput { path: "x.csv".into(), format, lenient: false })
    );
    assert_eq!(t.flows[0].routing, Routing::Hash(KeyRef::Name("name".into())));

    for wrong in [
        Overrides { input: Some("x".into()), format: Some(InputFormat::Binary), ..Default::default() },
        Overrides { input: Some("x".into()), record_size: Some(8192), ..Default::default() },
        Overrides { input: Some("x".into()), key: Some("0".into()), ..Default::default() },
        Overrides { scale: Some(1.0), ..Default::default() },
        Overrides { input: Some("x".into()), lenient: Some(true), ..Default::default() },
        Overrides {
            input: Some("x".into()),
            format: Some(InputFormat::Csv),
            delimiter: Some(b'"'),
            ..Default::default()
        },
    ] {
        assert!(t.clone().apply(&wrong).is_err(), "{wrong:?}");
    }
}

/// Fragments that make texts which get far into the reader.
const WORDS: [&str; 44] = [
    "name",
    "hosts",
    "switches",
    "links",
    "flows",
    "workload",
    "producers",
    "consumers",
    "rings",
    "item_size",
    "size",
    "max_batch",
    "mtu",
    "kind",
    "role",
    ": ",
    ":\n",
    "\n  - ",
    "\n    ",
    "- ",
    "[",
    "]",
    "{",
    "}",
    ", ",
    "h1",
    "s1:1",
    "h1 -> s1",
    "h1.out",
    "64KiB",
    "1 item",
    "-1",
    "1e999",
    "producer",
    "range(l_tax, [1])",
    "&a",
    "*a",
    "!!int",
    "\"",
    "'",
    "|\n",
    "é",
    "\u{0}",
    "99999999999999999999",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_give_a_topology_or_errors(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        if let Err(e) = Topology::parse(Path::new("x.yaml"), &bytes) {
            prop_assert!(!e.list().is_empty() && !e.to_string().is_empty());
        }
    }

    #[test]
    fn any_words_give_a_topology_or_errors(words in proptest::collection::vec(0..WORDS.len(), 0..80)) {
        let text: String = words.iter().map(|w| WORDS[*w]).collect();
        if let Err(e) = parse(&text) {
            prop_assert!(!e.list().is_empty() && !e.to_string().is_empty());
        }
    }

    #[test]
    fn a_damaged_topology_never_stops_the_reader(
        at in 0..BASE.len(), cut in 0usize..30, word in 0..WORDS.len(), second in 0..WORDS.len()
    ) {
        let end = (at + cut).min(BASE.len());
        let text = format!("{}{}{}{}", &BASE[..at], WORDS[word], &BASE[end..], WORDS[second]);
        if let Err(e) = parse(&text) {
            prop_assert!(!e.to_string().is_empty());
        }
    }
}

const CHIP: &str = "\
switches:
  - {name: s1, kind: tofino, chip: tofino2, address: '127.0.0.1:50052', artifacts: build, ports: {speed: 200G, autoneg: off}}
hosts:
  - {name: h1, nic: {interface: eth1}}
links: ['h1 -> s1:8']
flows: []
";

#[test]
fn a_tofino_as_an_operator_writes_it() {
    let t = parse(CHIP).unwrap_or_else(|e| panic!("{e}"));
    let tofino = t.switches[0].kind.tofino().expect("a Tofino");
    assert_eq!(
        (tofino.chip, tofino.api, tofino.program.as_str()),
        (Chip::Tofino2, TofinoApi::BfRuntime, "zsr")
    );
    let ports = PortSetup { speed: 200, fec: Fec::ReedSolomon, lanes: 4, autoneg: Some(false) };
    assert_eq!((tofino.ports.as_ref(), t.switches[0].device_id), (Some(&ports), 0));
    assert_eq!(t.switches[0].tick, std::time::Duration::from_micros(5));
    assert!(t.needs_processes().is_some_and(|what| what.contains("a Tofino")));
}

#[test]
fn what_does_not_go_with_a_tofino_is_named() {
    for (from, to, part) in [
        ("chip: tofino2, ", "", "does not say which chip"),
        ("address: '127.0.0.1:50052', ", "", "does not say where"),
        ("s1:8", "s1:10", "no port of 4 lanes begins at device port 10 of switch 's1'"),
        ("speed: 200G", "speed: 200G, lanes: 2", "200G over 2 lanes, which a tofino2 has not"),
        ("speed: 200G", "speed: 200G, fec: none", "does not go with this 'fec'"),
        ("chip: tofino2,", "chip: tofino,", "have 200G, which a tofino has not"),
        (
            "chip: tofino2, address: '127.0.0.1:50052', artifacts: build, ports: {speed: 200G,",
            "chip: tofino, address: '127.0.0.1:50052', artifacts: build, loops: [137], ports: {speed: 100G,",
            "no port of 4 lanes begins at device port 137 of switch 's1'",
        ),
        ("s1:8", "s1:7", "device port 7 of switch 's1' is no port for cables"),
        (
            "chip: tofino2",
            "chip: tofino2, cpu_port: 510",
            "'cpu_port' of switch 's1' goes with kind: soft or bmv2",
        ),
        (
            "artifacts: build, ports: {speed: 200G, autoneg: off}",
            "api: p4runtime",
            "artifacts: folder with p4info",
        ),
        ("artifacts: build", "api: p4runtime, artifacts: build", "no ports"),
        ("artifacts: build", "binary: x", "'binary' of switch 's1' goes with kind: bmv2"),
        ("artifacts: build", "loops: [136]", "one pipe for all of ingress, and so no loops"),
        ("chip: tofino2,", "chip: tofino, loops: [8],", "a loop of switch 's1' is '8'"),
        ("chip: tofino2,", "chip: tofino, loops: [136, 136],", "a loop of switch 's1' is '136'"),
        ("chip: tofino2,", "chip: tofino, loops: 136,", "'loops' of switch 's1' is"),
        ("s1:8", "s1:136", "device port 136 of switch 's1' is no port for cables in pipe 0 of a tofino2"),
    ] {
        let text = CHIP.replacen(from, to, 1);
        assert_ne!(text, CHIP);
        let found = parse(&text).expect_err(part).to_string();
        assert!(found.contains(part), "{found:?} lacks {part:?}");
    }
}

#[test]
fn hosts_can_be_at_both_pipes_of_a_tofino_1() {
    let with = |pipes: u32, loops: &str, port: u32| {
        let chip = format!("chip: tofino, pipes: {pipes}, {loops}address: '127.0.0.1:50052'");
        let switch = format!("switches:\n  - {{name: s1, kind: tofino, {chip}}}\n");
        parse(&format!(
            "{switch}hosts: [{{name: h1, nic: {{interface: e1}}}}]\nlinks: ['h1 -> s1:{port}']\nflows: []\n"
        ))
    };
    for (pipes, port) in [(1, 8), (2, 136), (4, 136), (4, 264), (4, 392)] {
        with(pipes, "loops: [144], ", port).unwrap_or_else(|e| panic!("{pipes} {port}: {e}"));
    }
    for (pipes, loops, port, part) in [
        (1, "", 136, "no port for cables in pipe 0 of a tofino"),
        (2, "", 264, "no port for cables in pipes 0, 1 of a tofino"),
        (2, "", 196, "PORT from 1 to 63, or from 129 to 191"),
        (2, "loops: [136], ", 136, "device port 136 of switch 's1' is one of its loops"),
    ] {
        let e = with(pipes, loops, port).expect_err(part).to_string();
        assert!(e.contains(part), "{e}");
    }
}

#[test]
fn a_first_psn_has_24_bits() {
    let with = |psn: &str| format!("defaults: {{first_psn: {psn}}}\n{BASE}");
    assert_eq!(parse(BASE).unwrap().first_psn, None);
    assert_eq!(parse(&with("0xfffff0")).unwrap().first_psn, Some(0xff_fff0));
    let found = errors(&with("0x1000000"));
    assert!(matches!(&found[..], [(1, _, message)] if message.contains("first_psn")), "{found:?}");
}

#[test]
fn a_soft_nic_keeps_what_comes_too_early_within_its_window() {
    let of = |window: &str| BASE.replacen("  - name: h1\n", &format!("  - name: h1\n    {window}\n"), 1);
    let windows =
        |text: &str| parse(text).unwrap().hosts.iter().map(|h| h.reorder_window).collect::<Vec<_>>();
    assert_eq!(windows(BASE)[0], 256);
    assert_eq!(windows(&of("reorder_window: 0"))[..2], [0, 256]);
    let found = errors(&of("reorder_window: 1025"));
    assert!(
        matches!(&found[..], [(5, 21, message)] if message.contains("'reorder_window' of host 'h1' is '1025'")),
        "{found:?}"
    );
    let found = errors("hosts: [{name: h1, nic: verbs, reorder_window: 8}]\nflows: []\n");
    assert!(
        found
            .iter()
            .any(|(_, _, message)| message.contains("'reorder_window' of host 'h1' goes with nic: soft")),
        "{found:?}"
    );
}

#[test]
fn vlans_and_traffic_classes_are_read_with_the_defaults_of_roce() {
    let t = parse(BASE).unwrap();
    let usual = Mark { dscp: 26, priority: 3 };
    assert_eq!(t.traffic, Traffic { data: usual, polls: usual, ecn: true });
    // Guides of NIC vendors call this traffic class 106.
    assert_eq!(
        (t.traffic.of_host(false), t.traffic.of_switch(false), t.traffic.of_host(true)),
        (106, 104, 104)
    );
    assert_eq!((t.hosts[0].vlan, t.traffic.tci(None, false)), (None, 0));

    let text = BASE.replacen("  - name: h1\n", "  - name: h1\n    vlan: 100\n", 1);
    let t =
        parse(&format!("defaults: {{traffic: {{dscp: 34, ecn: false, polls: {{priority: 5}}}}}}\n{text}"))
            .unwrap();
    let polls = Mark { dscp: 34, priority: 5 };
    assert_eq!(t.traffic, Traffic { data: Mark { dscp: 34, priority: 3 }, polls, ecn: false });
    assert_eq!((t.hosts[0].vlan, t.hosts[1].vlan), (Some(100), None));
    assert_eq!(t.hosts[0].vlan, Some(100));
    assert_eq!((t.traffic.tci(Some(100), false), t.traffic.tci(Some(100), true)), (0x6064, 0xa064));

    for (key, part) in [("dscp: 64", "dscp"), ("priority: 8", "priority"), ("dsp: 1", "did you mean 'dscp'")]
    {
        let found = errors(&format!("defaults: {{traffic: {{{key}}}}}\n{BASE}"));
        assert!(matches!(&found[..], [(1, _, message)] if message.contains(part)), "{found:?}");
    }
    for vlan in ["0", "4095", "storage"] {
        one_error(
            "  - name: h1\n",
            &format!("  - name: h1\n    vlan: {vlan}\n"),
            5,
            11,
            "'vlan' of host 'h1'",
        );
    }
}

#[test]
fn a_vlan_interface_of_a_host_on_a_vlan_would_be_tagged_twice() {
    let with = |vlan: &str, near: &str, far: &str| {
        let host = format!("hosts: [{{name: h1, {vlan}nic: {{interface: {far}}}}}]");
        errors(&format!("{host}\nlinks: [{{from: h1, to: s1:1, interface: {near}}}]\nflows: []\n"))
    };
    assert_eq!(with("", "eth1.100", "eth2.100"), []);
    assert_eq!(with("vlan: 100, ", "eth1", "eth2"), []);
    for (near, far) in [("eth1.100", "eth2"), ("eth1", "eth2.100")] {
        let found = with("vlan: 100, ", near, far);
        assert!(
            matches!(&found[..], [(2, _, said)] if said.contains(".100") && said.contains("VLAN 100")),
            "{found:?}"
        );
    }
}

#[test]
fn a_standby_has_a_link_to_each_host_at_the_same_port() {
    let standby = "switches:\n  - {name: s1, tick: 50us, p4runtime: {dead_after: 200ms}}\n  - {name: s2, standby: true}\n";
    let text = format!(
        "{standby}hosts: [h1, h2, h3]\nlinks:\n  - {{from: h1, to: s1:7, latency: 5us}}\n  - h2 -> s1\n  - h3 -> s1:9\n  - h3 -> s2:9\n\
         flows:\n  - {{name: f, producers: [h1], consumers: [h2]}}\nworkload: {{kind: synthetic}}\n"
    );
    let t = parse(&text).unwrap_or_else(|e| panic!("{e}"));
    let [first, second] = t.switches.as_slice() else { panic!("{:?}", t.switches) };
    assert_eq!(t.standby().map(|s| s.name.as_str()), Some("s2"));
    assert_eq!((first.tick, first.dead_after), (second.tick, second.dead_after));
    assert!(first.ip != second.ip && first.mac != second.mac, "the address is what tells them apart");
    let at = |switch: usize| {
        let mut ports: Vec<_> =
            t.of_switch(switch).links.iter().map(|l| (l.host, l.port, l.latency)).collect();
        ports.sort();
        ports
    };
    assert_eq!(at(0), at(1));
    assert_eq!(at(0)[0].1, 7);
    let numbers: Vec<_> = t.links.iter().map(|l| l.number).collect();
    assert_eq!(numbers, (0..6).collect::<Vec<_>>());
    assert_eq!(t.of_switch(1).switches[0].name, "s2");
    let all = parse(&format!("{standby}hosts: [h1, h2]\nflows: []\n")).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((all.links.len(), all.link_of(1).map(|l| l.switch)), (4, Some(0)));
}

#[test]
fn what_does_not_go_with_a_standby_is_named() {
    let wrong = |switches: &str, rest: &str| {
        let text = format!("switches:\n{switches}\nhosts: [h1]\n{rest}flows: []\n");
        errors(&text).into_iter().map(|(_, _, message)| message).collect::<Vec<_>>().join("\n")
    };
    let (s1, s2) = ("  - {name: s1}", "  - {name: s2, standby: true}");
    let two = format!("{s1}\n{s2}");
    for (switches, rest, part) in [
        ("  - {name: s1, standby: true}", "", "0 switches are before it"),
        ("  - {name: s1, standby: true}\n  - {name: s2, standby: true}", "", "both standbys"),
        (&format!("{two}\n  - {{name: s3}}")[..], "", "'s3' is a third one"),
        (&format!("{s1}\n  - {{name: s2, standby: true, tick: 5us}}"), "", "'tick' of switch 's2'"),
        (&format!("{s1}\n  - {{name: s2, standby: true, kind: bmv2}}"), "", "no software switch"),
        (&format!("  - {{name: s1, kind: bmv2}}\n{s2}"), "", "no software switch"),
        (&two, "links: [h1 -> s1:1, h1 -> s2:2]\n", "port 2 of the standby 's2' alone"),
        (&two, "links: [h1 -> s2:2]\n", "port 2 of the standby 's2' alone"),
        (&two, "links: [h1 -> s1:1, h1 -> s2:1, h1 -> s2:3]\n", "two links"),
    ] {
        let found = wrong(switches, rest);
        assert!(found.contains(part), "{switches}\n{rest}: {found:?} lacks {part:?}");
    }
    let cable = "switches:\n  - {name: s1}\n  - {name: s2, standby: true}\nhosts:\n  - {name: h1, nic: {interface: eth0}}\n\
                 links:\n  - {from: h1, to: s1, interface: eth1}\nflows: []\n";
    assert!(errors(cable).iter().any(|(_, _, e)| e.contains("a cable at host 'h1'")), "{:?}", errors(cable));
    let mut t = parse("switches:\n  - {name: s1}\n  - {name: s2, standby: true}\nhosts: [h1]\nflows: []\n")
        .unwrap_or_else(|e| panic!("{e}"));
    let refused = t.lay_out(&Layout { switch: None, netns: true, ..Layout::default() });
    assert!(refused.is_err_and(|e| e.contains("'s2' is a standby")));
    assert!(t.needs_processes().is_some_and(|what| what.contains("'s2' is a standby")));
}
