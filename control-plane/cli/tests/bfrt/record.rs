//! A controller's life at the vendor's driver, on record: the recording server has to answer each request as the driver did.

use super::beside::{self, Driver, said};
use super::check::Tables;
use super::exchanges::{self, Exchange};
use super::flows::{Rig, life_of, runtime};
use super::server::Recorder;
use super::{driver, files};
use bf::data_field::Value;
use std::path::PathBuf;
use zsr_switch::bfrt::proto as bf;
use zsr_topology::Chip;

const PIPES: [u32; 2] = [1, 4];
/// For who has changed the program's tables.
const ANEW: &str =
    "ZSR_BFRT_RECORD=1 tests/tofino/run asks the driver anew, if the program has other tables now";

/// With hosts at so many pipes: our own record, which `ZSR_BFRT_RECORD=1 tests/tofino/run` makes anew.
fn file(chip: Chip, pipes: u32) -> PathBuf {
    let name = format!("tests/bfrt/life-{}-{pipes}.jsonl", chip.name());
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// A life with a driver beside the recorder, as text.
fn lived(rig: Rig) -> String {
    let recorder = rig.recorder.clone();
    recorder.state().exchanges = Some(Vec::new());
    life_of(rig);
    let state = recorder.state();
    exchanges::text(&state.tables, state.exchanges.as_ref().expect("what was asked"))
}

#[test]
#[ignore = "needs the vendor's driver: tests/tofino/run"]
fn a_life_at_the_driver() {
    for (chip, address) in driver::drivers() {
        for pipes in PIPES {
            let life = lived(driver::rig(chip, &address, pipes));
            if std::env::var_os("ZSR_BFRT_RECORD").is_some() {
                std::fs::write(file(chip, pipes), life).expect("written");
            }
        }
    }
}

/// A recorder with nothing in it, as a driver that was just started.
fn empty(chip: Chip) -> Recorder {
    Recorder::new(&files::program(chip), &files::driver(chip))
}

/// What a recorder answers otherwise than is on record.
async fn differs(recorder: &Recorder, exchanges: &[(usize, Exchange)]) -> Vec<String> {
    let client = Driver::connect(&recorder.serve().await.to_string()).await;
    let (mut session, mut out) = (None, Vec::new());
    for (number, exchange) in exchanges {
        let mut differ = Vec::new();
        match exchange {
            Exchange::Comes => session = Some(client.come().await),
            Exchange::Goes => session.take().expect("a client").go().await,
            Exchange::Write { pipe, updates, said: its } => {
                let ours = client.write(beside::writing(*pipe, updates.clone())).await;
                let state = recorder.state();
                differ = beside::written(&state.tables, updates, &said(&ours, updates.len()), its);
            }
            Exchange::Read { asked, found, said: its } => {
                let (mine, end) = client.read(beside::reading(asked.clone())).await;
                let (state, ours) = (recorder.state(), said(&end, asked.len()));
                differ = beside::read(&state.tables, &state.entries, asked, (&mine, &ours), (found, its));
            }
        }
        differ.append(&mut recorder.state().problems);
        out.extend(differ.into_iter().map(|problem| format!("line {number}: {problem}")));
    }
    out
}

#[test]
fn the_recorder_answers_as_the_driver_did() {
    for (chip, pipes) in [Chip::Tofino, Chip::Tofino2].into_iter().flat_map(|c| PIPES.map(|p| (c, p))) {
        let (recorder, path) = (empty(chip), file(chip, pipes));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let exchanges = exchanges::read(&recorder.state().tables, &text).unwrap_or_else(|lack| {
            panic!("{}: {lack}; {ANEW}", path.display());
        });
        let comes = exchanges.iter().filter(|(_, e)| *e == Exchange::Comes);
        assert_eq!(comes.count(), 2, "a controller and its successor");
        let differ = runtime().block_on(differs(&recorder, &exchanges));
        assert_eq!(differ, [""; 0], "{}; {ANEW}", path.display());
    }
}

/// Another recorder stands for the driver: its life is written and read as it was, and a driver that had answered otherwise in one
/// place is noticed.
#[test]
fn what_a_driver_would_have_answered_otherwise_is_noticed() {
    let chip = Chip::Tofino2;
    let runtime = runtime();
    let recorder = runtime.block_on(async {
        let stand_in = empty(chip).serve().await;
        Recorder::beside(&stand_in.to_string()).await
    });
    let text = lived(Rig::before(chip, recorder, None, 1, runtime));
    let tables = Tables::read(&[&files::program(chip), &files::driver(chip)]);
    let exchanges = exchanges::read(&tables, &text).expect("the same tables");
    let runtime = super::flows::runtime();
    let differ = |exchanges: &[(usize, Exchange)]| runtime.block_on(differs(&empty(chip), exchanges));
    assert_eq!(differ(&exchanges), [""; 0]);

    let mut refuses = exchanges.clone();
    let refused = refuses.iter_mut().find_map(|(_, e)| match e {
        Exchange::Write { said, .. } => said.last_mut(),
        _ => None,
    });
    *refused.expect("a Write") = "InvalidArgument: no".into();
    assert!(matches!(&differ(&refuses)[..], [one] if one.contains("InvalidArgument: no")));

    let is_route =
        |e: &bf::TableEntry| !e.is_default_entry && tables.0[&e.table_id].name.ends_with(".routes");
    let place = exchanges.iter().enumerate().find_map(|(n, (_, e))| match e {
        Exchange::Read { found, .. } => Some((n, beside::table_entries(found).position(is_route)?)),
        _ => None,
    });
    let (n, at) = place.expect("an entry that was read back");
    let changed = |change: &dyn Fn(&mut Vec<bf::Entity>)| {
        let mut exchanges = exchanges.clone();
        if let Exchange::Read { found, .. } = &mut exchanges[n].1 {
            change(found);
        }
        differ(&exchanges)
    };
    let place = format!("line {}: pipe.IngressShell.zsr.departure.route.routes: ", exchanges[n].0);
    let lacks = changed(&|found| drop(found.remove(at)));
    let has_another = changed(&|found| {
        if let Some(bf::entity::Entity::TableEntry(e)) = &mut found[at].entity {
            e.data.as_mut().expect("data").fields[0].value = Some(Value::Stream(vec![0, 0]));
        }
    });
    for (found, part) in [(lacks, "the driver does not have"), (has_another, "the driver has")] {
        assert!(matches!(&found[..], [one] if one.starts_with(&place) && one.contains(part)), "{found:?}");
    }
}
