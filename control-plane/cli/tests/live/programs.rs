//! Programs that come one after the other: what one has not dealt with is the next one's.

use std::fs::File;
use std::process::{Command, Stdio};

use super::system::{Done, HOSTS, System, done};

/// A flow whose lines, from 0 to below `count`, lie in its consumer's ring, in one item.
fn with_lines(count: u32) -> System {
    let system = System::up(HOSTS);
    system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2", "--item-size", "64KiB"]);
    produce(&system, count);
    system
}

fn produce(system: &System, count: u32) {
    let path = system.folder.path().join("in");
    std::fs::write(&path, numbers(0, count)).expect("written");
    let mut command = system.command(&["produce", "f"]);
    let done = done(command.stdin(File::open(&path).expect("there")).output().expect("it runs"));
    assert_eq!(done.code, Some(0), "{}", done.err);
}

fn numbers(from: u32, to: u32) -> String {
    (from..to).map(|n| format!("{n}\n")).collect()
}

fn run(command: &mut Command) -> Done {
    done(command.stderr(Stdio::piped()).spawn().expect("it runs").wait_with_output().expect("it ends"))
}

#[test]
fn the_rest_behind_so_many_records_is_for_the_next_program() {
    let system = with_lines(1000);
    for n in 0..3 {
        assert_eq!(system.well(&["consume", "f", "-n", "3"]), numbers(3 * n, 3 * n + 3));
    }
    assert_eq!(system.well(&["consume", "f", "-n", "0"]), "");
    assert_eq!(system.well(&["consume", "f"]), numbers(9, 1000));
    system.well(&["flow", "delete", "f"]);
    system.down();
}

#[test]
fn what_could_not_be_written_is_for_the_next_program() {
    let system = with_lines(1000);
    // A disk that is full.
    let full = File::options().write(true).open("/dev/full").expect("there");
    let stopped = run(system.command(&["consume", "f"]).stdout(full));
    assert_eq!(stopped.code, Some(1));
    let why = "standard output: No space left on device";
    assert!(stopped.err.contains(why) && stopped.err.lines().count() == 1, "{}", stopped.err);
    assert_eq!(system.well(&["consume", "f", "-n", "2"]), numbers(0, 2));
    // A reader that has gone away.
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let stopped = run(system.command(&["consume", "f", "--quiet"]).stdout(writer));
    assert_eq!((stopped.code, stopped.err.as_str()), (Some(0), ""));
    assert_eq!(system.well(&["consume", "f"]), numbers(2, 1000));
    system.well(&["flow", "delete", "f"]);
    system.down();
}

#[test]
fn a_tuple_that_is_no_line_is_for_a_program_that_can_tell_it() {
    let system = System::up(HOSTS);
    system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2", "--schema", "a: bytes(3)"]);
    let (mut producer, _) = system.start(&["produce", "f", "--record-size", "3"]);
    super::system::say(&mut producer, "onea,btwo");
    drop(producer.stdin.take());
    assert!(producer.wait().expect("it ends").success());
    let stopped = system.zsr(&["consume", "f"]);
    assert_eq!((stopped.code, stopped.out.as_str()), (Some(1), "one\n"), "{}", stopped.err);
    assert!(stopped.err.contains("column `a`"), "{}", stopped.err);
    assert_eq!(system.well(&["consume", "f", "--delimiter", "|"]), "a,b\ntwo\n");
    system.down();
}
