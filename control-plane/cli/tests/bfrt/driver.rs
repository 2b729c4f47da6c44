//! The controller at the vendor's own driver, beside the recording server (tests/tofino/run).

use super::cases;
use super::flows::{FLOW_TABLES, Rig, flow, runtime};
use super::server::Recorder;
use std::time::Instant;
use zsr_api::controller::{self as proto, FlowKind};
use zsr_switch::bfrt::proto as bf;
use zsr_topology::Chip;

/// Addresses of BF Runtime servers of the vendor's driver, with what the compilers made of our program: `ZSR_BFRT_TOFINO` and
/// `ZSR_BFRT_TOFINO2` name them. `tests/tofino/run` starts one of them, and then the tests that need it.
pub(super) fn drivers() -> Vec<(Chip, String)> {
    let variables = [(Chip::Tofino, "ZSR_BFRT_TOFINO"), (Chip::Tofino2, "ZSR_BFRT_TOFINO2")];
    let named = |variable| std::env::var(variable).ok().filter(|address| !address.is_empty());
    let found: Vec<_> = variables.into_iter().filter_map(|(chip, v)| Some((chip, named(v)?))).collect();
    let neither = "neither ZSR_BFRT_TOFINO nor ZSR_BFRT_TOFINO2 names a driver's BF Runtime server";
    assert!(!found.is_empty(), "{neither}: tests/tofino/run starts one");
    found
}

/// Hosts before that driver, and the recorder beside it.
pub(super) fn rig(chip: Chip, address: &str, pipes: u32) -> Rig {
    let runtime = runtime();
    let recorder = runtime.block_on(Recorder::beside(address));
    Rig::before(chip, recorder, None, pipes, runtime)
}

/// Does so with each of `number` flows, until one is refused, and says how long each took: of every hundred, and of all. Returns with how
/// many it was done, and why with no more.
fn each(
    chip: Chip,
    what: &str,
    number: usize,
    mut done: impl FnMut(usize) -> Result<(), tonic::Status>,
) -> (usize, Option<String>) {
    let chip = chip.name();
    let begun = Instant::now();
    let (mut hundred, mut n, mut refusal) = (begun, 0, None);
    while n < number && refusal.is_none() {
        match done(n) {
            Ok(()) => n += 1,
            Err(e) => refusal = Some(e.message().to_owned()),
        }
        if n % 100 == 0 && n > 0 && refusal.is_none() {
            println!("{chip}: {what} {n} flows, the last hundred in {:?} each", hundred.elapsed() / 100);
            hundred = Instant::now();
        }
    }
    println!("{chip}: {what} {n} flows, {:?} each", begun.elapsed() / n.max(1) as u32);
    (n, refusal)
}

/// As many flows at the vendor's driver as `ZSR_BFRT_FLOWS` says, with the time that each takes. Where that is more than there is room
/// for, the first one beyond is refused, and leaves nothing behind.
#[test]
#[ignore = "needs the vendor's driver: tests/tofino/run"]
fn many_flows_at_the_driver() {
    let number = std::env::var("ZSR_BFRT_FLOWS").ok().and_then(|n| n.parse::<usize>().ok()).unwrap_or(20);
    for (chip, address) in drivers() {
        let rig = rig(chip, &address, 1);
        let controller = rig.start().expect("a controller");
        let mut client = rig.client(&controller);
        let mut of_one = 0;
        let (made, refusal) = each(chip, "made", number, |n| {
            let one = flow(&format!("f{n}"), FlowKind::Shuffle, &["h1"], &["h2"]);
            rig.runtime.block_on(client.create_flow(one))?;
            if n == 0 {
                of_one = rig.of_flows().0;
            }
            Ok(())
        });
        assert_eq!(rig.of_flows().0, made * of_one);
        match refusal {
            None => rig.sound(),
            Some(refusal) => {
                println!("{}: flow {} is refused: {refusal}", chip.name(), made + 1);
                assert!(refusal.contains("has no room"), "{refusal}");
                // What is taken back of it is not all there.
                rig.recorder.state().problems.clear();
            }
        }
        let deleted = each(chip, "deleted", made, |n| {
            let delete = proto::DeleteFlowRequest { name: format!("f{n}"), force: true };
            rig.runtime.block_on(client.delete_flow(delete)).map(|_| ())
        });
        assert_eq!(deleted, (made, None));
        assert_eq!(rig.of_flows(), (0, 0, 0));
        rig.sound();
        let second = rig.start().err().expect("refused").to_string();
        assert!(second.contains("another controller is connected"), "{second}");
        rig.end(controller);
    }
}

/// What the driver has said to each case, by chip: our own record, which `ZSR_BFRT_RECORD=1 tests/tofino/run` makes anew.
fn answers() -> std::path::PathBuf {
    std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/bfrt/answers.json")
}

type Answers = std::collections::BTreeMap<String, Vec<(String, Vec<String>)>>;

fn recorded() -> Answers {
    let text = std::fs::read_to_string(answers()).expect("answers.json");
    serde_json::from_str(&text).expect("answers by chip")
}

/// Right and wrong updates at the driver and at the recorder.
#[test]
#[ignore = "needs the vendor's driver: tests/tofino/run"]
fn right_and_wrong_at_the_driver() {
    for (chip, address) in drivers() {
        let rig = rig(chip, &address, 1);
        let recorder = &rig.recorder;
        let controller = rig.start().expect("a controller");
        let cases = cases::all(&recorder.state().tables, chip);
        let mut said = Vec::new();
        for (what, updates) in cases {
            let answers = updates
                .into_iter()
                .map(|update| rig.runtime.block_on(recorder.at_driver(vec![update])).remove(0));
            said.push((what.to_owned(), answers.collect::<Vec<_>>()));
        }
        rig.end(controller);
        if std::env::var_os("ZSR_BFRT_RECORD").is_some() {
            let mut all = recorded();
            all.insert(chip.name().into(), said.clone());
            std::fs::write(answers(), serde_json::to_string_pretty(&all).expect("JSON") + "\n")
                .expect("written");
        }
        assert_eq!(recorded().get(chip.name()), Some(&said));
    }
}

/// Tables of the program that grow with flows hold as many entries as they say, and what is beyond is refused by name.
#[test]
#[ignore = "needs the vendor's driver: tests/tofino/run"]
fn full_tables_at_the_driver() {
    for (chip, address) in drivers() {
        let rig = rig(chip, &address, 1);
        let recorder = &rig.recorder;
        let controller = rig.start().expect("a controller");
        let mut short = Vec::new();
        for name in FLOW_TABLES.into_iter().chain([".stations"]) {
            let (id, size) = {
                let state = recorder.state();
                let (id, table) = state.tables.named(name).expect("a table");
                (id, table.size)
            };
            let insert = |number| {
                let entry = recorder.state().tables.0[&id].one_of_many(id, number)?;
                let entity = Some(super::held::entity(entry));
                Some(bf::Update { r#type: bf::update::Type::Insert.into(), entity })
            };
            let begun = Instant::now();
            let (mut taken, mut refusal, mut number) = (0, String::new(), 0);
            while refusal.is_empty() && number < 2 * size {
                let updates: Vec<_> = (number..number + 512).map_while(insert).collect();
                if updates.is_empty() {
                    break;
                }
                number += updates.len() as u64;
                for answer in rig.runtime.block_on(recorder.at_driver(updates)) {
                    match answer.as_str() {
                        "OK" => taken += 1,
                        // The controller has some there.
                        _ if answer.starts_with("AlreadyExists") => {}
                        _ if refusal.is_empty() => refusal = answer,
                        _ => {}
                    }
                }
            }
            println!(
                "{}: {name}: {taken} of {size} entries in {:?}, then {refusal:?}",
                chip.name(),
                begun.elapsed()
            );
            // The chip finds an entry by hashes of its key: where keys are drawn, the last places may not be reached.
            if taken * 100 < size * 95 || !refusal.starts_with("ResourceExhausted") {
                short.push(format!("{name}: {taken} of {size}, then {refusal:?}"));
            }
        }
        rig.end(controller);
        assert_eq!(short, [""; 0]);
    }
}

/// What the driver takes without a word, and no controller should say.
const STRICTER: [&str; 4] = ["a key twice", "a datum too few", "an entry without data", "a loop of ten bits"];

/// The recorder takes what the driver has taken, and refuses what the driver has refused.
#[test]
fn the_recorder_says_what_the_driver_has_said() {
    for chip in [Chip::Tofino, Chip::Tofino2] {
        let recorder = Recorder::new(&super::files::program(chip), &super::files::driver(chip));
        let mut state = recorder.state();
        let cases = cases::all(&state.tables, chip);
        let recorded = recorded().remove(chip.name()).expect("answers for it");
        assert_eq!(recorded.len(), cases.len());
        let mut differ = Vec::new();
        for ((what, updates), (of, answers)) in cases.into_iter().zip(recorded) {
            assert_eq!(what, of);
            for (update, answer) in updates.iter().zip(answers) {
                let ours = state.update(update);
                // The driver does not mind the end of what is not there, of some tables.
                let is_end = update.r#type == bf::update::Type::Delete as i32;
                let stricter = ours.is_err() && (STRICTER.contains(&what) || is_end);
                if ours.is_ok() != (answer == "OK") && !stricter {
                    differ.push(format!(
                        "{}: {what}: the driver said {answer:?}, the recorder {ours:?}",
                        chip.name()
                    ));
                }
            }
        }
        assert_eq!(differ, [""; 0]);
    }
}
