// Internal packets on the wire (`internal_t`): the bridge, written down. Another architecture brings controls of the
// same names.

// What an earlier pass left for this one.
control Resume(inout headers_t hdr, inout meta_t m) {
    apply {
        m.event = hdr.internal.event;
        m.b.worker = hdr.internal.worker;
        m.b.producer = hdr.internal.producer;
        m.b.qp = hdr.internal.qp;
        m.b.flow = hdr.internal.flow;
        m.b.next = hdr.internal.next;
        m.b.hops = hdr.internal.hops;
        m.b.frags = hdr.internal.frags;
        m.b.length = hdr.internal.length;
        m.b.producer_tail = hdr.internal.producer_tail;
        m.b.head = hdr.internal.head;
        m.b.word = hdr.internal.word;
        m.b.time = hdr.internal.time;
        m.b.psn = hdr.internal.psn;
    }
}

// A packet for the next pass.
control Internal(inout headers_t hdr, inout meta_t m) {
    apply {
        hdr.vlan.setInvalid();
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
}
