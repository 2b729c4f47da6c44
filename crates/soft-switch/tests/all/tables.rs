//! Every kind of table, through the control API, with `programs/tables.p4`.

use crate::support::Bench;
use zsr_soft_switch::*;

/// A frame with the key fields; the wide one is `wide` repeated.
fn frame(a: u32, b: u16, c: u8, wide: u8) -> Vec<u8> {
    let mut p = a.to_be_bytes().to_vec();
    p.extend(b.to_be_bytes());
    p.push(c);
    p.extend([wide; 16]);
    p
}

/// The verdicts, in the order of the header.
fn verdicts(b: &mut Bench, f: &[u8]) -> Vec<u16> {
    let out = b.send(3, f);
    assert_eq!(out.len(), 1);
    out[0].1[..20].chunks(2).map(|c| u16::from_be_bytes([c[0], c[1]])).collect()
}

/// Colour and hit flags.
fn flags(b: &mut Bench, f: &[u8]) -> (u8, u8) {
    let out = b.send(3, f);
    (out[0].1[20], out[0].1[21])
}

const EXACT: usize = 0;
const DIRECT: usize = 1;
const LPM: usize = 2;
const TERNARY: usize = 3;
const RANGE: usize = 4;
const OPTIONAL: usize = 5;
const CONST: usize = 6;
const WIDE: usize = 7;
const SELECTED: usize = 8;
const MEMBER: usize = 9;

fn call(b: &Bench, t: TableId, action: &str, x: u16) -> ActionCall {
    let action = b.switch.info().table_action(t, action).expect(action);
    ActionCall { action, params: vec![x.to_be_bytes().to_vec()] }
}

fn entry(key: Vec<MatchField>, priority: i32, action: EntryAction) -> TableEntry {
    TableEntry { key, priority, action, idle_timeout_ns: 0, metadata: Vec::new() }
}

fn add(b: &mut Bench, table: &str, action: &str, key: Vec<MatchField>, priority: i32, x: u16) -> TableId {
    let t = b.switch.info().table(table).expect(table);
    let action = EntryAction::Call(call(b, t, action, x));
    b.switch.table_insert(t, entry(key, priority, action)).expect("insert");
    t
}

fn exact(v: u64) -> MatchField {
    MatchField::Exact(v.to_be_bytes().to_vec())
}

fn ternary(value: u32, mask: u32) -> MatchField {
    MatchField::Ternary { value: value.to_be_bytes().to_vec(), mask: mask.to_be_bytes().to_vec() }
}

fn lpm(value: u32, prefix_len: u32) -> MatchField {
    MatchField::Lpm { value: value.to_be_bytes().to_vec(), prefix_len }
}

#[test]
fn exact_tables() {
    let mut b = Bench::new("tables");
    let t = add(&mut b, "I.t_exact", "I.set_exact", vec![exact(0x0a00_0001), exact(7)], 0, 11);
    add(&mut b, "I.t_direct", "I.direct", vec![exact(7)], 0, 12);
    add(&mut b, "I.t_wide", "I.wide", vec![MatchField::Exact(vec![0x55; 16]), exact(0x0a00_0001)], 0, 13);
    let v = verdicts(&mut b, &frame(0x0a00_0001, 0, 7, 0x55));
    assert_eq!((v[EXACT], v[DIRECT], v[WIDE]), (11, 12, 13));
    let v = verdicts(&mut b, &frame(0x0a00_0001, 0, 8, 0x56));
    assert_eq!((v[EXACT], v[DIRECT], v[WIDE]), (0xffff, 0, 0));
    assert_eq!(flags(&mut b, &frame(0x0a00_0001, 0, 7, 0)).1, 1);
    assert_eq!(flags(&mut b, &frame(0x0a00_0001, 0, 8, 0)).1, 2);

    let key = [exact(0x0a00_0001), exact(7)];
    assert_eq!(b.switch.entry_counter(t, &key, 0).unwrap(), CounterValue { packets: 2, bytes: 46 });
    let reset = CounterValue { packets: 1, bytes: 2 };
    b.switch.set_entry_counter(t, &key, 0, reset).unwrap();
    assert_eq!(b.switch.entry_counter(t, &key, 0).unwrap(), reset);

    let new = EntryAction::Call(call(&b, t, "I.set_exact", 21));
    b.switch.table_modify(t, entry(key.to_vec(), 0, new)).unwrap();
    assert_eq!(verdicts(&mut b, &frame(0x0a00_0001, 0, 7, 0))[EXACT], 21);
    let stored = b.switch.table_get(t, &key, 0).unwrap();
    assert_eq!(stored.key, [MatchField::Exact(vec![0x0a, 0, 0, 1]), MatchField::Exact(vec![7])]);
    b.switch.table_delete(t, &key, 0).unwrap();
    assert_eq!(verdicts(&mut b, &frame(0x0a00_0001, 0, 7, 0))[EXACT], 0xffff);
    assert_eq!(b.switch.table_delete(t, &key, 0), Err(ControlError::NoEntry { table: t }));
}

#[test]
fn the_longest_prefix_wins_with_few_entries_and_with_many() {
    let mut b = Bench::new("tables");
    add(&mut b, "I.t_lpm", "I.set_lpm", vec![lpm(0x0a00_0000, 8)], 0, 8);
    add(&mut b, "I.t_lpm", "I.set_lpm", vec![lpm(0x0a01_0000, 16)], 0, 16);
    let t = add(&mut b, "I.t_lpm", "I.set_lpm", vec![lpm(0x0a01_0203, 32)], 0, 32);
    let check = |b: &mut Bench, what: &str| {
        for (a, x) in [(0x0a01_0203, 32), (0x0a01_0204, 16), (0x0a02_0000, 8), (0x0b00_0000, 0)] {
            assert_eq!(verdicts(b, &frame(a, 0, 0, 0))[LPM], x, "{what}: {a:x}");
        }
    };
    check(&mut b, "few");
    for i in 0..500u32 {
        add(&mut b, "I.t_lpm", "I.set_lpm", vec![lpm(0xc000_0000 | i << 8, 24)], 0, 24);
    }
    check(&mut b, "many");
    add(&mut b, "I.t_lpm", "I.set_lpm", vec![lpm(0, 0)], 0, 1);
    assert_eq!(verdicts(&mut b, &frame(0x0b00_0000, 0, 0, 0))[LPM], 1);
    b.switch.table_delete(t, &[lpm(0x0a01_0203, 32)], 0).unwrap();
    assert_eq!(verdicts(&mut b, &frame(0x0a01_0203, 0, 0, 0))[LPM], 16);
}

#[test]
fn the_highest_priority_wins_whatever_the_order_and_number() {
    // A model in a few lines, against 3 to 300 rules, with deletions.
    let mut seed = 1u64;
    let mut random = move |n: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % n
    };
    for rules in [3, 12, 13, 40, 300] {
        let mut b = Bench::new("tables");
        let t = b.switch.info().table("I.t_ternary").unwrap();
        let mut model: Vec<(u32, u32, u32, i32, u16)> = Vec::new();
        for i in 0..rules {
            let mask = [0xff, 0xf0, 0x0f, 0, 0x3c][random(5) as usize];
            let (value, bm) = (random(256) as u32 & mask, if random(2) == 0 { 0 } else { 3 });
            let (bv, prio, x) = (random(4) as u32 & bm, random(1000) as i32 + 1, i as u16 + 1);
            let key = vec![ternary(value, mask), ternary(bv, bm)];
            let action = EntryAction::Call(call(&b, t, "I.set_ternary", x));
            let same = model.iter().any(|m| m.3 == prio);
            if same {
                continue;
            }
            b.switch.table_insert(t, entry(key, prio, action)).unwrap();
            model.push((value | mask << 8, bv | bm << 8, 0, prio, x));
        }
        for round in 0..3 {
            for a in 0..256u32 {
                for bb in 0..4u32 {
                    let hit = |m: &&(u32, u32, u32, i32, u16)| {
                        (a & (m.0 >> 8)) == m.0 & 0xff && (bb & (m.1 >> 8)) == m.1 & 0xff
                    };
                    let want = model.iter().filter(hit).max_by_key(|m| m.3).map_or(0, |m| m.4);
                    let got = verdicts(&mut b, &frame(a, bb as u16, 0, 0))[TERNARY];
                    assert_eq!(got, want, "{rules} rules, round {round}, {a:x} {bb}");
                }
            }
            for _ in 0..model.len() / 3 {
                let m = model.swap_remove(random(model.len() as u64) as usize);
                let key = [ternary(m.0 & 0xff, m.0 >> 8), ternary(m.1 & 0xff, m.1 >> 8)];
                b.switch.table_delete(t, &key, m.3).unwrap();
            }
        }
    }
}

#[test]
fn ranges_optionals_and_const_entries() {
    let mut b = Bench::new("tables");
    let range = |low: u16, high: u16| MatchField::Range {
        low: low.to_be_bytes().to_vec(),
        high: high.to_be_bytes().to_vec(),
    };
    add(&mut b, "I.t_range", "I.range_", vec![range(10, 20), exact(1)], 1, 1);
    add(&mut b, "I.t_range", "I.range_", vec![range(15, 0xffff), exact(1)], 2, 2);
    let at = |b: &mut Bench, v: u16, c: u8| verdicts(b, &frame(0, v, c, 0))[RANGE];
    let got: Vec<u16> = [9, 10, 14, 15, 20, 0xffff].into_iter().map(|v| at(&mut b, v, 1)).collect();
    assert_eq!(got, [0, 1, 1, 2, 2, 2]);
    assert_eq!(at(&mut b, 15, 2), 0);

    let some = |v: u8| MatchField::Optional(Some(vec![v]));
    let none = MatchField::Optional(None);
    add(&mut b, "I.t_optional", "I.optional_", vec![some(5), none.clone()], 1, 1);
    add(&mut b, "I.t_optional", "I.optional_", vec![some(5), some(6)], 2, 2);
    add(&mut b, "I.t_optional", "I.optional_", vec![none.clone(), some(7)], 3, 3);
    let at = |b: &mut Bench, v: u16, c: u8| verdicts(b, &frame(0, v, c, 0))[OPTIONAL];
    assert_eq!([at(&mut b, 5, 0), at(&mut b, 5, 6), at(&mut b, 5, 7), at(&mut b, 4, 0)], [1, 2, 3, 0]);

    let at = |b: &mut Bench, v: u16, c: u8| verdicts(b, &frame(0, v, c, 0))[CONST];
    assert_eq!(
        [at(&mut b, 0x1234, 1), at(&mut b, 0x12ff, 1), at(&mut b, 9, 2), at(&mut b, 9, 1)],
        [1, 2, 3, 99]
    );
    let t = b.switch.info().table("I.t_const").unwrap();
    let all = b.switch.table_entries(t).unwrap();
    assert_eq!(all.len(), 3);
    assert!(all[0].priority > all[1].priority && all[1].priority > all[2].priority);
    let gone = b.switch.table_delete(t, &all[0].key, all[0].priority);
    assert_eq!(gone, Err(ControlError::Const { what: "the table's entries" }));
    let action = all[0].action.clone();
    assert!(matches!(b.switch.set_default(t, action), Err(ControlError::Const { .. })));
}

#[test]
fn defaults_change_and_come_back() {
    let mut b = Bench::new("tables");
    let t = b.switch.info().table("I.t_lpm").unwrap();
    let original = b.switch.default_entry(t).unwrap();
    let new = EntryAction::Call(call(&b, t, "I.set_lpm", 77));
    b.switch.set_default(t, new).unwrap();
    assert_eq!(verdicts(&mut b, &frame(1, 0, 0, 0))[LPM], 77);
    b.switch.reset_default(t).unwrap();
    assert_eq!(verdicts(&mut b, &frame(1, 0, 0, 0))[LPM], 0);
    assert_eq!(b.switch.default_entry(t).unwrap(), original);
}

#[test]
fn selectors_choose_by_hash_weight_and_port() {
    let mut b = Bench::new("tables");
    let info = b.switch.info().clone();
    let (t, p) = (info.table("I.t_selected").unwrap(), info.profile("I.choice").unwrap());
    for m in 1..=3u32 {
        let c = call(&b, t, "I.selected", m as u16 * 10);
        b.switch.member_insert(p, m, c).unwrap();
    }
    let member = |member, weight, watch_port| GroupMember { member, weight, watch_port };
    let group = Group { max_size: 0, members: vec![member(1, 1, None), member(2, 3, Some(9))] };
    b.switch.group_insert(p, 5, group.clone()).unwrap();
    b.switch.table_insert(t, entry(vec![exact(1)], 0, EntryAction::Group(5))).unwrap();
    b.switch.table_insert(t, entry(vec![exact(2)], 0, EntryAction::Member(3))).unwrap();
    let share = |b: &mut Bench, c: u8| {
        let mut counts = std::collections::BTreeMap::new();
        for i in 0..400u32 {
            let a = i.wrapping_mul(2_654_435_761);
            *counts.entry(verdicts(b, &frame(a, 0, c, 0))[SELECTED]).or_insert(0) += 1;
        }
        counts
    };
    let counts = share(&mut b, 1);
    assert_eq!(counts.keys().copied().collect::<Vec<_>>(), [10, 20]);
    assert!(counts[&20] > 2 * counts[&10], "{counts:?}");
    assert_eq!(share(&mut b, 1), counts, "the choice is a function of the field");
    b.switch.set_port_up(9, false);
    assert_eq!(share(&mut b, 1).keys().copied().collect::<Vec<_>>(), [10]);
    b.switch.set_port_up(9, true);
    assert_eq!(share(&mut b, 1), counts);
    assert_eq!(share(&mut b, 2)[&30], 400);
    assert_eq!(share(&mut b, 3)[&0], 400, "a miss does nothing");

    assert_eq!(b.switch.member_delete(p, 2), Err(ControlError::InUse { kind: "member" }));
    assert_eq!(b.switch.group_delete(p, 5), Err(ControlError::InUse { kind: "group" }));
    let c = call(&b, t, "I.selected", 11);
    b.switch.member_modify(p, 1, c).unwrap();
    b.switch.group_modify(p, 5, Group { max_size: 4, members: vec![member(1, 4, None)] }).unwrap();
    assert_eq!(share(&mut b, 1)[&11], 400);
    b.switch.group_modify(p, 5, Group { max_size: 0, members: vec![] }).unwrap();
    let default = EntryAction::Call(call(&b, t, "I.selected", 99));
    b.switch.set_default(t, default).unwrap();
    assert_eq!(share(&mut b, 1)[&0], 400, "an empty group does nothing");
    assert_eq!(share(&mut b, 3)[&99], 400, "a miss does what the default entry says");
    b.switch.reset_default(t).unwrap();
    b.switch.table_delete(t, &[exact(1)], 0).unwrap();
    b.switch.group_delete(p, 5).unwrap();
    b.switch.member_delete(p, 2).unwrap();
    assert_eq!(b.switch.members(p).unwrap().len(), 2);

    let weighted =
        |b: &Bench, x, weight| WeightedCall { call: call(b, t, "I.selected", x), weight, watch_port: None };
    let set = EntryAction::Set(vec![weighted(&b, 40, 1), weighted(&b, 41, 1)]);
    b.switch.table_insert(t, entry(vec![exact(1)], 0, set.clone())).unwrap();
    assert_eq!(share(&mut b, 1).keys().copied().collect::<Vec<_>>(), [40, 41]);
    let stored = b.switch.table_get(t, &[exact(1)], 0).unwrap().action;
    let EntryAction::Set(stored) = stored else { panic!("a set was expected") };
    assert_eq!(stored.len(), 2);
    b.switch.table_delete(t, &[exact(1)], 0).unwrap();
    assert_eq!(b.switch.group(p, 5), Err(ControlError::NotFound { kind: "group", id: 5 }));
    assert_eq!(b.switch.groups(p).unwrap(), []);
}

#[test]
fn profiles_without_selector() {
    let mut b = Bench::new("tables");
    let info = b.switch.info().clone();
    let (t, p) = (info.table("I.t_member").unwrap(), info.profile("I.members").unwrap());
    let c = call(&b, t, "I.member", 5);
    b.switch.member_insert(p, 1, c.clone()).unwrap();
    assert_eq!(b.switch.member_insert(p, 1, c.clone()), Err(ControlError::Duplicate { kind: "member" }));
    b.switch.table_insert(t, entry(vec![exact(4)], 0, EntryAction::Member(1))).unwrap();
    assert_eq!(verdicts(&mut b, &frame(0, 0, 4, 0))[MEMBER], 5);
    assert_eq!(flags(&mut b, &frame(0, 0, 4, 0)).1 & 16, 16, "switch on the member's action");
    assert_eq!(flags(&mut b, &frame(0, 0, 5, 0)).1 & 16, 0);
    let refused = b.switch.table_insert(t, entry(vec![exact(6)], 0, EntryAction::Call(c)));
    assert!(matches!(refused, Err(ControlError::WrongEntryAction(_))));
    let refused = b.switch.table_insert(t, entry(vec![exact(6)], 0, EntryAction::Member(9)));
    assert_eq!(refused, Err(ControlError::NotFound { kind: "member", id: 9 }));
    assert!(b.switch.group_insert(p, 1, Group { max_size: 0, members: vec![] }).is_err());
    for m in 2..=16 {
        let c = call(&b, t, "I.member", m as u16);
        b.switch.member_insert(p, m, c).unwrap();
    }
    let c = call(&b, t, "I.member", 0);
    assert_eq!(
        b.switch.member_insert(p, 99, c),
        Err(ControlError::Full { kind: "action profile", size: 16 })
    );
}

#[test]
fn direct_meters_value_sets_and_idle_timeouts() {
    let mut b = Bench::new("tables");
    let t = add(&mut b, "I.t_direct", "I.metered", vec![exact(7)], 0, 1);
    let config = MeterConfig { cir: 1, cburst: 1, pir: 1, pburst: 2 };
    b.switch.set_entry_meter(t, &[exact(7)], 0, Some(config)).unwrap();
    assert_eq!(b.switch.entry_meter(t, &[exact(7)], 0).unwrap(), Some(config));
    let colours: Vec<u8> = (0..3).map(|_| flags(&mut b, &frame(0, 0, 7, 0)).0).collect();
    assert_eq!(colours, [0, 1, 2]);
    let wrong = MeterConfig { cir: 2, ..config };
    assert!(b.switch.set_entry_meter(t, &[exact(7)], 0, Some(wrong)).is_err());

    let set = b.switch.info().value_set("P.special").unwrap();
    assert_eq!(flags(&mut b, &frame(0, 0x0102, 0, 0)).1 & 64, 0);
    b.switch.value_set_replace(set, vec![vec![exact(0x0102)], vec![exact(0x0304)]]).unwrap();
    assert_eq!(flags(&mut b, &frame(0, 0x0102, 0, 0)).1 & 64, 64);
    assert_eq!(flags(&mut b, &frame(0, 0x0103, 0, 0)).1 & 64, 0);
    assert_eq!(b.switch.value_set(set).unwrap()[1], [MatchField::Exact(vec![3, 4])]);
    assert!(b.switch.value_set_replace(set, vec![vec![exact(0x10000)]]).is_err());

    let rx = b.switch.notifications(4);
    let t = b.switch.info().table("I.t_exact").unwrap();
    let action = EntryAction::Call(call(&b, t, "I.set_exact", 1));
    let timed = TableEntry { idle_timeout_ns: 1_000_000_000, ..entry(vec![exact(1), exact(1)], 0, action) };
    b.switch.table_insert(t, timed.clone()).unwrap();
    let start = b.now;
    let (mut out, sweep) = (Vec::new(), b.switch.config().idle_sweep_ns);
    let mut tick = |b: &mut Bench, at: u64| b.switch.fire_timers(start + at, &mut b.pool, &mut out);
    tick(&mut b, 900_000_000);
    assert!(rx.try_recv().is_err());
    b.now = start + 950_000_000;
    b.send(1, &frame(1, 0, 1, 0));
    tick(&mut b, 1_500_000_000);
    assert!(rx.try_recv().is_err(), "it was hit in between");
    tick(&mut b, 2_000_000_000);
    let Ok(Notification::IdleTimeout { table, entries, .. }) = rx.try_recv() else { panic!("expected") };
    assert_eq!((table, entries.len()), (t, 1));
    tick(&mut b, 2_000_000_000 + sweep);
    assert!(rx.try_recv().is_err(), "told once per idle time");
    assert_eq!(b.switch.entry_idle_ns(t, &timed.key, 0, start + 2_000_000_000).unwrap(), 1_050_000_000);
}

#[test]
fn wrong_requests_change_nothing() {
    let mut b = Bench::new("tables");
    let t = b.switch.info().table("I.t_exact").unwrap();
    let ok = EntryAction::Call(call(&b, t, "I.set_exact", 1));
    let insert = |b: &mut Bench, key: Vec<MatchField>, priority, action: &EntryAction| {
        b.switch.table_insert(t, entry(key, priority, action.clone()))
    };
    let good = vec![exact(1), exact(1)];
    assert_eq!(insert(&mut b, vec![exact(1)], 0, &ok), Err(ControlError::KeyCount { got: 1, expected: 2 }));
    let wide = ControlError::TooWide { what: "key field", index: 1, width: 8 };
    assert_eq!(insert(&mut b, vec![exact(1), exact(256)], 0, &ok), Err(wide));
    assert!(matches!(
        insert(&mut b, vec![lpm(1, 32), exact(1)], 0, &ok),
        Err(ControlError::KeyKind { field: 0, .. })
    ));
    assert!(matches!(insert(&mut b, good.clone(), 1, &ok), Err(ControlError::Priority(_))));
    let foreign =
        b.switch.info().table_action(b.switch.info().table("I.t_lpm").unwrap(), "I.set_lpm").unwrap();
    let other = EntryAction::Call(ActionCall { action: foreign, params: vec![vec![1]] });
    assert_eq!(
        insert(&mut b, good.clone(), 0, &other),
        Err(ControlError::WrongAction { action: "I.set_lpm".into() })
    );
    let EntryAction::Call(call) = &ok else { unreachable!() };
    let none = EntryAction::Call(ActionCall { params: vec![], ..call.clone() });
    assert!(matches!(insert(&mut b, good.clone(), 0, &none), Err(ControlError::ParamCount { .. })));
    let big = EntryAction::Call(ActionCall { params: vec![vec![1, 0, 0]], ..call.clone() });
    assert!(matches!(
        insert(&mut b, good.clone(), 0, &big),
        Err(ControlError::TooWide { what: "parameter", .. })
    ));
    assert!(matches!(
        insert(&mut b, good.clone(), 0, &EntryAction::Member(1)),
        Err(ControlError::WrongEntryAction(_))
    ));
    assert_eq!(b.switch.table_len(t).unwrap(), 0);

    insert(&mut b, good.clone(), 0, &ok).unwrap();
    assert_eq!(insert(&mut b, good, 0, &ok), Err(ControlError::Duplicate { kind: "table entry" }));
    for c in 2..=8 {
        insert(&mut b, vec![exact(1), exact(c)], 0, &ok).unwrap();
    }
    assert_eq!(
        insert(&mut b, vec![exact(1), exact(9)], 0, &ok),
        Err(ControlError::Full { kind: "table", size: 8 })
    );
    b.switch.table_clear(t).unwrap();
    assert_eq!(b.switch.table_len(t).unwrap(), 0);

    let t = b.switch.info().table("I.t_ternary").unwrap();
    let ternary_entry = |key, priority| {
        entry(key, priority, EntryAction::Call(self::call(&Bench::new("tables"), t, "I.set_ternary", 1)))
    };
    let any = MatchField::Optional(None);
    let r = b.switch.table_insert(t, ternary_entry(vec![any.clone(), any.clone()], 0));
    assert!(matches!(r, Err(ControlError::Priority(_))));
    let r = b.switch.table_insert(t, ternary_entry(vec![ternary(3, 1), any], 1));
    assert!(matches!(r, Err(ControlError::BadKey { field: 0, .. })));
    assert!(b.switch.table_get(TableId(99), &[], 0).is_err());
    assert!(b.switch.multicast_group_insert(0, vec![]).is_err());
    let twice = vec![Replica { port: 1, instance: 1 }; 2];
    assert!(b.switch.multicast_group_insert(1, twice).is_err());
    assert!(b.switch.clone_session_insert(40_000, CloneSession::default()).is_err());
    assert!(b.switch.register_read(RegisterId(0), 0).is_err());
}

#[test]
fn another_program_starts_afresh() {
    let mut b = Bench::new("tables");
    add(&mut b, "I.t_direct", "I.direct", vec![exact(7)], 0, 12);
    b.switch.multicast_group_insert(1, vec![]).unwrap();
    let same = b.switch.program().clone();
    b.switch.replace_program(&same);
    assert_eq!(verdicts(&mut b, &frame(0, 0, 7, 0))[DIRECT], 0);
    assert!(b.switch.multicast_group(1).is_err());
}
