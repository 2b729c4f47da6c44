//! `zsr ca`: a development authority, certificates of a system's parts and clients, and which of them were taken back.

use super::live_args::CaArgs;
use super::{FAILED, OK, USAGE, complain, print};
use std::path::Path;
use zsr_tls::authority::{Authority, AuthorityError, Subject};
use zsr_tls::{CERTIFICATE_ENDS, Role};
use zsr_topology::Topology;

/// Makes the requested certificates.
pub(super) fn ca(args: &CaArgs) -> u8 {
    let topology = match Topology::load(&args.topology) {
        Ok(topology) => topology,
        Err(e) => {
            complain(e);
            return USAGE;
        }
    };
    let Some(folder) = &topology.tls else {
        complain(format_args!(
            "error: {}: it names no folder for certificates: put tls: FOLDER at its top, such as tls: certs",
            args.topology.display()
        ));
        return USAGE;
    };
    let done = match (&args.revoke, &args.name) {
        (Some(name), _) => revoke(folder, name),
        (None, Some(name)) => further(args, folder, name),
        (None, None) => all(&topology, folder, args.days),
    };
    match done {
        Ok(()) => OK,
        Err(e) => {
            complain(format_args!("error: {e}"));
            FAILED
        }
    }
}

/// An authority, and the certificates that a system needs.
fn all(topology: &Topology, folder: &Path, days: u32) -> Result<(), AuthorityError> {
    let authority = Authority::make(folder)?;
    let at = |file: &str| folder.join(file).display().to_string();
    print(&format!(
        "{}: the authority; its key {} signs: keep it where no other machine has it\n",
        at("ca.pem"),
        at("ca.key")
    ));
    let mut subjects = vec![Subject::new(&topology.name, Role::Controller)];
    for switch in &topology.switches {
        let addresses = switch.listen.iter().map(|at| at.ip().to_string()).collect();
        subjects.push(Subject { addresses, ..Subject::new(&switch.name, Role::Switch) });
    }
    for host in &topology.hosts {
        let addresses = host.agent.iter().map(|at| at.ip().to_string()).collect();
        subjects.push(Subject { addresses, ..Subject::new(&host.name, Role::Agent) });
    }
    subjects.push(Subject::new("operator", Role::Operator));
    subjects.push(Subject::new("reader", Role::Reader));
    for subject in &subjects {
        issue(&authority, subject, days)?;
    }
    Ok(())
}

/// Makes a certificate for another client, or a new one in place of removed files.
fn further(args: &CaArgs, folder: &Path, name: &str) -> Result<(), AuthorityError> {
    let authority = Authority::open(folder)?;
    let role = args.role.map_or(Role::Reader, Role::from);
    let subject =
        Subject { flows: args.flows.clone(), addresses: args.addresses.clone(), ..Subject::new(name, role) };
    issue(&authority, &subject, args.days)
}

/// Takes a certificate back.
fn revoke(folder: &Path, name: &str) -> Result<(), AuthorityError> {
    let list = Authority::open(folder)?.revoke(name)?;
    print(&format!(
        "{}: {name}.pem was taken back. Copy this file to where ca.pem is on each machine of the system: it counts there from then on, also for \
         connections that there are\n",
        list.display()
    ));
    Ok(())
}

fn issue(authority: &Authority, subject: &Subject, days: u32) -> Result<(), AuthorityError> {
    let path = authority.issue(subject, days)?;
    let flows = match subject.flows.as_slice() {
        [] => String::new(),
        flows => format!(", flows {}", flows.join(", ")),
    };
    let key = path.display().to_string();
    let key = key.strip_suffix(CERTIFICATE_ENDS).unwrap_or(&key);
    print(&format!(
        "{}: {} `{}`{flows}, for {days} days; its key is {key}.key\n",
        path.display(),
        subject.role,
        subject.name
    ));
    Ok(())
}
