//! Packets that are marked to be dropped through an `inout` parameter, with `programs/drops.p4`.

use crate::support::Bench;
use zsr_soft_switch::Replica;

#[test]
fn a_copy_of_the_standard_metadata_is_marked() {
    let mut bench = Bench::new("drops");
    let group = vec![Replica { port: 5, instance: 1 }];
    bench.switch.multicast_group_insert(7, group).expect("a new group");
    assert_eq!(bench.send(1, &[0]), [(3, vec![0])], "nothing marks this one");
    assert_eq!(bench.send(1, &[1]), [], "marked by its copy");
    assert_eq!(bench.send(1, &[2]), [], "marking takes the multicast group away too");
    assert_eq!(bench.switch.stats().ingress_drops, 2);
    assert_eq!(bench.send(1, &[0]), [(3, vec![0])], "marks do not stay");
}
