//! What a flow does, and what changes wait for; connections to agents that break.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use zsr_api::controller::{self as proto, EventKind, FlowState};

use super::changes::{consumer, next, pop, producer, push, watch};
use super::rig::{Client, Rig, shuffle};

fn list(rig: &Rig, client: &mut Client) -> Vec<proto::Flow> {
    rig.runtime.block_on(client.list_flows(proto::ListFlowsRequest {})).expect("a list").into_inner().flows
}

#[test]
fn a_flow_is_stalled_by_whoever_is_named_and_ends_with_its_streams() {
    let rig = Rig::new(2, "");
    let (_controller, mut client) = rig.control();
    let mut events = watch(&rig, &mut client);
    rig.runtime.block_on(client.create_flow(shuffle("f", &["h1"], &["h2"]))).expect("created");
    assert_eq!(list(&rig, &mut client)[0].state(), FlowState::Running);
    let mut tx = producer(&rig, 1, "f.h1.h2");
    push(&mut tx, 0..3);
    let said = rig.runtime.block_on(next(&mut events, EventKind::FlowStalled));
    let waits = "waits for a program to take 192 B out of ring `f.h2`";
    assert_eq!(
        (said.flow.as_str(), said.text.as_str()),
        ("f", &*format!("nothing has moved for 3 s: {waits}"))
    );
    let stalled = list(&rig, &mut client).remove(0);
    assert_eq!((stalled.state(), stalled.reason.as_str()), (FlowState::Stalled, waits));
    let mut rx = consumer(&rig, 2, "f.h2");
    assert!((0..3).all(|n| pop(&mut rx) == n));
    assert_eq!(rig.runtime.block_on(next(&mut events, EventKind::FlowMoves)).flow, "f");
    assert_eq!(list(&rig, &mut client)[0].state(), FlowState::Running);
    push(&mut tx, 3..4);
    tx.close();
    let said = rig.runtime.block_on(next(&mut events, EventKind::FlowEnded));
    assert_eq!(said.text, "all streams have ended: waits for the program at ring `f.h2` to take 64 B");
    let ended = list(&rig, &mut client).remove(0);
    assert_eq!((ended.state(), &*ended.reason), (FlowState::Ended, &said.text[24..]));
    assert_eq!(pop(&mut rx), 3);
    rx.detach();
    // The reason goes with the next look at the rings, which is no event.
    while !list(&rig, &mut client)[0].reason.is_empty() {}
}

#[test]
fn a_delete_that_waits_says_for_whom() {
    let rig = Rig::new(2, "");
    let (_controller, mut client) = rig.control();
    rig.runtime.block_on(client.create_flow(shuffle("f", &["h1"], &["h2"]))).expect("created");
    let (mut tx, mut rx) = (producer(&rig, 1, "f.h1.h2"), consumer(&rig, 2, "f.h2"));
    push(&mut tx, 0..40);
    tx.wait_drained().expect("taken");
    tx.detach();
    let mut deleter = client.clone();
    let delete = proto::DeleteFlowRequest { name: "f".into(), force: false };
    let deleted = rig.runtime.spawn(async move { deleter.delete_flow(delete).await });
    // Some of them move now and then, so that it goes on waiting.
    let (mut taken, mut moved) = (0, std::time::Instant::now());
    loop {
        if moved.elapsed() > std::time::Duration::from_millis(500) {
            assert_eq!(pop(&mut rx), taken);
            (taken, moved) = (taken + 1, std::time::Instant::now());
        }
        let flow = list(&rig, &mut client).remove(0);
        if flow.state() == FlowState::Deleting
            && flow.pending.contains("waits for the program at ring `f.h2`")
        {
            break;
        }
    }
    let system =
        rig.runtime.block_on(client.get_system(proto::GetSystemRequest {})).expect("known").into_inner();
    let [change] = system.pending.as_slice() else { panic!("{:?}", system.pending) };
    assert_eq!((change.flow.as_str(), change.what.as_str()), ("f", "deleting flow `f`"));
    assert!((taken..40).all(|n| pop(&mut rx) == n));
    rig.runtime.block_on(deleted).expect("it ends").expect("deleted");
    let system =
        rig.runtime.block_on(client.get_system(proto::GetSystemRequest {})).expect("known").into_inner();
    assert!(system.pending.is_empty() && list(&rig, &mut client).is_empty());
}

/// Stands between the controller and the agent of the first host, and breaks the connection when it is told to.
struct Between {
    /// Before the next request reaches the agent; before the next answer reaches the controller.
    break_request: AtomicBool,
    break_answer: AtomicBool,
}

impl Between {
    async fn serve(self: Arc<Self>, listener: UnixListener, agent: std::path::PathBuf) {
        while let Ok((near, _)) = listener.accept().await {
            let Ok(far) = UnixStream::connect(&agent).await else { return };
            let own = self.clone();
            tokio::spawn(async move {
                let ((mut near_rx, mut near_tx), (mut far_rx, mut far_tx)) =
                    (near.into_split(), far.into_split());
                tokio::select! {
                    () = hand_on(&mut near_rx, &mut far_tx, &own.break_request) => {}
                    () = hand_on(&mut far_rx, &mut near_tx, &own.break_answer) => {}
                }
            });
        }
    }
}

async fn hand_on(
    from: &mut (impl AsyncReadExt + Unpin),
    to: &mut (impl AsyncWriteExt + Unpin),
    stop: &AtomicBool,
) {
    let mut bytes = [0; 16384];
    loop {
        match from.read(&mut bytes).await {
            Ok(n) if n > 0 && !stop.swap(false, Ordering::Relaxed) => {
                if to.write_all(&bytes[..n]).await.is_err() {
                    return;
                }
            }
            _ => return,
        }
    }
}

#[test]
fn a_connection_to_an_agent_that_breaks_is_made_again() {
    let mut rig = Rig::new(2, "");
    rig.kill_agent(0);
    let behind = rig.folder.path().join("behind");
    let between = Arc::new(Between { break_request: false.into(), break_answer: false.into() });
    {
        let _inside = rig.runtime.enter();
        let agent = rig.agents[0].clone();
        let listener = UnixListener::bind(&behind).expect("a socket");
        tokio::spawn(async move { agent.serve_unix(listener, std::future::pending()).await });
        let listener = UnixListener::bind(rig.agent_socket("h1")).expect("a socket");
        tokio::spawn(between.clone().serve(listener, behind));
    }
    let (_controller, mut client) = rig.control();
    for (name, stop) in [("asked", &between.break_request), ("answered", &between.break_answer)] {
        stop.store(true, Ordering::Relaxed);
        let made = rig.runtime.block_on(client.create_flow(shuffle(name, &["h1"], &["h2"])));
        made.unwrap_or_else(|e| panic!("{name}: {}", e.message()));
        assert!(!stop.load(Ordering::Relaxed), "{name}: it was broken");
    }
    for name in ["asked", "answered"] {
        let delete = proto::DeleteFlowRequest { name: name.into(), force: false };
        rig.runtime.block_on(client.delete_flow(delete)).expect("deleted");
    }
    assert!(rig.is_clean());
}

#[test]
fn an_agent_that_is_not_there_is_named_with_its_host_and_what_it_was_asked() {
    let mut rig = Rig::new(2, "");
    rig.kill_agent(1);
    let (_controller, mut client) = rig.control();
    let refused =
        rig.runtime.block_on(client.create_flow(shuffle("f", &["h1"], &["h2"]))).expect_err("it is dead");
    let socket = rig.agent_socket("h2").display().to_string();
    let said = refused.message();
    assert!(said.contains("host `h2`: its agent at unix://") && said.contains(&socket), "{said}");
}
