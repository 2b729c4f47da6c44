//! The server itself: capabilities, ports in use, an end that leaves nothing behind.

use p4runtime_proto::p4::v1 as pb;
use p4runtime_proto::p4::v1::stream_message_request::Update as Request;
use tonic::Code;
use zsr_p4runtime_server::bind;

use super::rig::*;

#[tokio::test]
async fn capabilities() {
    let rig = Rig::empty().await;
    let mut client = rig.client().await;
    for device_id in [0, DEVICE] {
        let response = client.capabilities(pb::CapabilitiesRequest { device_id }).await.unwrap().into_inner();
        assert_eq!(response.p4runtime_api_version, p4runtime_proto::API_VERSION);
    }
    let status = client.capabilities(pb::CapabilitiesRequest { device_id: 1 }).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    rig.shut_down().await;
}

#[tokio::test]
async fn a_device_can_have_number_0() {
    let rig = Rig::of_device(0).await;
    let mut c = rig.controller().await;
    let election_id = Some(pb::Uint128 { high: 0, low: 1 });
    for (device_id, code) in [(0, Code::Ok), (1, Code::NotFound)] {
        let get = pb::GetForwardingPipelineConfigRequest { device_id, ..Default::default() };
        let got = c.client.get_forwarding_pipeline_config(get).await;
        assert_eq!(got.err().map_or(Code::Ok, |status| status.code()), code);
    }
    c.send(Request::Arbitration(pb::MasterArbitrationUpdate { election_id, ..Default::default() })).await;
    let answer = c.arbitration().await;
    assert_eq!((answer.device_id, status_of(&answer)), (0, Code::Ok));
    rig.shut_down().await;
}

#[tokio::test]
async fn a_port_in_use_is_said_to_be() {
    let first = bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    let address = first.local_addr().unwrap();
    let error = bind(address).await.unwrap_err().to_string();
    assert!(error.contains(&address.to_string()) && error.contains("another server has it"), "{error}");
}

#[tokio::test]
async fn shutting_down_ends_streams() {
    let (rig, mut controller) = Rig::new().await;
    let mut idle = rig.controller().await;
    rig.shut_down().await;
    for controller in [&mut controller, &mut idle] {
        assert_eq!(controller.receive().await.unwrap_err().code(), Code::Unavailable);
    }
    assert!(controller.write_batch(Vec::new(), Default::default()).await.is_err());
}

#[tokio::test]
async fn a_switch_that_stopped_is_unavailable() {
    let (mut rig, mut controller) = Rig::new().await;
    rig.owner.stop();
    let status = controller.write_batch(vec![], Default::default()).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    let (_, status) = controller.try_read(table_entry(Default::default())).await;
    assert_eq!(errors(&status.unwrap_err())[0].canonical_code, Code::Unavailable as i32);
    assert_eq!(controller.commit(config()).await.unwrap_err().code(), Code::Unavailable);
    rig.shut_down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_writers_and_pipelines_at_once() {
    use p4runtime_proto::p4::v1::entity::Entity;
    let (rig, mut controller) = Rig::new().await;
    let register = rig.ids.register("seen");
    let cell = move |index| {
        let data = Some(pb::P4Data { data: Some(pb::p4_data::Data::Bitstring(vec![1])) });
        Entity::RegisterEntry(pb::RegisterEntry { register_id: register, index, data })
    };
    let mut readers = Vec::new();
    for _ in 0..4 {
        let mut reader = rig.controller().await;
        readers.push(tokio::spawn(async move {
            for _ in 0..50 {
                // A write of all cells is seen as a whole, and so is a fresh pipeline.
                let cells = reader.read(cell(None)).await;
                assert_eq!(cells.len(), 16);
                let values = |entity: &Entity| match entity {
                    Entity::RegisterEntry(entry) => entry.data.clone(),
                    other => panic!("expected a register, got {other:?}"),
                };
                assert!(cells.windows(2).all(|pair| values(&pair[0]) == values(&pair[1])), "{cells:?}");
            }
        }));
    }
    for _ in 0..10 {
        controller.modify(cell(None)).await.unwrap();
        controller.commit(config()).await.unwrap();
    }
    for reader in readers {
        reader.await.unwrap();
    }
    rig.owner.inject(1, 3, ethernet(1, 2, 3)).await;
    let cells = controller.read(cell(Some(pb::Index { index: 3 }))).await;
    assert_eq!(cells, [cell(Some(pb::Index { index: 3 }))]);
    rig.shut_down().await;
}
