//! Commands as text, and what the switch holds behind them.

use zsr_bmv2_runtime::{Session, State, run_word};
use zsr_soft_switch::{EntryAction, MatchField, Program, Replica, Switch, SwitchConfig};

fn switch() -> Switch {
    let text = include_str!("../../../soft-switch/tests/programs/p4runtime.json");
    Switch::new(&Program::from_json(text).expect("a program"), SwitchConfig::default())
}

struct Both(Switch, State);

impl Both {
    fn new() -> Both {
        Both(switch(), State::default())
    }

    fn say(&mut self, line: &str) -> Result<(), String> {
        run_word(&mut Session::new(&mut self.0, &mut self.1), line)
    }

    fn all(&mut self, lines: &[&str]) {
        lines.iter().for_each(|line| self.say(line).unwrap_or_else(|why| panic!("{line}: {why}")));
    }
}

#[test]
fn entries_are_those_of_the_commands() {
    let mut both = Both::new();
    both.all(&[
        "",
        "# a comment",
        "table_add l2 forward 00:00:00:00:00:01 => 3   # behind a command",
        "table_add In.l2 In.flood 0x2 => 0b111",
        "table_add routes route 10.1.2.3/16 => 1",
        "table_add acl drop 0x0801&&&0xff00 3&&&0x1ff 0->10 1 => 5",
        "table_add acl hit 0&&&0 0&&&0 11->255 0 => 6 9",
        "table_modify l2 forward 1 => 9",
        "table_set_timeout l2 0 1500",
        "table_set_default l2 forward 4",
    ]);
    let switch = &both.0;
    let info = switch.info();
    let forward = |port: u8| {
        let action = info.table_action(info.table("In.l2").unwrap(), "In.forward").unwrap();
        EntryAction::Call(zsr_soft_switch::ActionCall { action, params: vec![vec![port]] })
    };
    let l2 = switch.table_entries(info.table("In.l2").unwrap()).unwrap();
    assert_eq!((&l2[0].action, l2[0].idle_timeout_ns), (&forward(3), 1_500_000_000));
    assert_eq!((&l2[1].key[..], &l2[1].action), (&[MatchField::Exact(vec![2])][..], &forward(9)));
    assert_eq!(switch.default_entry(info.table("In.l2").unwrap()).unwrap(), Some(forward(4)));
    let routes = switch.table_entries(info.table("In.routes").unwrap()).unwrap();
    let prefix = MatchField::Lpm { value: vec![10, 1, 0, 0], prefix_len: 16 };
    assert_eq!(routes[0].key, [prefix], "bits behind the prefix do not count");
    let acl = switch.table_entries(info.table("In.acl").unwrap()).unwrap();
    assert_eq!(acl[0].key[0], MatchField::Ternary { value: vec![8, 0], mask: vec![0xff, 0] });
    assert!(acl[0].priority > acl[1].priority, "bmv2's smallest priority wins");
}

#[test]
fn a_handle_does_not_name_the_successor_of_its_entry() {
    let mut both = Both::new();
    both.all(&["table_add l2 drop 1 =>", "table_delete l2 0", "table_add l2 punt 2 =>"]);
    assert!(both.say("table_delete l2 0").unwrap_err().contains("no entry has handle 0"));
    both.all(&["table_delete l2 0x1000000"]);
    assert_eq!(both.0.table_len(both.0.info().table("In.l2").unwrap()), Ok(0));
}

#[test]
fn profiles_cells_and_value_sets_change() {
    let mut both = Both::new();
    both.all(&[
        "act_prof_create_member balance forward 1",
        "act_prof_create_member balance forward 2",
        "act_prof_create_group balance",
        "act_prof_add_member_to_group balance 0 0",
        "act_prof_add_member_to_group balance 1 0",
        "act_prof_remove_member_from_group balance 0 0",
        "table_indirect_add_with_group spread 00:00:00:00:00:09 => 0",
        "act_prof_delete_member balance 0",
    ]);
    // The smallest number that is free again is given out.
    both.all(&["act_prof_create_member balance drop"]);
    let info = both.0.info();
    let p = info.profile("In.balance").unwrap();
    assert_eq!(both.0.members(p).unwrap().iter().map(|(id, _)| *id).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(both.0.group(p, 0).unwrap().members.len(), 1);
    assert!(both.say("act_prof_delete_group balance 0").unwrap_err().contains("in use"));
    both.all(&[
        "counter_write ports 3 5 600",
        "meter_set_rates police 1 0.5:10 1.5:20",
        "meter_array_set_rates police 1:2 3:4",
        "register_write seen 2 -1",
        "register_write level 0 5",
        "pvs_add ip_types 0x86dd",
        "pvs_add ip_types 0x86dd",
        "pvs_add pairs 0x080012",
        "pvs_remove ip_types 0x1235",
    ]);
    let info = both.0.info();
    let counter = both.0.counter_read(info.counter("In.ports").unwrap(), 3).unwrap();
    assert_eq!((counter.packets, counter.bytes), (5, 600));
    let rates = both.0.meter_read(info.meter("In.police").unwrap(), 1).unwrap().unwrap();
    assert_eq!((rates.cir, rates.cburst, rates.pir, rates.pburst), (1_000_000, 2, 3_000_000, 4));
    assert_eq!(both.0.register_read(info.register("In.seen").unwrap(), 2).unwrap(), [0xff; 4]);
    let pairs = both.0.value_set(info.value_set("Parse.pairs").unwrap()).unwrap();
    assert_eq!(pairs, [[MatchField::Exact(vec![8, 0]), MatchField::Exact(vec![0x12])]]);
    assert_eq!(both.0.value_set(info.value_set("Parse.ip_types").unwrap()).unwrap().len(), 1);
    both.all(&["pvs_remove ip_types 0x86dd", "register_reset seen"]);
    let info = both.0.info();
    assert!(both.0.value_set(info.value_set("Parse.ip_types").unwrap()).unwrap().is_empty());
    assert_eq!(both.0.register_read(info.register("In.seen").unwrap(), 2).unwrap(), [0; 4]);
}

#[test]
fn groups_of_nodes_are_the_copies_of_a_packet() {
    let mut both = Both::new();
    both.all(&[
        "mc_mgrp_create 1",
        "mc_node_create 10 1 2 | 4",
        "mc_node_create 11 3",
        "mc_node_associate 1 0",
        "mc_node_associate 1 1",
        "mc_set_lag_membership 4 8 7 8",
        "mirroring_add_mc 6 1",
        "mirroring_add 5 9",
    ]);
    let copies = |both: &Both| -> Vec<(u16, u16)> {
        let replicas = both.0.multicast_group(1).unwrap();
        replicas.iter().map(|Replica { port, instance }| (*port, *instance)).collect()
    };
    // 255 modulo 2 is 1: the second port of the LAG.
    assert_eq!(copies(&both), [(1, 10), (2, 10), (8, 10), (3, 11)]);
    assert_eq!(both.0.clone_session(6).unwrap().replicas.len(), 4, "a session that mirrors to the group");
    assert_eq!(both.0.clone_session(5).unwrap().replicas, [Replica { port: 9, instance: 0 }]);
    both.all(&["mc_node_update 1 3 4", "mc_node_dissociate 1 0"]);
    assert_eq!(copies(&both), [(3, 11), (4, 11)]);
    assert_eq!(both.0.clone_session(6).unwrap().replicas.len(), 2, "it follows the group");
    // A copy that is there twice is refused, and nothing changes.
    both.all(&["mc_node_create 11 4"]);
    assert!(both.say("mc_node_associate 1 2").unwrap_err().contains("replica"));
    assert_eq!(copies(&both), [(3, 11), (4, 11)]);
    both.all(&["mc_node_dissociate 1 1", "mc_node_associate 1 2", "mc_node_destroy 2"]);
    assert!(copies(&both).is_empty());
    // What the switch refuses changes nothing: LAG 4 would have port 3 with rid 11 twice.
    both.all(&["mc_node_create 11 3 | 4", "mc_node_associate 1 2"]);
    assert_eq!(copies(&both), [(3, 11), (8, 11)]);
    assert!(both.say("mc_set_lag_membership 4 3").unwrap_err().contains("replica"));
    assert_eq!(copies(&both), [(3, 11), (8, 11)]);
    both.all(&["mc_node_update 2 5 | 4"]);
    assert_eq!(copies(&both), [(5, 11), (8, 11)]);
    // Another controller removes the group, and a session: one comes again with its next change, the other does not.
    both.0.multicast_group_delete(1).unwrap();
    both.0.clone_session_delete(6).unwrap();
    both.all(&["mc_node_update 2 6"]);
    assert_eq!(copies(&both), [(6, 11)]);
    assert!(both.0.clone_session(6).is_err());
    both.0.multicast_group_delete(1).unwrap();
    both.all(&["mc_mgrp_destroy 1", "mc_node_destroy 2"]);
    assert!(both.0.multicast_group(1).is_err());
    // A program that is put in place has no groups, so the nodes are forgotten.
    both.all(&["mc_mgrp_create 2"]);
    both.0 = switch();
    assert!(both.say("mc_mgrp_destroy 2").is_err());
}

#[test]
fn what_is_wrong_is_said_and_changes_nothing() {
    let mut both = Both::new();
    for (line, words) in [
        ("table_add nothing forward 1 => 3", "there is no table 'nothing'"),
        ("table_add l2 nothing 1 => 3", "there is no action 'nothing'"),
        ("table_add l2 forward 1 2 => 3", "the key has 2 fields; this table has 1"),
        ("table_add l2 forward 1 =>", "takes 1 arguments, not 0"),
        ("table_add l2 forward 00:00:00:00:01 => 3", "'00:00:00:00:01' is no MAC address"),
        ("table_add l2 forward 1 => 512", "does not fit in 9 bits"),
        ("table_add l2 forward 0x1000000000000 => 1", "does not fit in 48 bits"),
        ("table_add routes route 10.1.2.3 => 1", "a prefix such as"),
        ("table_add routes route 10.1.2.3/33 => 1", "key field 0"),
        ("table_add routes route 10.1.2.300/8 => 1", "is no IPv4 address"),
        ("table_add acl drop 1 3&&&0x1ff 0->10 1 => 5", "a value and a mask"),
        ("table_add acl drop 1&&&1 3&&&0x1ff 0->10 1 => x", "has to be a priority"),
        ("table_add acl drop 1&&&1 3&&&0x1ff 0->10 1 => -1", "priority -1"),
        ("table_add acl drop 1&&&1 3&&&0x1ff 10->1 1 => 5", "key field 2"),
        ("table_add fixed drop 1&&&1 => 1", "const"),
        ("table_add fixed drop 1&&&1 => 5", "0 to 2 are possible"),
        ("table_add keyless NoAction =>", "no key"),
        ("table_delete l2 7", "no entry has handle 7"),
        ("table_delete l2 --5", "is no number"),
        ("table_delete l2 --170141183460469231731687303715884105728", "is no number"),
        ("mc_node_create 1 70000", "is no number"),
        ("table_delete l2 99999999999", "is no number that can stand here"),
        ("table_set_timeout routes 0 1", "no timeouts"),
        ("table_dump l2", "need simple_switch_CLI"),
        ("table_add", "0 arguments"),
        ("act_prof_create_group next_hops", "no selector"),
        ("counter_write ports 99 1 1", "counter cell"),
        ("counter_write ports -1 1 1", "below 0"),
        ("meter_set_rates police 1 0.5:10", "1 rates"),
        ("meter_set_rates police 1 2:1 1:1", "above peak"),
        ("meter_set_rates police 1 nan:1 1:1", "is none"),
        ("register_write seen 16 1", "the register has 16"),
        ("pvs_add ip_types 0x10000", "does not fit in 16 bits"),
        ("mc_mgrp_create 0", "1 to 65535"),
        ("mc_node_create 70000 1", "rid 70000"),
        ("mirroring_delete 3", "no mirroring session 3"),
        ("mirroring_add 99999 3", "32767"),
        ("set_crc16_parameters nothing 1 2 3 true false", "no calculation"),
        ("nonsense 1 2", "nonsense: no command 'nonsense'"),
    ] {
        let why = both.say(line).unwrap_err();
        assert!(why.contains(words) && !why.contains('\n'), "{line}: {why}");
    }
    let tables = &both.0.info().tables;
    let entries: usize =
        (0..tables.len()).map(|t| both.0.table_len(zsr_soft_switch::TableId(t as u32)).unwrap()).sum();
    assert_eq!(entries, 4, "the program's own");
}
