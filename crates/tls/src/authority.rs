//! A development authority: makes certificates of a system's parts and clients, each with its key, in one folder.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SanType,
    SerialNumber,
};
use time::OffsetDateTime;

use crate::caller::{FLOW, NAME, ROLE, Role};
use crate::identity::{IdentityError, REVOKED, certificates, not_a_list, revocations};
use crate::{CONTROLLER, agent_name, switch_name, worker_name};

/// The authority's name in its certificate.
const COMMON_NAME: &str = "zsr development authority";
/// Clocks of other machines may be behind.
const BEFORE: Duration = Duration::from_secs(600);
const DAY: Duration = Duration::from_secs(86400);
/// How long the authority's own certificate is valid.
const AUTHORITY: Duration = Duration::from_secs(10 * 365 * 86400);

/// Why there is no certificate.
#[derive(Debug)]
pub enum AuthorityError {
    /// A file.
    File {
        /// The file.
        path: PathBuf,
        /// The system's message.
        source: io::Error,
    },
    /// A file is there already.
    Exists(PathBuf),
    /// The authority's key can't be used, or a name can't be in a certificate.
    Certificate {
        /// The file of the key or certificate.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}

impl fmt::Display for AuthorityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AuthorityError::File { path, source } => write!(f, "{}: {source}", path.display()),
            AuthorityError::Exists(path) => {
                write!(
                    f,
                    "{} is there, and is not overwritten: remove it if it is to be made anew",
                    path.display()
                )
            }
            AuthorityError::Certificate { path, reason } => write!(f, "{}: {reason}", path.display()),
        }
    }
}

impl std::error::Error for AuthorityError {}

impl From<IdentityError> for AuthorityError {
    fn from(IdentityError { path, reason }: IdentityError) -> Self {
        AuthorityError::Certificate { path, reason }
    }
}

/// The holder of a certificate.
#[derive(Clone, Debug)]
pub struct Subject {
    /// For people; of an agent or worker its host, of a switch its name in the topology.
    pub name: String,
    /// The role of the certificate.
    pub role: Role,
    /// Flows that it is confined to (`etl-*`: whose names begin so); none: all.
    pub flows: Vec<String>,
    /// Addresses and host names for clients of others that look at these, beside localhost; of servers only.
    pub addresses: Vec<String>,
}

impl Subject {
    /// A client that may do what its role may with all flows, or a server that clients of others know as localhost.
    pub fn new(name: &str, role: Role) -> Subject {
        Subject { name: name.to_owned(), role, flows: Vec::new(), addresses: Vec::new() }
    }

    /// The certificate's file, without the ending.
    pub fn file(&self) -> String {
        match self.role {
            Role::Controller | Role::Switch => self.role.word().to_owned(),
            Role::Agent | Role::Worker => format!("{}.{}", self.role, self.name),
            Role::Operator | Role::Program | Role::Reader => self.name.clone(),
        }
    }

    /// The name that a client asks of it, if it is a server.
    fn server_name(&self) -> Option<String> {
        match self.role {
            Role::Controller => Some(CONTROLLER.to_owned()),
            Role::Switch => Some(switch_name(&self.name)),
            Role::Agent => Some(agent_name(&self.name)),
            Role::Worker => Some(worker_name(&self.name)),
            Role::Operator | Role::Program | Role::Reader => None,
        }
    }
}

/// An authority, in its folder.
pub struct Authority {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// A new one; the folder is made if it is not there.
    ///
    /// # Errors
    /// There is one, or the folder can't be written.
    pub fn make(folder: &Path) -> Result<Authority, AuthorityError> {
        let failed = |source| AuthorityError::File { path: folder.to_owned(), source };
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        let path = folder.join("ca.pem");
        let revoked = folder.join(REVOKED);
        if revoked.exists() {
            return Err(AuthorityError::Exists(revoked));
        }
        let refused =
            |e: rcgen::Error| AuthorityError::Certificate { path: path.clone(), reason: e.to_string() };
        let key = KeyPair::generate().map_err(refused)?;
        let params = own(AUTHORITY);
        let certificate = params.self_signed(&key).map_err(refused)?;
        // The key first: without it nothing has begun.
        write(&folder.join("ca.key"), &key.serialize_pem(), 0o600)?;
        write(&path, &certificate.pem(), 0o644)?;
        Ok(Authority { folder: folder.to_owned(), issuer: Issuer::new(params, key) })
    }

    /// The one that was made in this folder.
    ///
    /// # Errors
    /// Its key is not there, or is none.
    pub fn open(folder: &Path) -> Result<Authority, AuthorityError> {
        let path = folder.join("ca.key");
        let text = std::fs::read_to_string(&path)
            .map_err(|source| AuthorityError::File { path: path.clone(), source })?;
        let key = KeyPair::from_pem(&text).map_err(|e| AuthorityError::Certificate {
            path,
            reason: format!("not a private key in PEM: {e}"),
        })?;
        Ok(Authority { folder: folder.to_owned(), issuer: Issuer::new(own(AUTHORITY), key) })
    }

    /// Whether there is one in this folder.
    pub fn is_in(folder: &Path) -> bool {
        folder.join("ca.key").exists() || folder.join("ca.pem").exists()
    }

    /// Makes a certificate that is valid for `days`, and its key, and returns the certificate's file.
    ///
    /// # Errors
    /// One of that name is there, or the name can't be in a certificate.
    pub fn issue(&self, subject: &Subject, days: u32) -> Result<PathBuf, AuthorityError> {
        self.issue_until(subject, OffsetDateTime::now_utc() + DAY * days)
    }

    /// As [`issue`](Self::issue), valid until a time that may be over.
    pub(crate) fn issue_until(
        &self,
        subject: &Subject,
        until: OffsetDateTime,
    ) -> Result<PathBuf, AuthorityError> {
        // Not the extension replaced: a host may be called `h.1`.
        let file = |ending: &str| self.folder.join(format!("{}{ending}", subject.file()));
        let (path, key_path) = (file(".pem"), file(".key"));
        for path in [&path, &key_path] {
            if path.exists() {
                return Err(AuthorityError::Exists(path.clone()));
            }
        }
        let refused =
            |e: rcgen::Error| AuthorityError::Certificate { path: path.clone(), reason: e.to_string() };
        let params = leaf(subject, until).map_err(refused)?;
        let key = KeyPair::generate().map_err(refused)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(refused)?;
        write(&key_path, &key.serialize_pem(), 0o600)?;
        write(&path, &certificate.pem(), 0o644)?;
        Ok(path)
    }

    /// Takes the certificate back whose file is `name`.pem, and returns the file with the list of all that were. A
    /// process that has that list beside the authority's certificate does not believe it any more. Taking a certificate
    /// back again changes nothing.
    ///
    /// # Errors
    /// There is no such certificate, or the list can't be read or written.
    pub fn revoke(&self, name: &str) -> Result<PathBuf, AuthorityError> {
        let (certificate, list) = (self.folder.join(format!("{name}.pem")), self.folder.join(REVOKED));
        let wrong = |path: &Path, e: &dyn fmt::Display| AuthorityError::Certificate {
            path: path.to_owned(),
            reason: e.to_string(),
        };
        let now = OffsetDateTime::now_utc();
        let mut revoked = Vec::new();
        for before in revocations(&list)? {
            let not_a_list = |e| wrong(&list, &not_a_list(&e));
            let before = webpki::BorrowedCertRevocationList::from_der(&before).map_err(not_a_list)?;
            for entry in &before {
                let entry = entry.map_err(not_a_list)?;
                let at = OffsetDateTime::from_unix_timestamp(entry.revocation_date.as_secs() as i64);
                revoked.push((entry.serial_number.to_vec(), at.unwrap_or(now)));
            }
        }
        for text in certificates(&certificate)? {
            let parsed = webpki::EndEntityCert::try_from(&text).map_err(|e| wrong(&certificate, &e))?;
            if !revoked.iter().any(|(serial, _)| serial == parsed.serial()) {
                revoked.push((parsed.serial().to_vec(), now));
            }
        }
        let entry = |(serial, at): (Vec<u8>, OffsetDateTime)| RevokedCertParams {
            serial_number: SerialNumber::from(serial),
            revocation_time: at,
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: now - BEFORE,
            next_update: now + AUTHORITY,
            crl_number: SerialNumber::from(now.unix_timestamp().unsigned_abs()),
            issuing_distribution_point: None,
            revoked_certs: revoked.into_iter().map(entry).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let signed = params.signed_by(&self.issuer).and_then(|signed| signed.pem());
        let text = signed.map_err(|e| wrong(&list, &e))?;
        // Whole at any time: parts of the system may be reading it.
        let new = list.with_extension("crl.new");
        let replaced = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &list));
        replaced.map_err(|source| AuthorityError::File { path: list.clone(), source })?;
        Ok(list)
    }
}

/// The authority's certificate. Issuing needs its name and key only, so it does not have to be read back.
fn own(valid: Duration) -> CertificateParams {
    let mut params = CertificateParams::default();
    let now = OffsetDateTime::now_utc();
    (params.not_before, params.not_after) = (now - BEFORE, now + valid);
    params.distinguished_name = named(COMMON_NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn leaf(subject: &Subject, until: OffsetDateTime) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::default();
    let now = OffsetDateTime::now_utc();
    (params.not_before, params.not_after) = ((now - BEFORE).min(until - BEFORE), until);
    params.distinguished_name = named(&subject.name);
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let uri = |text: String| Ok::<_, rcgen::Error>(SanType::URI(Ia5String::try_from(text)?));
    params.subject_alt_names.push(uri(format!("{ROLE}{}", subject.role))?);
    params.subject_alt_names.push(uri(format!("{NAME}{}", subject.name))?);
    for flow in &subject.flows {
        params.subject_alt_names.push(uri(format!("{FLOW}{flow}"))?);
    }
    if let Some(name) = subject.server_name() {
        // Only servers: no client can be one with its own certificate.
        params.extended_key_usages.push(ExtendedKeyUsagePurpose::ServerAuth);
        let local = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
        for at in std::iter::once(&name).chain(&local).chain(&subject.addresses) {
            let san = match at.parse::<IpAddr>() {
                Ok(ip) => SanType::IpAddress(ip),
                Err(_) => SanType::DnsName(Ia5String::try_from(at.clone())?),
            };
            if !params.subject_alt_names.contains(&san) {
                params.subject_alt_names.push(san);
            }
        }
    }
    Ok(params)
}

fn named(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

/// Writes a file that is not there yet, with these rights from its first byte on.
fn write(path: &Path, text: &str, mode: u32) -> Result<(), AuthorityError> {
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => AuthorityError::Exists(path.to_owned()),
        _ => AuthorityError::File { path: path.to_owned(), source },
    })
}
