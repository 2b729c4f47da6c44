//! Why a packet differs: whether bmv2 alone is to blame, which is proved by running it again.

use p4runtime_proto::p4::config::v1::P4Info;
use zsr_bmv2::PortPacket;

use crate::compare::by_port;
use crate::corpus::{Plan, start};
use crate::script::Step;

/// How often the switches are run again.
const RUNS: usize = 3;

/// Why bmv2 (first in `last`) and we made different things of the last packet of `script`:
///
/// - "race": the same packets left each port in another order, and bmv2 changes its order from run to run.
/// - "remains": what left differs in more than its order, and two fresh switches that see this packet alone agree each time.
/// - "packet": neither, so the difference has no excuse.
pub async fn of(
    plan: &Plan<'_>,
    info: &P4Info,
    json: &str,
    script: &[Step],
    last: &[Vec<PortPacket>; 2],
) -> Result<&'static str, String> {
    let [theirs, ours] = last;
    let order = order_alone(theirs, ours);
    for _ in 0..RUNS {
        let mut pair = match start(plan, info, json).await? {
            Ok(pair) => pair,
            Err(_) => return Ok("packet"),
        };
        let Some((packet, before)) = script.split_last() else { return Ok("packet") };
        for step in before.iter().filter(|s| order || !matches!(s, Step::Packet { .. })) {
            let stepped = pair.step(step).await;
            if !order && stepped.is_err() {
                return Ok("packet");
            }
        }
        let same = match pair.step(packet).await {
            Err(other) if other.kind != "packet" => return Ok("packet"),
            result => result.is_ok(),
        };
        if order && by_port(&pair.last[0]) != by_port(theirs) {
            return Ok("race");
        }
        if !order && !same {
            return Ok("packet");
        }
    }
    Ok(if order { "packet" } else { "remains" })
}

/// Whether both have the same packets at each port, in another order.
fn order_alone(a: &[PortPacket], b: &[PortPacket]) -> bool {
    let sorted = |packets: &[PortPacket]| {
        let mut packets = packets.to_vec();
        packets.sort();
        packets
    };
    by_port(a) != by_port(b) && sorted(a) == sorted(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_that_overtake_each_other_differ_in_order_alone() {
        let packet = |port: u16, byte: u8| -> PortPacket { (port, vec![byte]) };
        let (a, b, c) = (packet(1, 1), packet(1, 2), packet(2, 1));
        assert!(order_alone(&[a.clone(), b.clone(), c.clone()], &[c.clone(), b.clone(), a.clone()]));
        let elsewhere = [c.clone(), a.clone(), b.clone()];
        assert!(!order_alone(&[a.clone(), b.clone(), c.clone()], &elsewhere), "ports have no order");
        assert!(!order_alone(&[a.clone(), b.clone()], std::slice::from_ref(&b)), "a packet is missing");
        assert!(!order_alone(&[a.clone(), a.clone()], &[a.clone(), b]), "another packet");
        assert!(!order_alone(&[a], &[c]), "another port");
    }
}
