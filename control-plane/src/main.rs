//! The `zsr` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(zsr_control_plane::cli::main(
        std::env::args_os(),
        &|topology, options, control, progress| {
            Ok(zsr_control_plane::job::run(topology, options, control, progress)?)
        },
    ))
}
