//! The `zsr` program from outside: exit codes, messages, outputs.

mod awkward;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const SMALL: &str = "\
hosts: [h1, h2, h3, h4]
flows:
  - {name: f, producers: [h1, h2], consumers: [h3, h4], item_size: 256, ring_size: 16KiB, max_batch: 4KiB}
workload: {kind: synthetic, items: 500}
";

fn zsr() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zsr"));
    command.stdin(Stdio::null());
    command
}

fn run(args: &[&str]) -> Output {
    zsr().args(args).output().unwrap()
}

struct Text {
    code: Option<i32>,
    out: String,
    err: String,
}

fn text(output: &Output) -> Text {
    Text {
        code: output.status.code(),
        out: String::from_utf8(output.stdout.clone()).unwrap(),
        err: String::from_utf8(output.stderr.clone()).unwrap(),
    }
}

/// A folder with a topology in it.
fn folder(topology: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.yaml");
    std::fs::write(&path, topology).unwrap();
    (folder, path)
}

fn as_str(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn every_flow_kind_delivers() {
    let kinds = [
        ("shuffle", "500 items", "at the right consumer, in order per producer"),
        ("load-balance", "500 items", "at one of the consumers, in order per producer"),
        ("replicate", "1000 items", "at every consumer, in one order"),
    ];
    for (kind, delivered, promise) in kinds {
        // PUs of both byte orders in one flow; producers ring.
        let mixed = "[{name: h1, byte_order: big}, h2, h3, {name: h4, byte_order: big}]";
        let small = SMALL.replace("[h1, h2, h3, h4]", mixed);
        let (_folder, path) =
            folder(&small.replace("name: f,", &format!("name: f, kind: {kind}, doorbell: true,")));
        let t = text(&run(&["run", as_str(&path)]));
        assert_eq!(t.code, Some(0), "{kind}: {}{}", t.out, t.err);
        assert!(t.out.contains(&format!("{kind} 'f': 2 producers to 2 consumers")), "{}", t.out);
        assert!(t.out.contains(&format!("OK: every item arrived exactly once, {promise}")), "{}", t.out);
        assert!(t.err.contains(delivered), "{}", t.err);
        // The same with rows, whose contents are compared by hash.
        let t = text(&run(&["run", as_str(&path), "--input", as_str(&path)]));
        assert_eq!(t.code, Some(0), "{kind}: {}{}", t.out, t.err);
    }
}

#[test]
fn help_and_version_are_no_errors() {
    for args in [&["help"][..], &["--help"], &["help", "run"], &["run", "--help"], &["check", "--help"]] {
        let t = text(&run(args));
        assert_eq!(t.code, Some(0), "{args:?}: {}", t.err);
        assert!(t.out.contains("Usage: zsr"), "{}", t.out);
        assert!(t.err.is_empty(), "{}", t.err);
    }
    let t = text(&run(&["--version"]));
    assert!(t.out.starts_with(&format!("zsr {} (", env!("CARGO_PKG_VERSION"))), "{}", t.out);
}

#[test]
fn wrong_usage_is_exit_code_2() {
    for args in [
        &[][..],
        &["nonsense"],
        &["run"],
        &["check"],
        &["run", "x.yaml", "--nonsense"],
        &["run", "x.yaml", "--items", "0"],
        &["run", "x.yaml", "--items", "5", "--input", "y"],
        &["run", "x.yaml", "--delimiter", "ab"],
        &["run", "x.yaml", "--force"],
        &["run", "no-such-topology.yaml"],
        &["top", "--interval", "0s"],
    ] {
        let t = text(&run(args));
        assert_eq!(t.code, Some(2), "{args:?}");
        assert!(t.out.is_empty() && !t.err.is_empty(), "{args:?}: {}{}", t.out, t.err);
    }
}

#[test]
fn help_says_what_zsr_is() {
    let t = text(&run(&["--help"]));
    assert!(t.out.starts_with("Zero-sided RDMA: "), "{}", t.out);
}

#[test]
fn a_result_that_cannot_be_written_is_exit_code_1() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let topology = concat!(env!("CARGO_MANIFEST_DIR"), "/../../topologies/one-to-one.yaml");
    for args in
        [&["check", topology][..], &["run", topology, "--items", "10", "--json"], &["completion", "bash"]]
    {
        let t = text(&zsr().args(args).stdout(full()).output().unwrap());
        assert_eq!(t.code, Some(1), "{args:?}");
        assert!(t.err.contains("error: standard output: No space left on device"), "{args:?}: {}", t.err);
    }
}

#[test]
fn names_that_lead_out_of_the_folder_of_systems_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let topology = concat!(env!("CARGO_MANIFEST_DIR"), "/../../topologies/one-to-one.yaml");
    let up = |name: &str| {
        let mut up = zsr();
        up.args(["up", topology, "--system", name]).env("XDG_RUNTIME_DIR", folder.path());
        text(&up.output().unwrap())
    };
    for name in ["", ".", "..", "../x", "a/b", "/tmp/x", ".hidden", "a\nb"] {
        let t = up(name);
        assert_eq!(t.code, Some(2), "{name:?}: {}", t.err);
        assert!(t.err.contains("can't be the name of a system"), "{}", t.err);
    }
    let long = up(&"x".repeat(150));
    assert!(long.code == Some(1) && long.err.contains("too long for a socket's path"), "{}", long.err);
    // What was refused is no system.
    let mut status = zsr();
    let status = text(&status.arg("status").env("XDG_RUNTIME_DIR", folder.path()).output().unwrap());
    assert!(status.err.contains("no system is up"), "{}", status.err);
}

#[test]
fn a_host_that_the_topology_lacks_leaves_no_process_behind() {
    let folder = tempfile::tempdir().unwrap();
    let topology = concat!(env!("CARGO_MANIFEST_DIR"), "/../../topologies/one-to-one.yaml");
    let mut agent = zsr();
    agent.args(["agent", topology, "h9"]).env("XDG_RUNTIME_DIR", folder.path());
    let t = text(&agent.output().unwrap());
    assert!(t.code == Some(2) && t.err.contains("no host `h9`"), "{}", t.err);
    let left: Vec<_> = std::fs::read_dir(folder.path().join("zsr/one-to-one")).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn the_reference_is_what_the_commands_say() {
    let there = include_str!("../../../docs/reference.md");
    assert!(there == zsr_cli::reference(), "docs/reference.md is stale: run `cargo xtask cli`");
    assert!(there.contains("## zsr flow add-consumer\n") && there.contains("[environment: `ZSR_SYSTEM`]"));
}

#[test]
fn the_help_of_events_has_all_kinds() {
    use zsr_api::controller::EventKind;
    let there = include_str!("../src/help/events.md");
    let kinds = (1..1000).filter_map(|n| EventKind::try_from(n).ok());
    let names: Vec<String> = kinds
        .map(|k| k.as_str_name().trim_start_matches("EVENT_KIND_").to_lowercase().replace('_', "-"))
        .collect();
    assert!(names.len() > 25, "{names:?}");
    for name in names {
        assert!(there.contains(&format!("    {name} ")), "control-plane/cli/src/help/events.md lacks {name}");
    }
}

#[test]
fn sizes_that_are_too_big_name_the_limit() {
    let create = ["flow", "create", "f", "-p", "h1", "-c", "h2"];
    for (option, value, said) in [
        ("--ring-size", "64GiB", "64 GiB is too much: expected at most 1 GiB"),
        ("--item-size", "2MiB", "2 MiB is too much: expected at most 1 MiB"),
        ("--max-batch", "1GiB", "1 GiB is too much: expected at most 4 MiB"),
        ("--item-size", "0", "0 is too small"),
        ("--ring-size", "0", "0 is too small"),
        ("--ring-size", "x", "expected a number of bytes, or one with KiB, MiB or GiB"),
    ] {
        let t = text(&zsr().args(create).args([option, value]).output().unwrap());
        assert_eq!(t.code, Some(2), "{}", t.err);
        assert!(t.err.contains(said), "{}", t.err);
    }
}

#[test]
fn a_key_that_is_no_column_is_exit_code_2() {
    let (folder, path) = folder(SMALL);
    let input = folder.path().join("in.csv");
    std::fs::write(&input, "a,b,c\n1,2,3\n").unwrap();
    for (key, said) in [("d", "has no column 'd'"), ("9", "has no column 9: its first line has 3")] {
        let args = ["run", as_str(&path), "-q", "--input", as_str(&input), "--key", key];
        let t = text(&run(&args));
        assert_eq!(t.code, Some(2), "{}{}", t.out, t.err);
        assert!(t.err.contains(said) && t.err.lines().count() == 1, "{}", t.err);
    }
}

#[test]
fn options_that_do_not_fit_the_topology_are_exit_code_2() {
    let (_folder, path) = folder(SMALL);
    for (args, part) in [
        (&["--item-size", "100"][..], "power of two"),
        (&["--item-size", "8KiB"], "hold no whole item"),
        (&["--key", "2"], "--input"),
        (&["--input", "x", "--format", "binary"], "--record-size"),
        (&["--input", "x", "--key", "0"], "a column by name or by number from 1"),
        (&["--scale", "1"], "no tpch workload"),
        (&["--input", "x", "--lenient"], "--lenient goes with --csv"),
        (&["--input", "x", "--csv", "--delimiter", "\""], "the delimiter of CSV is neither a quote"),
    ] {
        let t = text(&zsr().args(["run", as_str(&path)]).args(args).output().unwrap());
        assert_eq!(t.code, Some(2), "{args:?}: {}", t.err);
        assert!(t.err.contains(part), "{args:?}: {}", t.err);
    }
}

#[test]
fn check_lists_every_error_with_its_place() {
    let (_good, good) = folder(SMALL);
    let t = text(&run(&["check", as_str(&good)]));
    assert_eq!(t.code, Some(0), "{}", t.err);
    assert!(t.out.contains("OK: 1 switch, 4 hosts, 4 links, 6 rings, 1 flow"), "{}", t.out);

    let bad = SMALL.replace("item_size: 256", "item_size: 250").replace("items: 500", "itms: 500");
    let (_bad, bad) = folder(&bad.replace("hosts: [h1, h2, h3, h4]", "hosts: [h1, h2, h3]"));
    for command in ["check", "run"] {
        let t = text(&run(&[command, as_str(&bad)]));
        assert_eq!(t.code, Some(2));
        assert!(t.out.is_empty(), "{}", t.out);
        for part in [
            "t.yaml:3:52: error: flow 'f' names host 'h4', which does not exist",
            "t.yaml:3:68: error: 'item_size' of flow 'f' is 250 bytes, which is no power of two",
            "t.yaml:4:29: error: unknown key 'itms' in the workload; did you mean 'items'?",
        ] {
            assert!(t.err.contains(part), "{part:?} is missing in\n{}", t.err);
        }
    }
    let t = text(&run(&["check", as_str(&good), as_str(&bad)]));
    assert_eq!(t.code, Some(2));
    assert!(t.out.contains("OK: ") && t.err.contains("3 errors"), "{}{}", t.out, t.err);
}

#[test]
fn a_run_delivers_everything_and_says_so_in_json() {
    let (_folder, path) = folder(SMALL);
    let t = text(&run(&["run", as_str(&path), "--json"]));
    assert_eq!(t.code, Some(0), "{}{}", t.out, t.err);
    let report: serde_json::Value = serde_json::from_str(&t.out).unwrap();
    assert_eq!(report["outcome"], "delivered");
    let flow = &report["flows"][0];
    assert_eq!(flow["items"], 500);
    assert_eq!(flow["verification"]["exact"], true);
    assert_eq!(flow["pu_communication_operations_per_item"], 0.0);
    assert!(flow["transfers"].as_u64().unwrap() > 0);
    assert_eq!(flow["rings"].as_array().unwrap().len(), 6);
    assert!(t.err.contains("bringing up"), "{}", t.err);

    let t = text(&run(&["run", as_str(&path), "-q", "--items", "7", "--item-size", "64"]));
    assert_eq!(t.code, Some(0), "{}", t.err);
    assert!(t.err.is_empty(), "{}", t.err);
    assert!(t.out.contains("PU-side communication operations per item: 0\n"), "{}", t.out);
    assert!(t.out.ends_with("in order per producer\n"), "{}", t.out);
}

#[test]
fn a_file_comes_out_as_it_went_in() {
    let (folder, path) = folder(SMALL);
    let rows: Vec<String> = (0..400).map(|n| format!("{};row number {n};{}", n % 13, n * n)).collect();
    let input = folder.path().join("in.csv");
    std::fs::write(&input, format!("kind;name;square\n{}\n", rows.join("\n"))).unwrap();
    let output = folder.path().join("out");
    let args =
        ["run", as_str(&path), "--input", as_str(&input), "--key", "kind", "--delimiter", ";", "--output"];
    let with_output = |extra: &[&str]| text(&zsr().args(args).arg(&output).args(extra).output().unwrap());
    let t = with_output(&[]);
    assert_eq!(t.code, Some(0), "{}{}", t.out, t.err);
    let mut found = Vec::new();
    for name in ["f.h3.csv", "f.h4.csv"] {
        let text = std::fs::read_to_string(output.join(name)).unwrap();
        assert!(!text.is_empty(), "{name} is empty");
        found.extend(text.lines().map(str::to_owned));
    }
    let mut wanted = rows;
    wanted.sort();
    found.sort();
    assert_eq!(found, wanted);
    assert_eq!(std::fs::read_dir(&output).unwrap().count(), 2);

    let again = with_output(&[]);
    assert_eq!(again.code, Some(1));
    assert!(again.err.contains("exists") && again.err.contains("--force"), "{}", again.err);
    assert_eq!(with_output(&["--force"]).code, Some(0));
}

#[test]
fn what_fails_while_running_is_one_message_and_exit_code_1() {
    let (folder, path) = folder(SMALL);
    let long = folder.path().join("long");
    std::fs::write(&long, "x".repeat(3000)).unwrap();
    let binary = folder.path().join("binary");
    std::fs::write(&binary, [0; 100]).unwrap();
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let out = folder.path().join("out");
    for (args, part) in [
        (vec!["--input", "/no/such/file"], "cannot open the input /no/such/file"),
        (vec!["--input", as_str(folder.path())], "is a folder"),
        (vec!["--input", as_str(&long)], "long:1: the record is 3000 bytes long"),
        (vec!["--input", as_str(&binary), "--record-size", "7"], "2 bytes are left over"),
        (vec!["--artifacts", as_str(&empty)], "zsr-v1model.json"),
        (vec!["--output", as_str(&long)], "long: there is a file of that name"),
        (vec!["--pcap", as_str(&long)], "long for captures: there is a file of that name"),
    ] {
        let mut command = zsr();
        command.args(["run", as_str(&path), "-q"]).args(&args);
        if !args.contains(&"--output") {
            command.arg("--output").arg(&out);
        }
        let t = text(&command.output().unwrap());
        assert_eq!(t.code, Some(1), "{args:?}: {}{}", t.out, t.err);
        assert!(t.err.starts_with("error: ") && t.err.contains(part), "{args:?}: {}", t.err);
        assert_eq!(t.err.lines().count(), 1, "{args:?}: {}", t.err);
        assert!(t.out.is_empty(), "{args:?}: {}", t.out);
        let left = std::fs::read_dir(&out).map_or(0, Iterator::count);
        assert_eq!(left, 0, "{args:?} left files");
    }
}

const DEVICES: &str = "\
hosts: [h1, {name: scan, memory: fpga-sim, stand_in: 60000}, {name: gpu, stand_in: 100000}, {name: fpga, memory: fpga-sim, stand_in: 50000}]
flows:
  - {name: f, kind: load-balance, producers: [h1, scan], consumers: [gpu, fpga], item_size: 256, ring_size: 16KiB}
workload: {kind: synthetic, items: 500}
";
const POP: &str = "zsr-fpga-pop";
const FEED: &str = "zsr-fpga-feed";

/// `zsr run` of [`DEVICES`] by a zsr that has nothing beside it, with this script as the only program on PATH, in a folder that lives as
/// long.
fn run_of_devices(program: Option<(&str, &str)>) -> (Command, [tempfile::TempDir; 2]) {
    use std::os::unix::fs::PermissionsExt;
    let (folder, path) = folder(DEVICES);
    let alone = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let own = alone.path().join("zsr");
    std::fs::hard_link(env!("CARGO_BIN_EXE_zsr"), &own).unwrap();
    if let Some((name, script)) = program {
        let path = folder.path().join(name);
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    let mut run = Command::new(own);
    run.args(["run", as_str(&path)]).env("PATH", folder.path());
    (run, [folder, alone])
}

#[test]
fn a_cpu_that_stands_in_for_a_device_is_named() {
    let (mut run, _folders) = run_of_devices(None);
    let t = text(&run.arg("-q").output().unwrap());
    assert_eq!(t.code, Some(0), "{}{}", t.out, t.err);
    let said: Vec<&str> = t.err.lines().collect();
    assert_eq!(said.len(), 3, "{}", t.err);
    let scan = "producer `scan`: a CPU stands in for its FPGA, at 60000 records/s: zsr-fpga-feed is neither beside zsr nor on PATH";
    assert!(said[0].starts_with(scan), "{}", t.err);
    assert_eq!(said[1], "consumer `gpu`: a CPU stands in for it, at 100000 records/s");
    let fpga = "consumer `fpga`: a CPU stands in for its FPGA, at 50000 records/s: zsr-fpga-pop is neither beside zsr nor on PATH";
    assert!(said[2].starts_with(fpga), "{}", t.err);
    assert!(t.out.contains("OK: every item arrived exactly once"), "{}", t.out);
}

#[test]
fn a_design_that_is_none_is_one_message_and_exit_code_1() {
    let both = [
        ("exit 3", "NAME ended with exit status: 3"),
        ("exit 0", "NAME ended at once"),
        ("echo no such pins >&2; exit 3", "exit status: 3: no such pins"),
        ("echo NAME 2 64", "says `NAME 2 64`, and `NAME 1 BITS` was expected"),
        ("echo NAME 1 64", "NAME ended before the stream did"),
    ];
    let pop = [("echo NAME 1 64; echo short", "NAME: it ended inside an item")];
    let feed = [
        ("echo NAME 1 64; while read -r line; do :; done", "NAME ended before the stream did"),
        ("echo NAME 1 64; read -r line; echo a pin broke >&2; exit 4", "exit status: 4: a pin broke"),
    ];
    for (name, of, own) in [(POP, "consumer `fpga`", &pop[..]), (FEED, "producer `scan`", &feed)] {
        let scripts = both.iter().chain(own).map(|(script, part)| (format!("#!/bin/sh\n{script}\n"), *part));
        let none = ("no program".to_owned(), "NAME does not start: Exec format error");
        for (script, part) in scripts.chain([none]) {
            let (script, part) = (script.replace("NAME", name), part.replace("NAME", name));
            let (mut run, _folders) = run_of_devices(Some((name, &script)));
            let t = text(&run.arg("-q").output().unwrap());
            assert_eq!(t.code, Some(1), "{script}: {}{}", t.out, t.err);
            let said: Vec<&str> =
                [&t.out, &t.err].iter().flat_map(|text| text.lines()).filter(|l| l.contains(of)).collect();
            assert!(said.len() == 1 && said[0].contains(&part), "{script}: {}{}", t.out, t.err);
        }
    }
}

#[test]
fn a_design_that_hangs_ends_with_its_run() {
    let (pop, feed) = ((POP, "zsr_consumer"), (FEED, "zsr_producer"));
    let (nothing, swallows) = ("exec /bin/sleep 1000", "/bin/cat > /dev/null; exec /bin/sleep 1000");
    for ((name, module), hangs) in [(pop, nothing), (feed, nothing), (feed, swallows)] {
        let script = format!("#!/bin/sh\necho $$ > $PATH/pid\necho {name} 1 64\n{hangs}\n");
        let (mut run, [folder, _alone]) = run_of_devices(Some((name, &script)));
        run.args(["--items", "1000000000000"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = run.spawn().unwrap();
        let mut err = BufReader::new(child.stderr.take().unwrap());
        until(&mut err, &[&format!("a verilated {module} of 64 bits a beat")]);
        let pid = std::fs::read_to_string(folder.path().join("pid")).unwrap();
        let place = Path::new("/proc").join(pid.trim());
        assert!(place.exists(), "{name} has ended");
        interrupt(&child);
        until(&mut err, &["stopping"]);
        interrupt(&child);
        let mut rest = String::new();
        err.read_to_string(&mut rest).unwrap();
        let t = text(&child.wait_with_output().unwrap());
        assert_eq!(t.code, Some(1), "{name}: {}{rest}", t.out);
        assert!(t.out.contains("INTERRUPTED: "), "{name}: {}{rest}", t.out);
        assert!(!place.exists(), "{name} is still there");
    }
}

#[test]
fn a_port_in_use_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let (_folder, path) = folder(&format!(
        "insecure: true\nswitches:\n  - {{name: s1, p4runtime: {{listen: '{address}'}}}}\n{SMALL}"
    ));
    let t = text(&run(&["run", as_str(&path), "-q"]));
    assert_eq!(t.code, Some(1), "{}", t.err);
    assert!(t.err.contains(&address.to_string()), "{}", t.err);
}

#[test]
fn interrupts_end_a_run_with_a_report() {
    let (_folder, path) = folder(SMALL);
    let mut child = zsr()
        .args(["run", as_str(&path), "--items", "1000000000000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut err = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    // Signals are caught before anything is brought up.
    while !line.contains("bringing up") {
        line.clear();
        assert_ne!(err.read_line(&mut line).unwrap(), 0, "ended early");
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let mut rest = String::new();
    err.read_to_string(&mut rest).unwrap();
    let t = text(&child.wait_with_output().unwrap());
    assert_eq!(t.code, Some(1), "{}{rest}", t.out);
    assert!(rest.contains("stopping"), "{rest}");
    assert!(t.out.contains("INTERRUPTED: "), "{}", t.out);
    assert!(t.out.contains(" pushed were delivered"), "{}", t.out);
}

/// Reads lines of standard error until one has all `parts`.
fn until(err: &mut impl BufRead, parts: &[&str]) -> String {
    let mut line = String::new();
    while !parts.iter().all(|part| line.contains(part)) {
        line.clear();
        assert_ne!(err.read_line(&mut line).unwrap(), 0, "ended before {parts:?}");
    }
    line
}

fn interrupt(child: &std::process::Child) {
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
}

#[test]
fn a_run_that_prepares_its_input_can_be_interrupted() {
    let (_folder, path) = folder(&SMALL.replace("{kind: synthetic, items: 500}", "{kind: tpch}"));
    let mut command = zsr();
    let mut child =
        command.args(["run", as_str(&path)]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut err = BufReader::new(child.stderr.take().unwrap());
    until(&mut err, &["preparing the input"]);
    interrupt(&child);
    let mut rest = String::new();
    err.read_to_string(&mut rest).unwrap();
    let t = text(&child.wait_with_output().unwrap());
    assert_eq!(t.code, Some(1), "{}{rest}", t.out);
    assert!(rest.contains("nothing was moved") && !rest.contains("bringing up"), "{rest}");
}

#[test]
fn a_run_that_does_not_get_on_says_what_it_waits_for() {
    let links = "links:\n  - {from: h1, to: s1:1, faults: {loss: 1.0}}\n  - {from: h2, to: s1:2, faults: {loss: 1.0}}\n  \
                 - h3 -> s1:3\n  - h4 -> s1:4\n";
    let (_folder, path) = folder(&format!("{SMALL}{links}"));
    let mut command = zsr();
    let mut child =
        command.args(["run", as_str(&path)]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut err = BufReader::new(child.stderr.take().unwrap());
    let line = until(&mut err, &["delivered 0 items", "retries", "nothing for", "waiting for"]);
    assert!(line.contains("of ring `f.h1.h3` on host `h1` to be transferred"), "{line}");
    interrupt(&child);
    until(&mut err, &["stopping"]);
    interrupt(&child);
    let mut rest = String::new();
    err.read_to_string(&mut rest).unwrap();
    assert_eq!(text(&child.wait_with_output().unwrap()).code, Some(1), "{rest}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let (_folder, path) = folder(SMALL);
    let mut child = zsr()
        .args(["run", as_str(&path), "-q"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let t = text(&child.wait_with_output().unwrap());
    assert_eq!(t.code, Some(0), "{}", t.err);
    assert!(t.err.is_empty(), "{}", t.err);
}

/// What comes out of the consumer rings for `input`, a file of this name, with these options; and what was said.
fn through(topology: &str, name: &str, input: &[u8], args: &[&str]) -> (Text, Vec<Vec<u8>>) {
    let (folder, path) = folder(topology);
    let (input_path, output) = (folder.path().join(name), folder.path().join("out"));
    std::fs::write(&input_path, input).unwrap();
    let mut command = zsr();
    command.args(["run", as_str(&path), "-q", "--input", as_str(&input_path), "--output", as_str(&output)]);
    let t = text(&command.args(args).output().unwrap());
    let mut files: Vec<_> =
        std::fs::read_dir(&output).into_iter().flatten().map(|e| e.unwrap().path()).collect();
    files.sort();
    (t, files.iter().map(|file| std::fs::read(file).unwrap()).collect())
}

#[test]
fn lines_keep_their_bytes() {
    let one = "hosts: [h1, h2]\nflows:\n  - {name: f, producers: [h1], consumers: [h2], item_size: 256}\n";
    let input = b"\xef\xbb\xbfone,\"1\"\r\n\r\n\n\rtwo\x00\xff\r\nlast";
    let (t, out) = through(one, "in.txt", input, &[]);
    assert_eq!(t.code, Some(0), "{}", t.err);
    assert_eq!(out, [[&input[..], b"\n"].concat()]);
}

#[test]
fn csv_keeps_its_rows_and_is_shared_among_producers() {
    let body: String = (0..600)
        .map(|n| {
            let quote = if n % 2 == 0 { "\"" } else { "" };
            format!("{quote}{}{quote},\"a note, of\r\n\"\"{n}\"\" lines\"\r\n", n % 97)
        })
        .collect();
    let input = format!("\u{feff}\"id\",note\r\n{body}");
    let rows = |text: &[u8]| -> Vec<(String, String)> {
        let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(text);
        let mut rows: Vec<(String, String)> = reader.deserialize().map(Result::unwrap).collect();
        rows.sort();
        rows
    };
    let (t, out) = through(SMALL, "in.csv", input.as_bytes(), &["--csv", "--key", "id"]);
    assert_eq!((t.code, t.err.as_str()), (Some(0), ""));
    assert_eq!(rows(&out.concat()), rows(body.as_bytes()));
    let keys =
        |text: &[u8]| rows(text).into_iter().map(|row| row.0).collect::<std::collections::BTreeSet<_>>();
    assert!(keys(&out[0]).is_disjoint(&keys(&out[1])) && out.iter().all(|o| keys(o).len() > 20));

    let (t, out) = through(SMALL, "in.csv", b"a,b\n1,\"x\n2,y\n", &["--csv", "--key", "a"]);
    assert!(t.code == Some(1) && t.err.contains("in.csv:2:3: a quote is opened"), "{}", t.err);
    assert!(out.is_empty());
}

#[test]
fn awkward_csv_comes_out_as_it_went_in() {
    let large = SMALL.replace("item_size: 256, ring_size: 16KiB, max_batch: 4KiB", "item_size: 1MiB");
    for (what, input) in awkward::sound() {
        let topology = if input.len() < 200 { SMALL } else { &large };
        let (t, out) = through(topology, "in.csv", &input, &["--csv", "--key", "id"]);
        assert_eq!((t.code, t.err.as_str()), (Some(0), ""), "{what}: {}", t.out);
        let header = rows_of_one(b"id,name\n");
        let mut wanted = awkward::rows(&input);
        wanted.retain(|row| *row != header);
        assert_eq!(awkward::rows(&out.concat()), wanted, "{what}");
        // Without a header there is one record more.
        let (t, out) = through(topology, "in.csv", &input, &["--csv", "--key", "2"]);
        assert_eq!((t.code, t.err.as_str()), (Some(0), ""), "{what}: {}", t.out);
        assert_eq!(awkward::rows(&out.concat()), awkward::rows(&input), "{what}");
    }
    // The name of another column may have any bytes.
    for key in [&["--key", "name"][..], &["--header", "--key", "1"]] {
        let input = b"\"i\r\nd\",name\n1,a\n\n";
        let (t, out) = through(SMALL, "in.csv", input, &[&["--csv"], key].concat());
        assert_eq!((t.code, t.err.as_str(), out.concat().as_slice()), (Some(0), "", &b"1,a\n"[..]));
    }
    // What no item holds is told as such, also where a quote is open.
    let long = [&b"id,name\n1,\""[..], &[b'x'; 1 << 20], b"\"\n"].concat();
    let (t, _) = through(&large, "in.csv", &long, &["--csv", "--key", "id"]);
    assert_eq!(t.code, Some(1), "{}", t.err);
    assert!(t.err.contains("in.csv:2: the record is ") && t.err.contains("1048576 bytes hold"), "{}", t.err);
    let (t, _) = through(SMALL, "in.csv", &long, &["--csv", "--key", "id"]);
    assert!(t.code == Some(1) && t.err.contains("(a quote is open since "), "{}", t.err);
    assert!(t.err.contains("in.csv:2:3)"), "{}", t.err);
}

fn rows_of_one(text: &[u8]) -> Vec<Vec<u8>> {
    awkward::rows(text).remove(0)
}

#[test]
fn broken_csv_is_refused_with_its_place_or_taken_and_counted() {
    for (input, place, what, rows) in awkward::BROKEN {
        let shown = input.escape_ascii();
        let (t, out) = through(SMALL, "in.csv", input, &["--csv", "--header"]);
        assert_eq!((t.code, t.err.lines().count()), (Some(1), 1), "{shown}: {}", t.err);
        assert!(t.err.contains(&format!("in.csv:{place}: ")) && t.err.contains(what), "{shown}: {}", t.err);
        assert!(out.is_empty(), "{shown}");
        let (t, out) = through(SMALL, "in.csv", input, &["--csv", "--header", "--lenient"]);
        let Some(rows) = rows else {
            assert!(t.code == Some(1) && t.err.contains(what), "{shown}: {}", t.err);
            continue;
        };
        assert_eq!((t.code, t.err.lines().count()), (Some(0), 1), "{shown}: {}", t.err);
        let said = "warning: flow 'f': 1 thing that RFC 4180 does not allow was taken as text (--lenient), for example at ";
        assert!(t.err.starts_with(said), "{shown}: {}", t.err);
        assert!(t.err.trim_end().ends_with(&format!("in.csv:{place}")), "{shown}: {}", t.err);
        let theirs = |text: &[u8]| {
            let mut reader = csv::ReaderBuilder::new();
            reader.has_headers(false).flexible(true).terminator(csv::Terminator::Any(b'\n'));
            reader
                .from_reader(text)
                .into_byte_records()
                .try_fold(0, |count, row| row.map(|_| count + 1))
                .expect("valid CSV")
        };
        assert_eq!(theirs(&out.concat()), rows, "{shown}");
    }
    // All producers' shares are counted.
    let input = "1,\"a\"b\n".repeat(100);
    let (t, out) = through(SMALL, "in.csv", input.as_bytes(), &["--csv", "--lenient"]);
    assert!(t.code == Some(0) && t.err.contains("100 things that RFC 4180"), "{}", t.err);
    assert_eq!(out.concat(), input.as_bytes());
    let topology = |lenient: &str| {
        let workload = format!("workload: {{kind: file, path: in.csv, format: csv{lenient}}}");
        SMALL.replace("workload: {kind: synthetic, items: 500}", &workload)
    };
    for (lenient, code) in [("", 1), (", lenient: true", 0)] {
        let (folder, path) = folder(&topology(lenient));
        std::fs::write(folder.path().join("in.csv"), &input).unwrap();
        assert_eq!(text(&run(&["run", as_str(&path), "-q"])).code, Some(code), "{lenient}");
    }
    let (_folder, path) = folder(&topology(", lenient: true").replace("format: csv", "format: lines"));
    let t = text(&run(&["check", as_str(&path)]));
    assert!(t.code == Some(2) && t.err.contains("'lenient' goes with format: csv"), "{}", t.err);
}

#[test]
fn what_looks_like_csv_is_warned_of_once_and_an_empty_file_is_named() {
    let (t, _) = through(SMALL, "in.csv", b"a,b\n1,x\n2,\"y,z\"\n3,\"\"\n", &["--key", "a"]);
    assert_eq!((t.code, t.err.lines().count()), (Some(0), 1), "{}", t.err);
    // Of two producers that read at the same time, either may be the first to find one.
    let is_first =
        ["in.csv:3: there is a quote", "in.csv:4: there is a quote"].iter().any(|w| t.err.contains(w));
    assert!(t.err.starts_with("warning: ") && is_first, "{}", t.err);
    // Pairs of quotes divide no line in two.
    let (t, _) = through(SMALL, "in.json", b"{\"a\": 1}\n", &[]);
    assert_eq!((t.code, t.err.as_str()), (Some(0), ""));
    let (t, _) = through(SMALL, "in.csv", b"", &["--key", "a"]);
    assert!(t.code == Some(1) && t.err.contains("in.csv is empty: expected a header line"), "{}", t.err);
}
