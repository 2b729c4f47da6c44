//! The client or server at the other end of a connection, as the certificate there says.
//!
//! A certificate says it in URIs among its subject alternative names: `zsr:role/operator`, `zsr:name/alice`, and for
//! each flow that it is confined to `zsr:flow/rows`, or `zsr:flow/etl-*` for all whose names begin so.

use std::fmt;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use tonic::{Extensions, Status};

use crate::rights::{self, Right};

/// The purpose of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A system's controller.
    Controller,
    /// The P4Runtime server of a switch.
    Switch,
    /// The agent of a host.
    Agent,
    /// A person or program that changes flows.
    Operator,
    /// A program that pushes and pops.
    Program,
    /// Somebody who looks.
    Reader,
    /// A worker that runs parts of SQL queries at a host, and asks other workers for rows.
    Worker,
}

impl Role {
    /// All of them.
    pub const ALL: [Role; 7] = [
        Role::Controller,
        Role::Switch,
        Role::Agent,
        Role::Operator,
        Role::Program,
        Role::Reader,
        Role::Worker,
    ];

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Role::Controller => "controller",
            Role::Switch => "switch",
            Role::Agent => "agent",
            Role::Operator => "operator",
            Role::Program => "program",
            Role::Reader => "reader",
            Role::Worker => "worker",
        }
    }

    /// The role of this word.
    pub fn parse(word: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.word() == word)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

pub(crate) const ROLE: &str = "zsr:role/";
pub(crate) const NAME: &str = "zsr:name/";
pub(crate) const FLOW: &str = "zsr:flow/";

/// The other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The name, for people.
    pub name: String,
    /// None: the certificate names none, or several, and may do nothing.
    pub role: Option<Role>,
    /// Flows that it is confined to; empty: none, it may do what its role may with all flows.
    pub flows: Vec<String>,
}

impl Caller {
    /// The caller that a certificate stands for. Whether it is to be believed was found out before.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Caller {
        let mut caller = Caller { name: "?".into(), role: None, flows: Vec::new() };
        let Ok(certificate) = webpki::EndEntityCert::try_from(certificate) else { return caller };
        let mut roles = Vec::new();
        for uri in certificate.valid_uri_names() {
            if let Some(role) = uri.strip_prefix(ROLE) {
                roles.push(Role::parse(role));
            } else if let Some(name) = uri.strip_prefix(NAME) {
                caller.name = name.to_owned();
            } else if let Some(flow) = uri.strip_prefix(FLOW) {
                caller.flows.push(flow.to_owned());
            }
        }
        if let [role] = roles.as_slice() {
            caller.role = *role;
        }
        caller
    }

    /// Whether it has this right.
    pub fn has(&self, right: Right) -> bool {
        self.role.is_some_and(|role| rights::of(role).contains(&right))
    }

    /// Whether it may have to do with this flow.
    pub fn knows(&self, flow: &str) -> bool {
        let fits = |named: &String| match named.strip_suffix('*') {
            Some(beginning) => flow.starts_with(beginning),
            None => named == flow,
        };
        self.flows.is_empty() || self.flows.iter().any(fits)
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.role {
            Some(role) => write!(f, "`{}` (role {role})", self.name),
            None => write!(f, "`{}` (a certificate without a role)", self.name),
        }
    }
}

/// Refuses a call about a flow that its caller is not to know. A caller at a socket of its own user's may know all.
///
/// # Errors
/// PERMISSION_DENIED.
pub fn check_flow(extensions: &Extensions, flow: &str) -> Result<(), Status> {
    match confined(extensions) {
        Some(caller) if !caller.knows(flow) => Err(Status::permission_denied(format!(
            "{caller} lacks the right to flow `{flow}`: its certificate is for {}",
            caller.flows.join(", ")
        ))),
        _ => Ok(()),
    }
}

/// The caller, if its certificate confines it to some flows.
pub fn confined(extensions: &Extensions) -> Option<Arc<Caller>> {
    extensions.get::<Arc<Caller>>().filter(|caller| !caller.flows.is_empty()).cloned()
}
