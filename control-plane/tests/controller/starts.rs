//! A controller that ends, in whatever moment, and one that takes up its work.

use zsr_control_plane::controller::journal::Journal;
use zsr_control_plane::controller::proto;

use super::rig::{Rig, shuffle};

/// Ends a controller as a kill would: its session goes, nothing else is done.
fn end(rig: &Rig, controller: zsr_control_plane::controller::Controller, client: super::rig::Client) {
    controller.stop();
    drop(client);
    // The switch notices the end of the session when its stream ends.
    let gone = controller.is_gone();
    drop(controller);
    rig.runtime.block_on(gone);
}

#[test]
fn flows_go_on_under_the_next_controller() {
    let rig = Rig::new(2, "");
    let (controller, mut client) = rig.control();
    for name in ["a", "b", "c"] {
        rig.runtime.block_on(client.create_flow(shuffle(name, &["h1"], &["h2"]))).expect("created");
    }
    let (flows, held) = (controller.list_flows(), rig.held());
    end(&rig, controller, client);

    let (controller, mut client) = rig.control();
    assert_eq!((controller.list_flows(), rig.held()), (flows, held));
    let delete = |name: &str| proto::DeleteFlowRequest { name: name.into(), force: false };
    rig.runtime.block_on(async {
        client.create_flow(shuffle("d", &["h1"], &["h2"])).await.expect("numbers of its own");
        for name in ["a", "b", "c", "d"] {
            client.delete_flow(delete(name)).await.expect("deleted");
        }
    });
    assert!(rig.is_clean());
}

#[test]
fn a_change_that_was_broken_off_is_taken_back_or_completed() {
    let rig = Rig::new(2, "");
    let (controller, mut client) = rig.control();
    for name in ["stays", "half"] {
        rig.runtime.block_on(client.create_flow(shuffle(name, &["h1"], &["h2"]))).expect("created");
    }
    let half = controller.get_flow("half").expect("there");
    end(&rig, controller, client);
    let journal = rig.folder.path().join("journal");
    let open = || Journal::open(&journal).expect("sound").0;

    // As if the controller had died while it made flow `half`: everything is there, but nobody had been told.
    open().begin("half", None).expect("written");
    let (controller, client) = rig.control();
    assert_eq!(controller.list_flows().len(), 1);
    assert_eq!((rig.held(), rig.rings()), ((17, 1), 2));
    end(&rig, controller, client);

    // As if it had died while it deleted it, entries gone already.
    open().end("half", Some(&half)).expect("written");
    open().begin("half", None).expect("written");
    let (controller, client) = rig.control();
    assert_eq!((controller.list_flows().len(), rig.held(), rig.rings()), (1, (17, 1), 2));
    end(&rig, controller, client);

    // As if a line had been cut off in the middle.
    let mut text = std::fs::read(&journal).expect("there");
    text.extend(br#"{"Begin":{"name":"st"#);
    std::fs::write(&journal, text).expect("written");
    let (controller, _client) = rig.control();
    assert_eq!(controller.list_flows().len(), 1);
}

#[test]
fn a_damaged_journal_is_named() {
    let rig = Rig::new(2, "");
    let journal = rig.folder.path().join("journal");
    std::fs::write(&journal, "nonsense\n{}\n").expect("written");
    let refused = rig.try_start().map(|_| ()).expect_err("damaged").to_string();
    assert!(refused.contains("journal") && refused.contains("line 1"), "{refused}");
}
