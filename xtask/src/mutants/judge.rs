//! The simulator's word on a mutant, or a test's.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::entry::Mutant;

pub struct Judge {
    pub simulator: PathBuf,
    /// The sources with all mutants, and the cargo that builds them.
    pub cargo: Box<dyn Fn() -> Command>,
}

/// How everything is built that has mutants.
pub const PROFILE: [&str; 2] = ["--profile", "mutants"];

/// What became of a mutant.
#[derive(Debug)]
pub enum Verdict {
    /// By the first seed that failed, or a test.
    Caught {
        by: String,
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
        if let Some(test) = &mutant.test {
            return self.test(mutant, test);
        }
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

    /// The tests that `args` choose pass without the mutant; do they with it?
    fn test(&self, mutant: &Mutant, args: &str) -> Result<Verdict, String> {
        let run = |name: Option<&str>| {
            let mut cargo = (self.cargo)();
            cargo.args(["test", "--quiet", "--locked"]).args(PROFILE).args(args.split_whitespace());
            let done = cargo.envs(name.map(|name| ("ZSR_MUTANT", name))).output();
            let done = done.map_err(|e| format!("cargo: {e}"))?;
            let said = String::from_utf8_lossy(&done.stdout).into_owned();
            Ok::<_, String>((done.status.success(), said, String::from_utf8_lossy(&done.stderr).into_owned()))
        };
        let (passes, said, wrong) = run(None)?;
        let ran = said.lines().any(|l| l.starts_with("test result: ok. ") && !l.contains(" ok. 0 passed"));
        if !passes || !ran {
            let what = if passes { "chooses no test" } else { "fails without the mutant" };
            return Err(format!("{}: `cargo test {args}` {what}: {said}{wrong}", mutant.name));
        }
        let (passes, said, _) = run(Some(&mutant.name))?;
        if passes {
            return Ok(Verdict::Survived);
        }
        // The panic's message is below the line with its place.
        let mut lines = said.lines().skip_while(|line| !line.contains("panicked at")).skip(1);
        let why = lines.next().unwrap_or("no test panicked, but it fails").trim().to_owned();
        Ok(Verdict::Caught { by: "its test".to_owned(), why })
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
        Ok(Verdict::Caught { by: format!("seed {seed} ({} of {seeds})", seed - from + 1), why })
    }
}
