//! The state controls of both architectures (`p4/arch/*/state.p4`): the same registers and the same fields for every operation
//! that the pipeline asks for. Nothing runs tna's elsewhere.

use std::path::Path;

use zsr_p4_states::{Pairs, Sources, TNA};

/// Inputs per control and operation.
const CASES: u64 = 2000;

/// Changes that change nothing: where both values are equal, it is the same which of them is taken.
const SAME: [(&str, &str); 8] = [
    ("MemberTailState", "`<` becomes `<=`"),
    ("MemberTailState", "`0` becomes `1`"),
    ("ProducerHeadState", "`>=` becomes `>`"),
    ("ProducerHeadState", "`0` becomes `1`"),
    ("FromState", "`<` becomes `<=`"),
    ("FromState", "`>` becomes `>=`"),
    ("DueState", "`>=` becomes `>`"),
    ("DueState", "`0` becomes `1`"),
];

fn sources() -> Sources {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    Sources::read(root).unwrap()
}

#[test]
fn both_sides_of_each_pair_leave_the_same() {
    let mut pairs = Pairs::new(&sources()).unwrap();
    let found: Vec<_> =
        pairs.controls().iter().filter_map(|control| pairs.compare(control, CASES).err()).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
    let missed = pairs.missed();
    assert!(missed.is_empty(), "not all was tried:\n{}", missed.join("\n"));
    let unfounded = pairs.unfounded().unwrap();
    assert!(unfounded.is_empty(), "{}", unfounded.join("\n"));
}

#[test]
fn a_branch_that_no_case_took_is_named() {
    let sources = sources();
    let mut pairs = Pairs::new(&sources).unwrap();
    pairs.compare("CreditState", CASES).unwrap();
    let text = sources.text("p4/arch/v1model/state.p4").unwrap();
    let line = |of: &str| text.split_once(of).map_or(0, |(before, _)| before.lines().count());
    let missed = pairs.missed();
    let named = format!("state.p4:{}: TriesState: is never true", line("if (m.do_tries == DO_ADD)"));
    assert!(missed.iter().any(|m| m.ends_with(&named)), "no {named}: {missed:#?}");
    assert!(!missed.iter().any(|m| m.contains("CreditState")), "{missed:#?}");
}

/// The comparison's assumptions are looked up in the pipeline's texts.
#[test]
fn a_pipeline_that_breaks_an_assumption_is_found() {
    let sources = sources();
    let changes = [
        (
            "steps.p4",
            "m.do_due = DO_MATCH;",
            "m.do_due = DO_MATCH; m.producer_step = TAIL_SENT;",
            "producer_step",
        ),
        ("steps.p4", "m.g.blocked = 0;", "m.g.late = 0;", "g.blocked"),
        ("transfer.p4", "m.locked = 1;", "m.locked = 0;", "locked"),
        ("outcome.p4", "m.b.hops = 0;", "m.b.length = m.g.debt;", "g.debt is read"),
    ];
    for (file, from, to, named) in changes {
        let path = format!("p4/pipeline/{file}");
        let text = sources.text(&path).unwrap();
        assert!(text.contains(from), "{path} has no `{from}`");
        let pairs = Pairs::new(&sources.with(&path, text.replacen(from, to, 1))).unwrap();
        let found = pairs.unfounded().unwrap();
        assert!(found.iter().any(|f| f.contains(&format!("m.{named}"))), "`{to}`: {found:#?}");
    }
}

/// Makes one change of tna's text at a time: each operator, assignment, table entry, number and operand.
#[test]
fn a_pair_that_is_made_to_differ_is_found() {
    let sources = sources();
    let mut pairs = Pairs::new(&sources).unwrap();
    let mutants = pairs.mutants(sources.text(TNA).unwrap()).unwrap();
    assert!(mutants.len() > 400, "only {} changes", mutants.len());
    let mut survivors = Vec::new();
    for mutant in mutants {
        pairs.put_tna(&mutant.text).unwrap_or_else(|e| panic!("{}: {e}", mutant.change));
        match pairs.compare(&mutant.control, CASES) {
            Ok(()) => survivors.push((mutant.control, mutant.change)),
            Err(found) => assert!(found.starts_with(&mutant.control), "{}: {found}", mutant.change),
        }
    }
    let same =
        |(control, change): &(String, String), (c, s): &(&str, &str)| control == c && change.starts_with(s);
    let unknown: Vec<_> = survivors.iter().filter(|s| !SAME.iter().any(|line| same(s, line))).collect();
    assert!(unknown.is_empty(), "not found: {unknown:#?}");
    let needless: Vec<_> = SAME.iter().filter(|line| !survivors.iter().any(|s| same(s, line))).collect();
    assert!(needless.is_empty(), "listed in SAME, but found: {needless:?}");
}

#[test]
fn what_is_not_understood_is_an_error_with_its_place() {
    let sources = sources();
    let mut pairs = Pairs::new(&sources).unwrap();
    let text = sources.text(TNA).unwrap();
    let changes = [
        ("v = v + m.consumer_step;", "v = v * m.consumer_step;"),
        ("v = v + m.consumer_step;", "v = v + m.over;"),
        ("v = v + m.consumer_step;", "v = v + 0x100000000;"),
        ("v = v + m.consumer_step;", "v = v + m.nobody;"),
        ("v = v + m.consumer_step;", "while (v) { }"),
        ("m.consumer_psn = add.execute(m.b.worker);", "m.consumer_psn = add.execute(m.b.word);"),
        ("m.consumer_psn = add.execute(m.b.worker);", "m.over = add.execute(m.b.worker);"),
        ("m.consumer_psn = add.execute(m.b.worker);", "add.execute(m.b.worker); get.execute(m.b.worker);"),
        ("DO_ADD   : do_add();\n            DO_RESET : do_put();", "DO_ADD   : do_more();"),
    ];
    for (from, to) in changes {
        let (before, _) = text.split_once(from).unwrap_or_else(|| panic!("no `{from}`"));
        let line = before.lines().count();
        let changed = text.replacen(from, to, 1);
        let error = pairs.put_tna(&changed).and_then(|()| pairs.compare("ConsumerPsnState", 2));
        let error = error.expect_err(to);
        assert!(error.contains(&format!("{TNA}:{line}: ")), "`{to}` in line {line}: {error}");
    }
}

/// Else the text behind it would be left out, whatever its condition.
#[test]
fn an_elif_is_an_error_where_the_if_does_not_hold() {
    let sources = sources();
    let text = format!("#ifdef NOBODY\n#elif 1 == 1\n#endif\n{}", sources.text(TNA).unwrap());
    let error = Pairs::new(&sources).unwrap().put_tna(&text).unwrap_err();
    assert!(error.starts_with(&format!("{TNA}:2: #elif")), "{error}");
}

#[test]
fn a_control_of_one_architecture_alone_is_an_error() {
    let sources = sources();
    let renamed = sources.text(TNA).unwrap().replace("control TurnState", "control TurnsState");
    let error = Pairs::new(&sources.with(TNA, renamed)).unwrap_err();
    assert!(error.contains("different state controls"), "{error}");
}
