//! `zsr check`: is a topology sound?

use zsr_topology::Topology;

use super::args::CheckArgs;
use super::{OK, USAGE, complain, print};

/// Checks every file; the exit code is that of the worst.
pub(super) fn check(args: &CheckArgs) -> u8 {
    let mut code = OK;
    for path in &args.topologies {
        match Topology::load(path) {
            Ok(t) => print(&format!("{}: OK: {}\n", path.display(), summary(&t))),
            Err(errors) => {
                complain(&errors);
                let count = errors.count();
                complain(format_args!(
                    "{}: {count} {}",
                    path.display(),
                    if count == 1 { "error" } else { "errors" }
                ));
                code = USAGE;
            }
        }
    }
    code
}

fn summary(t: &Topology) -> String {
    let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let switches = match t.switches.len() {
        1 => "1 switch".to_owned(),
        n => format!("{n} switches"),
    };
    let parts = [
        switches,
        count(t.hosts.len(), "host"),
        count(t.links.len(), "link"),
        count(t.rings.len(), "ring"),
        count(t.flows.len(), "flow"),
    ];
    parts.join(", ")
}
