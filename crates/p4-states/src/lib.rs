//! State controls of both architectures (`p4/arch/*/state.p4`), executed side by side: a parser and an interpreter of the P4 that
//! they use. `README.md` says what is understood and what is compared.
//!
//! - `token`, `preprocess`, `cursor`, `parse`, `ast`: from text to declarations.
//! - `value`, `link`, `run`, `inputs`: from declarations to what a control leaves.
//! - `pipeline`, `known`: which operations are used, and what the pipeline adds to them.
//! - `pairs`, `coverage`: the comparison, and what it met; `mutate`: would it find a difference?

#![forbid(unsafe_code)]

mod ast;
mod coverage;
mod cursor;
mod inputs;
mod known;
mod link;
mod mutate;
mod pairs;
mod parse;
mod pipeline;
mod preprocess;
mod run;
mod sources;
mod token;
mod value;

pub use mutate::{Mutant, TNA};
pub use pairs::Pairs;
pub use sources::Sources;
