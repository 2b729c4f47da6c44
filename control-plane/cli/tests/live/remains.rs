//! What a system holds: entries and groups of the switch; threads, files and rings' memory of all processes.

use std::collections::BTreeMap;
use std::path::Path;

use zsr_plan::dataplane::flow::DataPlane;
use zsr_plan::p4::{Artifacts, Schema};
use zsr_switch::SwitchReader;

use super::system::System;

#[derive(Debug, PartialEq, Eq)]
pub struct Remains {
    entries: usize,
    groups: usize,
    /// Numbers that the controller has given away.
    numbers: String,
    rings: usize,
    /// By process: threads, open files, mapped ring memory.
    processes: BTreeMap<String, (usize, usize, usize)>,
}

impl Remains {
    pub fn of(system: &System) -> Self {
        let address = std::fs::read_to_string(system.root().join("s/p4runtime")).expect("a switch");
        let schema = Schema::new(&Artifacts::built_in().expect("the program").p4info);
        let tables = DataPlane::flow_tables().map(|t| schema.table(t).expect("a table"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (entries, groups) = runtime.block_on(async {
            let address: p4runtime_proto::Address = address.trim().parse().expect("an address");
            let reader = SwitchReader::connect("s1", address, 1).await.expect("the switch");
            let entries = reader.entities(tables.into_iter(), |_| false).await.expect("entries").len();
            (entries, reader.groups().await.expect("groups").len())
        });
        let switch = system.switch();
        let processes = system.processes().into_iter().map(|(name, pid)| {
            let process = Path::new("/proc").join(pid.expect("all live").to_string());
            let count = |what: &str| std::fs::read_dir(process.join(what)).expect("ours").count();
            let maps = std::fs::read_to_string(process.join("maps")).expect("ours");
            let rings = maps.lines().filter(|l| l.contains("memfd")).count();
            (name, (count("task"), count("fd"), rings))
        });
        Remains {
            entries,
            groups,
            numbers: format!("{} {} {}", switch["workers"], switch["producer_rings"], switch["queue_pairs"]),
            rings: system.json(&["ring", "list"]).len(),
            processes: processes.collect(),
        }
    }

    /// Waits until the system holds no more than this: connections of programs that have just ended, and threads that have just
    /// worked, may take a moment to go.
    pub fn are_all_there_is(&self, system: &System) {
        for _ in 0..500 {
            if Remains::of(system).is_within(self) {
                return;
            }
        }
        assert_eq!(Remains::of(system), *self, "something was left behind");
    }

    fn is_within(&self, before: &Self) -> bool {
        let fits = |(name, now): (&String, &(usize, usize, usize))| {
            let before = before.processes[name];
            now.0 <= before.0 && now.1 <= before.1 && now.2 <= before.2
        };
        (self.entries, self.groups, &self.numbers, self.rings)
            == (before.entries, before.groups, &before.numbers, before.rings)
            && self.processes.len() == before.processes.len()
            && self.processes.iter().all(fits)
    }
}
