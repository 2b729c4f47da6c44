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
        m.word_flags = hdr.internal.word_flags;
        m.psn = hdr.internal.psn;
    }
    action reject(bit<8> reason) {
        m.event = EV_NONE;
        m.drop_reason = reason;
    }
    // A timer packet's number says whose ticks it makes: most are for the workers that look often, every eighth is for one of
    // many groups in turn, whose workers look once in 2^8, 2^12 or 2^16 timer packets.
    action fan_out(bit<16> group) {
        m.event = EV_NONE;
        m.b.kind = OUT_FANOUT;
        m.b.event = EV_TICK;
        m.b.group = group;
        m.out_group = group;
    }
    action no_tick() { m.event = EV_NONE; }

    apply {
        if (m.malformed == 1) {
            reject(DROP_MALFORMED);
        } else if (hdr.internal.isValid()) {
            if (m.trusted == 0) { reject(DROP_FORGED); }
            else if (hdr.internal.event == EV_FANOUT) {
                if (hdr.internal.next[2:0] != 7) { fan_out(TICKS_OFTEN); }
                else if (hdr.internal.next[4:3] == 0) { fan_out(TICKS_8 ++ hdr.internal.next[7:5]); }
                else if (hdr.internal.next[4:3] == 1) { fan_out(TICKS_12 ++ hdr.internal.next[11:5]); }
                else if (hdr.internal.next[4:3] == 2) { fan_out(TICKS_16 ++ hdr.internal.next[15:5]); }
                else { no_tick(); }
            }
            else {
                resume();
                passes.apply(m);
            }
        } else {
            if (hdr.ipv4.isValid()) { own_address.apply(hdr, m); }
            if (m.own == 1 && hdr.bth.isValid()) {
                connection.apply(hdr, m);
            } else if (m.own == 1 && hdr.doorbell.isValid()) {
                doorbell.apply(hdr, m);
                passes.apply(m);
            } else {
                if (hdr.arp.isValid()) { arp_reply.apply(hdr, m); }
                if (m.b.kind == OUT_DROP) { forward.apply(hdr, m); }
            }
        }

        if (m.event != EV_NONE) {
            transfer.apply(m);
            if (m.b.kind > OUT_FORWARD && m.b.kind < OUT_AGAIN && m.b.group == 0) { route.apply(m); }
        }
    }
}
