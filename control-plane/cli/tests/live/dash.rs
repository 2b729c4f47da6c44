//! The page of a running system, as a browser asks for it. tests/dash has a browser.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

use super::system::{HOSTS, System, signal};

/// The address of a page, once it is there.
fn address(said: &str) -> &str {
    let at = said.strip_prefix("the page is at http://").and_then(|rest| rest.strip_suffix("/\n"));
    at.unwrap_or_else(|| panic!("no address in {said:?}"))
}

fn ask(at: &str, method: &str, path: &str, host: &str) -> TcpStream {
    let mut stream = TcpStream::connect(at).expect("somebody listens");
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").expect("sent");
    stream
}

fn answer(at: &str, method: &str, path: &str, host: &str) -> String {
    let mut text = String::new();
    ask(at, method, path, host).read_to_string(&mut text).expect("an answer");
    text
}

#[test]
fn a_page_tells_what_happens_and_takes_nothing() {
    let system = System::up(HOSTS);
    let mut command = system.command(&["dash", "--listen", "127.0.0.1:0"]);
    let mut process = command.stderr(Stdio::piped()).spawn().expect("it runs");
    let mut said = String::new();
    BufReader::new(process.stderr.take().expect("piped")).read_line(&mut said).expect("a line");
    let at = address(&said);
    for (path, part) in
        [("/", "<script src=\"page.js\""), ("/page.js", "EventSource"), ("/page.css", "main {")]
    {
        let got = answer(at, "GET", path, "localhost:9465");
        assert!(got.starts_with("HTTP/1.1 200") && got.contains(part), "{path}: {got}");
        assert!(got.to_lowercase().contains("content-security-policy: default-src 'none'"), "{path}: {got}");
    }
    for method in ["POST", "PUT", "DELETE", "PATCH"] {
        assert!(answer(at, method, "/live", at).starts_with("HTTP/1.1 405"), "{method}");
    }
    for host in ["evil.example", "127.0.0.1.evil.example:9465", ""] {
        assert!(answer(at, "GET", "/live", host).starts_with("HTTP/1.1 403"), "{host:?}");
    }
    // Two readers at a time see a flow that is made then.
    let mut readers = [0, 1].map(|_| BufReader::new(ask(at, "GET", "/live", at)).lines());
    let mut wait_for = |words: &str| {
        for lines in &mut readers {
            assert!(
                lines.any(|line| line.expect("a line").contains(words)),
                "the stream ends before {words}"
            );
        }
    };
    wait_for("event: state");
    system.well(&["flow", "create", "new", "-p", "h1", "-c", "h2", "--item-size", "64"]);
    wait_for("\"name\":\"new\"");
    let twice = system.command(&["dash", "--listen", at]).output().expect("it runs");
    assert_eq!(twice.status.code(), Some(1), "a second one at the same address: {twice:?}");
    let topology = system.folder.path().join("second.yaml");
    std::fs::write(&topology, "hosts: [h1]\nflows: []\n").expect("written");
    let mut up = system.command(&["up", "--system", "second", &format!("--dash={at}")]);
    let up = up.arg(&topology).output().expect("it runs");
    assert_eq!(up.status.code(), Some(1), "no system without its page: {up:?}");
    assert!(!system.root().join("second").exists(), "nothing was started: {up:?}");
    signal(process.id().into(), "-INT");
    assert!(process.wait().expect("it ends").success());
}

#[test]
fn a_page_is_for_this_machine_only() {
    let system = System::up(HOSTS);
    for command in [&["dash", "--listen", "0.0.0.0:9465"][..], &["up", "x.yaml", "--dash=[::]:9465"]] {
        let topology = system.root().join("x.yaml");
        std::fs::write(&topology, "hosts: [h1]\nflows: []\n").expect("written");
        let command: Vec<&str> = command
            .iter()
            .map(|arg| if *arg == "x.yaml" { topology.to_str().expect("text") } else { arg })
            .collect();
        let refused = system.command(&command).output().expect("it runs");
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(
            String::from_utf8_lossy(&refused.stderr).contains("only addresses of this machine"),
            "{refused:?}"
        );
    }
}
