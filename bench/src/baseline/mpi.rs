//! OpenMPI's alltoallv with the same tuples, where its compiler is installed: bench/mpi/shuffle.c. Its ranks are
//! processes that exchange bytes through shared memory: no NIC, no link and no switch take part.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::RING;

/// A compiled program, which is removed in the end.
pub struct Shuffle {
    folder: PathBuf,
}

/// Time, result and instructions of one run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// By the clock, in seconds.
    pub seconds: f64,
    /// Tuples that came, at all ranks.
    pub tuples: u64,
    /// The sum of their keys, modulo 2^64.
    pub keys: u64,
    /// Instructions of all ranks, if they were counted.
    pub instructions: Option<u64>,
}

impl Shuffle {
    /// Compiles it.
    ///
    /// # Errors
    /// Why it is skipped: there is no `mpicc` or no `mpirun`, or it does not compile.
    pub fn build() -> Result<Shuffle, String> {
        for tool in ["mpicc", "mpirun"] {
            let found =
                Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
            if found.is_err() {
                return Err(format!("{tool} is not installed (Debian: libopenmpi-dev, openmpi-bin)"));
            }
        }
        let folder = std::env::temp_dir().join(format!("zsr-mpi-{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("mpi/shuffle.c");
        let shuffle = Shuffle { folder };
        let built = Command::new("mpicc")
            .args(["-O3", "-std=c11", "-o"])
            .arg(shuffle.program())
            .arg(&source)
            .status();
        match built {
            Ok(status) if status.success() => Ok(shuffle),
            Ok(status) => Err(format!("mpicc {}: {status}", source.display())),
            Err(e) => Err(format!("mpicc: {e}")),
        }
    }

    fn program(&self) -> PathBuf {
        self.folder.join("shuffle")
    }

    /// Shuffles `count` tuples of `tuple` bytes from each of `ranks`. `counted`: under callgrind.
    ///
    /// # Errors
    /// The error, in mpirun's words.
    pub fn run(&self, ranks: usize, tuple: usize, count: usize, counted: bool) -> Result<Run, String> {
        let mut run = Command::new("mpirun");
        run.args(["--allow-run-as-root", "--oversubscribe", "-n", &ranks.to_string()]);
        if counted {
            run.args(["valgrind", "--quiet", "--tool=callgrind", "--collect-atstart=no"]);
            run.arg(format!("--callgrind-out-file={}/out.%p", self.folder.display()));
        }
        run.arg(self.program()).args([tuple.to_string(), count.to_string(), RING.to_string()]);
        let output = run.output().map_err(|e| format!("mpirun: {e}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let mut words = text.split_whitespace();
        let mut word =
            || words.next().ok_or_else(|| format!("mpirun: {}", String::from_utf8_lossy(&output.stderr)));
        let seconds = word()?.parse().map_err(|e| format!("seconds: {e}"))?;
        let [tuples, keys] = [word()?, word()?].map(|w| w.parse().unwrap_or_default());
        let instructions = counted.then(|| self.total());
        Ok(Run { seconds, tuples, keys, instructions })
    }

    /// The instructions that callgrind has counted, over all ranks.
    fn total(&self) -> u64 {
        let mut total = 0;
        for entry in std::fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with("out.") {
                let text =
                    String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap_or_default()).into_owned();
                let line = text.lines().find_map(|line| line.strip_prefix("summary: "));
                total += line.and_then(|n| n.trim().parse::<u64>().ok()).unwrap_or_default();
                let _ = std::fs::remove_file(entry.path());
            }
        }
        total
    }
}

impl Drop for Shuffle {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
