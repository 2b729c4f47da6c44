//! The ring, and so the flow, that a queue pair belongs to.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use zsr_api::controller as proto;

/// A ring of a flow, as its packets refer to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingName {
    /// The flow's name.
    pub flow: String,
    /// The ring's name.
    pub name: String,
    /// Whether the switch reads items from the ring.
    pub is_producer: bool,
    /// Bytes of items in the ring.
    pub size: u32,
    /// Bytes of payload in a packet.
    pub mtu: u32,
    /// Number of the ring's data queue pair at the switch, which no other ring has at the same time.
    pub data_qpn: u32,
    /// Rings that the items of a producer ring go to, joined by `+`; empty where the switch chooses one.
    pub consumers: String,
}

/// The purpose of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pair {
    /// READs of control words.
    Poll,
    /// Items, tails and commit records.
    Data,
}

/// All queue pairs at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Queue pairs by the host's address, and the number at its NIC.
    to_host: HashMap<(Ipv4Addr, u32), (Arc<RingName>, Pair)>,
    /// Queue pairs by the host's address, and the number at the switch.
    to_switch: HashMap<(Ipv4Addr, u32), (Arc<RingName>, Pair)>,
    /// Producer rings by their number at the switch.
    producers: HashMap<u32, Arc<RingName>>,
}

impl Names {
    /// The names in the controller's list of flows.
    pub fn new(flows: &[proto::Flow], hosts: &[proto::Host]) -> Names {
        let address = |host: &str| hosts.iter().find(|h| h.name == host)?.ip.parse().ok();
        let mut names = Names::default();
        for flow in flows {
            let consumers: Vec<&str> =
                flow.consumers.iter().map(|m| m.rings.first().map_or("", |r| r.name.as_str())).collect();
            for member in flow.producers.iter().chain(&flow.consumers) {
                for (i, ring) in member.rings.iter().enumerate() {
                    let Some(ip) = address(&ring.host) else { continue };
                    let is_producer = ring.role() == proto::Role::Producer;
                    let consumers = match flow.kind() {
                        _ if !is_producer => String::new(),
                        proto::FlowKind::Shuffle => consumers.get(i).map_or(String::new(), |c| (*c).into()),
                        proto::FlowKind::Replicate => consumers.join("+"),
                        _ if consumers.len() == 1 => consumers[0].into(),
                        _ => String::new(),
                    };
                    names.add(ip, ring, is_producer, flow, consumers);
                }
            }
        }
        names
    }

    fn add(
        &mut self,
        ip: Ipv4Addr,
        ring: &proto::Ring,
        is_producer: bool,
        flow: &proto::Flow,
        consumers: String,
    ) {
        let name = Arc::new(RingName {
            flow: flow.name.clone(),
            name: ring.name.clone(),
            is_producer,
            size: ring.size,
            mtu: flow.mtu.max(1),
            data_qpn: ring.data_qpn,
            consumers,
        });
        let pairs =
            [(ring.data_qpn, ring.nic_data_qpn, Pair::Data), (ring.poll_qpn, ring.nic_poll_qpn, Pair::Poll)];
        for (switch, nic, pair) in pairs {
            self.to_switch.insert((ip, switch), (name.clone(), pair));
            self.to_host.insert((ip, nic), (name.clone(), pair));
        }
        if is_producer {
            self.producers.insert(ring.number, name);
        }
    }

    pub(super) fn to_host(&self, ip: Ipv4Addr, qpn: u32) -> Option<&(Arc<RingName>, Pair)> {
        self.to_host.get(&(ip, qpn))
    }

    pub(super) fn to_switch(&self, ip: Ipv4Addr, qpn: u32) -> Option<&(Arc<RingName>, Pair)> {
        self.to_switch.get(&(ip, qpn))
    }

    pub(super) fn producer(&self, number: u32) -> Option<&Arc<RingName>> {
        self.producers.get(&number)
    }
}
