//! Systems of controller, switch and hosts: in one process ([`run`]) and as processes ([`process`]), and captures of
//! their links.

#![forbid(unsafe_code)]

pub mod capture;
pub mod parts;
pub mod process;
pub mod run;
pub mod timers;
