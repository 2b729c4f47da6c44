//! What a build of zsr is.

/// Version, commit, target and profile, as `--version` prints them: `0.1.0 (commit 0123456789ab, x86_64-unknown-linux-gnu, release)`.
/// Without the commit if the sources were in no git repository.
pub const VERSION: &str = env!("ZSR_VERSION");
