//! What a program shows of itself where standard error is a terminal.

use std::fs::File;
use std::io::Read;
use std::os::fd::FromRawFd;
use std::process::Stdio;

use super::system::{HOSTS, System};

/// Both ends of a terminal: what is shown there, and what a program takes for its terminal.
fn terminal() -> (File, File) {
    let (mut shown, mut end) = (0, 0);
    let size = libc::winsize { ws_row: 24, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: both places live as long as the call, which asks for no name; the descriptors are nobody else's.
    unsafe {
        let opened = libc::openpty(&mut shown, &mut end, std::ptr::null_mut(), std::ptr::null(), &size);
        assert_eq!(opened, 0, "a terminal");
        (File::from_raw_fd(shown), File::from_raw_fd(end))
    }
}

#[test]
fn a_terminal_shows_how_far_a_program_is() {
    let system = System::up(HOSTS);
    system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2"]);
    let (mut shown, end) = terminal();
    let mut command = system.command(&["produce", "f"]);
    let mut producer =
        command.env("TERM", "xterm").stdin(Stdio::piped()).stderr(end).spawn().expect("it runs");
    // The end of the terminal goes with the program.
    drop(command);
    super::system::say(&mut producer, "one\ntwo\n");
    let mut text = String::new();
    let mut buffer = [0; 4096];
    while !text.contains("2 records, 6 B, 0 B/s, waiting for input") {
        let read = shown.read(&mut buffer).expect("it goes on");
        text.push_str(&String::from_utf8_lossy(&buffer[..read]));
    }
    drop(producer.stdin.take());
    assert!(producer.wait().expect("it ends").success());
    // An error is the end of a terminal that nobody has any more.
    while let Ok(read @ 1..) = shown.read(&mut buffer) {
        text.push_str(&String::from_utf8_lossy(&buffer[..read]));
    }
    assert!(text.contains("pushed 2 records, 6 B"), "{text}");
    // Nowhere else is a line drawn.
    let consumed = system.zsr(&["consume", "f"]);
    assert_eq!((consumed.out.as_str(), consumed.err.lines().count()), ("one\ntwo\n", 1), "{}", consumed.err);
    assert!(consumed.err.starts_with("consumed 2 records, 6 B"), "{}", consumed.err);
    system.down();
}
