//! Objects with cells: counters, meters, registers; and value sets.

use p4runtime_proto::p4::v1 as pb;
use p4runtime_proto::p4::v1::entity::Entity;
use p4runtime_proto::p4::v1::p4_data::Data;
use tonic::Code;

use super::rig::*;

fn index(index: Option<i64>) -> Option<pb::Index> {
    index.map(|index| pb::Index { index })
}

#[tokio::test]
async fn counters() {
    let (rig, mut c) = Rig::new().await;
    let id = rig.ids.counter("ports");
    let data = |packet_count, byte_count| Some(pb::CounterData { packet_count, byte_count });
    let of =
        |counter_id, at, data| Entity::CounterEntry(pb::CounterEntry { counter_id, index: index(at), data });
    rig.owner.inject(1, 3, ethernet(1, 1, 1)).await;
    assert_eq!(c.read(of(id, Some(3), None)).await, [of(id, Some(3), data(1, 60))]);
    assert_eq!(c.read(of(id, Some(0), None)).await, [of(id, Some(0), data(0, 0))]);
    let all = c.read(of(id, None, None)).await;
    assert_eq!((all.len(), &all[3]), (8, &of(id, Some(3), data(1, 60))));
    assert_eq!(c.read(of(0, None, None)).await, all);
    c.modify(of(id, Some(3), data(7, 8))).await.unwrap();
    c.modify(of(id, Some(3), None)).await.unwrap();
    assert_eq!(c.read(of(id, Some(3), None)).await, [of(id, Some(3), data(7, 8))], "no data, no change");
    c.modify(of(id, None, data(1, 1))).await.unwrap();
    assert!(
        c.read(of(id, None, None))
            .await
            .iter()
            .enumerate()
            .all(|(n, cell)| *cell == of(id, Some(n as i64), data(1, 1)))
    );

    assert_eq!(code(c.insert(of(id, Some(0), data(0, 0))).await), Code::InvalidArgument);
    assert_eq!(code(c.delete(of(id, Some(0), None)).await), Code::InvalidArgument);
    assert_eq!(code(c.modify(of(id, Some(-1), data(0, 0))).await), Code::InvalidArgument);
    assert_eq!(code(c.modify(of(id, Some(8), data(0, 0))).await), Code::OutOfRange);
    assert_eq!(code(c.modify(of(id, Some(1 << 40), data(0, 0))).await), Code::OutOfRange);
    assert_eq!(code(c.modify(of(id, Some(0), data(-1, 0))).await), Code::InvalidArgument);
    assert_eq!(code(c.modify(of(0, Some(0), data(0, 0))).await), Code::InvalidArgument);
    let error = |error: pb::Error| Code::from_i32(error.canonical_code);
    assert_eq!(error(c.read_error(of(id, Some(-1), None)).await), Code::InvalidArgument);
    assert_eq!(error(c.read_error(of(id, Some(8), None)).await), Code::OutOfRange);
    assert_eq!(error(c.read_error(of(0, Some(0), None)).await), Code::InvalidArgument);
    assert_eq!(error(c.read_error(of(1, None, None)).await), Code::InvalidArgument);
    rig.shut_down().await;
}

#[tokio::test]
async fn meters() {
    let (rig, mut c) = Rig::new().await;
    let id = rig.ids.meter("police");
    let config = Some(pb::MeterConfig { cir: 10, cburst: 20, pir: 30, pburst: 40, eburst: 0 });
    let of = |meter_id, at, config| {
        Entity::MeterEntry(pb::MeterEntry { meter_id, index: index(at), config, counter_data: None })
    };
    assert_eq!(c.read(of(id, Some(1), None)).await, [of(id, Some(1), None)]);
    c.modify(of(id, Some(1), config)).await.unwrap();
    assert_eq!(c.read(of(id, Some(1), None)).await, [of(id, Some(1), config)]);
    c.modify(of(id, None, config)).await.unwrap();
    c.modify(of(id, Some(1), None)).await.unwrap();
    let all: Vec<_> = (0..4).map(|at| of(id, Some(at), config.filter(|_| at != 1))).collect();
    assert_eq!(c.read(of(0, None, None)).await, all);
    assert_eq!(code(c.insert(of(id, Some(0), config)).await), Code::InvalidArgument);
    assert_eq!(code(c.delete(of(id, Some(0), None)).await), Code::InvalidArgument);
    assert_eq!(code(c.modify(of(id, Some(4), config)).await), Code::OutOfRange);
    assert_eq!(code(c.modify(of(id, Some(-4), config)).await), Code::InvalidArgument);
    let colors = Entity::MeterEntry(pb::MeterEntry {
        meter_id: id,
        counter_data: Some(Default::default()),
        ..Default::default()
    });
    assert_eq!(c.read_error(colors.clone()).await.canonical_code, Code::Unimplemented as i32);
    assert_eq!(code(c.modify(colors).await), Code::Unimplemented);
    rig.shut_down().await;
}

#[tokio::test]
async fn registers() {
    let (rig, mut c) = Rig::new().await;
    let (seen, level) = (rig.ids.register("seen"), rig.ids.register("level"));
    let of = |register_id, at, bits: Option<&[u8]>| {
        let data = bits.map(|bits| pb::P4Data { data: Some(Data::Bitstring(bits.to_vec())) });
        Entity::RegisterEntry(pb::RegisterEntry { register_id, index: index(at), data })
    };
    rig.owner.inject(1, 3, ethernet(1, 1, 1)).await;
    assert_eq!(c.read(of(seen, Some(3), None)).await, [of(seen, Some(3), Some(&[1]))]);
    assert_eq!(c.read(of(level, Some(0), None)).await, [of(level, Some(0), Some(&[0xff]))], "-1 as int<12>");
    c.modify(of(seen, Some(3), Some(&[0, 1, 0]))).await.unwrap();
    c.modify(of(level, Some(0), Some(&[0xf8, 0]))).await.unwrap();
    rig.owner.inject(1, 3, ethernet(1, 1, 1)).await;
    assert_eq!(c.read(of(seen, Some(3), None)).await, [of(seen, Some(3), Some(&[1, 1]))]);
    assert_eq!(
        c.read(of(level, Some(0), None)).await,
        [of(level, Some(0), Some(&[7, 0xff]))],
        "-2048 - 1 wraps"
    );
    c.modify(of(seen, None, Some(&[5]))).await.unwrap();
    assert_eq!(c.read(of(0, None, None)).await.len(), 16 + 4);
    assert_eq!(c.read(of(seen, None, None)).await[15], of(seen, Some(15), Some(&[5])));

    assert_eq!(code(c.modify(of(seen, Some(0), Some(&[1, 0, 0, 0, 0]))).await), Code::OutOfRange);
    assert_eq!(code(c.modify(of(level, Some(0), Some(&[8, 0]))).await), Code::OutOfRange);
    assert_eq!(code(c.modify(of(seen, Some(0), None)).await), Code::InvalidArgument);
    assert_eq!(code(c.modify(of(seen, Some(16), Some(&[1]))).await), Code::OutOfRange);
    assert_eq!(code(c.modify(of(seen, Some(-1), Some(&[1]))).await), Code::InvalidArgument);
    assert_eq!(code(c.insert(of(seen, Some(0), Some(&[1]))).await), Code::InvalidArgument);
    let data = Some(pb::P4Data { data: Some(Data::Bool(true)) });
    let wrong = Entity::RegisterEntry(pb::RegisterEntry { register_id: seen, index: None, data });
    assert_eq!(code(c.modify(wrong).await), Code::InvalidArgument);
    rig.shut_down().await;
}

#[tokio::test]
async fn value_sets() {
    let (rig, mut c) = Rig::new().await;
    let (types, pairs) = (rig.ids.value_set("ip_types"), rig.ids.value_set("pairs"));
    let of = |value_set_id, members: Vec<Vec<pb::FieldMatch>>| {
        let members = members.into_iter().map(|r#match| pb::ValueSetMember { r#match }).collect();
        Entity::ValueSetEntry(pb::ValueSetEntry { value_set_id, members })
    };
    let one = |value: &[u8]| vec![exact(1, value)];
    assert_eq!(c.read(of(types, vec![])).await, [of(types, vec![])]);
    let members = of(types, vec![one(&[0x86, 0xdd]), one(&[0x12])]);
    c.modify(members.clone()).await.unwrap();
    assert_eq!(c.read(of(types, vec![])).await, [members]);
    let pair = of(pairs, vec![vec![exact(1, &[0x77, 0x77]), exact(2, &[9])]]);
    c.modify(pair.clone()).await.unwrap();
    assert_eq!(c.read(of(pairs, vec![])).await, [pair]);
    assert_eq!(c.read(of(0, vec![])).await.len(), 2);
    c.modify(of(types, vec![])).await.unwrap();
    assert_eq!(c.read(of(types, vec![])).await, [of(types, vec![])]);

    assert_eq!(code(c.insert(of(types, vec![])).await), Code::InvalidArgument);
    assert_eq!(code(c.delete(of(types, vec![])).await), Code::InvalidArgument);
    assert_eq!(code(c.modify(of(types, vec![one(&[1]), one(&[0, 1])])).await), Code::AlreadyExists);
    let five = (1..6u8).map(|value| one(&[value])).collect();
    assert_eq!(code(c.modify(of(types, five)).await), Code::ResourceExhausted);
    assert_eq!(code(c.modify(of(types, vec![vec![]])).await), Code::InvalidArgument);
    assert_eq!(code(c.modify(of(types, vec![one(&[1, 0, 0])])).await), Code::OutOfRange);
    assert_eq!(code(c.modify(of(5, vec![])).await), Code::InvalidArgument);
    rig.shut_down().await;
}
