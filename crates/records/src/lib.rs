//! Records of a flow: their schema, the key that routes them, and lines of text made tuples and back. The switch looks at none
//! of this; the programs at both ends of a flow agree on it.
//!
//! ```text
//!  text ─ rows ─► record ─ key ─► router ─► consumer
//!                   │
//!                 schema ─► tuple (bytes in a segment) ─ schema ─► text
//! ```

#![forbid(unsafe_code)]

mod accumulate;
mod columns;
mod combine;
mod ends;
mod fault;
mod key;
mod model;
mod route;
mod routing;
pub mod rows;
mod schema;
mod value;
mod words;

pub use columns::{COLUMN_TYPE_HELP, column_type, fixed_width, type_name};
pub use combine::{AGGREGATES_HELP, Combiner, SumError};
pub use fault::Fault;
pub use key::{KeyError, KeyReader};
pub use model::{Bound, Column, ColumnType, Content, FileFormat, KeyRef, Routing};
pub use route::{KeyForm, RouteError, Router};
pub use routing::{
    KEY_HELP, ROUTING_HELP, bounds, check_any_routing, check_routing, parse_key, parse_routing,
};
pub use schema::{Schema, SchemaTextError, TupleError};
pub use words::{NAME_HELP, integer, is_name, nearest, shorten};
