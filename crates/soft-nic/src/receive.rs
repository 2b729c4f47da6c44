//! SENDs at the responder: messages that go where the program has posted a receive (IBTA vol. 1, 9.7.4).

use zsr_wire::aeth::NakCode;
use zsr_wire::roce::Packet;
use zsr_wire::{Opcode, Qpn};

use crate::config::{Access, Mtu};
use crate::responder::{Env, Fatal, Responder, Under};
use crate::work::{Completion, CompletionKind, Receive, Status};

impl Responder {
    /// Takes one packet of a SEND, which is the one that is expected.
    #[inline(never)]
    pub(crate) fn send(
        &mut self,
        env: &mut Env<'_>,
        qpn: Qpn,
        mtu: Mtu,
        packet: &Packet<&[u8]>,
    ) -> Result<(), Fatal> {
        let (psn, payload, opcode) = (packet.psn(), packet.payload(), packet.opcode());
        let begins = matches!(opcode, Opcode::SendFirst | Opcode::SendOnly | Opcode::SendOnlyImm);
        let at = match (begins, self.under) {
            (true, None) => 0,
            (false, Some(Under::Send { at })) => at,
            _ => return self.fatal(env, psn, NakCode::InvalidRequest),
        };
        let (len, more) = (payload.len() as u32, opcode.more_follows());
        let length_fits = if more { len == mtu.bytes() } else { len <= mtu.bytes() && (begins || len > 0) };
        if !length_fits {
            return self.fatal(env, psn, NakCode::InvalidRequest);
        }
        let Some(receive) = self.recvs().front().copied() else {
            self.not_ready(env, psn);
            return Ok(());
        };
        if receive.room() - at < len {
            self.received(env, qpn, None, at + len, Status::LocalLength);
            return self.fatal(env, psn, NakCode::InvalidRequest);
        }
        if !store(env, &receive, at, payload) {
            self.received(env, qpn, None, at + len, Status::LocalProtection);
            return self.fatal(env, psn, NakCode::RemoteOperational);
        }
        env.stats.send_packets += 1;
        self.went_on(psn.next());
        if more {
            self.under = Some(Under::Send { at: at + len });
        } else {
            self.under = None;
            self.advance_msn();
            self.received(env, qpn, packet.immediate(), at + len, Status::Success);
        }
        if packet.ack_req() {
            self.push_ack(env);
        }
        Ok(())
    }

    /// The oldest receive is used up.
    pub(crate) fn received(
        &mut self,
        env: &mut Env<'_>,
        qpn: Qpn,
        immediate: Option<u32>,
        len: u32,
        status: Status,
    ) {
        if let Some(Receive { wr_id, .. }) = self.recvs().pop_front() {
            let kind = CompletionKind::Receive { immediate };
            env.completions.push(Completion { qpn, wr_id, kind, status, len });
        }
    }
}

/// Stores bytes of a message that begin `at` bytes into the receive's memory. `false` if its key or rights do not fit any more.
pub(crate) fn store(env: &Env<'_>, receive: &Receive, at: u32, bytes: &[u8]) -> bool {
    match receive.local {
        _ if bytes.is_empty() => true,
        Some(local) => {
            let address = local.address.wrapping_add(at.into());
            env.mrs.store(local.lkey, address, bytes, Access::LOCAL_WRITE).is_ok()
        }
        None => false,
    }
}
