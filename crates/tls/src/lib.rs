//! The rights in a system whose parts are on several machines: mutual TLS (1.3, rustls), roles in certificates, and one
//! table of rights (docs/security.md).
//!
//! - [`Identity`][]: a certificate, its key, the authority and what it has taken back, read again when the files
//!   change.
//! - [`incoming`] and [`Peer`][]: the two ends of a connection.
//! - [`Caller`][]: who is at the other end of one, and what that certificate may do.
//! - [`rights`][]: which call needs which right.
//! - [`Guard`][]: the layer of a server that holds calls to it.
//! - `authority` (feature `authority`): makes an authority and certificates.

#![forbid(unsafe_code)]

#[cfg(feature = "authority")]
pub mod authority;
mod caller;
mod doings;
mod guard;
mod held;
mod identity;
mod peer;
pub mod rights;
mod serve;
#[cfg(all(test, feature = "authority"))]
mod tests;

pub use caller::{Caller, Role, check_flow, confined};
pub use doings::{Doing, Doings, Noted};
pub use guard::{Guard, Guarded};
pub use identity::{CERTIFICATE_ENDS, Identity, IdentityError, REVOKED};
pub use peer::Peer;
pub use serve::{Secured, incoming};

/// The name in the certificate of a system's controller.
pub const CONTROLLER: &str = "controller.zsr.internal";

/// The name in the certificate of a switch's P4Runtime server.
pub fn switch_name(switch: &str) -> String {
    format!("{switch}.switch.zsr.internal")
}

/// The name in the certificate of the SQL worker at a host.
pub fn worker_name(host: &str) -> String {
    format!("{host}.worker.zsr.internal")
}

/// The name in the certificate of a host's agent.
pub fn agent_name(host: &str) -> String {
    format!("{host}.agent.zsr.internal")
}
