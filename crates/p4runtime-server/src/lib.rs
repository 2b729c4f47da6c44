//! A P4Runtime server (version 1.6) for a running [`Switch`](zsr_soft_switch::Switch).
//!
//! The switch runs in a thread of its own. The server reaches it through a
//! [`SwitchHandle`](zsr_soft_switch::SwitchHandle), with closures that run between two packets. A pipeline is built
//! beside the running one and put in its place in one such step.
//!
//! Choices that the specification leaves open or makes twice:
//! - Malformed byte strings get OUT_OF_RANGE wherever they stand ("Bytestrings"), except in packet metadata.
//! - A batch is one step, so DATAPLANE_ATOMIC is supported for every batch, and ROLLBACK_ON_ERROR is the same. If one
//!   update is refused, the others are reported as ABORTED.
//! - After VERIFY_AND_SAVE, Write and Read refer to the saved pipeline, and packets still run through the old one.
//!   COMMIT puts the saved one in place with all that was written to it.
//! - A role is whatever name a controller gives. This switch has no scheme for `role.config`; without it every role has
//!   full access, and each role's primary receives packets and notifications.
//! - Translated types (`@p4runtime_translation`) are translated by number, a string being the number's decimal digits.
//! - `const` on single entries of a table without `const entries` is in neither artifact, so these can be changed.
//! - Statuses of big batches are long, since every update has its own error: clients should allow for it
//!   (`http2_max_header_list_size`, `grpc.max_metadata_size`; "gRPC Metadata Maximum Size").
//! - Not supported, and refused with UNIMPLEMENTED: backup replicas, group actions, per-group selection modes, colour
//!   counters of meters, excess bursts.

mod actions;
mod agree;
mod apply;
mod arbitration;
mod bytestring;
mod data;
mod device;
mod device_config;
mod headers;
mod keys;
mod notifications;
mod ops;
mod pipelines;
mod ports;
mod reads;
mod reconcile;
mod refusal;
mod repr;
mod schema;
mod server;
mod service;
mod sessions;
mod stream;
mod table_reads;
mod table_updates;
mod target;
mod updates;

pub use server::{BindError, Listener, P4RuntimeServer, ServeError, bind, bind_free_unix, bind_unix};

/// A program that drops every packet: what a switch runs before a controller has given it another.
///
/// # Errors
/// None; the program is part of this crate, and a test loads it.
pub fn empty_program() -> Result<zsr_soft_switch::Program, zsr_soft_switch::LoadError> {
    zsr_soft_switch::Program::from_json(include_str!("empty.json"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_empty_program_drops() {
        let mut switch = zsr_soft_switch::Switch::new(
            &super::empty_program().unwrap(),
            zsr_soft_switch::SwitchConfig::default(),
        );
        let (mut pool, mut out) = (zsr_wire::frame::FramePool::with_frames(1), Vec::new());
        for port in [0, 1, 510] {
            let frame = zsr_wire::frame::Frame::copy_from(&[0; 64]).unwrap();
            switch.process(1, port, frame, &mut pool, &mut out);
        }
        assert!(out.is_empty());
        assert_eq!(switch.info().tables.iter().filter(|table| !table.keys.is_empty()).count(), 0);
    }
}
