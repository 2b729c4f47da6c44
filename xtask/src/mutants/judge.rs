//! The verdict of the simulator, or of a test, on a mutant.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

use super::entry::Mutant;

pub struct Judge {
    pub simulator: PathBuf,
    /// The sources with all mutants, and the cargo that builds them.
    pub cargo: Box<dyn Fn() -> Command>,
}

/// The profile of all builds with mutants.
pub const PROFILE: [&str; 2] = ["--profile", "mutants"];

/// The verdict on a mutant.
#[derive(Debug)]
pub enum Verdict {
    /// Caught by the first seed that failed, or by a test.
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

    /// The mutant is at work where `env` is set.
    pub fn mutant(&self, mutant: &Mutant, env: (&str, &OsStr)) -> Result<Verdict, String> {
        let with = |program: &mut Command| {
            program.env(env.0, env.1);
        };
        match &mutant.test {
            Some(test) => self.test(mutant, test, with),
            None => self.judge(with, mutant.from, mutant.seeds),
        }
    }

    /// The tests that `args` choose pass without the mutant; do they with it?
    fn test(&self, mutant: &Mutant, args: &str, with: impl Fn(&mut Command)) -> Result<Verdict, String> {
        let run = |is_broken: bool| {
            let mut cargo = (self.cargo)();
            cargo.args(["test", "--quiet", "--locked"]).args(PROFILE).args(args.split_whitespace());
            if is_broken {
                with(&mut cargo);
            }
            let done = cargo.output();
            let done = done.map_err(|e| format!("cargo: {e}"))?;
            let said = String::from_utf8_lossy(&done.stdout).into_owned();
            Ok::<_, String>((done.status.success(), said, String::from_utf8_lossy(&done.stderr).into_owned()))
        };
        let (passes, said, wrong) = run(false)?;
        let ran = said.lines().any(|l| l.starts_with("test result: ok. ") && !l.contains(" ok. 0 passed"));
        if !passes || !ran {
            let what = if passes { "chooses no test" } else { "fails without the mutant" };
            return Err(format!("{}: `cargo test {args}` {what}: {said}{wrong}", mutant.name));
        }
        let (passes, said, _) = run(true)?;
        if passes {
            return Ok(Verdict::Survived);
        }
        // The panic's message is below the line with its place.
        let mut lines = said.lines().skip_while(|line| !line.contains("panicked at")).skip(1);
        let why = lines.next().unwrap_or("no test panicked, but it fails").trim();
        // Some print whole packets.
        Ok(Verdict::Caught { by: "its test".to_owned(), why: why.chars().take(200).collect() })
    }

    fn judge(&self, with: impl Fn(&mut Command), from: u64, seeds: u64) -> Result<Verdict, String> {
        let simulator = || {
            let mut simulator = Command::new(&self.simulator);
            with(simulator.env_remove("ZSR_MUTANT").env_remove("ZSR_ARTIFACTS"));
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
