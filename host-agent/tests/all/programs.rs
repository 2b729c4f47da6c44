//! Programs that attach to a running agent over its UNIX socket and share a ring's memory with it.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use crate::common::Pair;
use prost::Message;
use tokio::sync::{broadcast, oneshot};
use zsr::pu::{self, PuError};
use zsr_api::agent as proto;
use zsr_host_agent::agent::{Agent, AgentEvent, EventKind, RingRequest};
use zsr_ring::{Cancel, PushError, Role};

struct Host {
    agent: Agent,
    socket: PathBuf,
    events: broadcast::Receiver<AgentEvent>,
    runtime: tokio::runtime::Runtime,
    end: Option<oneshot::Sender<()>>,
    _pair: Pair,
    _folder: tempfile::TempDir,
}

fn host(agent: impl FnOnce(&Pair) -> Agent) -> Host {
    let pair = Pair::start();
    let agent = agent(&pair);
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("h1.programs");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let listener = {
        let _inside = runtime.enter();
        tokio::net::UnixListener::bind(&socket).expect("a socket")
    };
    let (end, ended) = oneshot::channel::<()>();
    let serving = agent.clone();
    runtime.spawn(async move {
        serving
            .serve_programs(listener, async {
                let _ = ended.await;
            })
            .await;
    });
    let events = agent.events();
    Host { agent, socket, events, runtime, end: Some(end), _pair: pair, _folder: folder }
}

fn shared() -> Host {
    host(|pair| Agent::with_shared_memory("h1", pair.backend(), None))
}

impl Host {
    /// The next event of this kind.
    fn next(&mut self, kind: EventKind) -> AgentEvent {
        loop {
            let event = self.runtime.block_on(self.events.recv()).expect("the agent lives");
            if event.kind == kind {
                return event;
            }
        }
    }

    /// The agent has something else to do until the answer is dropped.
    fn keep_busy(&self) -> mpsc::Sender<()> {
        let (busy, is_busy) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        self.runtime.spawn(async move {
            busy.send(()).expect("the test waits");
            let _ = ended.recv();
        });
        is_busy.recv().expect("the agent is busy");
        end
    }

    fn create(&self, name: &str, role: Role) {
        self.agent.create_ring(RingRequest::new(name, role, 64, 4096)).expect("a ring");
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.end.take());
    }
}

/// Attaches as a program would, and is gone without a word when dropped.
fn attach_raw(socket: &Path, ring: &str) -> UnixStream {
    let attach = proto::Attach {
        version: 1,
        ring: ring.into(),
        role: proto::Role::Producer.into(),
        ..Default::default()
    };
    let body = attach.encode_to_vec();
    let mut stream = UnixStream::connect(socket).expect("an agent");
    stream.write_all(&(body.len() as u32).to_le_bytes()).expect("sent");
    stream.write_all(&body).expect("sent");
    stream
}

/// The agent's answer.
fn answer(stream: &mut UnixStream) -> proto::Attached {
    let mut length = [0; 4];
    stream.read_exact(&mut length).expect("an answer");
    let mut body = vec![0; u32::from_le_bytes(length) as usize];
    stream.read_exact(&mut body).expect("an answer");
    proto::Attached::decode(body.as_slice()).expect("a message")
}

#[test]
fn what_a_program_pushes_is_in_the_agents_memory() {
    let mut host = shared();
    host.create("tx", Role::Producer);
    let mut tx = pu::attach_producer(&host.socket, "tx", Cancel::new()).expect("attached");
    assert!(host.next(EventKind::Attached).detail.contains(&std::process::id().to_string()));
    for n in 0..64u8 {
        tx.try_push(&[n; 64]).expect("room");
    }
    assert_eq!(tx.try_push(&[0; 64]), Err(PushError::Full));
    let ring = host.agent.ring("tx").expect("there").ring;
    assert_eq!((ring.snapshot().head.counter, ring.filled_bytes()), (4096, 4096));
    assert!(ring.has_producer());
    tx.close();
    let event = host.next(EventKind::Left);
    assert!(event.name == "tx" && event.detail.contains("finished"), "{event:?}");
    assert!(!ring.has_producer() && ring.snapshot().head.flags.closed());
    let again = pu::attach_producer(&host.socket, "tx", Cancel::new()).expect_err("closed");
    assert!(again.to_string().contains("`tx`") && again.to_string().contains("has ended"), "{again}");
}

#[test]
fn a_ring_that_is_left_goes_on_with_the_next_program() {
    let mut host = shared();
    host.create("tx", Role::Producer);
    let mut first = pu::attach_producer(&host.socket, "tx", Cancel::new()).expect("attached");
    first.try_push(&[1; 64]).expect("room");
    let both = pu::attach_producer(&host.socket, "tx", Cancel::new()).expect_err("taken");
    assert!(matches!(both, PuError::Refused(_)) && both.to_string().contains("already"), "{both}");
    first.detach();
    assert!(host.next(EventKind::Left).detail.contains("left"));
    let mut second = pu::attach_producer(&host.socket, "tx", Cancel::new()).expect("free again");
    second.try_push(&[2; 64]).expect("room");
    assert_eq!(host.agent.ring("tx").expect("there").ring.snapshot().head.counter, 128);
    second.detach();
}

#[test]
fn a_ring_is_free_once_its_program_has_left() {
    let host = shared();
    host.create("tx", Role::Producer);
    for round in 0..50 {
        let tx = pu::attach_producer(&host.socket, "tx", Cancel::new());
        let tx = tx.unwrap_or_else(|e| panic!("round {round}: {e}"));
        let busy = host.keep_busy();
        // It waits for the agent, or the next round would find the ring taken.
        let leaving = std::thread::spawn(move || tx.detach());
        drop(busy);
        leaving.join().expect("it left");
    }
}

#[test]
fn a_ring_is_free_once_its_program_is_dead() {
    let mut host = shared();
    host.create("tx", Role::Producer);
    for round in 0..50 {
        let dead = attach_raw(&host.socket, "tx");
        host.next(EventKind::Attached);
        // The agent hears of both ends at a time.
        let busy = host.keep_busy();
        drop(dead);
        let mut next = attach_raw(&host.socket, "tx");
        drop(busy);
        assert_eq!(answer(&mut next).refusal, "", "round {round}");
        host.next(EventKind::Attached);
        drop(next);
        host.next(EventKind::Died);
    }
}

#[test]
fn an_item_that_was_begun_is_begun_for_the_next_program() {
    let host = shared();
    host.create("rx", Role::Consumer);
    let visit = |leaves: Option<u32>| {
        let mut rx = pu::attach_consumer(&host.socket, "rx", Cancel::new()).expect("free");
        let found = rx.begun();
        if let Some(records) = leaves {
            rx.set_begun(records);
        }
        rx.detach();
        found
    };
    assert_eq!(visit(Some(7)), 0);
    // A consumer that does not care leaves it as it is.
    assert_eq!(visit(None), 7);
    assert_eq!(visit(Some(0)), 7);
    assert_eq!(visit(None), 0);
}

#[test]
fn a_program_that_goes_without_a_word_counts_as_dead() {
    let mut host = shared();
    host.create("tx", Role::Producer);
    let silent = attach_raw(&host.socket, "tx");
    host.next(EventKind::Attached);
    drop(silent);
    let event = host.next(EventKind::Died);
    assert!(event.name == "tx" && event.detail.contains("died"), "{event:?}");
    // One that drops its handle in the middle says so in the ring, too.
    let tx = pu::attach_producer(&host.socket, "tx", Cancel::new()).expect("attached");
    drop(tx);
    assert!(host.next(EventKind::Died).detail.contains("gave up"));
    assert!(host.agent.ring("tx").expect("there").ring.snapshot().head.flags.aborted());
}

#[test]
fn consumers_attach_too_and_learn_of_an_abort() {
    let mut host = shared();
    host.create("rx", Role::Consumer);
    let wrong = pu::attach_producer(&host.socket, "rx", Cancel::new()).expect_err("the wrong role");
    assert!(wrong.to_string().contains("consumer"), "{wrong}");
    let missing = pu::attach_consumer(&host.socket, "ry", Cancel::new()).expect_err("no such ring");
    assert!(missing.to_string().contains("`ry`"), "{missing}");
    let mut rx = pu::attach_consumer(&host.socket, "rx", Cancel::new()).expect("attached");
    host.agent.close_rings(&["rx".into(), "unknown".into()], "flow `f` was deleted", false).expect("closed");
    let error = rx.pop(&mut [0; 64]).expect_err("aborted");
    assert!(error.to_string().contains("aborted"), "{error}");
    // A program that was given up has not died.
    drop(rx);
    host.next(EventKind::Left);
}

#[test]
fn nonsense_is_not_attached() {
    let mut host = shared();
    host.create("tx", Role::Producer);
    for junk in [&[0xff; 64][..], &[3, 0, 0, 0, 1, 2, 3], &[], &[0, 0, 0, 0]] {
        let mut stream = UnixStream::connect(&host.socket).expect("an agent");
        stream.write_all(junk).expect("sent");
    }
    // The agent is none the worse.
    pu::attach_producer(&host.socket, "tx", Cancel::new()).expect("attached").detach();
    host.next(EventKind::Left);
}

#[test]
fn private_memory_is_not_handed_out() {
    let host = host(|pair| Agent::new("h1", pair.backend()));
    host.create("tx", Role::Producer);
    let error = pu::attach_producer(&host.socket, "tx", Cancel::new()).expect_err("not shared").to_string();
    assert!(error.contains("only its agent"), "{error}");
    let nobody =
        pu::attach_producer("/nonexistent/socket".as_ref(), "tx", Cancel::new()).expect_err("nobody");
    assert!(nobody.to_string().contains("/nonexistent/socket"), "{nobody}");
}
