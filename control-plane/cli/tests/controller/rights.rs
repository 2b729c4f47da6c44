//! Who may make which call of controller, agents and switch, by certificates over TLS. Calls come from the table of rights, which has all
//! that the .proto files have (crates/tls); a call that is not in [`about`] fails a test.

use std::num::NonZeroU64;
use std::path::PathBuf;

use tokio::net::TcpListener;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};
use tonic_prost::ProstCodec;
use zsr_api::controller as proto;
use zsr_controller::serve_tls;
use zsr_p4runtime_server::P4RuntimeServer;
use zsr_tls::authority::{Authority, Subject};
use zsr_tls::rights::{self, CALLS, Right};
use zsr_tls::{CONTROLLER, Identity, Peer, Role, agent_name, switch_name};

use super::rig::{Client, Rig, shuffle};

const SERVICES: [&str; 3] = ["zsr.controller.v1.Controller", "zsr.agent.v1.Agent", "p4.v1.P4Runtime"];
/// The services of SQL workers, which tests/sql tries.
const OF_WORKERS: [&str; 2] = ["worker.WorkerService", "zsr.sql.v1.Exchange"];

/// A system whose three services speak TLS, and its authority.
struct Secured {
    rig: Rig,
    authority: Authority,
    folder: PathBuf,
    /// Where the services listen, in the order of [`SERVICES`], and their names in certificates.
    services: [(String, String); 3],
    /// Of the system's user.
    user: Client,
}

impl Secured {
    fn new() -> Secured {
        let rig = Rig::new(2, "");
        let (controller, user) = rig.control();
        let folder = rig.folder.path().join("certs");
        let authority = Authority::make(&folder).expect("an authority");
        for (name, role) in [("rig", Role::Controller), ("s1", Role::Switch), ("h1", Role::Agent)] {
            authority.issue(&Subject::new(name, role), 1).expect("a certificate");
        }
        let identity = |file: &str| Identity::open(&folder.join(file)).unwrap_or_else(|e| panic!("{e}"));
        let names = [CONTROLLER.to_owned(), agent_name("h1"), switch_name("s1")];
        let services = rig.runtime.block_on(async {
            let mut services = Vec::new();
            for name in names {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
                let at = listener.local_addr().expect("a port").to_string();
                match services.len() {
                    0 => {
                        tokio::spawn(serve_tls(controller.clone(), listener, identity("controller.pem")));
                    }
                    1 => {
                        let (agent, own) = (rig.agents[0].clone(), identity("agent.h1.pem"));
                        tokio::spawn(
                            async move { agent.serve_tls(listener, own, std::future::pending()).await },
                        );
                    }
                    _ => {
                        let server = P4RuntimeServer::new(rig.switch.clone(), NonZeroU64::MIN);
                        let listener = zsr_p4runtime_server::Listener::Tls(listener, identity("switch.pem"));
                        tokio::spawn(server.serve(listener, std::future::pending()));
                    }
                }
                services.push((at, name));
            }
            services.try_into().expect("three")
        });
        Secured { rig, authority, folder, services, user }
    }

    /// A connection to a service by a certificate of `subject`, which is made if it is not there.
    fn channel(&self, service: usize, subject: &Subject) -> Channel {
        let file = self.folder.join(format!("{}.pem", subject.file()));
        if !file.exists() {
            self.authority.issue(subject, 1).expect("a certificate");
        }
        let identity = Identity::open(&file).unwrap_or_else(|e| panic!("{e}"));
        let (address, name) = self.services[service].clone();
        let peer = Peer { address, name, identity };
        self.rig.runtime.block_on(peer.connect(|endpoint| endpoint)).expect("a connection")
    }
}

/// A certificate of each role.
fn subject(role: Role) -> Subject {
    let name = match role {
        Role::Switch => "s1",
        Role::Agent | Role::Worker => "h1",
        _ => role.word(),
    };
    Subject::new(name, role)
}

/// Makes a call with an empty message, whatever its kind. What streams answer is not waited for.
async fn call(channel: Channel, service: &str, name: &str) -> Result<(), Status> {
    let mut grpc = Grpc::new(channel);
    grpc.ready().await.expect("somebody serves");
    let path = PathAndQuery::try_from(format!("/{service}/{name}")).expect("a path");
    let request = Request::new(tokio_stream::once(()));
    grpc.streaming(request, path, ProstCodec::<(), ()>::default()).await.map(drop)
}

/// Whether a call ended with the refusal of somebody without rights.
fn is_denied(said: &Result<(), Status>) -> bool {
    said.as_ref()
        .is_err_and(|s| s.code() == Code::PermissionDenied && s.message().contains("lacks the right"))
}

#[test]
fn every_call_is_open_to_the_roles_that_the_table_names_and_to_no_other() {
    let secured = Secured::new();
    let known = |service| SERVICES.contains(service) || OF_WORKERS.contains(service);
    assert!(CALLS.iter().all(|(service, ..)| known(service)), "a service that is not tried here");
    for (number, service) in SERVICES.iter().enumerate() {
        for role in Role::ALL {
            let channel = secured.channel(number, &subject(role));
            for (_, name, right) in CALLS.iter().filter(|(s, _, right)| s == service && *right != Right::End)
            {
                let said = secured.rig.runtime.block_on(call(channel.clone(), service, name));
                assert_eq!(is_denied(&said), !rights::of(role).contains(right), "{role}: {name}: {said:?}");
            }
        }
    }
    // Last, as one of them has it.
    let ends = CALLS.iter().filter(|(.., right)| *right == Right::End);
    for (service, name, right) in ends {
        let number = SERVICES.iter().position(|s| s == service).expect("it is tried");
        let (may, may_not): (Vec<Role>, Vec<Role>) =
            Role::ALL.into_iter().partition(|role| rights::of(*role).contains(right));
        for role in may_not.into_iter().chain(may) {
            let channel = secured.channel(number, &subject(role));
            let said = secured.rig.runtime.block_on(call(channel, service, name));
            assert_eq!(is_denied(&said), !rights::of(role).contains(right), "{role}: {name}: {said:?}");
        }
    }
}

/// How a call of the controller is about a flow.
enum About {
    /// Its message names one.
    Names,
    /// It answers what callers may hear of.
    Tells,
    /// All flows end with it.
    All,
    /// It is about none.
    None,
}

fn about(name: &str) -> About {
    match name {
        "CreateFlow" | "GetFlow" | "SetFlow" | "AddProducer" | "AddConsumer" | "RemoveMember"
        | "DeleteFlow" | "GetPass" => About::Names,
        "GetSystem" | "ListFlows" | "ListRings" | "WatchEvents" | "GetStats" => About::Tells,
        "Shutdown" => About::All,
        // Barriers have names, and no owners.
        "Barrier" => About::None,
        other => {
            panic!("the call {other} is new: say here how it is about a flow, and ask it about others' below")
        }
    }
}

fn text<T: std::fmt::Debug>(answer: Response<T>) -> String {
    format!("{:?}", answer.into_inner())
}

/// Makes a call of the controller about `flow`; none: about all. What it answers, as text.
async fn ask(client: &mut Client, name: &str, flow: &str) -> Result<String, Status> {
    let flow = flow.to_owned();
    let member = |name: &str| {
        let member = proto::Member { name: name.into(), host: "h2".into(), ..Default::default() };
        proto::AddMemberRequest { flow: flow.clone(), member: Some(member) }
    };
    match name {
        "CreateFlow" => client.create_flow(shuffle(&flow, &["h1"], &["h2"])).await.map(text),
        "GetFlow" => client.get_flow(proto::GetFlowRequest { name: flow }).await.map(text),
        "SetFlow" => {
            let settings = Some(proto::Settings { weight: Some(2), ..Default::default() });
            client.set_flow(proto::SetFlowRequest { name: flow, settings }).await.map(text)
        }
        "AddProducer" => client.add_producer(member("more")).await.map(text),
        "AddConsumer" => client.add_consumer(member("taker")).await.map(text),
        "RemoveMember" => {
            let request = proto::RemoveMemberRequest { flow, member: "taker".into(), ..Default::default() };
            client.remove_member(request).await.map(text)
        }
        "DeleteFlow" => {
            client.delete_flow(proto::DeleteFlowRequest { name: flow, force: true }).await.map(text)
        }
        "GetSystem" => client.get_system(proto::GetSystemRequest {}).await.map(text),
        "ListFlows" => client.list_flows(proto::ListFlowsRequest {}).await.map(text),
        "ListRings" => client.list_rings(proto::ListRingsRequest { flow }).await.map(text),
        "GetStats" => client.get_stats(proto::GetStatsRequest { flow }).await.map(text),
        "WatchEvents" => {
            let request =
                proto::WatchEventsRequest { after: Some(0), past_only: true, flow, ..Default::default() };
            let mut events = client.watch_events(request).await?.into_inner();
            let mut said = String::new();
            while let Some(event) = events.message().await? {
                said += &format!("{event:?}");
            }
            Ok(said)
        }
        "GetPass" => client.get_pass(proto::GetPassRequest { ring: format!("{flow}.h1.h2") }).await.map(text),
        "Shutdown" => client.shutdown(proto::ShutdownRequest {}).await.map(text),
        other => panic!("{other} can't be asked about a flow here"),
    }
}

#[test]
fn who_is_confined_to_flows_does_nothing_to_others_and_hears_nothing_of_them() {
    let mut secured = Secured::new();
    for flow in ["mine", "theirs"] {
        let made = secured.rig.runtime.block_on(secured.user.create_flow(shuffle(flow, &["h1"], &["h2"])));
        made.expect("created");
    }
    let theirs = |user: &mut Client, rig: &Rig| {
        rig.runtime.block_on(ask(user, "GetFlow", "theirs")).expect("it is there")
    };
    let before = theirs(&mut secured.user, &secured.rig);
    for role in [Role::Reader, Role::Program, Role::Operator] {
        let subject = Subject {
            flows: vec!["mine".to_owned(), "my-*".to_owned()],
            ..Subject::new(&format!("confined-{role}"), role)
        };
        let mut client = Client::new(secured.channel(0, &subject));
        for (_, name, right) in CALLS.iter().filter(|(service, ..)| *service == SERVICES[0]) {
            let mut ask = |flow: &str| secured.rig.runtime.block_on(ask(&mut client, name, flow));
            let denied = |said: &Result<String, Status>, part: &str| {
                let status = said.as_ref().expect_err(&format!("{role}: {name}"));
                let fits = status.code() == Code::PermissionDenied && status.message().contains(part);
                assert!(fits, "{role}: {name}: {status}");
            };
            let may = rights::of(role).contains(right);
            match about(name) {
                About::None => {}
                About::All => denied(&ask(""), "lacks the right `end`"),
                _ if !may => denied(&ask("mine"), "lacks the right"),
                About::Names => denied(&ask("theirs"), "lacks the right to flow `theirs`"),
                About::Tells => {
                    let said = ask("").unwrap_or_else(|e| panic!("{role}: {name}: {e}"));
                    assert!(!said.contains("theirs"), "{role}: {name}: {said}");
                    assert!(said.contains("mine") || *name == "GetSystem", "{role}: {name}: {said}");
                    // Where it can name one.
                    if *name != "GetSystem" && *name != "ListFlows" {
                        denied(&ask("theirs"), "lacks the right to flow `theirs`");
                    }
                }
            }
        }
        assert_eq!(theirs(&mut secured.user, &secured.rig), before, "{role}");
    }
    // Not because they are refused everything.
    let subject =
        Subject { flows: vec!["mine".to_owned()], ..Subject::new("confined-operator", Role::Operator) };
    let mut client = Client::new(secured.channel(0, &subject));
    for name in [
        "GetPass",
        "SetFlow",
        "AddProducer",
        "AddConsumer",
        "RemoveMember",
        "DeleteFlow",
        "CreateFlow",
        "GetFlow",
    ] {
        assert!(matches!(about(name), About::Names));
        let said = secured.rig.runtime.block_on(ask(&mut client, name, "mine"));
        assert!(said.is_ok(), "{name}: {said:?}");
    }
}
