//! Programs of a folder: NAME.json and NAME.p4info.txtpb, and where there is one NAME.stf.

use std::path::Path;

use p4runtime_proto::p4::config::v1::P4Info;
use zsr_simnet::Rng;

use crate::compare::{Difference, Pair, Tally, differ};
use crate::peer::{Ours, Theirs};
use crate::script::Step;
use crate::{cause, known};
use crate::{random, stf};

/// What to run.
pub struct Plan<'p> {
    /// The programs.
    pub folder: &'p Path,
    /// simple_switch_grpc.
    pub binary: &'p Path,
    /// Only programs whose name contains this.
    pub only: Option<&'p str>,
    /// Seed of entries and packets; each program has a sequence of its own.
    pub seed: u64,
    /// Random packets per program and round.
    pub packets: usize,
    /// Whether differences that are known are shown too.
    pub verbose: bool,
    /// Where bmv2's log goes.
    pub log: Option<&'p Path>,
}

/// What one program showed.
struct Outcome {
    differences: Vec<Difference>,
    tally: Tally,
}

/// Runs all programs; returns whether nothing differs but what is known to.
pub async fn run(plan: &Plan<'_>) -> Result<bool, String> {
    let list = std::fs::read_dir(plan.folder).map_err(|e| format!("{}: {e}", plan.folder.display()))?;
    let mut names: Vec<String> = list
        .filter_map(|e| {
            e.ok()?.file_name().into_string().ok()?.strip_suffix(".p4info.txtpb").map(str::to_string)
        })
        .filter(|name| plan.only.is_none_or(|only| name.contains(only)))
        .collect();
    names.sort();
    if names.is_empty() {
        return Err(format!("{}: no NAME.p4info.txtpb with NAME.json there", plan.folder.display()));
    }
    let (mut total, mut agree, mut known_ones, mut failed) = (Tally::default(), 0, 0, Vec::new());
    for name in &names {
        let outcome = match program(plan, name).await {
            Ok(outcome) => outcome,
            Err(e) => {
                println!("{name}: not compared: {e}");
                failed.push(name.as_str());
                continue;
            }
        };
        total += outcome.tally;
        let (known, new): (Vec<_>, Vec<_>) =
            outcome.differences.iter().partition(|d| known::is_known(name, d.kind));
        if plan.verbose {
            known.iter().for_each(|d| println!("{name}: as documented, {}: {}", d.kind, d.text));
        }
        for d in &new {
            println!("{name}: {} differ: {}", d.kind, d.text);
        }
        if !new.is_empty() {
            failed.push(name.as_str());
        } else if !known.is_empty() {
            known_ones += 1;
        } else {
            agree += 1;
        }
    }
    println!(
        "{} programs: {agree} agree, {known_ones} differ as docs/bmv2-differences.md says, {} differ otherwise; \
         {} packets in, {} out; {} table entries, {} counters, {} register cells read back",
        names.len(),
        failed.len(),
        total.packets,
        total.out,
        total.entries,
        total.counters,
        total.registers
    );
    if !failed.is_empty() {
        println!("differ: {}", failed.join(" "));
    }
    Ok(failed.is_empty())
}

async fn program(plan: &Plan<'_>, name: &str) -> Result<Outcome, String> {
    let read = |ext: &str| {
        let path = plan.folder.join(format!("{name}.{ext}"));
        std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))
    };
    let (info, json) = (read("p4info.txtpb")?, read("json")?);
    let info: P4Info = p4runtime_proto::p4info::parse(&info).map_err(|e| e.to_string())?;
    let (recorded, not_understood) = recorded(&info, read("stf").ok());
    let packets = |s: &Step| match s {
        Step::Packet { bytes, .. } => Some(bytes.clone()),
        _ => None,
    };
    let known: Vec<Vec<u8>> = recorded.iter().filter_map(packets).collect();
    let seed = name.bytes().fold(plan.seed, |n, b| n.wrapping_mul(0x100_0000_01b3) ^ u64::from(b));
    let mut rng = Rng::new(seed);
    let mut noise: Vec<Step> = (0..plan.packets).map(|_| random::packet(&mut rng, &known)).collect();
    let mut first = recorded.clone();
    first.append(&mut noise);
    // A second round with entries of our own in place of the test's.
    let mut second = random::replication(&mut rng);
    second.extend(random::entries(&mut rng, &info));
    second.extend(recorded.into_iter().filter(|s| matches!(s, Step::Packet { .. })));
    second.extend((0..plan.packets).map(|_| random::packet(&mut rng, &known)));

    let mut outcome = Outcome { differences: Vec::from_iter(not_understood), tally: Tally::default() };
    for script in [first, second] {
        let mut pair = match start(plan, &info, &json).await? {
            Ok(pair) => pair,
            Err(difference) => {
                outcome.differences.push(difference);
                return Ok(outcome);
            }
        };
        let mut same = true;
        for (at, step) in script.iter().enumerate() {
            let Err(mut difference) = pair.step(step).await else { continue };
            if difference.kind == "packet" && pair.sees_state() {
                difference.kind = cause::of(plan, &info, &json, &script[..=at], &pair.last).await?;
            }
            let bmv2s = matches!(difference.kind, "remains" | "race");
            same &= bmv2s;
            let goes_on = bmv2s || difference.kind == "packet";
            if !bmv2s || !outcome.differences.iter().any(|d| d.kind == difference.kind) {
                outcome.differences.push(difference);
            }
            if !goes_on || outcome.differences.len() > 3 {
                break;
            }
        }
        if same {
            outcome.differences.extend(pair.state(|_| false).await);
        }
        outcome.tally += pair.tally;
    }
    Ok(outcome)
}

/// The steps of p4c's test, and what is wrong with it: then there are none, and random packets are all that is compared.
fn recorded(info: &P4Info, test: Option<String>) -> (Vec<Step>, Option<Difference>) {
    match test.map_or(Ok(Vec::new()), |text| stf::steps(info, &text)) {
        Ok(steps) => (steps, None),
        Err(e) => (Vec::new(), Some(differ("script", format!("its test is not understood: {e}")))),
    }
}

/// Both switches, with the program.
pub async fn start(plan: &Plan<'_>, info: &P4Info, json: &str) -> Result<Result<Pair, Difference>, String> {
    let ours = Ours::start(None).await?;
    let theirs = Theirs::start(plan.binary, None, plan.log).await?;
    Ok(Pair::load(ours, theirs, info.clone(), json.as_bytes()).await)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_is_not_known_is_said_and_ends_nothing() {
        let info = P4Info::default();
        let (steps, wrong) = recorded(&info, Some("packet 1 aabb\nmirroring_add 5 2\n".into()));
        assert_eq!((steps.len(), wrong.is_none()), (2, true));
        let (steps, wrong) = recorded(&info, Some("packet 1 aabb\nwiggle 3\n".into()));
        assert!(steps.is_empty());
        let wrong = wrong.unwrap();
        assert!(wrong.text.contains("line 2: wiggle 3: command 'wiggle' is not known"), "{}", wrong.text);
        assert!(!known::is_known("any", wrong.kind), "it counts as a failure");
    }
}
