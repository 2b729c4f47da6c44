// Ingress in one page: whose packet is this, what does it mean, what leaves?
//
//   internal packet ----------------------------\
//   RoCE for us -> Connection -> ICRC check -> control word -> Transfer -> Route
//   ARP for us  -> ArpReply
//   the rest    -> Forward
control ZsrIngress(inout headers_t hdr, inout meta_t m) {
    ArpReply() arp_reply;
    OwnAddress() own_address;
    Connection() connection;
    IcrcCheck() icrc_check;
    Transfer() transfer;
    Route() route;
    Forward() forward;

    // What an earlier pass left for this one.
    action resume() {
        m.event = hdr.internal.event;
        m.hops = hdr.internal.hops;
        m.worker = hdr.internal.worker;
        m.producer = hdr.internal.producer;
        m.frags = hdr.internal.frags;
        m.length = hdr.internal.length;
        m.seen_tail = hdr.internal.producer_tail;
        m.seen_head = hdr.internal.head;
        m.word = hdr.internal.word;
        m.word_flags = hdr.internal.word_flags;
    }
    action word_big() {
        m.word = hdr.word.counter;
        m.word_flags = hdr.word.flags;
    }
    action word_little() {
        m.word = hdr.word.counter[7:0] ++ hdr.word.counter[15:8] ++ hdr.word.counter[23:16] ++ hdr.word.counter[31:24];
        m.word_flags = hdr.word.flags[7:0] ++ hdr.word.flags[15:8] ++ hdr.word.flags[23:16] ++ hdr.word.flags[31:24];
    }
    action reject(bit<8> reason) {
        m.event = EV_NONE;
        m.drop_reason = reason;
    }
    action fan_out() {
        m.event = EV_NONE;
        m.b.kind = OUT_FANOUT;
    }

    apply {
        if (m.malformed == 1) {
            reject(DROP_MALFORMED);
        } else if (hdr.internal.isValid()) {
            if (m.trusted == 0) { reject(DROP_FORGED); }
            else if (hdr.internal.event == EV_FANOUT) { fan_out(); }
            else { resume(); }
        } else if (hdr.bth.isValid()) {
            own_address.apply(hdr, m);
            if (m.own == 1) {
                connection.apply(hdr, m);
                if (m.event > EV_DATA) {
                    icrc_check.apply(hdr, m);
                    if (m.icrc_ok == 0) { reject(DROP_BAD_ICRC); }
                    else if (hdr.word.isValid()) {
                        if (m.swap == 1) { word_little(); }
                        else { word_big(); }
                    } else if (m.event == EV_PRODUCER_WORD || m.event == EV_CONSUMER_WORD) {
                        reject(DROP_MALFORMED);
                    }
                }
            } else {
                forward.apply(hdr, m);
            }
        } else {
            if (hdr.arp.isValid()) { arp_reply.apply(hdr, m); }
            if (m.b.kind == OUT_DROP) { forward.apply(hdr, m); }
        }

        if (m.event != EV_NONE) {
            transfer.apply(m);
            if (m.b.kind > OUT_FORWARD && m.b.kind < OUT_AGAIN) { route.apply(m); }
        }
    }
}
