//! SetForwardingPipelineConfig and GetForwardingPipelineConfig, in all actions and response types.

use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1 as pb;
use p4runtime_proto::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use tonic::Code;

use super::rig::*;

async fn get(controller: &mut Controller, kind: ResponseType) -> Option<pb::ForwardingPipelineConfig> {
    let request = pb::GetForwardingPipelineConfigRequest { device_id: DEVICE, response_type: kind as i32 };
    controller.client.get_forwarding_pipeline_config(request).await.expect("legal").into_inner().config
}

#[tokio::test]
async fn what_is_set_can_be_got() {
    let rig = Rig::empty().await;
    let mut controller = rig.primary().await;
    assert_eq!(get(&mut controller, ResponseType::All).await, None);
    controller.commit(config()).await.unwrap();
    assert_eq!(get(&mut controller, ResponseType::All).await, Some(config()));
    let got = get(&mut controller, ResponseType::CookieOnly).await.unwrap();
    assert_eq!((got.p4info, got.p4_device_config.len(), got.cookie), (None, 0, config().cookie));
    let got = get(&mut controller, ResponseType::P4infoAndCookie).await.unwrap();
    assert_eq!((got.p4info, got.p4_device_config.len(), got.cookie), (config().p4info, 0, config().cookie));
    let got = get(&mut controller, ResponseType::DeviceConfigAndCookie).await.unwrap();
    assert_eq!((got.p4info, got.p4_device_config), (None, config().p4_device_config));

    let request = pb::GetForwardingPipelineConfigRequest { device_id: 1, ..Default::default() };
    let status = controller.client.get_forwarding_pipeline_config(request).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    rig.shut_down().await;
}

#[tokio::test]
async fn a_wrapped_device_config_is_taken_and_kept_as_it_is() {
    let rig = Rig::empty().await;
    let mut controller = rig.primary().await;
    let json = config().p4_device_config;
    // p4.tmp.P4DeviceConfig: `reassign` (1) true, `device_data` (3).
    let mut wrapped = vec![1 << 3, 1, 3 << 3 | 2];
    prost::encode_length_delimiter(json.len(), &mut wrapped).unwrap();
    wrapped.extend_from_slice(&json);
    let wrapped = pb::ForwardingPipelineConfig { p4_device_config: wrapped, ..config() };
    controller.commit(wrapped.clone()).await.unwrap();
    assert_eq!(get(&mut controller, ResponseType::All).await, Some(wrapped));
    controller.insert(table_entry(route(&rig.ids))).await.unwrap();
    assert_eq!(rig.owner.inject(1, 1, ethernet(9, 1, 3)).await.len(), 1, "it runs");
    for empty in [vec![1 << 3, 1], vec![1 << 3, 1, 3 << 3 | 2, 0]] {
        let config = pb::ForwardingPipelineConfig { p4_device_config: empty, ..config() };
        let status = controller.commit(config).await.unwrap_err();
        assert!(status.message().contains("without device_data"), "{status}");
    }
    rig.shut_down().await;
}

#[tokio::test]
async fn nothing_goes_without_a_pipeline() {
    let rig = Rig::empty().await;
    let mut controller = rig.primary().await;
    let status = controller.write_batch(Vec::new(), Default::default()).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    let (_, status) = controller.try_read(table_entry(Default::default())).await;
    assert_eq!(status.unwrap_err().code(), Code::FailedPrecondition);
    assert!(rig.owner.inject(1, 1, ethernet(1, 2, 3)).await.is_empty(), "all is dropped");
    rig.shut_down().await;
}

#[tokio::test]
async fn verify_changes_nothing() {
    let rig = Rig::empty().await;
    let mut controller = rig.primary().await;
    assert!(controller.set_pipeline(Action::Verify, Some(config())).await.is_ok());
    assert_eq!(get(&mut controller, ResponseType::All).await, None);
    for action in [Action::Verify, Action::VerifyAndSave, Action::VerifyAndCommit, Action::ReconcileAndCommit]
    {
        let status = controller.set_pipeline(action, None).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{action:?}");
    }
    let status = controller.set_pipeline(Action::Unspecified, Some(config())).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    rig.shut_down().await;
}

async fn refused(
    controller: &mut Controller,
    change: impl FnOnce(&mut pb::ForwardingPipelineConfig),
) -> String {
    let mut config = config();
    change(&mut config);
    let status = controller.set_pipeline(Action::Verify, Some(config)).await.expect_err("it does not fit");
    assert_eq!(status.code(), Code::InvalidArgument);
    status.message().to_owned()
}

fn info(config: &mut pb::ForwardingPipelineConfig) -> &mut P4Info {
    config.p4info.as_mut().expect("it is there")
}

#[tokio::test]
async fn p4info_and_device_config_must_agree() {
    let rig = Rig::empty().await;
    let mut controller = rig.primary().await;
    let controller = &mut controller;
    assert!(refused(controller, |c| c.p4info = None).await.contains("p4info"));
    assert!(refused(controller, |c| c.p4_device_config.clear()).await.contains("p4_device_config"));
    assert!(refused(controller, |c| c.p4_device_config = vec![0xff]).await.contains("p4_device_config"));
    assert!(refused(controller, |c| c.p4_device_config.truncate(900)).await.contains("line"));

    let message =
        refused(controller, |c| info(c).tables[1].preamble.as_mut().unwrap().name = "In.l3".into()).await;
    assert!(message.contains("table 'In.l3' is not in the device config"), "{message}");
    // p4c removes what has no effect from the device config only.
    let mut removed = config();
    let mut table = info(&mut removed).tables[1].clone();
    let preamble = table.preamble.as_mut().unwrap();
    (preamble.id, preamble.name) = (0x0212_3456, "In.removed".into());
    info(&mut removed).tables.push(table);
    controller.set_pipeline(Action::Verify, Some(removed)).await.expect("an object without effect");
    let message = refused(controller, |c| info(c).tables[1].match_fields[0].bitwidth = 47).await;
    assert!(message.contains("'In.l2'") && message.contains("47") && message.contains("48"), "{message}");
    let message = refused(controller, |c| {
        let kind = p4runtime_proto::p4::config::v1::match_field::MatchType::Lpm as i32;
        info(c).tables[1].match_fields[0].r#match =
            Some(p4runtime_proto::p4::config::v1::match_field::Match::MatchType(kind));
    });
    assert!(message.await.contains("Lpm"));
    let forward = |c: &mut pb::ForwardingPipelineConfig, bits| {
        let of = |a: &&mut p4runtime_proto::p4::config::v1::Action| {
            a.preamble.as_ref().unwrap().alias == "forward"
        };
        info(c).actions.iter_mut().find(of).unwrap().params[0].bitwidth = bits;
    };
    let message = refused(controller, |c| forward(c, 16)).await;
    assert!(message.contains("'In.forward'") && message.contains("'port'"), "{message}");
    let message = refused(controller, |c| info(c).registers[0].size = 15).await;
    assert!(message.contains("register 'In.seen'"), "{message}");
    let message =
        refused(controller, |c| info(c).registers[0].type_spec = info(c).registers[1].type_spec.clone());
    assert!(message.await.contains("int<12>"));
    let message = refused(controller, |c| info(c).counters[0].size = 9).await;
    assert!(message.contains("counter 'In.ports'"), "{message}");
    let message = refused(controller, |c| info(c).meters[0].spec = info(c).direct_meters[0].spec);
    assert!(message.await.contains("meter 'In.police'"));
    let message = refused(controller, |c| info(c).value_sets[0].r#match[0].bitwidth = 8).await;
    assert!(message.contains("value set"), "{message}");
    let message = refused(controller, |c| info(c).digests[0].type_spec = None).await;
    assert!(message.contains("digest 'learn_t'"), "{message}");
    let message = refused(controller, |c| info(c).tables[0].implementation_id = 3).await;
    assert!(message.contains("'In.smac'"), "{message}");
    let message = refused(controller, |c| info(c).direct_counters[0].direct_table_id = 3).await;
    assert!(message.contains("direct counter"), "{message}");
    let message =
        refused(controller, |c| info(c).controller_packet_metadata[0].metadata[0].bitwidth = 8).await;
    assert!(message.contains("packet_out"), "{message}");
    let message = refused(controller, |c| {
        let id = info(c).actions[0].preamble.as_ref().unwrap().id;
        info(c).actions[1].preamble.as_mut().unwrap().id = id;
    });
    assert!(message.await.contains("as another object has"));
    rig.shut_down().await;
}

fn route(ids: &Ids) -> pb::TableEntry {
    pb::TableEntry {
        table_id: ids.table("l2"),
        r#match: vec![exact(1, &[9])],
        action: direct(action(ids.action("forward"), &[&[3]])),
        ..Default::default()
    }
}

#[tokio::test]
async fn a_saved_pipeline_takes_writes_and_runs_after_commit() {
    let (rig, mut controller) = Rig::new().await;
    let status = controller.set_pipeline(Action::Commit, None).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    let mut old = route(&rig.ids);
    old.r#match = vec![exact(1, &[8])];
    controller.insert(table_entry(old.clone())).await.unwrap();
    controller.set_pipeline(Action::VerifyAndSave, Some(config())).await.unwrap();
    let status = controller.set_pipeline(Action::Commit, Some(config())).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);

    // Writes and reads see the new pipeline, packets the old one.
    controller.insert(table_entry(route(&rig.ids))).await.unwrap();
    let wanted = pb::TableEntry { table_id: rig.ids.table("l2"), ..Default::default() };
    assert_eq!(controller.read(table_entry(wanted.clone())).await, [table_entry(route(&rig.ids))]);
    assert_eq!(rig.owner.inject(1, 1, ethernet(8, 1, 1)).await.len(), 1);
    assert_eq!(rig.owner.inject(1, 1, ethernet(9, 1, 1)).await.len(), 0);
    controller.set_pipeline(Action::Commit, None).await.unwrap();
    assert_eq!(controller.read(table_entry(wanted)).await, [table_entry(route(&rig.ids))]);
    assert_eq!(rig.owner.inject(2, 1, ethernet(8, 1, 1)).await.len(), 0);
    assert_eq!(rig.owner.inject(2, 1, ethernet(9, 1, 1)).await[0].0, 3);
    let status = controller.set_pipeline(Action::Commit, None).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound, "saved no more");
    rig.shut_down().await;
}

#[tokio::test]
async fn verify_and_commit_clears_the_state() {
    let (rig, mut controller) = Rig::new().await;
    controller.insert(table_entry(route(&rig.ids))).await.unwrap();
    controller.commit(config()).await.unwrap();
    let wanted = pb::TableEntry { table_id: rig.ids.table("l2"), ..Default::default() };
    assert!(controller.read(table_entry(wanted)).await.is_empty());
    // A pipeline that is refused leaves the running one alone.
    controller.insert(table_entry(route(&rig.ids))).await.unwrap();
    let mut bad = config();
    bad.p4_device_config.truncate(100);
    assert!(controller.commit(bad).await.is_err());
    assert_eq!(rig.owner.inject(1, 1, ethernet(9, 1, 1)).await.len(), 1);
    rig.shut_down().await;
}

#[tokio::test]
async fn reconcile_keeps_the_state() {
    use pb::entity::Entity;
    let (rig, mut controller) = Rig::new().await;
    let ids = &rig.ids;
    let (forward, profile) = (ids.action("forward"), ids.profile("balance"));
    let member = pb::ActionProfileMember {
        action_profile_id: profile,
        member_id: 4,
        action: Some(action(forward, &[&[2]])),
    };
    let group_member = pb::action_profile_group::Member { member_id: 4, weight: 2, watch_kind: None };
    let group = pb::ActionProfileGroup {
        action_profile_id: profile,
        group_id: 4,
        members: vec![group_member],
        max_size: 0,
    };
    let spread = pb::TableEntry {
        table_id: ids.table("spread"),
        r#match: vec![exact(1, &[1])],
        action: as_group(4),
        ..Default::default()
    };
    let initial = pb::TableEntry {
        table_id: ids.table("initial"),
        r#match: vec![exact(1, &[0x22, 0x22])],
        ..Default::default()
    };
    let default = pb::TableEntry {
        table_id: ids.table("keyless"),
        is_default_action: true,
        action: direct(action(forward, &[&[1]])),
        metadata: b"mine".to_vec(),
        ..Default::default()
    };
    let data = Some(pb::p4_data::Data::Bitstring(vec![0xfb]));
    let register = pb::RegisterEntry {
        register_id: ids.register("level"),
        index: Some(pb::Index { index: 2 }),
        data: Some(pb::P4Data { data }),
    };
    let multicast =
        pb::MulticastGroupEntry { multicast_group_id: 3, metadata: vec![1], ..Default::default() };
    let entities = [
        Entity::ActionProfileMember(member),
        Entity::ActionProfileGroup(group),
        table_entry(spread),
        super::replication::multicast(multicast),
    ];
    for entity in &entities {
        controller.insert(entity.clone()).await.unwrap();
    }
    for entity in [table_entry(default.clone()), Entity::RegisterEntry(register.clone())] {
        controller.modify(entity).await.unwrap();
    }
    controller.delete(table_entry(initial.clone())).await.unwrap();
    controller.set_pipeline(Action::ReconcileAndCommit, Some(config())).await.unwrap();
    for entity in entities {
        let mut filter = entity.clone();
        if let Entity::TableEntry(entry) = &mut filter {
            entry.action = None;
        }
        assert_eq!(controller.read(filter).await, [entity]);
    }
    assert_eq!(controller.read(table_entry(default.clone())).await, [table_entry(default)]);
    assert_eq!(
        controller.read(Entity::RegisterEntry(register.clone())).await,
        [Entity::RegisterEntry(register)]
    );
    assert!(controller.read(table_entry(initial)).await.is_empty(), "deleted stays deleted");

    // State that the new pipeline has no place for is not dropped in silence.
    let mut without = config();
    let keep =
        |table: &p4runtime_proto::p4::config::v1::Table| table.preamble.as_ref().unwrap().alias != "spread";
    info(&mut without).tables.retain(keep);
    let status = controller.set_pipeline(Action::ReconcileAndCommit, Some(without)).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("can't keep"), "{status}");
    rig.shut_down().await;
}
