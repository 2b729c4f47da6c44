//! The controller against a recorded BF Runtime server, which checks every request against bf-rt.json.

mod beside;
mod cases;
mod check;
mod counters;
mod driver;
mod exchanges;
mod files;
mod flows;
mod held;
mod multicast;
mod packets;
mod record;
mod server;
mod topologies;
mod wrong;
