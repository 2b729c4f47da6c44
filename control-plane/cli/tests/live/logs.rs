//! The logs of a system's processes.

use crate::system::{HOSTS, System};
use serde_json::Value;
use std::net::TcpListener;

/// Lines of a process's log; each is one JSON object.
fn lines(system: &System, process: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(system.root().join(format!("s/{process}.log"))).expect("a log");
    let line = |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("{process}: {e}: {line}"));
    text.lines().map(line).collect()
}

/// How many lines have all of these fields.
fn count(lines: &[Value], fields: &[(&str, &str)]) -> usize {
    lines.iter().filter(|line| fields.iter().all(|(name, value)| line[name] == *value)).count()
}

#[test]
fn each_process_logs_what_happens_as_json_also_after_a_restart() {
    let system = System::new(HOSTS);
    system.well(&["up", system.path(), "--log", "debug", "--log-format", "json"]);
    system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2", "--item-size", "64"]);

    let controller = lines(&system, "controller");
    assert_eq!(count(&controller, &[("kind", "flow-created"), ("flow", "f"), ("level", "INFO")]), 1);
    let of_change = |line: &&Value| {
        let span = &line["span"];
        span["name"] == "change" && span["operation"] == "create" && span["flow"] == "f"
    };
    let change: Vec<&Value> = controller.iter().filter(of_change).collect();
    let says = |text: &str| change.iter().position(|line| line["message"] == text);
    assert!(says("creating flow begins") < says("creating flow ends"), "{change:?}");
    assert!(change.iter().any(|line| line["message"] == "creating flow ends" && line["took"].is_string()));
    // A question to an agent is part of the change.
    let asks = |line: &Value| {
        let spans = line["spans"].as_array().expect("spans");
        let names: Vec<_> = spans.iter().filter_map(|span| span["name"].as_str()).collect();
        names == ["change", "agent"] && spans[0]["flow"] == "f" && spans[1]["what"] == "make a ring"
    };
    assert!(controller.iter().filter(|line| line["spans"].is_array()).any(asks), "{controller:?}");

    let agent = lines(&system, "agent.h1");
    assert_eq!(count(&agent, &[("kind", "created"), ("ring", "f.h1.h2")]), 1, "{agent:?}");
    let switch = lines(&system, "switch");
    assert_eq!(count(&switch, &[("message", "the switch runs a new program")]), 1, "{switch:?}");

    system.well(&["restart", "controller"]);
    assert_eq!(count(&lines(&system, "controller"), &[("kind", "controller-started")]), 2);
    system.down();
}

#[test]
fn a_part_can_be_chosen_and_lines_for_people_have_time_and_level() {
    let system = System::new(HOSTS);
    let up = system.command(&["up", system.path()]).env("ZSR_LOG", "zsr_controller::api=info").output();
    assert!(up.expect("it runs").status.success());
    system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2", "--item-size", "64"]);
    let log = |process: &str| std::fs::read_to_string(system.root().join(format!("s/{process}.log")));
    let controller = log("controller").expect("a log");
    let created = controller.lines().find(|line| line.contains("flow-created")).expect("the event");
    assert!(created.contains(" INFO ") && created.contains("flow=\"f\"") && created.starts_with("20"));
    assert_eq!(log("agent.h1").expect("a log") + &log("switch").expect("a log"), "");
    system.down();
}

#[test]
fn without_a_filter_logs_are_empty_while_nothing_is_wrong() {
    let system = System::up(HOSTS);
    system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2", "--item-size", "64"]);
    system.well(&["flow", "delete", "f"]);
    for process in ["controller", "switch", "agent.h1"] {
        let log = std::fs::read_to_string(system.root().join(format!("s/{process}.log"))).expect("a log");
        assert_eq!(log, "", "{process}");
    }
    system.down();
}

#[test]
fn a_wrong_filter_is_refused_before_anything_runs() {
    let system = System::new(HOSTS);
    for (filter, why) in [
        ("loud", "`loud` is no level"),
        ("zsr_controller=loud", "loud"),
        ("warn,[x", "expected off, error, warn"),
    ] {
        for done in [
            system.zsr(&["controller", system.path(), "--log", filter]),
            crate::system::done(
                system.command(&["up", system.path()]).env("ZSR_LOG", filter).output().expect("runs"),
            ),
        ] {
            assert_eq!((done.code, done.out.as_str()), (Some(2), ""), "{filter}: {}", done.err);
            assert!(done.err.contains(why) && done.err.contains("--log"), "{filter}: {}", done.err);
        }
    }
    let done = system.zsr(&["agent", system.path(), "h1", "--log-format", "xml"]);
    assert_eq!(done.code, Some(2));
    assert!(done.err.contains("[possible values: text, json]"), "{}", done.err);
    assert!(!system.root().join("s").exists(), "no process has run");
}

#[test]
fn the_reason_of_a_process_that_does_not_start_is_told_in_words() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = taken.local_addr().expect("an address");
    let switch = format!("insecure: true\nswitches: [{{name: s1, p4runtime: {{listen: '{at}'}}}}]\n");
    let system = System::new(&(switch + HOSTS));
    let up = system.zsr(&["up", system.path(), "--log-format", "json"]);
    assert_eq!(up.code, Some(1));
    let why = "error: the switch did not start: the P4Runtime server: P4Runtime can't listen on";
    assert!(up.err.lines().any(|line| line.starts_with(why)), "{}", up.err);
    // In the foreground, the reason is a line of the log.
    let switch = system.zsr(&["switch", system.path(), "--log-format", "json"]);
    assert_eq!(switch.code, Some(1));
    let last = switch.err.lines().last().expect("a line");
    let line: Value = serde_json::from_str(last).expect("JSON");
    let message = line["message"].as_str().expect("text");
    assert!(line["level"] == "ERROR" && message.contains("can't listen"), "{line}");
}
