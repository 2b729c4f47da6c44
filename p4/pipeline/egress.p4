// Egress in one page: what the outcome of ingress looks like on the wire. No state here.
control ZsrEgress(inout headers_t hdr, inout meta_t m) {
    Look() look;
    Peer() peer;
    Rewrite() rewrite;
    Compose() compose;

    // An internal packet for the next pass.
    action internal() {
        hdr.arp.setInvalid();
        hdr.ipv4.setInvalid();
        hdr.udp.setInvalid();
        hdr.doorbell.setInvalid();
        hdr.bth.setInvalid();
        hdr.aeth.setInvalid();
        hdr.reth.setInvalid();
        hdr.word.setInvalid();
        hdr.commit.setInvalid();
        hdr.icrc.setInvalid();
        hdr.ethernet.setValid();
        hdr.ethernet.ether_type = ETHERTYPE_INTERNAL;
        hdr.internal.setValid();
        hdr.internal.event = m.b.event;
        hdr.internal.phase = 0;
        hdr.internal.worker = m.b.worker;
        hdr.internal.producer = m.b.producer;
        hdr.internal.qp = m.b.qp;
        hdr.internal.flow = m.b.flow;
        hdr.internal.next = m.b.next;
        hdr.internal.hops = m.b.hops;
        hdr.internal.frags = m.b.frags;
        hdr.internal.length = m.b.length;
        hdr.internal.producer_tail = m.b.producer_tail;
        hdr.internal.head = m.b.head;
        hdr.internal.word = m.b.word;
        hdr.internal.time = m.b.time;
        hdr.internal.psn = m.b.psn;
        hdr.internal.pad = 0;
    }

    apply {
        if (m.b.event == EV_LOOK) { look.apply(m); }
        if (m.b.kind == OUT_AGAIN || m.b.kind == OUT_FANOUT) {
            internal();
        } else if (m.b.kind != OUT_FORWARD && m.b.kind != OUT_DROP) {
            m.sends = 1;
            peer.apply(m);
            if (m.b.kind == OUT_DATA) { rewrite.apply(hdr, m); }
            else { compose.apply(hdr, m); }
        }
    }
}
