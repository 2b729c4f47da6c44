use super::*;
use crate::nic::nic_queue;
use zsr_soft_nic::NicConfig;

/// An ARP request for `target` from a switch.
fn arp(sender: Mac, sender_ip: [u8; 4], target: [u8; 4]) -> Frame {
    let mut bytes =
        [&[0xff; 6][..], &sender.0, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1], &sender.0, &sender_ip].concat();
    bytes.extend([0; 6]);
    bytes.extend(target);
    bytes.resize(60, 0);
    Frame::copy_from(&bytes).expect("it fits")
}

#[test]
fn a_frame_leaves_by_the_link_to_whom_it_is_for_whichever_link_is_asked_first() {
    let (first, second) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
    let config = NicConfig::new(Mac([2, 0, 0, 0, 1, 1]), [10, 0, 1, 1].into());
    let (_handle, queue) = nic_queue(|| ());
    let mut node = NicNode::between(Nic::new(config), queue, vec![first, second]);
    let (mut pool, mut out) = (FramePool::with_frames(8), Vec::new());
    // Each answer goes to who has asked.
    node.handle(0, 0, arp(first, [10, 0, 0, 1], [10, 0, 1, 1]), &mut pool, &mut out);
    node.handle(0, 1, arp(second, [10, 0, 0, 2], [10, 0, 1, 1]), &mut pool, &mut out);
    let mut sent = |port| node.transmit(0, port, &mut pool).map(|f| f.bytes()[..6].to_vec());
    assert_eq!(sent(1), Some(second.0.to_vec()));
    assert_eq!(sent(1), None);
    assert_eq!(sent(0), Some(first.0.to_vec()));
    assert_eq!(sent(0), None);
}

#[test]
fn a_slow_link_loses_nothing_and_a_dead_one_holds_up_nobody() {
    let (first, second) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
    let config = NicConfig::new(Mac([2, 0, 0, 0, 1, 1]), [10, 0, 1, 1].into());
    let (_handle, queue) = nic_queue(|| ());
    let mut node = NicNode::between(Nic::new(config), queue, vec![first, second]);
    let (mut pool, mut out) = (FramePool::with_frames(8), Vec::new());
    // More than wait for a link, asked for in two parts, since the NIC keeps only so many answers. The second link has time first.
    let half = WAITING / 2 + 10;
    let mut ask = |node: &mut NicNode, now, pool: &mut FramePool| {
        for _ in 0..2 {
            for _ in 0..half {
                node.handle(now, 0, arp(first, [10, 0, 0, 1], [10, 0, 1, 1]), pool, &mut out);
            }
            assert!(node.transmit(now, 1, pool).is_none());
        }
        node.handle(now, 1, arp(second, [10, 0, 0, 2], [10, 0, 1, 1]), pool, &mut out);
    };
    let took = |node: &mut NicNode, now, port, pool: &mut FramePool| {
        std::iter::from_fn(|| node.transmit(now, port, pool)).count()
    };
    ask(&mut node, 0, &mut pool);
    assert_eq!(took(&mut node, 1, 0, &mut pool), 2 * half);
    assert_eq!(took(&mut node, 1, 1, &mut pool), 1);
    ask(&mut node, 2, &mut pool);
    assert_eq!(took(&mut node, 3, 1, &mut pool), 0);
    assert_eq!(took(&mut node, 3 + 2 * DEAD_NS, 1, &mut pool), 1);
}
