//! The agent over gRPC on a loopback port, with a soft NIC behind it and a peer that plays the switch.

use std::future::Future;
use std::sync::Arc;

use crate::common::standin::{Standin, for_kernels};
use crate::common::{HOST, PATH_MTU, PEER, Pair};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tonic::transport::Channel;
use tonic::{Code, Status};
use zsr_api::{
    agent::agent_client::AgentClient,
    agent::{self as proto, event, ring_event::Kind},
};
use zsr_host_agent::agent::{Agent, ResumeRing, RingRequest, ServeError};
use zsr_host_agent::memory::Memories;
use zsr_host_agent::nic::QpTarget;
use zsr_ring::{AbortOrigin, Cancel, PopError, PushError, Role};
use zsr_soft_nic::{
    Access, Completion, HostMemory, Modify, Mtu, Operation, QpCaps, RtrAttr, RtsAttr, Sge, Status as Outcome,
    WorkRequest,
};
use zsr_wire::ring::{ByteOrder, CommitRecord, ControlWord, Flags};
use zsr_wire::{Psn, Qpn, Rkey};

/// An agent that is served, and a client of it.
struct Served {
    pair: Pair,
    agent: Agent,
    client: AgentClient<Channel>,
    shutdown: oneshot::Sender<()>,
    server: tokio::task::JoinHandle<Result<(), ServeError>>,
}

async fn serve(limit: Option<u64>) -> Served {
    serve_in(limit, Memories::of_this_machine(false)).await
}

async fn serve_in(limit: Option<u64>, memories: Memories) -> Served {
    let pair = Pair::start();
    let agent = Agent::with_memories("h1", pair.backend(), limit, memories);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
    let address = listener.local_addr().expect("bound");
    let (shutdown, ended) = oneshot::channel();
    let served = agent.clone();
    let server = tokio::spawn(async move {
        served
            .serve(listener, async {
                let _ = ended.await;
            })
            .await
    });
    let client = AgentClient::connect(format!("http://{address}")).await.expect("the server answers");
    Served { pair, agent, client, shutdown, server }
}

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(test);
}

fn create(name: &str, role: proto::Role, item_size: u64, ring_size: u64) -> proto::CreateRingRequest {
    let order = proto::ByteOrder::Little.into();
    proto::CreateRingRequest {
        name: name.into(),
        role: role.into(),
        item_size,
        ring_size,
        byte_order: order,
        ..Default::default()
    }
}

fn target(qpn: u32) -> proto::QpTarget {
    proto::QpTarget {
        qpn,
        ip: PEER.1.to_string(),
        mac: PEER.0.to_string(),
        rq_psn: 100,
        sq_psn: 0,
        path_mtu: PATH_MTU,
        traffic_class: 0x6a,
    }
}

/// A queue pair of the peer, connected to one of the agent's, and memory to read into and write from.
struct Remote {
    qpn: Qpn,
    memory: Arc<HostMemory>,
    lkey: Rkey,
}

impl Remote {
    /// Makes the peer's end; the agent's end has to be told its number.
    fn new(pair: &Pair, host_qpn: u32) -> Self {
        Self::marked(pair, host_qpn, 0)
    }

    /// As [`new`](Self::new), with packets of this type of service.
    fn marked(pair: &Pair, host_qpn: u32, tos: u8) -> Self {
        let memory = Arc::new(HostMemory::allocate(8192).expect("memory"));
        let region = memory.clone();
        let (qpn, lkey) = pair
            .peer
            .call(move |nic| {
                let qpn = nic.create_qp(QpCaps::default()).expect("a queue pair");
                let lkey = nic.register_mr(region, 0, Access::LOCAL_WRITE).expect("a region");
                let mtu = Mtu::from_bytes(PATH_MTU).expect("a path MTU");
                let mut rtr = RtrAttr::new(Qpn::new(host_qpn), HOST.1, Psn::ZERO, mtu);
                rtr.dest_mac = Some(HOST.0);
                rtr.tos = tos;
                let rts = RtsAttr::new(Psn::new(100));
                for step in [Modify::Init { access: Access::NONE }, Modify::Rtr(rtr), Modify::Rts(rts)] {
                    nic.modify_qp(qpn, step).expect("states in order");
                }
                (qpn, lkey)
            })
            .expect("the NIC runs");
        Self { qpn, memory, lkey }
    }

    fn work(&self, pair: &Pair, operation: Operation, rkey: u32, address: u64, len: usize) -> Outcome {
        let local = Sge { lkey: self.lkey, address: 0, len: len as u32 };
        let work = WorkRequest { wr_id: 1, operation, local, remote_address: address, rkey: Rkey(rkey) };
        let qpn = self.qpn;
        pair.peer.call(move |nic| nic.post_send(qpn, work)).expect("the NIC runs").expect("posted");
        loop {
            let done: Option<Completion> = pair.peer.call(|nic| nic.poll_completion()).expect("the NIC runs");
            match done {
                Some(done) => return done.status,
                None => std::thread::yield_now(),
            }
        }
    }

    fn read(&self, pair: &Pair, rkey: u32, address: u64, len: usize) -> Result<Vec<u8>, Outcome> {
        match self.work(pair, Operation::Read, rkey, address, len) {
            Outcome::Success => {
                let mut bytes = vec![0; len];
                self.memory.read(0, &mut bytes);
                Ok(bytes)
            }
            failed => Err(failed),
        }
    }

    fn write(&self, pair: &Pair, rkey: u32, address: u64, bytes: &[u8]) -> Outcome {
        self.memory.write(0, bytes);
        self.work(pair, Operation::Write, rkey, address, bytes.len())
    }
}

fn code(result: Result<impl Sized, Status>) -> (Code, String) {
    let status = result.err().expect("refused");
    (status.code(), status.message().to_owned())
}

#[test]
fn a_switch_moves_items_through_rings_that_the_agent_made() {
    items_move("");
}

#[test]
fn a_switch_moves_items_over_a_bus() {
    items_move("fpga-sim");
}

#[test]
fn a_switch_moves_items_through_a_window_of_a_device() {
    items_move("pci:0000:00:05.0:2:uc");
    items_move("pci:0000:00:05.0:2:wc");
}

#[test]
fn a_switch_moves_items_between_kernels_in_a_gpus_own_memory() {
    items_move("gpu:1");
}

fn items_move(memory: &str) {
    let devices = tempfile::tempdir().expect("a folder");
    crate::common::device(devices.path());
    let standin = Standin::new();
    run(async {
        let memories = Memories::with(false, devices.path(), standin.library());
        let Served { pair, agent, mut client, shutdown, server } = serve_in(None, memories).await;
        let create =
            |name, role| proto::CreateRingRequest { memory: memory.into(), ..create(name, role, 8, 64) };
        let a = client.create_ring(create("p", proto::Role::Producer)).await.expect("p").into_inner();
        let b = client.create_ring(create("c", proto::Role::Consumer)).await.expect("c").into_inner();
        assert_eq!((a.ring_id, b.ring_id), (1, 2));
        assert_ne!(a.rkey, b.rkey);
        assert_eq!((a.iova, a.path_mtu_limit), (0, PATH_MTU));
        assert_eq!((a.mac.as_str(), a.ip.as_str()), ("02:00:00:00:00:01", "10.0.0.1"));
        assert_eq!(a.state(), proto::RingState::Registered);

        let mut remotes = Vec::new();
        for ring in [&a, &b] {
            let qpn = |qp: &Option<proto::QueuePair>| qp.as_ref().expect("a queue pair").qpn;
            let data = Remote::new(&pair, qpn(&ring.data_qp));
            let poll = Remote::new(&pair, qpn(&ring.poll_qp));
            let request = proto::ConnectRingRequest {
                name: ring.name.clone(),
                data: Some(target(data.qpn.get())),
                poll: Some(target(poll.qpn.get())),
                doorbell_secret: None,
            };
            let connected = client.connect_ring(request).await.expect("connected").into_inner();
            assert_eq!(connected.state(), proto::RingState::Connected);
            let remote = connected.data_qp.and_then(|qp| qp.remote).expect("a peer");
            assert_eq!(remote, target(data.qpn.get()));
            remotes.push((data, poll));
        }
        let [(a_data, a_poll), (b_data, b_poll)] = &remotes[..] else { panic!("two rings") };

        let (tx, rx) = if memory.starts_with("gpu") {
            let ring = |name| for_kernels(&agent.ring(name).expect("there").ring);
            (ring("p").attach_producer(Cancel::new()), ring("c").attach_consumer(Cancel::new()))
        } else {
            let (tx, rx) =
                (agent.attach_producer("p", Cancel::new()), agent.attach_consumer("c", Cancel::new()));
            (Ok(tx.expect("attach")), Ok(rx.expect("attach")))
        };
        let (mut tx, mut rx) = (tx.expect("attach"), rx.expect("attach"));
        let sent = [0x1122_3344_5566_7788, 42].map(u64::to_le_bytes);
        for item in &sent {
            tx.try_push(item).expect("room");
        }
        tx.close();

        // The work of the switch: poll, read, write, commit, free.
        let le = ByteOrder::Little;
        let word = a_poll.read(&pair, a.rkey, 0, 8).expect("polled");
        let word = ControlWord::from_bytes(word.try_into().expect("8 B"), le);
        assert_eq!((word.counter, word.flags.closed(), word.flags.epoch()), (16, true, a.epoch as u16));
        let items = a_data.read(&pair, a.rkey, 4096, 16).expect("read");
        assert_eq!(b_data.write(&pair, b.rkey, 4096, &items), Outcome::Success);
        let commit = CommitRecord {
            head: ControlWord { counter: 16, flags: Flags::CLOSED },
            producer_id: 1,
            producer_tail: 16,
        };
        assert_eq!(b_data.write(&pair, b.rkey, 0, &commit.to_bytes(le)), Outcome::Success);
        let tail = ControlWord { counter: 16, flags: Flags::default() };
        assert_eq!(a_data.write(&pair, a.rkey, 64, &tail.to_bytes(le)), Outcome::Success);

        let mut item = [0; 8];
        for sent in sent {
            rx.pop(&mut item).expect("it was written");
            assert_eq!(item, sent);
        }
        assert_eq!(rx.pop(&mut item), Err(PopError::Closed));
        let word = b_poll.read(&pair, b.rkey, 64, 8).expect("polled");
        assert_eq!(ControlWord::from_bytes(word.try_into().expect("8 B"), le).counter, 16);
        drop(rx);

        let get = proto::GetRingRequest { name: "c".into() };
        let seen = client.get_ring(get).await.expect("known").into_inner();
        // Of what kernels pop the agent knows no more than the words.
        let popped = if memory.starts_with("gpu") { 0 } else { 2 };
        assert_eq!((seen.items, seen.head, seen.tail, seen.attached), (popped, 16, 16, false));
        assert_eq!((seen.producer_id, seen.producer_tail), (1, 16));

        // Beyond the ring there is nothing, and a key that was given back is none.
        assert_eq!(a_data.read(&pair, a.rkey, 4096 + 64, 8), Err(Outcome::RemoteAccess));
        client.destroy_ring(proto::DestroyRingRequest { name: "p".into() }).await.expect("destroyed");
        assert_eq!(b_data.read(&pair, a.rkey, 0, 8), Err(Outcome::RemoteAccess));
        let list = client.list_rings(proto::ListRingsRequest::default()).await.expect("listed").into_inner();
        assert_eq!(list.rings.iter().map(|ring| ring.name.as_str()).collect::<Vec<_>>(), ["c"]);

        drop(client);
        shutdown.send(()).expect("the server waits");
        server.await.expect("no panic").expect("served");
        agent.shutdown().expect("the NIC runs");
        assert!(agent.rings().is_err());
    });
}

#[test]
fn every_wrong_request_gets_its_status_and_the_name() {
    run(async {
        let Served { mut pair, agent, mut client, shutdown: _shutdown, server: _server } =
            serve(Some(1 << 20)).await;
        let p = proto::Role::Producer;
        client.create_ring(create("p", p, 64, 4096)).await.expect("made");

        let refused = |result: (Code, String), code: Code, words: &[&str]| {
            assert_eq!(result.0, code, "{}", result.1);
            for word in words {
                assert!(result.1.contains(word), "`{}` lacks `{word}`", result.1);
            }
        };
        let made = code(client.create_ring(create("p", p, 64, 4096)).await);
        refused(made, Code::AlreadyExists, &["`p`"]);
        for (request, words) in [
            (create("q", p, 24, 4096), &["`q`", "item size 24 B", "power of two"][..]),
            (create("q", p, 64, 4095), &["`q`", "ring size 4095 B"]),
            (create("q", p, 4096, 64), &["`q`", "smaller than one item"]),
            (create("q", p, 64, 1 << 40), &["`q`", "ring size 1099511627776 B"]),
            (create("q", proto::Role::Unspecified, 64, 4096), &["`q`", "role"]),
            (create("", p, 64, 4096), &["name"]),
            (create("a\nb", p, 64, 4096), &["a\\nb"]),
            (create(&"x".repeat(256), p, 64, 4096), &["255"]),
        ] {
            refused(code(client.create_ring(request).await), Code::InvalidArgument, words);
        }
        let mut unknown = create("q", p, 64, 4096);
        unknown.byte_order = 77;
        refused(code(client.create_ring(unknown).await), Code::InvalidArgument, &["`q`", "byte order"]);
        let mut unknown = create("q", p, 64, 4096);
        unknown.memory = "tape".into();
        refused(code(client.create_ring(unknown).await), Code::InvalidArgument, &["`q`", "'tape'", "gpu:N"]);
        let large = code(client.create_ring(create("q", p, 64, 1 << 20)).await);
        refused(large, Code::ResourceExhausted, &["`q`", "1052672 B", "1048576 B", "1040384 B"]);

        let missing = |name: &str| proto::ConnectRingRequest {
            name: name.into(),
            data: Some(target(1)),
            poll: Some(target(2)),
            doorbell_secret: None,
        };
        refused(code(client.connect_ring(missing("z")).await), Code::NotFound, &["`z`"]);
        let z = "z".to_owned();
        refused(
            code(client.get_ring(proto::GetRingRequest { name: z.clone() }).await),
            Code::NotFound,
            &["`z`"],
        );
        let disconnect = proto::DisconnectRingRequest { name: z.clone() };
        refused(code(client.disconnect_ring(disconnect).await), Code::NotFound, &["`z`"]);
        let abort = proto::AbortRingRequest { name: z.clone(), reason: String::new() };
        refused(code(client.abort_ring(abort).await), Code::NotFound, &["`z`"]);
        refused(
            code(client.destroy_ring(proto::DestroyRingRequest { name: z }).await),
            Code::NotFound,
            &["`z`"],
        );

        type Spoil = fn(&mut proto::ConnectRingRequest);
        let spoiled: [(Spoil, &[&str]); 7] = [
            (|r| r.poll = None, &["`p`", "poll", "missing"]),
            (|r| r.data.as_mut().expect("set").qpn = 1 << 24, &["data.qpn", "16777216", "24 bits"]),
            (|r| r.data.as_mut().expect("set").rq_psn = u32::MAX, &["data.rq_psn"]),
            (|r| r.poll.as_mut().expect("set").ip = "::1".into(), &["poll.ip", "::1", "IPv4"]),
            (|r| r.poll.as_mut().expect("set").mac = "02:00".into(), &["poll.mac", "02:00"]),
            (|r| r.poll.as_mut().expect("set").path_mtu = 4096, &["4096 B", "poll", "1024 B"]),
            (|r| r.poll.as_mut().expect("set").path_mtu = 1000, &["1000 B", "256, 512"]),
        ];
        for (spoil, words) in spoiled {
            let mut request = missing("p");
            spoil(&mut request);
            refused(code(client.connect_ring(request).await), Code::InvalidArgument, words);
            let get = proto::GetRingRequest { name: "p".into() };
            let ring = client.get_ring(get).await.expect("known").into_inner();
            assert_eq!(ring.state(), proto::RingState::Registered, "connected in part");
        }

        client.connect_ring(missing("p")).await.expect("connected");
        let again = code(client.connect_ring(missing("p")).await);
        refused(again, Code::FailedPrecondition, &["`p`", "connected", "disconnect"]);
        let p = || "p".to_owned();
        client.disconnect_ring(proto::DisconnectRingRequest { name: p() }).await.expect("disconnected");
        client.disconnect_ring(proto::DisconnectRingRequest { name: p() }).await.expect("nothing to do");
        client.connect_ring(missing("p")).await.expect("connected again");
        let abort = proto::AbortRingRequest { name: p(), reason: "flow f failed".into() };
        let aborted = client.abort_ring(abort).await.expect("aborted").into_inner();
        assert_eq!(aborted.state(), proto::RingState::Aborted);
        assert_eq!((aborted.abort_reason.as_str(), aborted.tail_flags & 2), ("flow f failed", 2));
        let late = code(client.connect_ring(missing("p")).await);
        refused(late, Code::FailedPrecondition, &["`p`", "aborted"]);
        assert!(agent.attach_producer("p", Cancel::new()).is_err());
        assert!(agent.attach_consumer("p", Cancel::new()).is_err());

        pair.stop();
        let stopped = code(client.create_ring(create("q", proto::Role::Consumer, 64, 4096)).await);
        refused(stopped, Code::Unavailable, &["`q`", "NIC", "stopped"]);
        agent.shutdown().expect_err("the NIC is gone");
        let down = code(client.list_rings(proto::ListRingsRequest::default()).await);
        refused(down, Code::Unavailable, &["shutting down"]);
    });
}

#[test]
fn info_names_host_and_nic() {
    run(async {
        let Served { mut client, pair: _pair, agent: _agent, shutdown: _shutdown, server: _server } =
            serve(None).await;
        let info = client.get_info(proto::GetInfoRequest {}).await.expect("answered").into_inner();
        assert_eq!((info.name.as_str(), info.ring_abi_version), ("h1", 1));
        assert_eq!(info.version, env!("CARGO_PKG_VERSION"));
        let nic = proto::Nic {
            name: "nic0".into(),
            backend: "soft".into(),
            mac: "02:00:00:00:00:01".into(),
            ip: "10.0.0.1".into(),
            path_mtu_limit: PATH_MTU,
            gids: vec!["::ffff:10.0.0.1".into()],
        };
        assert_eq!(info.nics, [nic]);
    });
}

/// The two lowest bits of the type of service of a packet that met a long queue.
const CONGESTED: u8 = 3;

#[test]
fn who_asks_for_figures_hears_of_congestion_at_the_nic() {
    run(async {
        let Served { mut pair, agent: _agent, mut client, shutdown: _shutdown, server: _server } =
            serve(None).await;
        let ring = client.create_ring(create("r", proto::Role::Consumer, 8, 64)).await.expect("made");
        let ring = ring.into_inner();
        let qpn = |qp: &Option<proto::QueuePair>| qp.as_ref().expect("a queue pair").qpn;
        let remote = Remote::marked(&pair, qpn(&ring.data_qp), CONGESTED);
        let request = proto::ConnectRingRequest {
            name: "r".into(),
            data: Some(target(remote.qpn.get())),
            poll: Some(target(qpn(&ring.poll_qp))),
            doorbell_secret: None,
        };
        client.connect_ring(request).await.expect("connected");
        assert_eq!(remote.write(&pair, ring.rkey, 4096, &[7; 8]), Outcome::Success);
        let list = async |client: &mut AgentClient<Channel>, figures| {
            let request = proto::ListRingsRequest { figures, ..Default::default() };
            client.list_rings(request).await.expect("answered").into_inner().figures
        };
        assert_eq!(list(&mut client, false).await, None, "nobody asked");
        let nic = list(&mut client, true).await.and_then(|figures| figures.nic).expect("counters");
        assert_eq!((nic.received_frames, nic.cnps_sent, nic.cnps_received), (1, 1, 0), "{nic:?}");
        assert_eq!((nic.sent_frames, nic.dropped_frames, nic.naks_sent), (2, 0, 0), "{nic:?}");
        assert_eq!(nic.marked_packets, 1, "{nic:?}");
        assert!(nic.received_bytes > 8 && nic.sent_bytes > 0, "{nic:?}");
        pair.stop();
        assert_eq!(list(&mut client, true).await.expect("asked for").nic, None, "it has stopped");
    });
}

#[test]
fn watchers_see_what_happens_in_order_and_end_with_the_server() {
    run(async {
        let Served { mut client, agent, shutdown, server, pair: _pair } = serve(None).await;
        let mut events =
            client.watch_events(proto::WatchEventsRequest::default()).await.expect("watching").into_inner();
        agent.create_ring(RingRequest::new("c", Role::Consumer, 64, 4096)).expect("made");
        let mut rx = agent.attach_consumer("c", Cancel::new()).expect("attach");
        agent.abort_ring("c", "flow f failed").expect("aborted");
        agent.abort_ring("c", "twice").expect("no event");
        assert_eq!(rx.pop(&mut [0; 64]), Err(PopError::Aborted(AbortOrigin::Agent)));
        agent.destroy_ring("c").expect("destroyed");
        // The same name again: another ring.
        agent.create_ring(RingRequest::new("c", Role::Producer, 64, 4096)).expect("made");
        let mut seen = Vec::new();
        while seen.len() < 5 {
            let event = events.message().await.expect("no error").expect("not the end");
            let Some(event::Event::Ring(ring)) = event.event else { panic!("{event:?}") };
            seen.push((ring.kind(), ring.ring_id, ring.detail));
        }
        let reason = "flow f failed".to_owned();
        assert_eq!(
            seen,
            [
                (Kind::Created, 1, String::new()),
                (Kind::Attached, 1, String::new()),
                (Kind::Aborted, 1, reason),
                (Kind::Destroyed, 1, String::new()),
                (Kind::Created, 2, String::new()),
            ]
        );
        assert_ne!(agent.ring("c").expect("there").ring.epoch(), 1);
        shutdown.send(()).expect("the server waits");
        assert!(events.message().await.expect("a clean end").is_none());
        server.await.expect("no panic").expect("served");
    });
}

#[test]
fn destroying_a_ring_ends_whoever_waits_in_it() {
    let pair = Pair::start();
    let agent = Agent::new("h1", pair.backend());
    agent.create_ring(RingRequest::new("c", Role::Consumer, 64, 4096)).expect("made");
    let mut rx = agent.attach_consumer("c", Cancel::new()).expect("attach");
    std::thread::scope(|scope| {
        let blocked = scope.spawn(move || rx.pop(&mut [0; 64]));
        agent.destroy_ring("c").expect("destroyed");
        assert_eq!(blocked.join().expect("no panic"), Err(PopError::Aborted(AbortOrigin::Agent)));
    });
}

#[test]
fn a_stream_is_ended_in_place_of_a_program_and_not_under_one() {
    let pair = Pair::start();
    let agent = Agent::new("h1", pair.backend());
    agent.create_ring(RingRequest::new("p", Role::Producer, 64, 4096)).expect("made");
    let is_closed = || agent.ring("p").expect("there").ring.snapshot().head.flags.contains(Flags::CLOSED);
    let names = ["p".to_owned()];
    let tx = agent.attach_producer("p", Cancel::new()).expect("attached");
    assert_eq!(agent.end_rings(&names).expect("an agent"), 0);
    assert!(!is_closed());
    tx.detach();
    assert_eq!(agent.end_rings(&names).expect("an agent"), 1);
    assert!(is_closed());
}

#[test]
fn a_producer_is_told_what_its_last_switch_had_taken() {
    let pair = Pair::start();
    let agent = Agent::new("h1", pair.backend());
    agent.create_ring(RingRequest::new("p", Role::Producer, 64, 128)).expect("made");
    let mut tx = agent.attach_producer("p", Cancel::new()).expect("attached");
    (0..2).for_each(|n| tx.try_push(&[n; 64]).expect("room"));
    assert_eq!(tx.try_push(&[2; 64]), Err(PushError::Full));
    // The switch delivered the first item, and died before it wrote the tail.
    let [data, poll] = [1, 2].map(|qpn| QpTarget {
        qpn: Qpn::new(qpn),
        ip: PEER.1,
        mac: PEER.0,
        rq_psn: Psn::ZERO,
        sq_psn: Psn::ZERO,
        path_mtu: PATH_MTU,
        traffic_class: 0,
    });
    agent.suspend_rings(&["p".to_owned()]).expect("suspended");
    let resume = ResumeRing { name: "p".into(), data, poll, tail: Some(64), lacks: None };
    agent.resume_rings(&[resume]).expect("resumed");
    tx.try_push(&[2; 64]).expect("room");
    assert_eq!(tx.try_push(&[3; 64]), Err(PushError::Full));
}

/// Every range of bytes that begins or ends near an end of the ring, and what comes of a READ and a WRITE of it.
#[test]
fn a_key_covers_its_ring_and_no_byte_more() {
    run(async {
        let Served { pair, mut client, shutdown, server, .. } = serve(None).await;
        // The smallest ring there is, between two others.
        let mut rings = Vec::new();
        for name in ["before", "r", "behind"] {
            let ring = client.create_ring(create(name, proto::Role::Consumer, 8, 8)).await.expect("made");
            rings.push(ring.into_inner());
        }
        let ring = &rings[1];
        let qpn = |qp: &Option<proto::QueuePair>| qp.as_ref().expect("a queue pair").qpn;
        // A refused request ends the queue pair, so there is another peer each time.
        let connect = async |client: &mut AgentClient<Channel>, ring: &proto::Ring| {
            let name = ring.name.clone();
            client.disconnect_ring(proto::DisconnectRingRequest { name: name.clone() }).await.expect("reset");
            let remote = Remote::new(&pair, qpn(&ring.data_qp));
            let (data, poll) = (Some(target(remote.qpn.get())), Some(target(qpn(&ring.poll_qp))));
            let request = proto::ConnectRingRequest { name, data, poll, doorbell_secret: None };
            client.connect_ring(request).await.expect("connected");
            remote
        };
        let end: u64 = 4096 + 8;
        let near = (0..4).map(|n| 0u64.wrapping_sub(n)).chain(end - 66..end + 3).chain([
            4096,
            1 << 32,
            u64::MAX - 8,
        ]);
        let mut remote = connect(&mut client, ring).await;
        let mut refused = 0;
        for address in near {
            for len in [1usize, 2, 8, 64, 65] {
                let is_inside = address.checked_add(len as u64).is_some_and(|last| last <= end);
                for operation in [Operation::Read, Operation::Write] {
                    let done = remote.work(&pair, operation, ring.rkey, address, len);
                    assert_eq!(
                        done == Outcome::Success,
                        is_inside,
                        "{operation:?} of {len} B at {address:#x}: {done:?}"
                    );
                    if !is_inside {
                        refused += 1;
                        remote = connect(&mut client, ring).await;
                    }
                }
            }
        }
        assert!(refused > 100, "{refused}");
        // Whatever else could be its key, and what was it before.
        for bit in 0..32 {
            assert!(remote.read(&pair, ring.rkey ^ 1 << bit, 0, 8).is_err(), "bit {bit}");
            remote = connect(&mut client, ring).await;
        }
        // Nobody has written to its neighbours.
        for other in [&rings[0], &rings[2]] {
            let get = proto::GetRingRequest { name: other.name.clone() };
            let now = client.get_ring(get).await.expect("there").into_inner();
            assert_eq!(
                (now.head, now.tail, now.bytes),
                (other.head, other.tail, other.bytes),
                "{}",
                other.name
            );
        }
        // Rings of a host share a protection domain: a key is good on all of its connections, and ends with its ring.
        let beside = connect(&mut client, &rings[0]).await;
        assert!(beside.read(&pair, ring.rkey, 0, 8).is_ok());
        client.destroy_ring(proto::DestroyRingRequest { name: "r".into() }).await.expect("destroyed");
        assert!(beside.read(&pair, ring.rkey, 0, 8).is_err(), "a key outlives its ring");
        shutdown.send(()).expect("it is served");
        drop(client);
        server.await.expect("no panic").expect("in good order");
    });
}

#[test]
fn a_gpu_that_is_lost_refuses_and_is_told_of_and_another_goes_on() {
    let (standin, folder) = (Standin::new(), tempfile::tempdir().expect("a folder"));
    run(async {
        let memories = Memories::with(true, "/nowhere", standin.library());
        let Served { pair, agent, mut client, shutdown: _open, .. } = serve_in(None, memories).await;
        let programs = tokio::net::UnixListener::bind(folder.path().join("programs")).expect("a socket");
        let serving = agent.clone();
        tokio::spawn(async move { serving.serve_programs(programs, std::future::pending()).await });
        let mut events = agent.events();
        let mut ends = Vec::new();
        for (name, role, gpu) in [
            ("c", proto::Role::Consumer, "gpu:0"),
            ("p", proto::Role::Producer, "gpu:0"),
            ("d", proto::Role::Consumer, "gpu:1"),
        ] {
            let request = proto::CreateRingRequest { memory: gpu.into(), ..create(name, role, 64, 4096) };
            let ring = client.create_ring(request).await.expect("made").into_inner();
            let qpn = ring.data_qp.as_ref().expect("a queue pair").qpn;
            let remote = Remote::new(&pair, qpn);
            let other = Remote::new(&pair, ring.poll_qp.as_ref().expect("a queue pair").qpn);
            let connect = proto::ConnectRingRequest {
                name: name.into(),
                data: Some(target(remote.qpn.get())),
                poll: Some(target(other.qpn.get())),
                doorbell_secret: None,
            };
            client.connect_ring(connect).await.expect("connected");
            ends.push((remote, ring.rkey));
        }
        let [(c, c_key), (p, p_key), (d, d_key)] = &ends[..] else { panic!("three rings") };
        let mut rx = for_kernels(&agent.ring("c").expect("there").ring);
        let mut kernel = rx.attach_consumer(Cancel::new()).expect("attached");
        let head = |counter: u32| {
            let head = ControlWord { counter, flags: Flags::default() };
            CommitRecord { head, producer_id: 1, producer_tail: counter }.to_bytes(ByteOrder::Little)
        };
        assert_eq!(c.write(&pair, *c_key, 4096, &[7; 64]), Outcome::Success);
        assert_eq!(c.write(&pair, *c_key, 0, &head(64)), Outcome::Success);
        let mut item = [0; 64];
        kernel.pop(&mut item).expect("it comes");
        assert_eq!(item, [7; 64]);

        // A READ's answer can't come.
        standin.lose(0, 0);
        assert_eq!(p.read(&pair, *p_key, 4096, 64), Err(Outcome::RemoteOperational));
        // Items wait for their commit record, which is refused.
        assert_eq!(c.write(&pair, *c_key, 4096 + 64, &[8; 64]), Outcome::Success);
        assert_eq!(c.write(&pair, *c_key, 0, &head(128)), Outcome::RemoteOperational);
        assert!(matches!(kernel.try_pop(&mut item), Err(PopError::Empty)));

        let mut told = std::collections::BTreeMap::new();
        while told.len() < 2 {
            let event = events.recv().await.expect("the agent lives");
            if event.kind == zsr_host_agent::agent::EventKind::Died {
                assert!(told.insert(event.name, event.detail).is_none(), "once each");
            }
        }
        assert!(told.keys().eq(["c", "p"]), "{told:?}");
        assert!(
            told.values().all(|why| why.contains("GPU 0 (stand-in 0") && why.contains("nvidia-smi")),
            "{told:?}"
        );
        let get = proto::GetRingRequest { name: "c".into() };
        assert!(client.get_ring(get).await.expect("known").into_inner().died.contains("GPU 0"));
        let refused = zsr::pu::hold(&folder.path().join("programs"), "c", Role::Consumer).expect_err("lost");
        assert!(refused.to_string().contains("`c`") && refused.to_string().contains("GPU 0"), "{refused}");
        agent.disconnect_ring("p").expect("the NIC runs");
        let refused = agent.read_items("p", 0, 64).expect_err("lost").to_string();
        assert!(refused.contains("`p`") && refused.contains("GPU 0"), "{refused}");
        let request = RingRequest {
            memory: "gpu:0".parse().expect("a kind"),
            ..RingRequest::new("q", Role::Producer, 64, 4096)
        };
        let refused = agent.create_ring(request).expect_err("lost").to_string();
        assert!(refused.contains("`q`") && refused.contains("GPU 0"), "{refused}");

        rx = for_kernels(&agent.ring("d").expect("there").ring);
        kernel = rx.attach_consumer(Cancel::new()).expect("attached");
        assert_eq!(d.write(&pair, *d_key, 4096, &[9; 64]), Outcome::Success);
        assert_eq!(d.write(&pair, *d_key, 0, &head(64)), Outcome::Success);
        kernel.pop(&mut item).expect("it comes");
        assert_eq!(item, [9; 64]);
    });
}
