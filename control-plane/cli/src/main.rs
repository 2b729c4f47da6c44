//! The `zsr` command.

use std::process::ExitCode;

/// The system's loader calls this before Rust's runtime begins.
// SAFETY: the section holds pointers to functions with C's calling convention, as this is one.
#[cfg(target_os = "linux")]
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE: extern "C" fn() = before;

#[cfg(target_os = "linux")]
extern "C" fn before() {
    zsr_cli::note_closed_streams();
}

fn main() -> ExitCode {
    ExitCode::from(zsr_cli::main(std::env::args_os()))
}
