//! Fills p4/pipeline/sequencer.p4, and makes a sequencer's clients known to connection.p4 and peer.p4.

use super::{Qp, RingAddress, Station, SwitchAddress, peer};
use crate::p4::names::{self, Internal, action, table};
use crate::p4::{Schema, schema::SchemaError};
use p4runtime_proto::p4::v1::TableEntry;
use zsr_topology::ByteOrder;

/// The address of a sequencer in its clients' requests: an I/O virtual address.
pub const ADDRESS: u64 = 0;

/// A counter in the switch that hands out tickets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequencer {
    /// Number at the switch, from 1: one of the numbers of flows.
    pub number: u16,
    /// The memory key in its clients' requests.
    pub rkey: u32,
}

/// A client of a sequencer: an RC connection of a host's NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TicketClient {
    /// The host's NIC.
    pub station: Station,
    /// The switch's end: `psn` is the PSN of the client's first request.
    pub qp: Qp,
    /// The client's queue pair.
    pub qpn: u32,
}

impl Sequencer {
    /// The packet that makes `first` the next ticket.
    pub fn reset(&self, first: u64) -> Vec<u8> {
        let (head, producer_tail) = (first as u32, (first >> 32) as u32);
        let event = names::EV_TICKET_RESET;
        Internal { event, flow: self.number, head, producer_tail, ..Internal::default() }.frame()
    }

    /// The entries by which `client` gets tickets. The packet of [reset](TicketClient::reset) has to be sent first.
    ///
    /// # Errors
    /// When the switch's program has no sequencers, or does not fit otherwise.
    pub fn entries(
        &self,
        schema: &Schema,
        switch: SwitchAddress,
        client: &TicketClient,
    ) -> Result<[TableEntry; 3], SchemaError> {
        let TicketClient { station, qp, qpn } = *client;
        let connection = schema.entry(
            table::Qps { dest_qp: qp.qpn, src: station.ip(), port: station.port as u16 },
            action::Qp {
                role: names::ROLE_TICKETS,
                ring: 0,
                worker: 0,
                qp_index: qp.index,
                swap: 0,
                // The first answer's MSN is 1. Both lie in the upper 24 bits.
                member_bit: 1u32.wrapping_sub(qp.psn) << 8,
            },
        )?;
        // A ticket is in network byte order, whatever the host's.
        let to = Station { byte_order: ByteOrder::Big, ..station };
        let none = RingAddress { rkey: 0, data_qpn: qpn, poll_qpn: 0, epoch: 0 };
        // No route: an answer goes where its request came from.
        let [peer, _] = peer::entries(schema, switch, (&to, to.port), (qp, false), qpn, none)?;
        let key = table::Sequencers {
            qp: qp.index,
            rkey: self.rkey,
            va_hi: (ADDRESS >> 32) as u32,
            va_lo: ADDRESS as u32,
            add_hi: 0,
        };
        Ok([peer, schema.entry(key, action::Sequencer { number: self.number })?, connection])
    }
}

impl TicketClient {
    /// The packet that makes the switch expect the client's first request next.
    pub fn reset(&self) -> Vec<u8> {
        let event = names::EV_TICKET_RESET;
        Internal { event, qp: self.qp.index, psn: self.qp.psn << 8, ..Internal::default() }.frame()
    }
}
