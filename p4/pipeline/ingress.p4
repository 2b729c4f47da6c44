// Ingress in one page: whose packet is this, what does it mean, what leaves?
//
//   internal packet ---------------------------------> Passes --\
//   RoCE for us -> Connection (QP, control word, ICRC, meaning) -> Transfer -> Route
//   doorbell    -> Doorbell -----------------------------------/
//   ARP for us  -> ArpReply
//   the rest    -> Forward
control ZsrIngress(inout headers_t hdr, inout meta_t m) {
    ArpReply() arp_reply;
    OwnAddress() own_address;
    Connection() connection;
    Doorbell() doorbell;
    Resume() resume;
    TickGroup() tick_group;
    Passes() passes;
    Transfer() transfer;
    Route() route;
    Forward() forward;

    action reject(bit<8> reason) {
        m.event = EV_NONE;
        m.drop_reason = reason;
    }
    action fan_out(event_t event, bit<16> group) {
        m.b.kind = OUT_FANOUT;
        m.b.event = event;
        m.b.group = group;
        m.out_group = group;
    }

    apply {
        if (m.malformed == 1) {
            reject(DROP_MALFORMED);
        } else if (m.internal == 1) {
            if (m.trusted == 0) { reject(DROP_FORGED); }
            else {
                resume.apply(hdr, m);
                passes.apply(m);
            }
        } else {
            if (hdr.ipv4.isValid()) { own_address.apply(hdr, m); }
            if (hdr.bth.isValid()) { connection.apply(hdr, m); }
            else if (hdr.doorbell.isValid()) { doorbell.apply(hdr, m); }
            else if (hdr.arp.isValid()) { arp_reply.apply(hdr, m); }
            if (m.own == 0 && m.event == EV_NONE && m.b.kind == OUT_DROP) { forward.apply(hdr, m); }
        }

        if (m.event == EV_FANOUT) {
            tick_group.apply(m.b.next, m.group);
            if (m.group != 0) { fan_out(EV_TICK, m.group); }
        } else if (m.event == EV_ASK) {
            fan_out(EV_POLL_CONSUMER, m.b.next);
        } else if (m.event != EV_NONE) {
            transfer.apply(m);
            if (m.sends == 1 && m.b.group == 0) { route.apply(m); }
        }
    }
}
