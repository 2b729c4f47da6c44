//! A group of tests (tests/*/run) that is told to use a tool or a folder that is not there fails, and does not skip.

use std::path::Path;
use std::process::Command;

#[test]
fn a_variable_that_names_nothing_is_a_failure() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (group, variable) in [
        ("bmv2", "ZSR_BMV2"),
        ("bmv2", "ZSR_BMV2_CORPUS"),
        ("clients", "ZSR_BMV2"),
        ("netns", "ZSR_BMV2"),
        ("stf", "ZSR_STF_CORPUS"),
    ] {
        let mut run = Command::new(root.join(group).join("run"));
        let out = run.env_remove("ZSR_BMV2").env(variable, "/nowhere/at-all").output().expect("bash");
        let said = [out.stdout, out.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert_eq!(out.status.code(), Some(1), "{group} with {variable}: {said}");
        assert!(said.contains(&format!("{variable}=/nowhere/at-all")), "{group} with {variable}: {said}");
    }
}
