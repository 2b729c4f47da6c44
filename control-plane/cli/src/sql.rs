//! `zsr sql`: DataFusion is too large to be in here; the program `zsr-sql` has it.

use super::args::SqlArgs;
use super::{FAILED, complain};
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::Command;
use zsr_system::parts::own_program;

const PROGRAM: &str = "zsr-sql";

/// Goes on as `zsr-sql`, the one beside this program or else on PATH.
pub(super) fn sql(args: &SqlArgs) -> u8 {
    let mut command = Command::new(own_program(PROGRAM));
    command.args(&args.args);
    if let Ok(own) = std::env::current_exe() {
        command.env("ZSR_COMMAND", own);
    }
    // Returns only if it can't.
    let e = command.exec();
    let program = command.get_program().to_string_lossy().into_owned();
    if e.kind() == ErrorKind::NotFound {
        complain(format_args!(
            "error: {PROGRAM} is neither beside zsr nor on PATH: build it (cargo build --release --manifest-path \
             crates/datafusion/Cargo.toml --target-dir target), or put it there"
        ));
    } else {
        complain(format_args!("error: {program}: {e}"));
    }
    FAILED
}
