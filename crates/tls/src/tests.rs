//! A server and clients with certificates of all kinds, over loopback.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use time::{Duration, OffsetDateTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tonic::transport::server::Connected;

use crate::authority::{Authority, AuthorityError, Subject};
use crate::rights::{self, Right};
use crate::{CONTROLLER, Caller, Identity, Peer, Role, incoming};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

struct Rig {
    folder: tempfile::TempDir,
    authority: Authority,
}

impl Rig {
    fn new() -> Rig {
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::make(folder.path()).unwrap();
        authority.issue(&Subject::new("s", Role::Controller), 1).unwrap();
        Rig { folder, authority }
    }

    fn identity(&self, file: &str) -> Identity {
        Identity::open(&self.folder.path().join(file)).unwrap_or_else(|e| panic!("{e}"))
    }

    fn client(&self, subject: Subject) -> Identity {
        Identity::open(&self.authority.issue(&subject, 1).unwrap()).unwrap()
    }
}

/// A server that greets everybody with a byte, and says whom.
struct Greeter {
    at: String,
    greeted: mpsc::Receiver<Arc<Caller>>,
}

impl Greeter {
    async fn new(identity: Identity) -> Greeter {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap().to_string();
        let (to, greeted) = mpsc::channel(1);
        let mut served = incoming(listener, identity);
        tokio::spawn(async move {
            while let Some(secured) = served.next().await {
                let mut secured = secured.unwrap();
                secured.write_all(b"x").await.unwrap();
                secured.flush().await.unwrap();
                to.send(secured.connect_info()).await.unwrap();
            }
        });
        Greeter { at, greeted }
    }

    /// The caller that the server takes `identity` for, and the certificate that it has shown; or why there is no
    /// connection.
    async fn meet(
        &mut self,
        name: &str,
        identity: &Identity,
    ) -> Result<(Arc<Caller>, CertificateDer<'static>), String> {
        let peer = Peer { address: self.at.clone(), name: name.to_owned(), identity: identity.clone() };
        let mut stream = peer.stream().await.map_err(|e| e.to_string())?;
        // In TLS 1.3 a client learns only from the first byte whether its certificate was taken.
        stream.read_exact(&mut [0]).await.map_err(|e| e.to_string())?;
        let certificate = stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned();
        Ok((self.greeted.recv().await.unwrap(), certificate))
    }
}

#[test]
fn a_certificate_says_who_it_is_and_which_flows() {
    let rig = Rig::new();
    let flows = vec!["rows".to_owned(), "etl-*".to_owned()];
    let program = rig.client(Subject { flows, ..Subject::new("loader", Role::Program) });
    runtime().block_on(async {
        let mut server = Greeter::new(rig.identity("controller.pem")).await;
        let (caller, _) = server.meet(CONTROLLER, &program).await.unwrap();
        assert_eq!((caller.name.as_str(), caller.role), ("loader", Some(Role::Program)));
        let knows: Vec<&str> =
            ["rows", "row", "rows2", "etl-1", "etl", ""].into_iter().filter(|f| caller.knows(f)).collect();
        assert_eq!(knows, ["rows", "etl-1"]);
        assert!(caller.has(Right::Use) && !caller.has(Right::Change));
    });
}

#[test]
fn strangers_and_the_expired_are_refused() {
    let rig = Rig::new();
    let other = Rig::new();
    let stranger = other.client(Subject::new("mallory", Role::Operator));
    let until = OffsetDateTime::now_utc() - Duration::hours(1);
    let old = rig.authority.issue_until(&Subject::new("old", Role::Operator), until).unwrap();
    let (old, good) = (Identity::open(&old).unwrap(), rig.client(Subject::new("good", Role::Operator)));
    runtime().block_on(async {
        let mut server = Greeter::new(rig.identity("controller.pem")).await;
        // The stranger does not believe the server, and the server not the stranger.
        let why = server.meet(CONTROLLER, &stranger).await.unwrap_err();
        assert!(why.contains("UnknownIssuer") || why.contains("BadSignature"), "{why}");
        let why = server.meet(CONTROLLER, &old).await.unwrap_err();
        assert!(why.contains("CertificateExpired"), "{why}");
        // Without TLS there is no answer but the end.
        let mut plain = TcpStream::connect(&server.at).await.unwrap();
        plain.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        let mut said = Vec::new();
        // A reset is as good as an end.
        let _ = plain.read_to_end(&mut said).await;
        assert!(said.len() < 16, "{said:?}");
        let (caller, _) = server.meet(CONTROLLER, &good).await.unwrap();
        assert_eq!(caller.name, "good");
    });
}

#[test]
fn a_client_is_no_server_and_a_host_no_other() {
    let rig = Rig::new();
    let me = rig.client(Subject::new("me", Role::Operator));
    for role in [Role::Agent, Role::Worker] {
        rig.authority.issue(&Subject::new("h1", role), 1).unwrap();
    }
    runtime().block_on(async {
        for (file, name, right) in [
            ("agent.h1.pem", crate::agent_name("h1"), true),
            ("agent.h1.pem", crate::agent_name("h2"), false),
            ("agent.h1.pem", CONTROLLER.to_owned(), false),
            ("worker.h1.pem", crate::worker_name("h1"), true),
            ("worker.h1.pem", crate::agent_name("h1"), false),
            ("me.pem", CONTROLLER.to_owned(), false),
            ("me.pem", "me".to_owned(), false),
        ] {
            let mut server = Greeter::new(rig.identity(file)).await;
            assert_eq!(server.meet(&name, &me).await.is_ok(), right, "{file} as {name}");
        }
    });
}

#[test]
fn a_new_connection_uses_the_new_certificate() {
    let rig = Rig::new();
    let me = rig.client(Subject::new("me", Role::Operator));
    let path = |file: &str| rig.folder.path().join(file);
    let shown = |file: &str| std::fs::read_to_string(path(file)).unwrap();
    runtime().block_on(async {
        let mut server = Greeter::new(rig.identity("controller.pem")).await;
        let (_, first) = server.meet(CONTROLLER, &me).await.unwrap();

        // Half of it: the old one stays.
        let before = shown("controller.pem");
        std::fs::remove_file(path("controller.pem")).unwrap();
        let (_, half) = server.meet(CONTROLLER, &me).await.unwrap();
        assert_eq!(half, first);

        std::fs::remove_file(path("controller.key")).unwrap();
        rig.authority.issue(&Subject::new("s", Role::Controller), 1).unwrap();
        assert_ne!(shown("controller.pem"), before);
        let (_, second) = server.meet(CONTROLLER, &me).await.unwrap();
        assert_ne!(second, first);

        // The client's, too, and the authority's: whoever the old one has signed is nobody now.
        let new = Rig::new();
        for file in ["ca.pem", "controller.pem", "controller.key"] {
            std::fs::rename(new.folder.path().join(file), path(file)).unwrap();
        }
        let late = rig.authority.issue(&Subject::new("late", Role::Operator), 1).unwrap();
        assert!(server.meet(CONTROLLER, &me).await.is_err());
        assert!(server.meet(CONTROLLER, &Identity::open(&late).unwrap()).await.is_err());
        let known = Authority::open(new.folder.path()).unwrap();
        let known = known.issue(&Subject::new("known", Role::Reader), 1).unwrap();
        std::fs::copy(path("ca.pem"), new.folder.path().join("ca.pem")).unwrap();
        let (caller, _) = server.meet(CONTROLLER, &Identity::open(&known).unwrap()).await.unwrap();
        assert_eq!(caller.role, Some(Role::Reader));
    });
}

/// Sends back what comes, for as long as it comes.
async fn echo(identity: Identity) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap().to_string();
    let mut served = incoming(listener, identity);
    tokio::spawn(async move {
        while let Some(Ok(mut secured)) = served.next().await {
            tokio::spawn(async move {
                let mut byte = [0];
                while secured.read_exact(&mut byte).await.is_ok() && secured.write_all(&byte).await.is_ok() {
                    let _ = secured.flush().await;
                }
            });
        }
    });
    at
}

#[test]
fn a_certificate_that_was_taken_back_is_good_for_nothing() {
    let rig = Rig::new();
    let alice = rig.client(Subject::new("alice", Role::Operator));
    let bob = rig.client(Subject::new("bob", Role::Operator));
    let list = rig.folder.path().join(crate::REVOKED);
    runtime().block_on(async {
        let at = echo(rig.identity("controller.pem")).await;
        let peer = |identity: &Identity| Peer {
            address: at.clone(),
            name: CONTROLLER.to_owned(),
            identity: identity.clone(),
        };
        let (mut to_alice, mut to_bob) =
            (peer(&alice).stream().await.unwrap(), peer(&bob).stream().await.unwrap());
        for stream in [&mut to_alice, &mut to_bob] {
            stream.write_all(b"x").await.unwrap();
            stream.read_exact(&mut [0]).await.unwrap();
        }
        assert_eq!(rig.authority.revoke("alice").unwrap(), list);

        // Her connection ends with the next byte, and she gets no other one.
        let mut byte = [0];
        let said = async {
            to_alice.write_all(b"x").await?;
            to_alice.read_exact(&mut byte).await
        };
        assert!(said.await.is_err());
        to_bob.write_all(b"x").await.unwrap();
        to_bob.read_exact(&mut [0]).await.unwrap();
        let mut server = Greeter::new(rig.identity("controller.pem")).await;
        let why = server.meet(CONTROLLER, &alice).await.unwrap_err();
        assert!(why.contains("Revoked"), "{why}");
        server.meet(CONTROLLER, &bob).await.unwrap();

        // A file that is no list changes nothing, and is not written over.
        let good = std::fs::read(&list).unwrap();
        std::fs::write(&list, "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n").unwrap();
        assert!(server.meet(CONTROLLER, &alice).await.is_err());
        server.meet(CONTROLLER, &bob).await.unwrap();
        for why in [
            Identity::open(bob.path()).unwrap_err().to_string(),
            rig.authority.revoke("bob").unwrap_err().to_string(),
        ] {
            assert!(why.contains("ca.crl") && why.contains("list"), "{why}");
        }
        std::fs::write(&list, good).unwrap();

        // Another certificate with her name is another one; and the first stays on the list.
        for file in ["alice.pem", "alice.key"] {
            std::fs::remove_file(rig.folder.path().join(file)).unwrap();
        }
        let again = rig.client(Subject::new("alice", Role::Operator));
        server.meet(CONTROLLER, &again).await.unwrap();
        // A server's, too.
        rig.authority.revoke("controller").unwrap();
        let why = server.meet(CONTROLLER, &bob).await.unwrap_err();
        assert!(why.contains("Revoked"), "{why}");
        let lists = crate::identity::revocations(&list).unwrap();
        let parsed = webpki::BorrowedCertRevocationList::from_der(&lists[0]).unwrap();
        assert_eq!((lists.len(), parsed.into_iter().count()), (1, 2));
    });
    let why = rig.authority.revoke("nobody").unwrap_err().to_string();
    assert!(why.contains("nobody.pem") && why.contains("no such file"), "{why}");
    let other = tempfile::tempdir().unwrap();
    std::fs::copy(&list, other.path().join(crate::REVOKED)).unwrap();
    assert!(
        matches!(Authority::make(other.path()), Err(AuthorityError::Exists(path)) if path.ends_with("ca.crl"))
    );
}

#[test]
fn nothing_is_overwritten_and_keys_are_their_owners() {
    use std::os::unix::fs::PermissionsExt;
    let rig = Rig::new();
    let folder = rig.folder.path();
    assert!(matches!(Authority::make(folder), Err(AuthorityError::Exists(_))));
    let again = rig.authority.issue(&Subject::new("s", Role::Controller), 1);
    assert!(matches!(again, Err(AuthorityError::Exists(path)) if path.ends_with("controller.pem")));
    for file in ["ca.key", "controller.key"] {
        let mode = std::fs::metadata(folder.join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    std::fs::set_permissions(folder.join("controller.key"), PermissionsExt::from_mode(0o640)).unwrap();
    let why = Identity::open(&folder.join("controller.pem")).unwrap_err().to_string();
    assert!(why.contains("controller.key") && why.contains("chmod 600"), "{why}");
    let why = Identity::open(&folder.join("nobody.pem")).unwrap_err().to_string();
    assert!(why.contains("nobody.pem") && why.contains("zsr ca"), "{why}");
}

/// Every call of the three services of a system is in the table, and no other of them.
#[test]
fn the_table_has_every_call() {
    let proto = |path: &str| std::fs::read_to_string(Path::new("..").join(path)).unwrap();
    let texts = [
        ("zsr.controller.v1.Controller", proto("api/proto/zsr/controller/v1/controller.proto")),
        ("zsr.agent.v1.Agent", proto("api/proto/zsr/agent/v1/agent.proto")),
        ("p4.v1.P4Runtime", proto("p4runtime-proto/proto/p4/v1/p4runtime.proto")),
    ];
    let mut calls = Vec::new();
    for (service, text) in &texts {
        let rpcs = text.lines().filter_map(|line| line.trim().strip_prefix("rpc "));
        calls.extend(rpcs.map(|rpc| (*service, rpc.split(['(', ' ']).next().unwrap())));
    }
    calls.sort();
    let mut table: Vec<(&str, &str)> =
        rights::CALLS.iter().map(|(service, call, _)| (*service, *call)).collect();
    table.retain(|(service, _)| texts.iter().any(|(known, _)| known == service));
    table.sort();
    assert_eq!(table, calls);
    assert_eq!(rights::needed("/zsr.controller.v1.Controller/Shutdown"), Some(Right::End));
    assert_eq!(rights::needed("/zsr.controller.v1.Controller/Format"), None);
}
