//! Frames in: what every frame must pass before a queue pair sees it.

use zsr_wire::roce::Packet;
use zsr_wire::{Frame, FramePool, Layer, Opcode, ParseError, Psn, arp, ethernet, vlan};

use crate::config::{Mtu, NicConfig};
use crate::dcqcn::Dcqcn;
use crate::nic::{ArpReply, Nic, env};
use crate::qp::{Qp, QpState};
use crate::responder::{Env, Fatal, Place};
use crate::stats::DropReason;
use crate::ud;

/// Partition key bits without the membership bit.
const PKEY_BITS: u16 = 0x7fff;
/// Frames behind missing ones that all queue pairs of a NIC keep together.
const MAX_KEPT: usize = 4096;
/// Congestion experienced, in the type of service's low two bits.
const ECN_CE: u8 = 3;

/// A request that can't be carried out, since one before it is missing.
struct Behind {
    slot: u16,
    psn: Psn,
    distance: u32,
}

impl Nic {
    /// Takes one frame off the wire at time `now_ns`; the buffer goes back into `pool`. Whatever is in it, the NIC
    /// goes on: frames that it can't use are counted in [`Nic::stats`] by reason.
    #[inline]
    pub fn handle(&mut self, now_ns: u64, mut frame: Frame, pool: &mut FramePool) {
        self.stats.rx_frames += 1;
        self.stats.rx_bytes += frame.len() as u64;
        // One that says a priority and no VLAN is as one without a tag.
        let tci = vlan::take(&mut frame).unwrap_or(0);
        let taken = match (tci ^ self.config.tci) & vlan::ID {
            0 => self.take(now_ns, frame.bytes_mut(), pool),
            _ => Err(DropReason::Vlan),
        };
        match taken {
            Ok(None) => pool.put(frame),
            Ok(Some(behind)) => self.keep(behind, frame, pool),
            Err(reason) => {
                self.stats.drop(reason);
                pool.put(frame);
            }
        }
    }

    #[inline]
    fn take(
        &mut self,
        now: u64,
        frame: &mut [u8],
        pool: &mut FramePool,
    ) -> Result<Option<Behind>, DropReason> {
        let mut packet = match Packet::new_checked(&mut *frame) {
            Ok(packet) => packet,
            Err(error) => return self.not_roce(error, frame).map(|()| None),
        };
        if packet.dst_mac() != self.config.mac || packet.dst_ip() != self.config.ip {
            return Err(DropReason::WrongAddress);
        }
        if !packet.icrc_ok_in_place() {
            return Err(DropReason::Icrc);
        }
        let packet = packet.as_shared();
        let slot = self.qps.slot(packet.dest_qp()).ok_or(DropReason::UnknownQp)?;
        let qp = self.qps.at_mut(slot).ok_or(DropReason::UnknownQp)?;
        let env = env!(self, now);
        let behind = match deliver(env, qp, &packet, &self.config)? {
            Place::Taken => None,
            Place::Behind { distance } => Some(Behind { slot, psn: packet.psn(), distance }),
        };
        if qp.resp.ahead.is_free() {
            self.kept -= take_kept(env, qp, pool);
        }
        self.sched.update(slot, qp);
        Ok(behind)
    }

    /// Keeps a frame that is behind a missing one, if there is room for it.
    #[cold]
    fn keep(&mut self, behind: Behind, frame: Frame, pool: &mut FramePool) {
        let Some(qp) = self.qps.at_mut(behind.slot) else { return pool.put(frame) };
        let has_room = behind.distance <= self.config.reorder_window.into() && self.kept < MAX_KEPT;
        let resp = &mut qp.resp;
        let spare = if has_room { resp.ahead.keep(resp.expected, behind.psn, frame) } else { Some(frame) };
        match spare {
            None => {
                self.kept += 1;
                self.stats.kept += 1;
            }
            Some(frame) => {
                self.stats.drop(DropReason::OutOfSequence);
                pool.put(frame);
            }
        }
    }

    #[cold]
    fn not_roce(&mut self, error: ParseError, frame: &[u8]) -> Result<(), DropReason> {
        match error {
            ParseError::OtherProtocol { layer: Layer::Ethernet, value, .. }
                if value == u32::from(ethernet::ARP) =>
            {
                self.arp(&frame[ethernet::LEN..])
            }
            ParseError::OtherProtocol { .. } => Err(DropReason::OtherProtocol),
            ParseError::Checksum { .. } => Err(DropReason::Ipv4Checksum),
            ParseError::Truncated { .. } | ParseError::Illegal { .. } => Err(DropReason::Malformed),
        }
    }

    fn arp(&mut self, bytes: &[u8]) -> Result<(), DropReason> {
        let request = arp::Packet::new_checked(bytes)
            .and_then(|p| arp::Repr::parse(&p))
            .map_err(|_| DropReason::Malformed)?;
        if request.operation != arp::Operation::Request || request.target_ip != self.config.ip {
            return Err(DropReason::WrongAddress);
        }
        if self.arp_replies.len() == self.arp_replies.capacity() {
            return Err(DropReason::ArpQueueFull);
        }
        self.arp_replies.push_back(ArpReply { mac: request.sender_mac, ip: request.sender_ip });
        Ok(())
    }
}

#[inline]
fn deliver(
    env: &mut Env<'_>,
    qp: &mut Qp,
    packet: &Packet<&[u8]>,
    config: &NicConfig,
) -> Result<Place, DropReason> {
    if packet.pkey() & PKEY_BITS != PKEY_BITS {
        return Err(DropReason::PKey);
    }
    let (true, Some(conn)) = (qp.receives(), &qp.conn) else {
        return ud::receive(env, qp, packet).map(|()| Place::Taken);
    };
    if packet.src_ip() != conn.peer_ip {
        return Err(DropReason::WrongPeer);
    }
    if packet.tos() & 3 == ECN_CE {
        env.stats.marked_packets += 1;
        if qp.cnp_last.is_none_or(|t| env.now.saturating_sub(t) >= config.cnp_interval_ns) {
            qp.cnp_last = Some(env.now);
            qp.cnp_due = true;
        }
    }
    let (opcode, mtu) = (packet.opcode(), conn.mtu);
    if opcode.is_request() {
        return Ok(request(env, qp, mtu, packet));
    } else if opcode == Opcode::Cnp {
        env.stats.cnps_received += 1;
        if let Some(line) = config.line_rate {
            let cut = qp.rate.get_or_insert_with(|| Dcqcn::new(line, env.now)).notified(env.now);
            env.stats.rate_cuts += u64::from(cut);
        }
    } else if opcode.is_datagram() {
        return Err(DropReason::Service);
    } else if qp.state != QpState::ReadyToSend {
        return Err(DropReason::QpState);
    } else if qp.req.receive(env, qp.qpn, mtu, packet).is_err() {
        qp.broke(env);
    }
    Ok(Place::Taken)
}

#[inline]
fn request(env: &mut Env<'_>, qp: &mut Qp, mtu: Mtu, packet: &Packet<&[u8]>) -> Place {
    qp.resp.receive(env, qp.qpn, mtu, qp.access, packet).unwrap_or_else(|Fatal| {
        qp.broke(env);
        Place::Taken
    })
}

/// Carries out what has waited for the packet that came, or lets go of it if the queue pair broke. Gives the number of frames.
#[cold]
fn take_kept(env: &mut Env<'_>, qp: &mut Qp, pool: &mut FramePool) -> usize {
    let before = qp.resp.ahead.len();
    while let (true, Some(conn)) = (qp.receives(), &qp.conn) {
        let mtu = conn.mtu;
        let Some((psn, frame)) = qp.resp.ahead.next(qp.resp.expected) else { break };
        // Packets that a READ reaches over have been answered by it.
        if psn == qp.resp.expected
            && let Ok(packet) = Packet::new_checked(frame.bytes())
        {
            let _ = request(env, qp, mtu, &packet);
        }
        pool.put(frame);
    }
    if qp.receives() {
        qp.resp.ahead.taken(env.now, qp.resp.expected)
    } else {
        qp.resp.ahead.clear()
    }
    before - qp.resp.ahead.len()
}
