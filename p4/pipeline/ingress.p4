// Ingress in one page: whose packet is this, what does it mean, what leaves?
//
//   internal packet ---------------------------------> Passes --\
//   RoCE for us -> Connection (QP, control word, ICRC, meaning) -> Transfer -> Route
//   doorbell    -> Doorbell -------------------------> Passes --/
//   ARP for us  -> ArpReply
//   the rest    -> Forward
control ZsrIngress(inout headers_t hdr, inout meta_t m) {
    ArpReply() arp_reply;
    OwnAddress() own_address;
    Connection() connection;
    Doorbell() doorbell;
    TickGroup() tick_group;
    Passes() passes;
    Transfer() transfer;
    Route() route;
    Forward() forward;

    // What an earlier pass left for this one.
    action resume() {
        m.event = hdr.internal.event;
        m.phase_to = hdr.internal.phase;
        m.worker = hdr.internal.worker;
        m.producer = hdr.internal.producer;
        m.poll_qp = hdr.internal.qp;
        m.flow = hdr.internal.flow;
        m.next = hdr.internal.next;
        m.hops = hdr.internal.hops;
        m.frags = hdr.internal.frags;
        m.length = hdr.internal.length;
        m.seen_tail = hdr.internal.producer_tail;
        m.seen_head = hdr.internal.head;
        m.word = hdr.internal.word;
        m.time = hdr.internal.time;
        m.psn = hdr.internal.psn;
    }
    action reject(bit<8> reason) {
        m.event = EV_NONE;
        m.drop_reason = reason;
    }
    action fan_out(event_t event, bit<16> group) {
        m.event = EV_NONE;
        m.b.kind = OUT_FANOUT;
        m.b.event = event;
        m.b.worker = hdr.internal.worker;
        m.b.group = group;
        m.out_group = group;
    }

    apply {
        if (m.malformed == 1) {
            reject(DROP_MALFORMED);
        } else if (hdr.internal.isValid()) {
            if (m.trusted == 0) { reject(DROP_FORGED); }
            else if (hdr.internal.event == EV_FANOUT) {
                tick_group.apply(hdr.internal.next, m.group);
                if (m.group != 0) { fan_out(EV_TICK, m.group); }
            }
            else if (hdr.internal.event == EV_ASK) { fan_out(EV_POLL_CONSUMER, hdr.internal.next); }
            else { resume(); }
        } else {
            if (hdr.ipv4.isValid()) { own_address.apply(hdr, m); }
            if (hdr.bth.isValid()) { connection.apply(hdr, m); }
            else if (hdr.doorbell.isValid()) { doorbell.apply(hdr, m); }
            else if (hdr.arp.isValid()) { arp_reply.apply(hdr, m); }
            if (m.own == 0 && m.event == EV_NONE && m.b.kind == OUT_DROP) { forward.apply(hdr, m); }
        }

        if (m.event != EV_NONE) {
            if (m.role == 0) { passes.apply(m); }
            transfer.apply(m);
            if (m.sends == 1 && m.b.group == 0) { route.apply(m); }
        }
    }
}
