//! A worker's list of producers changes under its eyes: those who stay must be served on, and the stream must not end.

use std::io::Write;
use std::process::{Child, ChildStdin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use super::system::{HOSTS, System, done, line, say};

const KINDS: [&str; 3] = ["shuffle", "load-balance", "replicate"];

/// A flow with a consumer and a producer that stay.
fn flow(system: &System, kind: &str) {
    let args = ["flow", "create", "f", "--kind", kind, "-p", "stays@h1", "-c", "h3", "--item-size", "1KiB"];
    system.well(&args);
}

#[test]
fn a_closed_producer_that_is_taken_out_ends_nothing() {
    for kind in KINDS {
        let system = System::up(HOSTS);
        flow(&system, kind);
        let (mut consumer, mut lines) = system.start(&["consume", "f"]);
        let (mut stays, _) = system.start(&["produce", "f", "--member", "stays"]);
        for round in 0..20 {
            let goes = format!("goes{round}");
            system.well(&["flow", "add-producer", "f", &format!("{goes}@h2")]);
            let closed = system.zsr(&["produce", "f", "--member", &goes]);
            assert_eq!(closed.code, Some(0), "{}", closed.err);
            system.well(&["flow", "remove-member", "f", &goes]);
            say(&mut stays, &format!("line {round}\n"));
            assert_eq!(line(&mut lines), format!("line {round}"), "{kind}");
        }
        drop(stays.stdin.take());
        assert!(stays.wait().expect("it ends").success() && consumer.wait().expect("it ends").success());
        system.down();
    }
}

/// Says lines until it is told to stop, or its program is gone.
fn babble(mut to: ChildStdin, stop: Arc<AtomicBool>) -> JoinHandle<()> {
    std::thread::spawn(move || while !stop.load(Ordering::Relaxed) && to.write_all(b"babble\n").is_ok() {})
}

#[test]
fn a_producer_that_is_dropped_with_items_left_does_not_stop_the_others() {
    for kind in KINDS {
        let system = System::up(HOSTS);
        flow(&system, kind);
        let (mut consumer, lines) = system.start(&["consume", "f"]);
        let (mut stays, _) = system.start(&["produce", "f", "--member", "stays"]);
        // Read all the time, so that nobody waits for that.
        let (tell, told) = mpsc::channel();
        let reader = std::thread::spawn(move || {
            use std::io::BufRead;
            for line in lines.lines().map_while(Result::ok).filter(|l| l != "babble") {
                if tell.send(line).is_err() {
                    return;
                }
            }
        });
        for round in 0..8 {
            let goes = format!("goes{round}");
            system.well(&["flow", "add-producer", "f", &format!("{goes}@h2")]);
            let (mut program, _): (Child, _) = system.start(&["produce", "f", "--member", &goes]);
            say(&mut program, "here\n");
            assert_eq!(told.recv().expect("the stream goes on"), "here", "{kind}");
            let stop = Arc::new(AtomicBool::new(false));
            let babbles = babble(program.stdin.take().expect("piped"), stop.clone());
            system.well(&["flow", "remove-member", "f", &goes, "--force"]);
            stop.store(true, Ordering::Relaxed);
            let ended = done(program.wait_with_output().expect("it ends"));
            assert_eq!(ended.code, Some(1), "{kind}: its member is gone: {}", ended.err);
            babbles.join().expect("joined");
            say(&mut stays, &format!("line {round}\n"));
            assert_eq!(told.recv().expect("the stream goes on"), format!("line {round}"), "{kind}");
        }
        drop(stays.stdin.take());
        assert!(stays.wait().expect("it ends").success() && consumer.wait().expect("it ends").success());
        reader.join().expect("joined");
        system.down();
    }
}
