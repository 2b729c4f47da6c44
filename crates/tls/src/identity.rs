//! A certificate, its key, the authority whose certificates are believed, and which of these it has taken back. Each new connection looks
//! whether the files have changed; connections that there are stay, unless the certificate at their other end was taken back.

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use webpki::{CertRevocationList, OwnedCertRevocationList};

/// How the name of a certificate's file ends.
pub const CERTIFICATE_ENDS: &str = ".pem";
/// The file beside the authority's certificate that lists what it has taken back, in PEM; there need not be one.
pub const REVOKED: &str = "ca.crl";
/// gRPC is HTTP/2, and says so in the handshake.
const PROTOCOL: &[u8] = b"h2";

/// A fault of a certificate's files.
#[derive(Debug)]
pub struct IdentityError {
    /// The file.
    pub path: PathBuf,
    /// The fault, and what to do.
    pub reason: String,
}

impl fmt::Display for IdentityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.reason)
    }
}

impl std::error::Error for IdentityError {}

/// Files of a certificate. Clones are the same.
#[derive(Clone, Debug)]
pub struct Identity(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Certificate, key, authority, what it has taken back.
    files: [PathBuf; 4],
    loaded: Mutex<Loaded>,
}

#[derive(Clone, Debug)]
struct Loaded {
    /// The files' stamps when they were looked at last, whether or not they could be used.
    stamp: [Stamp; 4],
    material: Material,
}

/// The settings of TLS that files which fit together make.
#[derive(Clone, Debug)]
struct Material {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
    revoked: Arc<[CertRevocationList<'static>]>,
}

/// The properties of a file that change when it is written or replaced: inode, length, time.
type Stamp = (u64, u64, i64, i64);

impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        self.0.files == other.0.files
    }
}

impl Eq for Identity {}

impl Identity {
    /// The certificate in the file NAME.pem, and its key in NAME.key. Beside them are the authority in ca.pem and, if
    /// there is such a file, the list of what it has taken back in ca.crl.
    ///
    /// # Errors
    /// A file is not there, is not what it should be, or others can read the key.
    pub fn open(certificate: &Path) -> Result<Identity, IdentityError> {
        let beside = |name| certificate.with_file_name(name);
        let files =
            [certificate.to_owned(), certificate.with_extension("key"), beside("ca.pem"), beside(REVOKED)];
        let stamp = stamp(&files);
        let material = load(&files)?;
        Ok(Identity(Arc::new(Inner { files, loaded: Mutex::new(Loaded { stamp, material }) })))
    }

    /// The certificate's file.
    pub fn path(&self) -> &Path {
        &self.0.files[0]
    }

    /// The content of the files now; their content before as long as they can't be used.
    fn now(&self) -> Material {
        let mut loaded = self.0.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = stamp(&self.0.files);
        if stamp != loaded.stamp {
            loaded.stamp = stamp;
            match load(&self.0.files) {
                Ok(material) => loaded.material = material,
                Err(e) => eprintln!("{e}; what was read before stays in use"),
            }
        }
        loaded.material.clone()
    }

    /// Whether the certificate of this serial number was taken back by now.
    pub(crate) fn revokes(&self, serial: &[u8]) -> bool {
        self.now().revoked.iter().any(|list| matches!(list.find_serial(serial), Ok(Some(_))))
    }

    pub(crate) fn server(&self) -> Arc<ServerConfig> {
        self.now().server
    }

    pub(crate) fn client(&self) -> Arc<ClientConfig> {
        self.now().client
    }
}

fn stamp(files: &[PathBuf; 4]) -> [Stamp; 4] {
    // A file that is not there has a stamp, too.
    files.each_ref().map(|file| {
        std::fs::metadata(file).map_or((0, 0, 0, 0), |m| (m.ino(), m.len(), m.mtime(), m.mtime_nsec()))
    })
}

fn load(files: &[PathBuf; 4]) -> Result<Material, IdentityError> {
    let [certificate, key, authority, revoked] = files;
    let wrong = |path: &Path, reason: String| IdentityError { path: path.to_owned(), reason };
    let chain = certificates(certificate)?;
    let mut roots = RootCertStore::empty();
    for root in certificates(authority)? {
        roots.add(root).map_err(|e| wrong(authority, format!("not the certificate of an authority: {e}")))?;
    }
    let roots = Arc::new(roots);
    let mode = std::fs::metadata(key).map_err(|e| wrong(key, missing(&e)))?.mode();
    if mode & 0o077 != 0 {
        let reason = format!("others than its owner can read this key: chmod 600 {}", key.display());
        return Err(wrong(key, reason));
    }
    let text = std::fs::read(key).map_err(|e| wrong(key, missing(&e)))?;
    let private = || {
        PrivateKeyDer::from_pem_slice(&text).map_err(|e| wrong(key, format!("not a private key in PEM: {e}")))
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let pair = |e: rustls::Error| {
        wrong(certificate, format!("it does not go with the key in {}: {e}", key.display()))
    };
    let tls13 = &[&rustls::version::TLS13];
    let lists = revocations(revoked)?;
    let parsed = lists.iter().map(|list| Ok(OwnedCertRevocationList::from_der(list)?.into()));
    let parsed: Result<Arc<[_]>, webpki::Error> = parsed.collect();
    let parsed = parsed.map_err(|e| wrong(revoked, not_a_list(&e)))?;
    // Of several authorities one may have taken nothing back, and have no list.
    let clients = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
        .with_crls(lists.clone())
        .allow_unknown_revocation_status()
        .build()
        .map_err(|e| wrong(authority, e.to_string()))?;
    let servers = WebPkiServerVerifier::builder_with_provider(roots, provider.clone())
        .with_crls(lists.clone())
        .allow_unknown_revocation_status()
        .build()
        .map_err(|e| wrong(authority, e.to_string()))?;
    let mut server = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(tls13)
        .map_err(pair)?
        .with_client_cert_verifier(clients)
        .with_single_cert(chain.clone(), private()?)
        .map_err(pair)?;
    server.alpn_protocols = vec![PROTOCOL.to_vec()];
    // A session that goes on with what an earlier handshake found out would not look at the certificate again.
    server.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    server.send_tls13_tickets = 0;
    let mut client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(tls13)
        .map_err(pair)?
        .with_webpki_verifier(servers)
        .with_client_auth_cert(chain, private()?)
        .map_err(pair)?;
    client.alpn_protocols = vec![PROTOCOL.to_vec()];
    client.resumption = rustls::client::Resumption::disabled();
    Ok(Material { server: Arc::new(server), client: Arc::new(client), revoked: parsed })
}

pub(crate) fn not_a_list(e: &dyn fmt::Display) -> String {
    format!("not a list of revoked certificates in PEM: {e}")
}

/// The lists in a file, which need not be there.
pub(crate) fn revocations(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, IdentityError> {
    let wrong = |reason: String| IdentityError { path: path.to_owned(), reason };
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(wrong(e.to_string())),
    };
    let found: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(wrong(not_a_list(&"there is none in it"))),
        Err(e) => Err(wrong(not_a_list(&e))),
    }
}

pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let wrong = |reason: String| IdentityError { path: path.to_owned(), reason };
    let text = std::fs::read(path).map_err(|e| wrong(missing(&e)))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(wrong("there is no certificate in PEM in it".into())),
        Err(e) => Err(wrong(format!("not a certificate in PEM: {e}"))),
    }
}

fn missing(e: &io::Error) -> String {
    match e.kind() {
        io::ErrorKind::NotFound => "no such file; `zsr ca TOPOLOGY` makes certificates and their keys".into(),
        _ => e.to_string(),
    }
}
