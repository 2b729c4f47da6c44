//! The simulator's word on a mutant.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::entry::Mutant;

pub struct Judge {
    pub simulator: PathBuf,
}

/// What became of a mutant.
#[derive(Debug)]
pub enum Verdict {
    /// This seed was the first one that failed, so many had been run by then.
    Caught {
        seed: u64,
        after: u64,
        why: String,
    },
    Survived,
}

impl Judge {
    /// The product without a mutant.
    pub fn product(&self, seeds: u64) -> Result<Verdict, String> {
        self.judge(|_| (), 1, seeds)
    }

    pub fn rust(&self, mutant: &Mutant) -> Result<Verdict, String> {
        let with = |simulator: &mut Command| {
            simulator.env("ZSR_MUTANT", &mutant.name);
        };
        self.judge(with, mutant.from, mutant.seeds)
    }

    /// With the compiled program in folder `artifacts`.
    pub fn p4(&self, mutant: &Mutant, artifacts: &Path) -> Result<Verdict, String> {
        let with = |simulator: &mut Command| {
            simulator.arg("--artifacts").arg(artifacts);
        };
        self.judge(with, mutant.from, mutant.seeds)
    }

    fn judge(&self, with: impl Fn(&mut Command), from: u64, seeds: u64) -> Result<Verdict, String> {
        let simulator = || {
            let mut simulator = Command::new(&self.simulator);
            with(simulator.env_remove("ZSR_MUTANT"));
            simulator
        };
        let mut all = simulator();
        all.args(["--until-failure", "--from", &from.to_string(), "--seeds", &seeds.to_string()]);
        let done = all.output().map_err(|e| format!("{}: {e}", self.simulator.display()))?;
        let said = String::from_utf8_lossy(&done.stdout);
        if done.status.success() {
            return Ok(Verdict::Survived);
        }
        let of = |what: &str| said.lines().find_map(|line| line.strip_prefix(what));
        let found = of("first failure: seed ").and_then(|rest| rest.split_once(": "));
        let Some((Ok(seed), how)) = found.map(|(seed, how)| (seed.parse::<u64>(), how)) else {
            let wrong = String::from_utf8_lossy(&done.stderr);
            return Err(format!("the simulator did not run ({}): {said}{wrong}", done.status));
        };
        let why = of(&format!("seed {seed}: ")).unwrap_or(how).to_owned();
        Ok(Verdict::Caught { seed, after: seed - from + 1, why })
    }
}
