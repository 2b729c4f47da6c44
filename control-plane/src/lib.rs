//! Controller library, state store and the zsr command line. A module uses only those that stand before it in the test below.

#![forbid(unsafe_code)]

pub mod bfrt;
pub mod capture;
pub mod cli;
pub mod controller;
pub mod dataplane;
pub mod job;
pub mod options;
pub mod p4;
pub mod parts;
pub mod patience;
pub mod process;
pub mod report;
pub mod run;
pub mod settings;
pub mod switch;
pub mod watchdog;

pub use zsr_workload as workload;

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// Modules from the bottom up: each uses only those before it.
    const FLOORS: [&str; 16] = [
        "patience",
        "watchdog",
        "p4",
        "dataplane",
        "bfrt",
        "switch",
        "capture",
        "options",
        "report",
        "settings",
        "controller",
        "parts",
        "run",
        "process",
        "job",
        "cli",
    ];

    fn sources(path: &Path, out: &mut Vec<String>) {
        if path.is_dir() {
            std::fs::read_dir(path).unwrap().for_each(|entry| sources(&entry.unwrap().path(), out));
        } else if path.is_file() && path.extension().is_some_and(|e| e == "rs") {
            out.push(std::fs::read_to_string(path).unwrap());
        }
    }

    #[test]
    fn modules_use_only_those_below_them() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut found = 0;
        for (floor, module) in FLOORS.iter().enumerate() {
            let mut texts = Vec::new();
            sources(&root.join(module), &mut texts);
            sources(&root.join(format!("{module}.rs")), &mut texts);
            for used in texts.iter().flat_map(|text| text.split("crate::").skip(1)) {
                let name = used.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
                let Some(of) = FLOORS.iter().position(|m| *m == name) else { continue };
                assert!(of <= floor, "{module} uses {name}, which stands above it");
                found += usize::from(of < floor);
            }
        }
        assert!(found > 50, "only {found} uses found: are these the sources?");
    }
}
