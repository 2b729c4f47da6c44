// Which QP a RoCE packet is for, and what the packet means there.
//
//   (port, source address, QPN) -> qps     -> role, ring, worker
//   (role, opcode, syndrome)    -> meaning -> event
//
// What fits no entry (wrong port, wrong source, unknown QP, an opcode that nobody asked for) is counted and dropped.
control Connection(inout headers_t hdr, inout meta_t m) {
    action qp(role_t role, bit<16> ring, bit<16> worker, bit<16> qp_index, bit<8> swap) {
        m.role = role;
        m.producer = ring;
        m.sender = ring;
        m.worker = worker;
        m.received_qp = qp_index;
        m.poll_qp = qp_index;
        m.swap = swap;
    }
    action unknown() { m.role = 0; }
    table qps {
        key = {
            hdr.bth.dest_qp : exact;
            hdr.ipv4.src    : exact;
            m.port          : exact;
        }
        actions = { qp; unknown; }
        const default_action = unknown();
        size = ZSR_MAX_QPS;
    }

    action means(event_t event) { m.event = event; }
    action nothing() {
        m.event = EV_NONE;
        m.drop_reason = DROP_UNKNOWN_QP;
    }
    table meaning {
        key = {
            m.role        : ternary;
            hdr.bth.opcode: exact;
            m.syndrome    : ternary;
        }
        actions = { means; nothing; }
        const default_action = nothing();
        const entries = {
            (ROLE_PRODUCER_DATA, OP_READ_MIDDLE, _) : means(EV_DATA);
            (ROLE_PRODUCER_DATA, OP_READ_FIRST,  _) : means(EV_DATA);
            (ROLE_PRODUCER_DATA, OP_READ_LAST,   _) : means(EV_DATA);
            (ROLE_PRODUCER_DATA, OP_READ_ONLY,   _) : means(EV_DATA);
            (ROLE_PRODUCER_POLL, OP_READ_ONLY,   _) : means(EV_PRODUCER_WORD);
            (ROLE_CONSUMER_POLL, OP_READ_ONLY,   _) : means(EV_CONSUMER_WORD);
            // Syndrome: 0 0 0 credits is an ACK, 0 1 1 code a NAK, of which code 0 is a PSN sequence error.
            (ROLE_PRODUCER_DATA, OP_ACK, 0x00 &&& 0x60) : means(EV_TAIL_ACKED);
            (ROLE_CONSUMER_DATA, OP_ACK, 0x00 &&& 0x60) : means(EV_COMMITTED);
            (ROLE_CONSUMER_DATA, OP_ACK, 0x60 &&& 0x7f) : means(EV_GAP);
            (_,                  OP_ACK, 0x60 &&& 0x7f) : nothing();
            (_,                  OP_ACK, 0x60 &&& 0x60) : means(EV_REFUSED);
        }
    }

    apply {
        m.psn = hdr.bth.ack_psn & PSN_MASK;
        m.syndrome = hdr.aeth.syndrome_msn[31:24];
        qps.apply();
        meaning.apply();
    }
}
