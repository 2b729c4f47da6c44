//! What commands show in terminals: how far a program is, and tables that fit.

use std::fs::File;
use std::io::Read;
use std::os::fd::FromRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use super::system::{HOSTS, System};

/// Both ends of a terminal: what is shown there, and what a program takes for its terminal.
fn terminal(columns: u16) -> (File, File) {
    let (mut shown, mut end) = (0, 0);
    let size = libc::winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
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
    let (mut shown, end) = terminal(120);
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

/// What a command shows that has a terminal of its own, of so many columns.
fn shown(mut command: Command, columns: u16) -> String {
    let (mut shown, end) = terminal(columns);
    let input = end.try_clone().expect("a descriptor");
    command.env("TERM", "xterm").stdin(input).stdout(end).stderr(Stdio::null());
    // SAFETY: between fork and exec nothing but this call is made. Without a session of its own the command would ask for the
    // width of whatever terminal the tests run in.
    unsafe {
        command.pre_exec(|| match libc::setsid() {
            -1 => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        });
    }
    let mut child = command.spawn().expect("it runs");
    drop(command);
    let (mut text, mut buffer) = (Vec::new(), [0; 4096]);
    // An error is the end of a terminal that nobody has any more.
    while let Ok(read @ 1..) = shown.read(&mut buffer) {
        text.extend_from_slice(&buffer[..read]);
    }
    assert!(child.wait().expect("it ends").success());
    String::from_utf8(text).expect("text").replace('\r', "")
}

/// Every line fits, and all these words are there, as a whole.
fn fits(text: &str, columns: u16, words: &str) {
    for line in text.lines() {
        assert!(line.chars().count() <= columns.into(), "{columns}: {line:?} in\n{text}");
    }
    let found: Vec<&str> = text.split_whitespace().collect();
    for word in words.split_whitespace() {
        assert!(found.contains(&word), "{columns}: {word} is missing in\n{text}");
    }
}

#[test]
fn tables_fit_the_terminal() {
    let topology = concat!(env!("CARGO_MANIFEST_DIR"), "/../../topologies/shuffle-2x2.yaml");
    let system = System::new("hosts: [h1, h2]\nflows: []\n");
    let job = |more: &[&str]| {
        let run = ["run", topology, "--scale", "0.001", "--quiet"];
        system.command(&[&run, more].concat())
    };
    let rings = "lineitem lineitem.h1.h3 lineitem.h2.h4 lineitem.h3 lineitem.h4";
    for (columns, wanted, without) in [
        (80, "items records bytes goodput retries", "transfers polls"),
        (100, "items records bytes goodput transfers polls retries", "ctl"),
        (160, "items records bytes goodput transfers mean batch polls ctl pkts/GB bytes/GB retries", ""),
    ] {
        let text = shown(job(&[]), columns);
        fits(&text, columns, &format!("{rings} {wanted} OK:"));
        let header = text.lines().find(|line| line.contains("flow / ring")).expect("a header");
        assert!(without.split_whitespace().all(|word| !header.contains(word)), "{text}");
        assert_eq!(text.contains("not shown:"), !without.is_empty(), "{text}");
        // Above and below the header, and at the end.
        let rules = text.lines().filter(|line| line.starts_with(['─', '═'])).count();
        assert_eq!(rules, 3, "{text}");
    }
    // Everything, if somebody wants it, and for programs: a row in a line.
    let piped = job(&[]).output().expect("it runs");
    let piped = String::from_utf8(piped.stdout).expect("text");
    for text in [shown(job(&["--wide"]), 80), piped] {
        let row = |name: &str| {
            let row =
                text.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{name} in {text}"));
            row.split("  ").filter(|cell| !cell.is_empty()).count()
        };
        assert_eq!((row("flow / ring"), row("lineitem.h2.h4")), (11, 11), "{text}");
    }
}

#[test]
fn tables_of_a_running_system_fit_the_terminal() {
    let system = System::up(include_str!("../../../../topologies/shuffle-2x2.yaml"));
    let rings = "lineitem.h1.h3 lineitem.h1.h4 lineitem.h2.h3 lineitem.h2.h4 lineitem.h3 lineitem.h4";
    for columns in [80, 100, 160] {
        let shown = |args: &[&str]| shown(system.command(args), columns);
        let words = |more: &str| format!("{rings} {more}");
        fits(&shown(&["ring", "list"]), columns, &words("RING ROLE HOST SIZE MEMORY producer consumer h1"));
        fits(&shown(&["flow", "show", "lineitem"]), columns, &words("weight RING ROLE HOST SIZE MEMORY"));
        fits(
            &shown(&["flow", "list"]),
            columns,
            "FLOW KIND STATE PRODUCERS CONSUMERS lineitem shuffle h1,h2 h3,h4",
        );
        fits(&shown(&["status"]), columns, "PROCESS PID STATE HOST IP AGENT h4 answers controller");
        let top = shown(&["top", "-n", "1", "-i", "10ms"]);
        for ring in rings.split(' ') {
            // In front of it and behind it is no other text, but a move of the cursor or a colour.
            let whole = ['H', 'm'].iter().any(|end| top.contains(&format!("{end}{ring}\u{1b}")));
            assert!(whole, "{columns}: {ring} is missing in {top:?}");
        }
    }
    // For programs: all columns, at any width.
    let header = |args: &[&str]| system.well(args).lines().next().map(str::to_owned).unwrap_or_default();
    assert_eq!(header(&["ring", "list"]).split_whitespace().count(), 9);
    assert_eq!(header(&["flow", "list"]).split_whitespace().count(), 8);
    system.down();
}
