//! Up, flows, programs, down; and what is refused.

use std::collections::BTreeSet;
use std::process::{Child, Stdio};

use super::system::{HOSTS, System, done, line, lives, say};

#[test]
fn a_system_comes_up_moves_lines_and_leaves_nothing() {
    let system = System::up(
        "name: s\nhosts: [h1, h2, h3]\nflows:\n  - {name: rows, producers: [h1], consumers: [h2, h3], \
         item_size: 1KiB, ring_size: 16KiB, routing: hash(1)}\nworkload: {kind: tpch}\n",
    );
    let pids: Vec<u64> = system.processes().iter().map(|(_, pid)| pid.expect("all live")).collect();
    assert_eq!(pids.len(), 5);
    let flows = system.json(&["flow", "list"]);
    assert_eq!((&flows[0]["name"], &flows[0]["state"]), (&"rows".into(), &"running".into()));

    let input: String = (0..5000).map(|n| format!("{},row number {n}\n", n % 977)).collect();
    let file = system.folder.path().join("in.csv");
    std::fs::write(&file, &input).expect("written");
    let consumers = ["h2", "h3"].map(|member| {
        system.command(&["consume", "rows", "--member", member]).stdout(Stdio::piped()).spawn().expect("runs")
    });
    let produced = system
        .command(&["produce", "rows"])
        .stdin(std::fs::File::open(&file).expect("there"))
        .output()
        .expect("runs");
    assert_eq!(produced.status.code(), Some(0), "{}", String::from_utf8_lossy(&produced.stderr));
    let outputs = consumers.map(|c| done(c.wait_with_output().expect("it ends")));
    let key = |line: &str| line.split(',').next().expect("a key").to_owned();
    let keys = outputs.each_ref().map(|o| o.out.lines().map(key).collect::<BTreeSet<_>>());
    assert!(outputs.iter().all(|o| o.code == Some(0)), "{}{}", outputs[0].err, outputs[1].err);
    assert!(keys[0].is_disjoint(&keys[1]) && keys.iter().all(|k| k.len() > 300), "each key at one consumer");
    let mut got: Vec<&str> = outputs.iter().flat_map(|o| o.out.lines()).collect();
    let mut sent: Vec<&str> = input.lines().collect();
    // In order per producer: a key's rows come as they went.
    let of_key: Vec<&str> = got.iter().copied().filter(|l| l.starts_with("7,")).collect();
    assert!(sent.iter().copied().filter(|l| l.starts_with("7,")).eq(of_key));
    got.sort_unstable();
    sent.sort_unstable();
    assert_eq!(got, sent, "every line once");

    let top = system.json(&["top", "-n", "1", "--interval", "50ms"]);
    assert!(top[0]["flows"][0]["items"].as_u64().expect("items") > 5);
    assert_eq!(top[0]["flows"][0]["rings"].as_array().map(Vec::len), Some(4));
    system.well(&["flow", "delete", "rows"]);
    let switch = system.switch();
    assert_eq!((&switch["workers"], &switch["queue_pairs"]), (&0.into(), &0.into()));
    system.down();
    // They have given up everything that they had, and may be about to end.
    while pids.iter().any(|pid| lives(*pid)) {
        std::thread::yield_now();
    }
}

#[test]
fn records_of_one_size_go_to_all_consumers_of_a_replicate() {
    let system = System::up(HOSTS);
    system.well(&[
        "flow",
        "create",
        "all",
        "--kind",
        "replicate",
        "-p",
        "h1",
        "-c",
        "h2",
        "-c",
        "h3",
        "--item-size",
        "1KiB",
    ]);
    let bytes: Vec<u8> = (0..24 * 1000).map(|n: u32| (n * 7 + n / 256) as u8).collect();
    let file = system.folder.path().join("in.bin");
    std::fs::write(&file, &bytes).expect("written");
    let args = |member: &'static str| ["consume", "all", "--member", member, "--record-size", "24"];
    let consumers =
        ["h2", "h3"].map(|m| system.command(&args(m)).stdout(Stdio::piped()).spawn().expect("runs"));
    let input = std::fs::File::open(&file).expect("there");
    let produced = system.command(&["produce", "all", "--record-size", "24"]).stdin(input).status();
    assert!(produced.expect("runs").success());
    for consumer in consumers {
        let output = consumer.wait_with_output().expect("it ends");
        assert!(output.status.success() && output.stdout == bytes, "{} B", output.stdout.len());
    }
    system.down();
}

#[test]
fn members_join_and_settings_change_from_the_command_line() {
    let system = System::up(HOSTS);
    system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2", "--item-size", "256"]);
    let flow = system.json(&["flow", "add-producer", "f", "second@h1"]).remove(0);
    assert_eq!(flow["producers"][1]["rings"][0]["name"], "f.second.h2");
    let flow = system.json(&["flow", "add-consumer", "f", "h3"]).remove(0);
    assert_eq!(flow["producers"][0]["rings"].as_array().map(Vec::len), Some(2));
    let args = ["flow", "set", "f", "--weight", "5", "--rate-cap", "400Mbit", "--poll-interval", "1ms"];
    let settings = &system.json(&args)[0]["settings"];
    assert_eq!(settings["rate_cap_bps"], 400_000_000);
    assert_eq!((&settings["weight"], &settings["poll_interval_us"]), (&5.into(), &1000.into()));
    assert!(system.well(&["flow", "show", "f"]).contains("rate cap 400 Mbit/s"));
    system.well(&["flow", "remove-member", "f", "second"]);
    system.well(&["flow", "remove-member", "f", "h3"]);
    assert_eq!(system.json(&["ring", "list"]).len(), 2);
    system.down();
}

#[test]
fn flows_with_a_doorbell_deliver_and_leave_nothing() {
    let system = System::up(HOSTS);
    let slow = ["--poll-interval", "200ms", "--doorbell", "true"];
    system
        .well(&[&["flow", "create", "f", "-p", "h1", "-c", "h2", "--item-size", "256"][..], &slow].concat());
    let (mut producer, _) = system.start(&["produce", "f"]);
    let (mut consumer, mut lines) = system.start(&["consume", "f"]);
    for n in 0..10 {
        say(&mut producer, &format!("line {n}\n"));
        assert_eq!(line(&mut lines), format!("line {n}"));
    }
    drop(producer.stdin.take());
    assert!(producer.wait().expect("it ends").success() && consumer.wait().expect("it ends").success());
    let refused = system.zsr(&["flow", "set", "f", "--doorbell", "false"]);
    assert!(refused.code == Some(1) && refused.err.contains("doorbell"), "{}", refused.err);
    system.well(&["flow", "delete", "f"]);
    assert_eq!(system.switch()["producer_rings"], 0);
    system.down();
}

#[test]
fn refusals_are_one_line_and_an_exit_code() {
    let system = System::up(HOSTS);
    system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2"]);
    for (args, code, part) in [
        (&["flow", "create", "f", "-p", "h1", "-c", "h2"][..], 1, "flow `f` exists"),
        (&["flow", "create", "g", "-p", "h1", "-c", "h9"], 2, "no host is called `h9`"),
        (&["flow", "create", "g", "-p", "h1.none", "-c", "h2"], 2, "the topology declares no ring `h1.none`"),
        (&["flow", "add-consumer", "f", "h9"], 2, "no host is called `h9`"),
        (&["flow", "create", "g", "-p", "h1", "-c", "h2", "--weight", "0"], 2, "'weight' of flow 'g' is 0"),
        (&["flow", "set", "f", "--max-batch", "100"], 2, "max_batch"),
        (&["flow", "delete", "g"], 1, "no flow is called `g`"),
        (&["flow", "remove-member", "f", "h1"], 1, "the last producer"),
        (&["flow", "create", "g", "-p", "h1", "-c", "h2", "--schema", "a: u7"], 2, "`u7` is no type"),
        (
            &["flow", "create", "g", "-p", "h1", "-c", "h2", "--schema", "a: u8", "--routing", "hash(b)"],
            2,
            "'b'",
        ),
        (
            &["flow", "create", "g", "-p", "h1", "-c", "h2", "--schema", "a: bytes(99)", "--item-size", "64"],
            2,
            "tuples of 99 bytes don't fit in the 64-byte items",
        ),
        (&["barrier", "b", "-n", "0"], 2, "0 participants"),
        (&["barrier", "b", "-n", "2", "--timeout", "1ms"], 1, "not all 2 participants came"),
        (&["produce", "f", "--member", "h7"], 2, "no such member `h7`"),
        (&["consume", "none"], 1, "no flow is called `none`"),
        (&["up", system.path()], 1, "system `s` is up already"),
        (&["controller", system.path()], 1, "runs already"),
        (&["switch", system.path()], 1, "runs already"),
        (&["status", "--system", "other"], 1, "no system `other` is up"),
    ] {
        let done = system.zsr(args);
        assert_eq!(done.code, Some(code), "{args:?}: {}{}", done.out, done.err);
        assert!(done.err.contains(part) && done.err.lines().count() == 1, "{args:?}: {}", done.err);
    }
    assert_eq!(system.json(&["flow", "list"]).len(), 1);
    system.down();
    let none = system.zsr(&["flow", "list"]);
    assert!(none.code == Some(1) && none.err.contains("no system is up"), "{}", none.err);
}

#[test]
fn what_does_not_come_up_leaves_nothing() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("bound");
    let system = System::new(&format!(
        "insecure: true\nswitches:\n  - {{name: s1, p4runtime: {{listen: '{address}'}}}}\n{HOSTS}"
    ));
    let up = system.zsr(&["up", system.path()]);
    assert_eq!(up.code, Some(1), "{}", up.err);
    assert!(up.err.contains("switch did not start") && up.err.contains(&address.to_string()), "{}", up.err);
    assert_eq!(std::fs::read_dir(system.root()).expect("a folder").count(), 0);
}

#[test]
fn who_has_no_bmv2_is_told_how_to_name_one() {
    let system = System::new(HOSTS);
    let mut up = system.command(&["up", system.path(), "--switch", "bmv2"]);
    let up = done(up.env("PATH", "/nowhere").env_remove("ZSR_BMV2").output().expect("it runs"));
    assert_eq!(up.code, Some(1), "{}", up.err);
    assert!(up.err.contains("--bmv2 PATH") && up.err.contains("ZSR_BMV2"), "{}", up.err);
    assert_eq!(std::fs::read_dir(system.root()).expect("a folder").count(), 0);
}

#[test]
fn shells_get_their_completions() {
    let system = System::new(HOSTS);
    for shell in ["bash", "zsh", "fish"] {
        assert!(system.well(&["completion", shell]).contains("add-producer"), "{shell}");
    }
}

#[test]
fn programs_find_the_schema_with_the_flow() {
    let system = System::up(HOSTS);
    system.well(&[
        "flow",
        "create",
        "f",
        "-p",
        "h1",
        "-c",
        "h2",
        "h3",
        "--item-size",
        "256",
        "--schema",
        "id: i32, price: f64, note: bytes(6)",
        "--routing",
        "range(id, [0])",
    ]);
    let flow = &system.json(&["flow", "show", "f"])[0];
    assert_eq!(flow["schema"], "id: i32, price: f64, note: bytes(6)");
    assert_eq!(flow["tuple_size"], 18);
    let (low, mut low_lines) = system.start(&["consume", "f", "--member", "h2"]);
    let high = spawn(&system, &["consume", "f", "--member", "h3", "--record-size", "18"]);
    for (args, part) in [
        (&["produce", "f", "--record-size", "8"][..], "18 B each: not records of 8 B"),
        (&["consume", "f", "--record-size", "8"], "18 B each: not records of 8 B"),
        (&["produce", "f", "--key", "nonsense"], "there is no column 'nonsense'"),
    ] {
        let done = system.zsr(args);
        assert!(done.code == Some(2) && done.err.contains(part), "{args:?}: {}", done.err);
    }
    let (mut producer, _) = system.start(&["produce", "f", "--delimiter", "|"]);
    say(&mut producer, "-5|1.25|below\n7|-0.5|above\n-2147483648|3|\n");
    drop(producer.stdin.take());
    assert!(producer.wait().expect("it ends").success());
    assert_eq!(line(&mut low_lines), "-5,1.25,below");
    assert_eq!(line(&mut low_lines), "-2147483648,3,");
    assert!(low.wait_with_output().expect("it ends").status.success());
    let high = high.wait_with_output().expect("it ends");
    let tuple = [&7i32.to_le_bytes()[..], &(-0.5f64).to_le_bytes(), b"above\0"].concat();
    assert!(high.status.success() && high.stdout == tuple, "{:?}", high.stdout);
    system.well(&["flow", "delete", "f"]);
    system.down();
}

#[test]
fn a_line_that_is_no_tuple_is_named_and_another_program_goes_on() {
    let system = System::up(HOSTS);
    system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2", "--schema", "id: u8"]);
    let (mut consumer, mut lines) = system.start(&["consume", "f"]);
    let mut producer = spawn(&system, &["produce", "f"]);
    say(&mut producer, "255\n256\n7\n");
    let done = done(producer.wait_with_output().expect("it ends"));
    assert_eq!(done.code, Some(1));
    let why = "record 2: column `id`: `256` is not a whole number from 0 to 255";
    assert!(done.err.contains(why) && done.err.lines().count() == 1, "{}", done.err);
    let (mut successor, _) = system.start(&["produce", "f"]);
    say(&mut successor, "8\n");
    drop(successor.stdin.take());
    assert_eq!(["255", "8"], [line(&mut lines), line(&mut lines)].each_ref().map(String::as_str));
    assert!(successor.wait().expect("it ends").success() && consumer.wait().expect("it ends").success());
    system.down();
}

#[test]
fn programs_wait_for_each_other_at_a_barrier() {
    let system = System::up(HOSTS);
    let wait = || spawn(&system, &["barrier", "ready", "--participants", "3"]);
    for _ in 0..2 {
        for waiting in [wait(), wait(), wait()] {
            let done = done(waiting.wait_with_output().expect("it ends"));
            assert_eq!(done.code, Some(0), "{}", done.err);
        }
    }
    let alone = wait();
    system.down();
    let done = done(alone.wait_with_output().expect("it ends"));
    assert!(done.code == Some(1) && done.err.lines().count() == 1, "{}", done.err);
}

/// A command that goes on, all of whose output is kept.
fn spawn(system: &System, args: &[&str]) -> Child {
    let mut command = system.command(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("it runs")
}
