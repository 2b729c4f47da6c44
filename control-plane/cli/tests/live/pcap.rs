//! Links of a running system, watched.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Stdio};

use super::system::{System, done, signal};

const FLOW: &str = "name: s\nhosts: [h1, h2, h3]\nflows:\n  - {name: rows, producers: [h1], consumers: [h2], \
                    item_size: 4KiB, ring_size: 32KiB}\n";

/// What a capture holds: the comment of each packet, and packets that passed and were lost, as it says at its end.
#[derive(Debug, Default)]
struct Held {
    comments: Vec<String>,
    counted: Option<(u64, u64)>,
}

fn read(path: &Path) -> Held {
    let file = std::fs::read(path).expect("a capture");
    let file = file.as_slice();
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().expect("4 bytes")) as usize;
    let half = |at: usize| u16::from_le_bytes(file[at..at + 2].try_into().expect("2 bytes"));
    let options = |mut at: usize| {
        std::iter::from_fn(move || {
            let (code, len) = (half(at), usize::from(half(at + 2)));
            let value = &file[at + 4..at + 4 + len];
            at += 4 + len.next_multiple_of(4);
            (code != 0).then_some((code, value))
        })
    };
    let number = |value: &[u8]| u64::from_le_bytes(value.try_into().expect("8 bytes"));
    let (mut held, mut at) = (Held::default(), 0);
    while at < file.len() {
        match word(at) {
            6 => {
                let data = word(at + 20).next_multiple_of(4);
                let comment = options(at + 28 + data).find(|(code, _)| *code == 1);
                let text = comment.map(|(_, text)| String::from_utf8(text.to_vec()).expect("text"));
                held.comments.push(text.unwrap_or_default());
            }
            5 => {
                let all: BTreeMap<u16, &[u8]> = options(at + 20).collect();
                held.counted = Some((number(all[&4]), number(all[&5])));
            }
            _ => {}
        }
        at += word(at + 4);
    }
    held
}

/// A capture, once it runs.
fn start(system: &System, args: &[&str]) -> (Child, BufReader<std::process::ChildStderr>) {
    let mut command = system.command(&[&["pcap"], args].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let mut said = BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    said.read_line(&mut line).expect("text");
    assert!(line.starts_with("capturing "), "{line}");
    (child, said)
}

fn interrupt(mut child: Child, mut said: BufReader<std::process::ChildStderr>) -> String {
    signal(child.id().into(), "-INT");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    let mut rest = String::new();
    said.read_to_string(&mut rest).expect("text");
    rest
}

/// `key=value` pairs of a comment.
fn pairs(comment: &str) -> BTreeMap<&str, &str> {
    comment.split(' ').filter_map(|p| p.split_once('=')).collect()
}

/// Every transfer with the fragments of it that were seen, of packets of this kind.
fn transfers<'h>(held: &'h Held, what: &str) -> BTreeMap<&'h str, Vec<&'h str>> {
    let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for pairs in held.comments.iter().map(|c| pairs(c)).filter(|p| p.get("what") == Some(&what)) {
        assert_eq!((pairs["flow"], pairs["producer"], pairs["consumer"]), ("rows", "rows.h1.h2", "rows.h2"));
        found.entry(pairs["transfer"]).or_default().push(pairs["fragment"]);
    }
    found
}

#[test]
fn links_are_captured_live_and_every_rewritten_packet_says_what_it_is() {
    let system = System::up(FLOW);
    let files = ["from", "to", "host"].map(|n| system.folder.path().join(n));
    let [from, to, host] = files.each_ref().map(|f| f.to_str().expect("text"));
    let captures = [
        start(&system, &["h1-s1-1", "-w", from]),
        start(&system, &["2", "-w", to]),
        // The same link once more, at its other end.
        start(&system, &["h2-s1-2", "--host-end", "-w", host, "--snaplen", "96"]),
    ];
    let consumer = system.command(&["consume", "rows"]).stdout(Stdio::piped()).spawn().expect("runs");
    let input = system.folder.path().join("in");
    // Less than the ring holds, so that its offsets name transfers once.
    std::fs::write(&input, "0123456789abcdef\n".repeat(1200)).expect("written");
    let produced = system
        .command(&["produce", "rows"])
        .stdin(std::fs::File::open(&input).expect("there"))
        .output()
        .expect("runs");
    assert_eq!(produced.status.code(), Some(0), "{}", String::from_utf8_lossy(&produced.stderr));
    assert_eq!(done(consumer.wait_with_output().expect("it ends")).out.lines().count(), 1200);
    let said = captures.map(|(child, said)| interrupt(child, said));
    assert!(said.iter().all(|s| s.contains(" 0 lost by the capture")), "{said:?}");

    let held = files.map(|f| read(&f));
    for held in &held {
        assert_eq!(held.counted, Some((held.comments.len() as u64, 0)));
        assert!(
            held.comments.iter().all(|c| c.starts_with("flow=rows what=") || c == "what=doorbell"),
            "each is a packet of the flow's: {:?}",
            held.comments.iter().find(|c| !c.starts_with("flow=rows what="))
        );
    }
    let read = transfers(&held[0], "response");
    let written = transfers(&held[1], "write");
    let mut bytes = 0;
    for (transfer, fragments) in &written {
        let (_, len) = transfer.split_once('+').expect("where and how long");
        bytes += len.parse::<u64>().expect("a number");
        let of = len.parse::<u64>().expect("a number").div_ceil(1024);
        let all: BTreeSet<String> = (1..=of).map(|n| format!("{n}/{of}")).collect();
        let seen: BTreeSet<String> = fragments.iter().map(|f| (*f).to_owned()).collect();
        assert_eq!(seen, all, "fragments of {transfer}");
    }
    // 1200 lines of 17 bytes, in items of 4 KiB.
    assert!((1200 * 17..=32 << 10).contains(&bytes), "{bytes} B were seen");
    let names = |m: &BTreeMap<&str, Vec<&str>>| m.keys().map(|k| (*k).to_owned()).collect::<Vec<_>>();
    assert_eq!(names(&read), names(&written), "a transfer has one name on both links");
    assert_eq!(names(&transfers(&held[2], "write")), names(&written), "and at both ends of a link");
    system.down();
}

#[test]
fn a_capture_ends_as_it_was_told_or_says_why_not() {
    let system = System::up(FLOW);
    let list = system.well(&["pcap"]);
    assert!(list.contains("h1-s1-1  port 1, at the switch\n") && list.contains("at the host h3\n"), "{list}");
    // Polls pass the producer's link all the time.
    let file = system.folder.path().join("c");
    let path = file.to_str().expect("text");
    let counted = system.json(&["pcap", "h1-s1-1", "--count", "7", "-w", path]);
    assert_eq!((&counted[0]["packets"], &counted[0]["lost"]), (&7.into(), &0.into()));
    assert_eq!((read(&file).comments.len(), read(&file).counted), (7, Some((7, 0))));
    system.well(&["pcap", "h1-s1-1", "--seconds", "0.05", "-w", path]);
    let held = read(&file);
    assert_eq!(held.counted, Some((held.comments.len() as u64, 0)));

    let refused = |args: &[&str], code: i32, words: &str| {
        let done = system.zsr(args);
        assert_eq!(done.code, Some(code), "{}", done.err);
        assert!(done.err.contains(words), "{}", done.err);
    };
    refused(
        &["pcap", "h9", "-w", path],
        2,
        "there is no link `h9`; there are: h1-s1-1 (port 1), h2-s1-2 (port 2)",
    );
    refused(&["pcap", "h1-s1-1", "-w", "/dev/full"], 1, "/dev/full (No space left on device");
    refused(&["pcap", "h1-s1-1", "-w", "/no/where"], 1, "can't create the capture file /no/where");
    refused(&["pcap", "--count", "1"], 2, "LINK");

    // A reader that has had enough ends it quietly, also on a link where nothing passes.
    for link in ["h1-s1-1", "h3-s1-3"] {
        let (mut child, mut said) = start(&system, &[link, "-w", "-"]);
        let mut out = child.stdout.take().expect("piped");
        out.read_exact(&mut [0; 28]).expect("the beginning of the capture");
        drop(out);
        assert_eq!(child.wait().expect("it ends").code(), Some(0), "{link}");
        let mut rest = String::new();
        said.read_to_string(&mut rest).expect("text");
        assert_eq!(rest, "", "{link}");
    }

    // The end of the system is the end of its captures, which are whole.
    let (mut child, mut said) = start(&system, &["h1-s1-1", "-w", path]);
    system.down();
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    let mut rest = String::new();
    said.read_to_string(&mut rest).expect("text");
    assert!(rest.contains("the process that owns the link has ended"), "{rest}");
    assert!(read(&file).counted.is_some());
    refused(&["pcap", "h1-s1-1", "-w", path], 1, "no system is up");
}
