//! The control API: everything that a controller may read and change, by numeric id. All of it takes `&mut Switch`;
//! use a [`SwitchHandle`](crate::SwitchHandle) from other threads.

mod handles;
mod indirect;
mod profiles;
mod tables;
mod types;

pub use handles::EntryHandle;
pub use types::*;
