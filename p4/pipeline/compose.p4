// Packets that the switch makes itself: READ requests, probes, CNPs, tail WRITEs, commit records, tickets. All of the
// packet is new. If not `whole`, no CNPs, tail WRITEs or tickets.
control Compose(inout headers_t hdr, inout meta_t m)(bool whole) {
    Swap() swap_counter;
    Swap() swap_head;
    Swap() swap_flags;
    Swap() swap_id;
    Swap() swap_tail;
    IcrcOwn(whole) icrc_own;

    action headers() {
        hdr.internal.setInvalid();
        hdr.arp.setInvalid();
        hdr.doorbell.setInvalid();
        hdr.aeth.setInvalid();
#ifdef ZSR_SEQUENCER
        hdr.atomic.setInvalid();
#endif
        hdr.word.setInvalid();
        hdr.commit.setInvalid();
        hdr.ethernet.setValid();
        hdr.ipv4.setValid();
        hdr.udp.setValid();
        hdr.bth.setValid();
        hdr.reth.setValid();
        hdr.icrc.setValid();
        hdr.ethernet.dst = m.peer_dst_mac;
        hdr.ethernet.src = m.peer_src_mac;
        hdr.ipv4.version_ihl = 0x45;
        hdr.ipv4.tos = m.peer_tos;
        hdr.ipv4.ident = 0;
        hdr.ipv4.flags_frag = 0x4000;
        hdr.ipv4.ttl = 64;
        hdr.ipv4.protocol = IPPROTO_UDP;
        hdr.ipv4.src = m.peer_src_ip;
        hdr.ipv4.dst = m.peer_dst_ip;
        hdr.udp.src_port = UDP_SPORT_SELF;
        hdr.udp.dst_port = UDP_PORT_ROCE;
        hdr.udp.checksum = 0;
        hdr.bth.flags = 0x40;
        hdr.bth.pkey = 0xffff;
        hdr.bth.resv8a = 0;
        hdr.bth.dest_qp = m.peer_qpn;
        hdr.bth.ack_psn = m.b.psn >> 8;
        hdr.reth.va_hi = 0;
        hdr.reth.rkey = m.peer_rkey;
    }
    action lengths(bit<16> length) {
        m.egress_length = length;
        hdr.ipv4.total_len = length;
        hdr.udp.length = length - 20;
    }
    action read() {
        hdr.bth.opcode = OP_READ_REQUEST;
        hdr.reth.va_lo = m.b.address;
        hdr.reth.length = m.b.length;
        lengths(LEN_READ);
    }
    action probe() {
        hdr.bth.opcode = OP_WRITE_ONLY;
        hdr.reth.va_lo = 0;
        hdr.reth.length = 0;
        lengths(LEN_READ);
    }
    // Zeros, all of what is a RETH elsewhere.
    action cnp() {
        hdr.vlan.tci[15:13] = PRIORITY_CNP;
        hdr.ipv4.tos = TOS_CNP;
        hdr.bth.opcode = OP_CNP;
        hdr.bth.resv8a = BECN;
        hdr.bth.ack_psn = 0;
        hdr.reth.va_lo = 0;
        hdr.reth.rkey = 0;
        hdr.reth.length = 0;
        lengths(LEN_READ);
    }
    action tail() {
        hdr.bth.opcode = OP_WRITE_ONLY;
        hdr.reth.va_lo = RING_TAIL_WORD;
        hdr.reth.length = 8;
        hdr.word.setValid();
        hdr.word.counter = m.b.producer_tail;
        hdr.word.flags = 0;
        lengths(LEN_TAIL);
    }
    action commit() {
        hdr.bth.opcode = OP_WRITE_ONLY;
        hdr.reth.va_lo = 0;
        hdr.reth.length = 16;
        hdr.commit.setValid();
        hdr.commit.head = m.b.head;
        hdr.commit.flags = m.peer_flags;
        hdr.commit.producer_id = (bit<32>)m.b.producer;
        hdr.commit.producer_tail = m.b.producer_tail;
        lengths(LEN_COMMIT);
    }
#ifdef ZSR_SEQUENCER
    action ticket() {
        hdr.bth.opcode = OP_ATOMIC_ACK;
        hdr.reth.setInvalid();
        hdr.aeth.setValid();
        hdr.aeth.syndrome_msn = TICKET_MSN >> 8;
        hdr.word.setValid();
        hdr.word.counter = TICKET_HIGH;
        hdr.word.flags = TICKET_LOW;
        lengths(LEN_TICKET);
    }
    action positive() { hdr.aeth.syndrome_msn = hdr.aeth.syndrome_msn | ACK_UNLIMITED; }
#endif
    table kinds {
        key = { m.b.kind : exact; }
        actions = {
            read; probe; cnp; tail; commit;
#ifdef ZSR_SEQUENCER
            ticket;
#endif
        }
        const default_action = commit();
        const entries = {
            OUT_READ  : read();
            OUT_PROBE : probe();
            OUT_CNP   : cnp();
            OUT_TAIL  : tail();
#ifdef ZSR_SEQUENCER
            OUT_TICKET : ticket();
#endif
        }
    }
    action closed() { hdr.commit.flags = hdr.commit.flags | FLAG_CLOSED; }
    action ask_for_ack() { hdr.bth.ack_psn = hdr.bth.ack_psn | ACK_REQ; }

    apply {
        headers();
        kinds.apply();
        // Behind `kinds`, beside what else waits for it: in front of it, it would cost a stage.
        if (m.b.kind != OUT_CNP && m.b.kind != OUT_TICKET) { ask_for_ack(); }
        if (whole && hdr.word.isValid()) {
            if (m.peer_swap == 1) { swap_counter.apply(hdr.word.counter); }
        } else if (hdr.commit.isValid()) {
            if (m.b.last == 1) { closed(); }
            if (m.peer_swap == 1) {
                swap_head.apply(hdr.commit.head);
                swap_flags.apply(hdr.commit.flags);
                swap_id.apply(hdr.commit.producer_id);
                swap_tail.apply(hdr.commit.producer_tail);
            }
        }
#ifdef ZSR_SEQUENCER
        if (hdr.aeth.isValid()) { positive(); }
#endif
        icrc_own.apply(hdr, m);
    }
}
