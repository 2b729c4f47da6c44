// Tickets: numbers that each is given once. A client sends RDMA FETCH_ADD requests to the switch, as it would to a host's memory, and gets
// in an ATOMIC ACKNOWLEDGE what the sequencer was at before. A request's amount is the number of tickets that it takes, from that one on; 0 takes
// none, and tells which is next.
//
// A client has one request outstanding: one that it repeats (same PSN) gets the same ticket again. What is neither its next request nor its
// last one changes nothing.
//
// A program without ZSR_SEQUENCER never calls this.
control Sequencer(inout headers_t hdr, inout meta_t m) {
    TicketPsnState() psn;
    TicketLowState() low;
    TicketHighState() high;
    LastTicketState() last;

    // Which sequencer a client means: by the memory key and address that it was given, as if that were memory.
    action sequencer(bit<16> number) {
        SEQUENCER = number;
        m.do_ticket_psn = DO_MATCH;
        m.amount = hdr.atomic.add_lo;
        m.amount_left = ~hdr.atomic.add_lo;
        TICKET_MSN = m.b.psn + MSN_LESS_PSN;
    }
    action unknown() { m.drop_reason = DROP_UNKNOWN_QP; }
    table sequencers {
        key = {
            m.b.qp            : exact;
            hdr.atomic.rkey   : exact;
            hdr.atomic.va_hi  : exact;
            hdr.atomic.va_lo  : exact;
            hdr.atomic.add_hi : exact;     // 0: nobody takes more than 2^32 - 1 tickets at once, or gives some back
        }
        actions = { sequencer; unknown; }
        const default_action = unknown();
        size = ZSR_MAX_SEQUENCERS;
    }

    action reset() {
        m.do_ticket_psn = DO_RESET;
        m.do_ticket = DO_RESET;
        m.do_last_ticket = DO_RESET;
    }
    action take() {
        m.do_ticket = DO_ADD;
        m.do_last_ticket = DO_SET;
        m.b.kind = OUT_TICKET;
        m.out_port = m.port;
    }
    action again() {
        m.do_last_ticket = DO_GET;
        m.b.kind = OUT_TICKET;
        m.out_port = m.port;
    }
    action stale() {
        m.b.kind = OUT_DROP;
        m.drop_reason = DROP_STALE;
    }

    apply {
        m.next_psn = m.b.psn + ONE_PACKET;
        if (m.event == EV_TICKET) { sequencers.apply(); }
        else { reset(); }

        if (m.do_ticket_psn != DO_NOTHING) { psn.apply(m); }
        if (m.do_ticket_psn == DO_MATCH) {
            m.behind = m.next_psn - m.awaited;
            if (m.behind == ONE_PACKET) { take(); }
            else if (m.behind == 0) { again(); }
            else { stale(); }
        }

        if (m.do_ticket != DO_NOTHING) { low.apply(m); }
        if (m.do_ticket == DO_ADD) {
            m.over_left = TICKET_LOW |-| m.amount_left;
            if (m.over_left != 0) { m.carry = 1; }
        }
        if (m.do_ticket != DO_NOTHING) { high.apply(m); }
        if (m.do_last_ticket != DO_NOTHING) { last.apply(m); }
        if (m.do_last_ticket == DO_GET && TICKET_HIGH == NO_TICKET) { stale(); }
        m.event = EV_NONE;
    }
}
