// Which QP a RoCE packet is for, and what the packet means there.
//
//   (port, source address, QPN)       -> qps     -> role, ring, worker
//   (role, opcode, syndrome, ICRC ok) -> meaning -> event, and what it does to the worker's registers
//
// What fits no entry (wrong port, wrong source, another VLAN, unknown QP, an opcode that nobody asked for, a damaged
// packet) is counted and dropped.
control Connection(inout headers_t hdr, inout meta_t m) {
    IcrcCheck() icrc_check;
    LittleWord() little_word;
    BigWord() big_word;

    action qp(role_t role, bit<16> ring, bit<16> worker, bit<16> qp_index, flag_t swap, bit<32> member_bit) {
        m.role = role;
        m.b.producer = ring;
        m.b.worker = worker;
        m.received_qp = qp_index;
        m.b.qp = qp_index;
        m.swap = swap;
        m.member_bit = member_bit;
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

    // A fragment: whose is it, where does it go?
    action data() {
        m.event = EV_DATA;
        m.do_owner = DO_GET;
    }
    // A poll's answer: is it the outstanding poll's? Then the next pass notes the word.
    action producer_word() {
        m.event = EV_PRODUCER_WORD;
        m.do_asker = DO_GET;
        m.do_poll_psn = DO_MATCH;
    }
    action consumer_word() {
        m.event = EV_CONSUMER_WORD;
        m.do_poll_psn = DO_MATCH;
    }
    // A consumer has the items. Are we waiting for others? Or it says how many of them it has, having been asked.
    action committed() { m.event = EV_COMMITTED; }
    // The producer knows its tail.
    action tail_acked() {
        m.event = EV_TAIL_ACKED;
        m.do_owner = DO_GET;
    }
    // It lacks a fragment, but it is there. That the producer sends fragments says nothing of who is to take them.
    action gap() { m.event = EV_GAP; }
    // Its NIC says that it gets more than the way to it carries: so shall who sends it.
    action congested() {
        m.event = EV_CONGESTED;
        m.do_phase = DO_GET;
    }
    // A sequencer's client wants tickets.
    action ticket() { m.event = EV_TICKET; }
    action producer_refused() {
        m.event = EV_REFUSED;
        m.do_owner = DO_GET;
        m.do_phase = DO_SET;
        m.phase_to = PHASE_FAULT;
    }
    action poll_refused() {
        m.event = EV_REFUSED;
        m.do_asker = DO_GET;
        m.do_phase = DO_SET;
        m.phase_to = PHASE_FAULT;
    }
    action refused() {
        m.event = EV_REFUSED;
        m.do_phase = DO_SET;
        m.phase_to = PHASE_FAULT;
    }
    action nothing() {
        m.event = EV_NONE;
        m.drop_reason = DROP_UNKNOWN_QP;
    }
    table meaning {
        key = {
            m.role        : ternary;
            hdr.bth.opcode: exact;
            m.aeth        : ternary;
            m.icrc        : ternary;
            m.foreign     : exact;
            m.spoofed     : exact;
        }
        actions = {
            data; producer_word; consumer_word; committed; tail_acked; gap; congested; ticket; producer_refused;
            poll_refused; refused; nothing;
        }
        const default_action = nothing();
        const entries = {
            // role, opcode, AETH (syndrome in its upper byte), ICRC, on another VLAN, from another source
            (ROLE_PRODUCER_DATA, OP_READ_MIDDLE, _, _, 0, 0) : data();
            (ROLE_PRODUCER_DATA, OP_READ_FIRST,  _, _, 0, 0) : data();
            (ROLE_PRODUCER_DATA, OP_READ_LAST,   _, _, 0, 0) : data();
            (ROLE_PRODUCER_DATA, OP_READ_ONLY,   _, _, 0, 0) : data();
            (ROLE_PRODUCER_POLL, OP_READ_ONLY,   _, ICRC_RIGHT, 0, 0) : producer_word();
            (ROLE_CONSUMER_POLL, OP_READ_ONLY,   _, ICRC_RIGHT, 0, 0) : consumer_word();
            // Syndrome: 0 0 0 credits is an ACK, 0 1 1 code a NAK, of which code 0 is a PSN sequence error.
            (ROLE_PRODUCER_DATA, OP_ACK, 0x00000000 &&& 0x60000000, ICRC_RIGHT, 0, 0) : tail_acked();
            (ROLE_CONSUMER_DATA, OP_ACK, 0x00000000 &&& 0x60000000, ICRC_RIGHT, 0, 0) : committed();
            (ROLE_CONSUMER_DATA, OP_ACK, 0x60000000 &&& 0x7f000000, ICRC_RIGHT, 0, 0) : gap();
#ifdef ZSR_SEQUENCER
            (ROLE_TICKETS, OP_FETCH_ADD, _, ICRC_RIGHT, 0, 0) : ticket();
#endif
            // Nothing in it is believed but that it came.
            (ROLE_CONSUMER_DATA, OP_CNP, _, _, 0, 0) : congested();
            (_,                  OP_ACK, 0x60000000 &&& 0x7f000000, _, 0, 0) : nothing();
            (ROLE_PRODUCER_DATA, OP_ACK, 0x60000000 &&& 0x60000000, ICRC_RIGHT, 0, 0) : producer_refused();
            (ROLE_PRODUCER_POLL, OP_ACK, 0x60000000 &&& 0x60000000, ICRC_RIGHT, 0, 0) : poll_refused();
            (ROLE_CONSUMER_DATA, OP_ACK, 0x60000000 &&& 0x60000000, ICRC_RIGHT, 0, 0) : refused();
            (ROLE_CONSUMER_POLL, OP_ACK, 0x60000000 &&& 0x60000000, ICRC_RIGHT, 0, 0) : refused();
        }
    }

    action damaged()   { m.drop_reason = DROP_BAD_ICRC; }
    action malformed() { m.drop_reason = DROP_MALFORMED; }

    apply {
        m.b.psn = hdr.bth.ack_psn << 8;
        m.aeth = hdr.aeth.syndrome_msn;
        qps.apply();
        if (hdr.icrc.isValid()) { icrc_check.apply(hdr, m); }
        if (m.own == 1) {
            meaning.apply();
            if (m.event == EV_NONE) {
                if (m.role != 0) {
                    if (hdr.icrc.isValid()) {
                        if (m.icrc != ICRC_RIGHT) { damaged(); }
                    } else if (hdr.bth.opcode == OP_READ_ONLY) { malformed(); }
                }
            } else if (hdr.word.isValid()) {
                if (m.swap == 1) { little_word.apply(hdr.word.counter, hdr.word.flags, m.b.word); }
                else { big_word.apply(hdr.word.counter, hdr.word.flags, m.b.word); }
            }
        }
    }
}

// A PU's datagram that its producer ring has items: known by ring secret, source and port. What it says is believed,
// so it has a check of its own.
control Doorbell(inout headers_t hdr, inout meta_t m) {
    BellCheck() bell_check;
    BigWord() big_word;

    action bell(bit<16> producer, bit<16> worker) {
        m.event = EV_VISIT;
        m.b.producer = producer;
        m.b.worker = worker;
        VISIT
    }
    action unknown() { m.event = EV_NONE; }
    table doorbells {
        key = {
            hdr.doorbell.secret : exact;
            hdr.ipv4.src        : exact;
            m.port              : exact;
            m.foreign           : exact;
            m.spoofed           : exact;
        }
        actions = { bell; unknown; }
        const default_action = unknown();
        size = ZSR_MAX_PRODUCERS;
    }
    action refused() { m.drop_reason = DROP_UNKNOWN_QP; }
    action damaged() {
        m.event = EV_NONE;
        m.drop_reason = DROP_BAD_ICRC;
    }
    apply {
        bell_check.apply(hdr, m);
        doorbells.apply();
        big_word.apply(hdr.doorbell.counter, hdr.doorbell.flags, m.b.word);
        if (m.own == 0) { unknown(); }
        else if (m.event == EV_NONE) { refused(); }
        else if (m.icrc != ICRC_RIGHT) { damaged(); }
    }
}
