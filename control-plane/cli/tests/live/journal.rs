//! A controller's journal that lies outside the system's folder.

use super::system::{System, signal};

const FLOW: &str = "name: s\nhosts: [h1, h2]\nflows:\n  - {name: rows, kind: shuffle, producers: [h1], consumers: [h2], item_size: 64}\n";

fn flows(system: &System) -> Vec<String> {
    let text = |f: &serde_json::Value| f["name"].as_str().expect("a name").to_owned();
    system.json(&["flow", "list"]).iter().map(text).collect()
}

/// Ends all processes of a system at once, as a machine that loses its power.
fn dies(system: &System) {
    for (_, pid) in system.processes() {
        signal(pid.expect("it lives"), "-KILL");
    }
    while system.processes().iter().any(|(_, pid)| pid.is_some()) {
        std::thread::yield_now();
    }
    std::fs::remove_dir_all(system.root()).expect("as after a restart of the machine");
}

#[test]
fn a_journal_outlives_the_system_and_its_flows_are_taken_up() {
    let system = System::new(FLOW);
    let journal = system.root().with_file_name("kept");
    let up = ["up", system.path(), "--journal", journal.to_str().expect("text")];
    system.well(&up);
    system.well(&["flow", "create", "more", "-p", "h2", "-c", "h1", "--item-size", "64", "--weight", "3"]);
    dies(&system);
    let again = system.zsr(&up);
    assert_eq!(again.code, Some(0), "{}", again.err);
    assert!(again.err.contains("flow `rows` was in the journal"), "{}", again.err);
    assert_eq!(flows(&system), ["more", "rows"]);
    assert_eq!(system.json(&["flow", "show", "more"])[0]["settings"]["weight"], 3);
    // The next controller finds it, too, though nobody names it again.
    signal(system.pid("controller"), "-KILL");
    system.well(&["restart", "controller"]);
    assert_eq!(flows(&system), ["more", "rows"]);

    // One that is refused changes nothing for the one that runs, nor for its successors.
    let other = system.root().with_file_name("other");
    let refused = system.zsr(&["controller", system.path(), "--journal", other.to_str().expect("text")]);
    assert_eq!(refused.code, Some(1), "{}", refused.err);
    system.well(&["restart", "controller"]);
    assert_eq!(flows(&system), ["more", "rows"]);
    assert!(!other.exists());
    system.down();
    // Flows that were deleted do not come again.
    system.well(&[&up[..], &["--no-flows"]].concat());
    assert!(flows(&system).is_empty());
    system.down();
}

#[test]
fn a_journal_has_one_controller_at_a_time() {
    let (one, two) = (System::new(FLOW), System::new(FLOW));
    let journal = one.root().with_file_name("kept");
    let journal = journal.to_str().expect("text");
    one.well(&["up", one.path(), "--journal", journal]);
    let refused = two.zsr(&["up", two.path(), "--journal", journal]);
    assert_eq!(refused.code, Some(1), "{}", refused.err);
    assert!(refused.err.contains("another controller writes it"), "{}", refused.err);
    one.well(&["restart", "controller"]);
    assert_eq!(flows(&one), ["rows"]);
    let nowhere = two.zsr(&["up", two.path(), "--journal", "/nowhere/journal"]);
    assert_eq!(nowhere.code, Some(1));
    assert!(nowhere.err.contains("/nowhere/journal"), "{}", nowhere.err);
    one.down();
}
