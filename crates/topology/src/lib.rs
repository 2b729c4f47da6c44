//! Topologies: YAML text to a checked model, or a list of everything that is wrong with it.
//!
//! ```text
//!  bytes ─ yaml ─► tree with places ─ build: nodes, links, flows (members, routing, data) ─► Topology
//!                      │                     │
//!                      └───── errors, each with line, column and what was expected ─────► Diagnostics
//! ```
//!
//! Reading is total: any bytes give a topology or diagnostics. The format is described in
//! `topologies/README.md`.

#![forbid(unsafe_code)]

pub mod addr;
mod build;
mod cables;
mod data;
mod diag;
mod flows;
mod lanes;
mod layout;
pub mod limits;
mod links;
mod members;
pub mod model;
mod nodes;
mod overrides;
mod pipes;
mod read;
mod routing;
pub mod rules;
mod settings;
mod standby;
mod tofino;
mod traffic;
mod trust;
mod units;
mod yaml;

use std::path::Path;

pub use addr::MacAddr;
pub use data::{default_schema, parse_delimiter};
pub use diag::{Diagnostic, Diagnostics, Place};
pub use layout::{HOST_INTERFACE, Layout, switch_interface};
pub use model::*;
pub use overrides::{InputFormat, Overrides};
pub use pipes::Pipes;
pub use rules::{ITEM_SIZES, RING_SIZES};
pub use settings::{Hint, LATENCY_POLL, MAX_BATCH, Policy, Settings, WhenEnded};
pub use tofino::{Chip, Fec, PortSetup, Tofino, TofinoApi};
pub use traffic::{Mark, Traffic};
pub use trust::TRUST_HELP;
pub use units::{SIZE_HELP, duration as parse_duration, rate as parse_rate, show_size, size as parse_size};

impl Topology {
    /// Reads the topology file at `path`.
    ///
    /// # Errors
    /// Everything that is wrong with it, an unreadable file included.
    pub fn load(path: &Path) -> Result<Topology, Diagnostics> {
        let fail = |message: String, expected: &str| Diagnostics::whole_file(path, message, expected);
        let file = std::fs::File::open(path)
            .map_err(|e| fail(format!("cannot read it: {e}"), "the path of a topology file"))?;
        let mut bytes = Vec::new();
        // One byte more than allowed tells a file that is too big.
        let mut limited = std::io::Read::take(file, yaml::MAX_BYTES as u64 + 1);
        std::io::Read::read_to_end(&mut limited, &mut bytes)
            .map_err(|e| fail(format!("cannot read it: {e}"), "the path of a topology file"))?;
        Topology::parse(path, &bytes)
    }

    /// Reads a topology from `bytes`; `path` is for messages, the name and relative paths.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Topology, Diagnostics> {
        if bytes.len() > yaml::MAX_BYTES {
            let message = format!("the file is bigger than {}", show_size(yaml::MAX_BYTES as u64));
            return Err(Diagnostics::whole_file(path, message, "a topology"));
        }
        let source = match std::str::from_utf8(bytes) {
            Ok(text) => text.strip_prefix('\u{feff}').unwrap_or(text),
            Err(e) => {
                let good = &bytes[..e.valid_up_to()];
                let line = good.iter().filter(|b| **b == b'\n').count() + 1;
                let start = good.iter().rposition(|b| *b == b'\n').map_or(0, |n| n + 1);
                let before = std::str::from_utf8(&good[start..]).unwrap_or("").chars().count();
                let place = Place { line: line as u32, column: before as u32 + 1, width: 1 };
                let message = format!("byte 0x{:02x} is not UTF-8", bytes[e.valid_up_to()]);
                let one = Diagnostic { place, message, expected: "text in UTF-8".into() };
                return Err(Diagnostics::new(path, "", vec![one]));
            }
        };
        let mut reader = read::Reader::default();
        let root = yaml::parse(source, &mut reader.diags);
        let Some(root) = root.filter(|node| !matches!(node.value, yaml::Value::Null)) else {
            if reader.diags.is_empty() {
                let message = "the file is empty";
                let expected = "a topology: switches, hosts, links and flows";
                return Err(Diagnostics::whole_file(path, message, expected));
            }
            return Err(Diagnostics::new(path, source, reader.diags));
        };
        let topology = build::build(&root, path, &mut reader);
        if reader.diags.is_empty() { Ok(topology) } else { Err(Diagnostics::new(path, source, reader.diags)) }
    }
}

#[cfg(test)]
mod tests;
