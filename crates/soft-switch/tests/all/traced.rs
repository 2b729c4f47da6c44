//! Programs that tell what packets meet do the same as others, and tell it right.

use crate::headers::mark_ttl_20;
use crate::support::{Bench, text};
use zsr_random::SplitMix64;
use zsr_soft_switch::*;

fn traced(name: &str) -> Bench {
    Bench::of(&Program::traced(&text(name)).expect(name), SwitchConfig::default())
}

#[test]
fn a_traced_program_does_what_others_do() {
    for name in ["headers", "copies", "drops", "tables", "p4runtime", "transport"] {
        let (mut plain, mut told) = (Bench::new(name), traced(name));
        let mut random = SplitMix64::new(7);
        for packet in 0..400 {
            let len = 1 + random.below(120) as usize;
            // Small numbers choose branches of these programs.
            let byte = |random: &mut SplitMix64| match random.below(3) {
                0 => random.bits() as u8,
                _ => random.below(6) as u8,
            };
            let bytes: Vec<u8> = (0..len).map(|_| byte(&mut random)).collect();
            let port = random.below(8) as u16;
            assert_eq!(
                plain.send(port, &bytes),
                told.send(port, &bytes),
                "{name}, packet {packet}: {bytes:02x?}"
            );
            let lines = told.switch.take_trace();
            assert!(lines.iter().any(|line| line.starts_with("packet of")), "{name}: {lines:?}");
            assert_eq!(plain.switch.take_trace(), [""; 0], "others tell nothing");
        }
        assert_eq!(plain.switch.stats(), told.switch.stats(), "{name}");
    }
}

#[test]
fn a_trace_names_states_headers_keys_actions_and_messages() {
    let mut b = traced("headers");
    mark_ttl_20(&mut b);
    let mut packet = vec![1, 4, 0, 1];
    packet.extend([0, 0, 0x10, 10, 0, 0, 0x21, 20]);
    packet.extend(b"rest");
    assert_eq!(b.send(1, &packet).len(), 1);
    let lines = b.switch.take_trace();
    let trace = lines.join("\n");
    let mut rest = trace.as_str();
    for part in [
        "packet of 16 bytes at port 1\n",
        "  parser state start\n    extract first\n    select by first.kind=0x1\n",
        "  parser state labels\n",
        "    extract labels.next\n    select by labels.last.bottom=0x0\n",
        "    select by labels.last.bottom=0x1\n",
        "  header first: kind=0x1 count=0x4 sum=0x1\n",
        " ingress\n",
        "  log_msg: a packet\n",
        "  log_msg: label 0x1\n",
        "=0x14: hit, I.mark(exp=0x9)\n",
        "    headers.p4:41:30 h.first.kind = exp: first.kind=0x9\n",
        "  to port 2\n",
        " egress to port 2\n",
        "  leaves by port 2",
    ] {
        let at = rest.find(part).unwrap_or_else(|| panic!("no {part:?} in the rest of\n{trace}"));
        rest = &rest[at + part.len()..];
    }
    assert!(
        trace.contains(r#"log_msg("label {}", { h.first.sum })"#),
        "source text is shown as it is: {trace}"
    );
    packet[7] = 11;
    packet[11] = 19;
    b.send(1, &packet);
    let trace = b.switch.take_trace().join("\n");
    assert!(trace.contains("=0x13: miss, NoAction()\n"), "{trace}");
}

#[test]
fn a_trace_names_what_the_parser_does() {
    let mut b = traced("headers");
    b.send(1, &[5, 1, 0, 0, 0xff, 0, 0, 0x21, 20]);
    let trace = b.switch.take_trace().join("\n");
    let skipped = "    set scalars.tmp_2=0x8\n    advance by 0x8 bits\n    extract labels.next\n";
    assert!(trace.contains(skipped), "{trace}");
    // `verify` takes one label instead of five.
    let program = text("headers").replace("\"0x05\"", "\"0x01\"");
    let mut b = Bench::of(&Program::traced(&program).unwrap(), SwitchConfig::default());
    b.send(1, &[1, 1, 0, 0, 0, 0, 0x10, 20, 0, 0, 0x21, 20]);
    let trace = b.switch.take_trace().join("\n");
    assert!(trace.contains("    verify: it does not hold\n  parser error TooDeep\n"), "{trace}");
}

#[test]
fn a_trace_names_statements_of_the_parser_with_their_place_if_it_is_known() {
    let statements = r#""parser_ops" : [
        {"op": "primitive", "parameters": [{"op": "assert",
            "parameters": [{"type": "expression", "value": {"type": "bool", "value": true}}],
            "source_info": {"filename": "a.p4", "line": 9, "column": 4, "source_fragment": "assert(true)"}}]},
        {"op": "primitive", "parameters": [{"op": "add_header", "parameters": [{"type": "header", "value": "num"}]}]},
        {"op": "shift", "parameters": [0]},"#;
    let program = text("headers").replacen(r#""parser_ops" : ["#, statements, 1);
    let mut b = Bench::of(&Program::traced(&program).expect("it loads"), SwitchConfig::default());
    b.send(1, &[9, 0, 0, 0]);
    let trace = b.switch.take_trace().join("\n");
    let told = "    a.p4:9:4 assert(true)\n    add_header num\n    advance by 0x0 bits\n    extract first\n";
    assert!(trace.contains(told), "{trace}");
}
