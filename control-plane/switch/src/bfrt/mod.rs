//! A Tofino, reached through BF Runtime.
//!
//! ```text
//!  plan ─► P4Runtime entities, with the numbers of bf-rt.json ─► convert, groups ─► client ─► the switch's driver
//! ```
//! - [`info`]: bf-rt.json, which lists the tables, with numbers and widths.
//! - [`schema`]: the plan's names in it. With the numbers of bf-rt.json, the plan's entries differ from a request in
//!   form only.
//! - `convert`: entries and counters; `row`: entries of the driver's own tables; `groups`: multicast groups and
//!   sessions.
//! - `chip`: ports, recirculation, packet generator.
//! - [`client`]: the session; `reader`: reading back; `digests`: reports of the data plane.

mod chip;
pub mod client;
mod convert;
mod digests;
mod groups;
pub mod info;
mod reader;
mod row;
pub mod schema;

pub use client::BfrtClient;
pub use digests::BfrtDigests;
pub use info::Info;
pub use reader::BfrtReader;

/// Messages, client and server of BF Runtime; see `proto/bfrt`.
#[allow(missing_docs, clippy::all, clippy::pedantic, reason = "generated")]
pub mod proto {
    include!("../generated/bfrt_proto.rs");
}

/// The reason why a program and the controller do not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BfrtError {
    /// Not a bf-rt.json.
    #[error("{source_name} is no bf-rt.json: {reason}")]
    Json {
        /// File or server.
        source_name: String,
        /// The parser's error, with its line.
        reason: String,
    },
    /// Names that the program lacks.
    #[error(
        "{source_name} has no {missing}: it was not compiled from the p4/ of this controller; compile p4/arch/tna/main.p4 again \
         (docs/tofino.md)"
    )]
    Missing {
        /// File or server.
        source_name: String,
        /// Kinds and names.
        missing: String,
    },
    /// A name with several objects.
    #[error("{source_name} has several tables called `{name}`: {found}")]
    Ambiguous {
        /// File or server.
        source_name: String,
        /// The name.
        name: String,
        /// Their full names.
        found: String,
    },
    /// A value does not fit its field.
    #[error("table `{table}`: {value} does not fit field `{field}`, which is {form}")]
    Value {
        /// The table.
        table: String,
        /// The field.
        field: String,
        /// The value.
        value: String,
        /// The form of the field.
        form: String,
    },
    /// An entity that has no counterpart.
    #[error("{0} can't be said in BF Runtime")]
    Unsaid(&'static str),
    /// A request that the switch can't fulfil.
    #[error("{0}")]
    Unfit(String),
}
