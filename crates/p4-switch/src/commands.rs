//! Files of commands, in the words of `simple_switch_CLI`.

use std::path::Path;

use zsr_bmv2_runtime::{Session, State, run_word};
use zsr_soft_switch::Switch;

/// Carries out all lines of a file.
///
/// # Errors
/// The file can't be read, or a line is refused: one sentence with the file and the number of the line. The lines
/// before it are carried out.
pub(crate) fn run(path: &Path, switch: &mut Switch, state: &mut State) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    for (i, line) in text.lines().enumerate() {
        run_word(&mut Session::new(switch, state), line)
            .map_err(|why| format!("{}:{}: {why}", path.display(), i + 1))?;
    }
    Ok(())
}
