//! `zsr produce` and `zsr consume`: records keep their bytes, CSV is CSV, and the end says what was delivered.

use std::fs::File;
use std::io::Write;
use std::process::{Child, Command, Output, Stdio};

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::awkward;
use super::system::{Done, HOSTS, System, done, signal};

/// `input` through `zsr ARGS`.
fn feed(system: &System, args: &[&str], input: &[u8]) -> Output {
    let path = system.folder.path().join("in");
    std::fs::write(&path, input).expect("written");
    system.command(args).stdin(File::open(&path).expect("there")).output().expect("it runs")
}

fn text(output: Output) -> Done {
    done(output)
}

#[test]
fn records_keep_their_bytes() {
    let system = System::up(HOSTS);
    system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2", "--item-size", "1KiB"]);
    let byte = prop_oneof![Just(b'\n'), Just(b'\r'), Just(b'"'), Just(b','), any::<u8>()];
    let texts = proptest::collection::vec(byte, 0..300);
    let mut runner = TestRunner::new(ProptestConfig { cases: 12, ..ProptestConfig::default() });
    let check = |mut input: Vec<u8>| {
        let fed = feed(&system, &["produce", "f", "--keep-open"], &input);
        prop_assert!(fed.status.success(), "{:?}", fed);
        // The last line has an end also where the input lacks it.
        if !input.is_empty() && !input.ends_with(b"\n") {
            input.push(b'\n');
        }
        let lines = input.iter().filter(|b| **b == b'\n').count().to_string();
        let got = system.command(&["consume", "f", "-n", &lines]).output().expect("it runs");
        prop_assert!(got.status.success(), "{:?}", got);
        prop_assert_eq!(got.stdout, input);
        Ok(())
    };
    check(b"\xef\xbb\xbfa,\"b\r\n\r\n\rc\x00\xff".to_vec()).expect("kept");
    runner.run(&texts, check).expect("kept");
    system.well(&["flow", "delete", "f", "--force"]);
    system.down();
}

/// Rows of a text without a header, in order.
fn rows(text: &[u8]) -> Vec<Vec<String>> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(text);
    let rows = reader.records().map(|row| row.expect("CSV").iter().map(str::to_owned).collect());
    let mut rows: Vec<Vec<String>> = rows.collect();
    rows.sort();
    rows
}

#[test]
fn csv_is_csv_again() {
    let system = System::up(HOSTS);
    system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2", "h3", "--item-size", "1KiB"]);
    let row = |n: u32| {
        // One key with and without quotes.
        let quote = if n.is_multiple_of(2) { "\"" } else { "" };
        format!("{quote}{}{quote},\"note {n}, of two\r\nlines\",say \"{n}\"\r\n", n % 97)
    };
    let body: String = (0..500).map(row).collect();
    let input = format!("\u{feff}id,\"the note\",last\r\n{body}");
    let consumers = ["h2", "h3"].map(|member| {
        let mut command = system.command(&["consume", "f", "--csv", "--member", member]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs")
    });
    let fed = text(feed(&system, &["produce", "f", "--csv", "--header", "--key", "id"], input.as_bytes()));
    assert_eq!(fed.code, Some(0), "{}", fed.err);
    assert!(!fed.err.contains("warning"), "{}", fed.err);
    let got = consumers.map(|c| text(c.wait_with_output().expect("it ends")).out);
    // A key is the same with and without its quotes, and all rows of one are at one consumer.
    let keys = got.each_ref().map(|out| {
        rows(out.as_bytes()).into_iter().map(|row| row[0].clone()).collect::<std::collections::BTreeSet<_>>()
    });
    assert!(keys[0].is_disjoint(&keys[1]) && keys.iter().all(|k| k.len() > 20), "each key at one consumer");
    assert_eq!(rows(got.concat().as_bytes()), rows(body.as_bytes()));
    system.down();
}

#[test]
fn awkward_csv_comes_out_as_it_went_in() {
    let system = System::up(HOSTS);
    for (what, input) in awkward::sound() {
        system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2", "--item-size", "1MiB"]);
        let fed = text(feed(&system, &["produce", "f", "--csv"], &input));
        assert_eq!(fed.code, Some(0), "{what}: {}", fed.err);
        let got = system.command(&["consume", "f", "--csv"]).output().expect("it runs");
        assert_eq!(awkward::rows(&got.stdout), awkward::rows(&input), "{what}");
        system.well(&["flow", "delete", "f"]);
    }
    // The name of another column may have any bytes.
    system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2", "h3", "--item-size", "1KiB"]);
    let named = ["produce", "f", "--csv", "--header", "--key", "name", "--keep-open"];
    let fed = text(feed(&system, &named, b"\"i\r\nd\",name\n1,a\n\n"));
    assert!(fed.code == Some(0) && fed.err.contains("pushed 1 records"), "{}", fed.err);
    // What no item holds is told as such, and where a quote is open.
    let long = [&b"1,\""[..], &vec![b'x'; 2 << 20], b"\"\n"].concat();
    let fed = text(feed(&system, &["produce", "f", "--csv"], &long));
    let said =
        "record 1 is longer than 1 MiB, which no item holds; a quote is open since line 1, column 3 (what";
    assert!(fed.code == Some(1) && fed.err.contains(said), "{}", fed.err);
    system.well(&["flow", "delete", "f", "--force"]);
    system.down();
}

#[test]
fn broken_csv_is_refused_with_its_place_or_taken_and_counted() {
    let system = System::up(HOSTS);
    for (input, place, what, rows) in awkward::BROKEN {
        let shown = input.escape_ascii();
        let (line, column) = place.split_once(':').expect("two numbers");
        let place = format!("line {line}, column {column}");
        system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2", "--item-size", "1KiB"]);
        let args = ["produce", "f", "--csv", "--header"];
        let fed = text(feed(&system, &args, input));
        assert_eq!((fed.code, fed.err.lines().count()), (Some(1), 1), "{shown}: {}", fed.err);
        assert!(fed.err.starts_with(&format!("error: {place}: ")), "{shown}: {}", fed.err);
        assert!(fed.err.contains(what) && fed.err.contains("the stream is open"), "{shown}: {}", fed.err);
        let pushed = fed.err.contains("--skip 1");
        let skip = if pushed { "1" } else { "0" };
        let fed = text(feed(&system, &[&args[..], &["--lenient", "--skip", skip]].concat(), input));
        if let Some(rows) = rows {
            assert_eq!(fed.code, Some(0), "{shown}: {}", fed.err);
            let said = format!(
                "warning: 1 thing that RFC 4180 does not allow was taken as text (--lenient), for example at {place}"
            );
            assert!(fed.err.starts_with(&said), "{shown}: {}", fed.err);
            let summary = format!("pushed {} records", rows - usize::from(pushed));
            assert!(fed.err.contains(&summary), "{shown}: {}", fed.err);
            system.well(&["consume", "f"]);
        } else {
            assert!(fed.code == Some(1) && fed.err.contains(what), "{shown}: {}", fed.err);
        }
        system.well(&["flow", "delete", "f", "--force"]);
    }
    let usage = system.zsr(&["produce", "f", "--lenient"]);
    assert!(usage.code == Some(2) && usage.err.contains("--csv"), "{}", usage.err);
    system.down();
}

#[test]
fn a_stream_whose_input_was_refused_goes_on_or_is_ended() {
    let system = System::up(HOSTS);
    let (broken, mended) = (b"1,a\n2,\"b\"c\n3,d\n", b"1,a\n2,\"bc\"\n3,d\n");
    for goes_on in [true, false] {
        system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2"]);
        let consumer =
            system.command(&["consume", "f"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let fed = text(feed(&system, &["produce", "f", "--csv"], broken));
        assert_eq!(fed.code, Some(1), "{}", fed.err);
        let said = "(what was pushed is delivered (1 records); the stream is open, and consumers wait: \
                    `zsr produce f --member h1 < /dev/null` ends it; go on behind these records of the input with --skip 1)";
        assert!(fed.err.trim_end().ends_with(said), "{}", fed.err);
        let next = if goes_on {
            feed(&system, &["produce", "f", "--csv", "--skip", "1"], mended)
        } else {
            feed(&system, &["produce", "f", "--member", "h1"], b"")
        };
        assert!(next.status.success(), "{next:?}");
        let got = text(consumer.expect("it runs").wait_with_output().expect("it ends"));
        let wanted = if goes_on { "1,a\n2,\"bc\"\n3,d\n" } else { "1,a\n" };
        assert_eq!((got.code, got.out.as_str()), (Some(0), wanted), "{}", got.err);
        system.well(&["flow", "delete", "f"]);
    }
    system.down();
}

#[test]
fn the_newest_record_is_printed_and_older_ones_are_not() {
    let system = System::up(HOSTS);
    // Each record in an item of its own, and all in one.
    for size in ["64", "4KiB"] {
        system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2", "--item-size", size]);
        let lines: String = (0..20).map(|n| format!("price {n:020}\n")).collect();
        let fed = text(feed(&system, &["produce", "f", "--keep-open"], lines.as_bytes()));
        assert_eq!(fed.code, Some(0), "{}", fed.err);
        assert_eq!(system.well(&["consume", "f", "--newest", "-n", "1"]), format!("price {:020}\n", 19));
        let fed = text(feed(&system, &["produce", "f"], b"last\n"));
        assert_eq!(fed.code, Some(0), "{}", fed.err);
        assert_eq!(system.well(&["consume", "f", "--newest"]), "last\n");
        system.well(&["flow", "delete", "f"]);
    }
    system.down();
}

#[test]
fn tuples_with_delimiters_and_line_ends_are_told_as_csv() {
    let system = System::up(HOSTS);
    let schema = "id: u32, note: bytes(16)";
    system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2", "--schema", schema]);
    let input = "id,note\n7,\"a, \"\"b\"\"\nc\"\n8,plain\n";
    let fed = text(feed(&system, &["produce", "f", "--csv", "--header"], input.as_bytes()));
    assert_eq!(fed.code, Some(0), "{}", fed.err);
    assert_eq!(system.well(&["consume", "f", "--csv", "--header"]), input);
    system.well(&["flow", "delete", "f"]);
    system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2", "--schema", schema]);
    let other = text(feed(&system, &["produce", "f", "--csv", "--header"], b"note,id\nx,1\n"));
    assert!(
        other.code == Some(1) && other.err.contains("`note, id`") && other.err.contains(schema),
        "{}",
        other.err
    );
    let open = text(feed(&system, &["produce", "f", "--csv"], b"1,a\n2,\"b\n3,c\n"));
    assert!(open.code == Some(1) && open.err.contains("line 2, column 3: a quote is opened"), "{}", open.err);
    assert!(open.err.contains("--skip 1"), "{}", open.err);
    system.down();
}

#[test]
fn quotes_that_are_not_read_as_such_are_warned_of_once() {
    let system = System::up(HOSTS);
    system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2", "h3", "--routing", "hash(1)"]);
    let input = b"a,b\n\"c,d\",e\n\"f\",g\n";
    let fed = text(feed(&system, &["produce", "f", "--keep-open"], input));
    assert_eq!(fed.code, Some(0), "{}", fed.err);
    assert_eq!(fed.err.matches("warning: record 2: there is a quote").count(), 1, "{}", fed.err);
    assert_eq!(fed.err.matches("warning").count(), 1, "{}", fed.err);
    // Where nobody looks at columns, quotes in pairs change nothing.
    let fed = text(feed(&system, &["produce", "f", "--keep-open", "--key", "*"], b"{\"a\": 1}\n"));
    assert!(fed.code == Some(0) && !fed.err.contains("warning"), "{}", fed.err);
    system.well(&["flow", "delete", "f", "--force"]);
    system.down();
}

#[test]
fn a_key_that_the_first_record_lacks_is_a_wrong_command() {
    let system = System::up(HOSTS);
    // Also where there is one consumer, so that no key is needed.
    system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2"]);
    system.well(&["flow", "create", "g", "-p", "h1", "-c", "h2", "h3"]);
    for flow in ["f", "g"] {
        let fed = text(feed(&system, &["produce", flow, "--key", "9"], b"1,2,3\n4,5,6\n"));
        assert_eq!(fed.code, Some(2), "{flow}: {}", fed.err);
        let said = "error: --key 9: record 1: it has 3 columns, the key is column 9";
        assert_eq!(fed.err.trim_end(), said, "{flow}");
        let short = text(feed(&system, &["produce", flow, "--record-size", "8", "--key", "4:8"], &[7; 16]));
        assert!(short.code == Some(2) && short.err.contains("the key ends at byte 12"), "{}", short.err);
    }
    // A later record that lacks it is wrong input, behind which another program can go on.
    let fed = text(feed(&system, &["produce", "g", "--key", "3", "--keep-open"], b"1,2,3\n4\n"));
    assert!(fed.code == Some(1) && fed.err.contains("record 2: it has 1 column, the key"), "{}", fed.err);
    assert!(fed.err.contains("--skip 1"), "{}", fed.err);
    system.well(&["flow", "delete", "f"]);
    system.well(&["flow", "delete", "g", "--force"]);
    system.down();
}

#[test]
fn items_too_small_for_records_are_refused_on_both_sides() {
    let system = System::up(HOSTS);
    system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2", "--item-size", "32"]);
    for args in [&["produce", "f"][..], &["consume", "f"], &["consume", "f", "--record-size", "8"]] {
        let refused = system.zsr(args);
        assert_eq!(refused.code, Some(2), "{args:?}: {}", refused.err);
        assert!(refused.err.contains("items of 32 B"), "{args:?}: {}", refused.err);
    }
    system.down();
}

/// `zsr ARGS` with this redirection of a shell.
fn redirected(system: &System, args: &str, redirection: &str) -> Done {
    let zsr = system.command(&[]);
    let mut shell = Command::new("sh");
    shell.envs(zsr.get_envs().filter_map(|(name, value)| Some((name, value?)))).env_remove("ZSR_SYSTEM");
    shell.arg("-c").arg(format!("\"$0\" {args} {redirection}")).arg(zsr.get_program());
    done(shell.output().expect("a shell"))
}

#[test]
fn closed_streams_neither_end_a_flow_nor_throw_records_away() {
    let system = System::up(HOSTS);
    system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2"]);
    let closed = redirected(&system, "produce f", "<&-");
    assert_eq!((closed.code, closed.err.lines().count()), (Some(1), 1), "{}", closed.err);
    assert!(closed.err.contains("standard input is closed"), "{}", closed.err);
    // The stream goes on.
    let fed = text(feed(&system, &["produce", "f", "--keep-open"], b"1\n2\n"));
    assert_eq!(fed.code, Some(0), "{}", fed.err);
    let closed = redirected(&system, "consume f -n 1", ">&-");
    assert_eq!((closed.code, closed.err.lines().count()), (Some(1), 1), "{}", closed.err);
    assert!(closed.err.contains("standard output is closed"), "{}", closed.err);
    assert_eq!(system.well(&["consume", "f", "-n", "1"]), "1\n");
    // Whoever wants neither says so.
    assert_eq!(redirected(&system, "consume f -n 1", "> /dev/null").code, Some(0));
    assert_eq!(redirected(&system, "produce f", "< /dev/null").code, Some(0));
    system.down();
}

#[test]
fn a_stream_that_has_ended_takes_nothing_and_says_what_to_do() {
    let system = System::up(HOSTS);
    system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2"]);
    assert_eq!(text(feed(&system, &["produce", "f"], b"1\n")).code, Some(0));
    let late = text(feed(&system, &["produce", "f"], b"2\n"));
    assert_eq!((late.code, late.err.lines().count()), (Some(1), 1), "{}", late.err);
    let said = "error: ring `f.h1.h2`: its stream has ended, and nothing can be pushed behind that: delete the flow and create it \
                again; a program that others are to follow is started with --keep-open";
    assert_eq!(late.err.trim_end(), said);
    assert_eq!(system.well(&["consume", "f"]), "1\n");
    system.down();
}

#[test]
fn records_that_wait_for_somebody_who_is_gone_do_not_wait_for_room() {
    let system = System::up(HOSTS);
    system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2"]);
    let mut events = system.events();
    signal(system.pid("agent.h2"), "-KILL");
    events.next("agent-lost");
    let fed = text(feed(&system, &["produce", "f"], b"1\n2\n"));
    assert_eq!(fed.code, Some(0), "{}", fed.err);
    let said =
        "2 records in ring `f.h1.h2` to consumer `h2` wait: host `h2` of member `h2`: its agent is away";
    assert!(fed.err.contains(said), "{}", fed.err);
    system.well(&["flow", "delete", "f", "--force"]);
    system.down_after_deaths();
}

#[test]
fn records_to_skip_that_are_not_there_are_counted() {
    let system = System::up(HOSTS);
    system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2"]);
    for (input, has) in
        [(&b"1\n2\n3\n"[..], "only 3 records"), (b"1\n", "only 1 record"), (b"", "no records")]
    {
        let fed = text(feed(&system, &["produce", "f", "--skip", "10"], input));
        let said = format!("error: --skip 10: standard input has {has}; nothing was pushed");
        assert_eq!((fed.code, fed.err.trim_end()), (Some(2), said.as_str()));
    }
    // The stream goes on.
    assert_eq!(text(feed(&system, &["produce", "f", "--skip", "2"], b"1\n2\n3\n")).code, Some(0));
    assert_eq!(system.well(&["consume", "f"]), "3\n");
    system.down();
}

/// A producer that has filled all rings to a consumer that is not there.
fn stuck(system: &System, input: &str, more: &[&str]) -> Child {
    let path = system.folder.path().join("in");
    std::fs::write(&path, input).expect("written");
    let mut command = system.command(&[&["produce", "f"], more].concat());
    let command = command.stdin(File::open(&path).expect("there")).stderr(Stdio::piped());
    let child = command.spawn().expect("it runs");
    let is_full = || {
        let top = system.json(&["top", "-n", "1", "--interval", "20ms"]).remove(0);
        let rings = top["flows"][0]["rings"].as_array().expect("rings").clone();
        rings.iter().all(|ring| ring["fill"] == 1.0)
    };
    while !is_full() {}
    child
}

#[test]
fn an_interrupted_input_is_taken_up_where_it_was_left() {
    let system = System::up(HOSTS);
    system.well(&[
        "flow",
        "create",
        "f",
        "-p",
        "h1",
        "-c",
        "h2",
        "--item-size",
        "256",
        "--ring-size",
        "4KiB",
    ]);
    let input: String = (0..5000).map(|n| format!("{n}\n")).collect();
    let producer = stuck(&system, &input, &[]);
    signal(producer.id().into(), "-INT");
    let stopped = done(producer.wait_with_output().expect("it ends"));
    assert_eq!((stopped.code, stopped.err.lines().count()), (Some(1), 1), "{}", stopped.err);
    // Nothing is said to be delivered that is not.
    assert!(!stopped.err.contains("is delivered"), "{}", stopped.err);
    assert!(
        stopped.err.contains("records in ring `f.h1.h2` to consumer `h2` wait for room"),
        "{}",
        stopped.err
    );
    let skip = stopped.err.trim().rsplit(' ').next().expect("a number").to_owned();
    assert!(stopped.err.contains(&format!("--skip {skip}")), "{}", stopped.err);
    let consumer = system.command(&["consume", "f"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let rest = text(feed(&system, &["produce", "f", "--skip", &skip], input.as_bytes()));
    assert_eq!(rest.code, Some(0), "{}", rest.err);
    let count = 5000 - skip.parse::<u64>().expect("a number");
    assert!(rest.err.contains(&format!("pushed {count} records")), "{}", rest.err);
    assert!(rest.err.contains(&format!("what was pushed is delivered ({count} records)")), "{}", rest.err);
    let got = text(consumer.expect("it runs").wait_with_output().expect("it ends"));
    assert_eq!(got.out, input, "every line once, in order");
    assert!(got.err.contains("consumed 5000 records"), "{}", got.err);
    system.down();
}

#[test]
fn programs_find_their_rings_with_the_controllers_address_alone() {
    let system = System::new(&format!("insecure: true\n{HOSTS}"));
    system.well(&["up", system.path(), "--listen", "0"]);
    system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2"]);
    let address = || {
        let file = system.root().join("s/controller-address");
        std::fs::read_to_string(file).expect("it listens").trim().to_owned()
    };
    assert!(address().starts_with("127.0.0.1:"), "nobody else is let in");
    let elsewhere = tempfile::tempdir().expect("a folder");
    let far = |args: &[&str]| {
        let mut command = system.command(args);
        command.env("XDG_RUNTIME_DIR", elsewhere.path()).env("ZSR_CONTROLLER", address());
        command
    };
    let mut producer = far(&["produce", "f"]).stdin(Stdio::piped()).spawn().expect("it runs");
    producer.stdin.take().expect("piped").write_all(b"one\ntwo\n").expect("written");
    assert!(producer.wait().expect("it ends").success());
    let got = done(far(&["consume", "f"]).output().expect("it runs"));
    assert_eq!((got.code, got.out.as_str()), (Some(0), "one\ntwo\n"), "{}", got.err);
    assert_eq!(far(&["barrier", "b", "-n", "1"]).status().expect("it runs").code(), Some(0));
    // Without the address there is no system.
    let lost = done(far(&["consume", "f"]).env_remove("ZSR_CONTROLLER").output().expect("it runs"));
    assert!(lost.code == Some(1) && lost.err.contains("no system is up"), "{}", lost.err);
    system.down();
}
