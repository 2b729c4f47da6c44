//! Figures for Prometheus.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Stdio};

use super::system::{HOSTS, System, signal};

/// Starts to answer scrapes, and waits until it does.
fn serving(system: &System, socket: &Path) -> Child {
    let socket = socket.to_str().expect("a path of text");
    let mut command = system.command(&["metrics", "--socket", socket]);
    let mut serving = command.stderr(Stdio::piped()).spawn().expect("it runs");
    let mut said = String::new();
    let mut err = BufReader::new(serving.stderr.take().expect("piped"));
    err.read_line(&mut said).expect("a line");
    assert_eq!(said, format!("metrics are at {socket}, path /metrics\n"));
    serving
}

/// Head and body of an answer.
fn get(socket: &Path, path: &str, accept: &str) -> (String, String) {
    let mut stream = UnixStream::connect(socket).expect("somebody listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: zsr\r\nAccept: {accept}\r\nConnection: close\r\n\r\n")
        .expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.to_owned(), body.to_owned())
}

#[test]
fn a_scrape_has_what_has_moved_and_says_when_there_is_no_controller() {
    let system = System::up(HOSTS);
    system.well(&["flow", "create", "f", "-p", "h1", "-c", "h3", "--item-size", "1KiB", "--weight", "3"]);
    system.well(&["flow", "create", "g", "-p", "h2", "-c", "h3", "--item-size", "1KiB"]);
    let again = system.zsr(&["flow", "create", "g", "-p", "h2", "-c", "h3"]);
    assert_eq!(again.code, Some(1), "{}", again.err);
    let mut events = system.events();
    let mut command = system.command(&["produce", "f"]);
    let mut producer = command.env("ZSR_STAMP_EVERY", "1").stdin(Stdio::piped()).spawn().expect("it runs");
    producer.stdin.take().expect("piped").write_all(&b"a line\n".repeat(1000)).expect("read");
    let consumed = system.well(&["consume", "f"]);
    assert_eq!(consumed.lines().count(), 1000);
    assert!(producer.wait().expect("it ends").success());
    events.next("flow-ended");
    let often = system.command(&["produce", "g"]).env("ZSR_STAMP_EVERY", "often").output().expect("it runs");
    let said = String::from_utf8_lossy(&often.stderr);
    assert!(often.status.code() == Some(1) && said.contains("ZSR_STAMP_EVERY is `often`"), "{said}");
    let late = system.zsr(&["produce", "f"]);
    assert!(late.code == Some(1) && late.err.contains("its stream has ended"), "{}", late.err);
    let socket = system.root().join("metrics");
    let mut process = serving(&system, &socket);
    let once = system.well(&["metrics"]);
    let (head, plain) = get(&socket, "/metrics", "text/plain");
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("text/plain; version=0.0.4"), "{head}");
    let (head, open) =
        get(&socket, "/metrics", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5");
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("application/openmetrics-text"), "{head}");
    for text in [&once, &plain, &open] {
        let value = |line: &str| {
            let found = text.lines().find_map(|got| got.strip_prefix(line)?.strip_prefix(' '));
            found.unwrap_or_else(|| panic!("no {line} in\n{text}")).parse::<f64>().expect("a number")
        };
        let bytes = value("zsr_flow_delivered_bytes_total{flow=\"f\"}");
        assert!(bytes >= 1024.0 && bytes % 1024.0 == 0.0, "{bytes}");
        let items = bytes / 1024.0;
        assert_eq!(value("zsr_flow_delivered_items_total{flow=\"f\"}"), items);
        let of = "flow=\"f\",ring=\"f.h3\",host=\"h3\"}";
        assert_eq!(value(&format!("zsr_ring_push_to_pop_seconds_count{{{of}")), items, "each was stamped");
        assert_eq!(value(&format!("zsr_ring_push_to_pop_seconds_bucket{{le=\"+Inf\",{of}")), items);
        assert!(value(&format!("zsr_ring_push_to_pop_seconds_sum{{{of}")) > 0.0);
        assert_eq!(value("zsr_flow_delivered_bytes_total{flow=\"g\"}"), 0.0);
        assert_eq!(value("zsr_flow_weight{flow=\"f\"}"), 3.0);
        assert_eq!(value("zsr_flow_state{flow=\"f\",state=\"ended\"}"), 1.0);
        assert_eq!(value("zsr_flow_state{flow=\"g\",state=\"running\"}"), 1.0);
        assert_eq!(value("zsr_agent_connected{host=\"h2\"}"), 1.0);
        let of = "{operation=\"create-flow\"}";
        assert_eq!(value(&format!("zsr_controller_operation_seconds_count{of}")), 3.0);
        assert!(value(&format!("zsr_controller_operation_seconds_sum{of}")) > 0.0);
        let within = |seconds: &str| {
            let labels = format!("{{le=\"{seconds}\",operation=\"create-flow\"}}");
            value(&format!("zsr_controller_operation_seconds_bucket{labels}"))
        };
        assert!(within("0.001") <= within("10.0") && within("+Inf") == 3.0);
        assert_eq!(value(&format!("zsr_controller_refused_operations_total{of}")), 1.0);
        assert_eq!(value("zsr_controller_operation_seconds_count{operation=\"delete-flow\"}"), 0.0);
        for (host, refused, rings) in [("h1", 1.0, 1), ("h2", 0.0, 1), ("h3", 0.0, 2)] {
            assert_eq!(value(&format!("zsr_host_refused_programs_total{{host=\"{host}\"}}")), refused);
            let bytes = value(&format!("zsr_host_ring_bytes{{host=\"{host}\"}}")) as usize;
            assert!((rings << 20..(rings << 20) + (1 << 16)).contains(&bytes), "{host}: {bytes}");
        }
        // The switch read the items at one host, and wrote them at the other.
        assert!(value("zsr_nic_sent_bytes_total{host=\"h1\"}") > bytes);
        assert!(value("zsr_nic_received_bytes_total{host=\"h3\"}") > bytes);
        for of in ["received", "sent"] {
            let frames = value(&format!("zsr_nic_{of}_frames_total{{host=\"h2\"}}"));
            assert!(frames > 0.0, "a producer is polled");
        }
        for (what, used) in [("workers", 2.0), ("producer_rings", 2.0), ("queue_pairs", 8.0)] {
            assert_eq!(value(&format!("zsr_switch_{what}{{switch=\"s1\"}}")), used);
            assert!(value(&format!("zsr_switch_{what}_max{{switch=\"s1\"}}")) >= 1000.0 * used);
        }
        assert_eq!(value("zsr_ring_fill_bytes{flow=\"f\",ring=\"f.h3\",host=\"h3\",role=\"consumer\"}"), 0.0);
    }
    assert!(get(&socket, "/", "text/plain").0.starts_with("HTTP/1.1 404"));

    let others = system.zsr(&["metrics", "--listen", "192.0.2.1:9464"]);
    assert_eq!(others.code, Some(2), "{}", others.err);
    assert!(others.err.contains("only addresses of this machine will do"), "{}", others.err);
    let second = system.zsr(&["metrics", "--socket", socket.to_str().expect("text")]);
    assert_eq!(second.code, Some(1), "{}", second.err);
    assert!(second.err.contains("can't listen at"), "{}", second.err);

    signal(system.pid("controller"), "-KILL");
    let (head, body) = get(&socket, "/metrics", "text/plain");
    assert!(head.starts_with("HTTP/1.1 503"), "{head}: {body}");
    signal(process.id().into(), "-INT");
    assert!(process.wait().expect("it ends").success() && !socket.exists());
    system.well(&["restart", "controller"]);
    system.down();
}

/// A process that was killed leaves its socket's file.
#[test]
fn the_next_one_takes_the_socket_of_one_that_was_killed() {
    let system = System::up(HOSTS);
    let socket = system.root().join("metrics");
    let mut killed = serving(&system, &socket);
    signal(killed.id().into(), "-KILL");
    killed.wait().expect("it ends");
    let mut next = serving(&system, &socket);
    assert!(get(&socket, "/metrics", "text/plain").1.contains("zsr_switch_connected{switch=\"s1\"} 1"));
    signal(next.id().into(), "-INT");
    assert!(next.wait().expect("it ends").success());
    system.down();
}
