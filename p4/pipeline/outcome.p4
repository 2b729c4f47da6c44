// What leaves the pipeline after a pass. Exactly one packet comes out of each pass, or one per member of a group; the commit
// behind the last fragment is a copy made in egress.
control Outcome(inout meta_t m) {
    action again(event_t event) {
        m.out_port = PORT_AGAIN;
        m.b.kind = OUT_AGAIN;
        m.b.event = event;
        m.b.worker = m.worker;
        m.b.producer = m.producer;
        m.b.qp = m.poll_qp;
        m.b.flow = m.flow;
        m.b.next = m.next;
        m.b.frags = m.frags;
        m.b.length = m.length;
        m.b.producer_tail = m.producer_tail;
        m.b.head = m.head;
        m.b.word = m.word;
    }
    // Egress decides (look.p4).
    action look() {
        again(EV_LOOK);
        m.b.hops = m.hops;
        m.b.time = m.now;
        m.g.phase = m.phase;
        m.g.settings = m.settings;
        m.g.producer_head = m.producer_head;
        m.g.producer_tail = m.producer_tail;
        m.g.consumer_tail = m.consumer_tail;
        m.g.head = m.head;
        m.g.debt = m.debt;
        m.g.refill_at = m.refill_at;
    }
    // The worker's list has become shorter.
    action first_producer() {
        again(EV_NEXT);
        m.b.next = 0;
        m.b.word = 0;
    }
    action gather() {
        again(EV_GATHER);
        m.b.hops = m.hops + 1;
    }
    action keep_turn() {
        again(EV_READ);
        m.b.next = NO_PLACE;
    }
    action close() {
        again(EV_LAST_COMMIT);
        m.b.length = 0;
        m.b.frags = 0;
    }
    action poll(bytes_t address) {
        m.sends = 1;
        m.b.kind = OUT_READ;
        m.b.qp = m.poll_qp;
        m.b.psn = m.poll_psn;
        m.b.address = address;
        m.b.length = 8;
    }
    action data() {
        m.sends = 1;
        m.b.kind = OUT_DATA;
        m.b.qp = m.consumer_data_qp;
        m.b.psn = m.consumer_psn + m.position;
        m.b.length = m.length;
        m.b.producer = m.producer;
        m.b.head = m.head + m.length;
        m.b.producer_tail = m.producer_tail + m.length;
        m.b.group = m.group;
        m.out_group = m.group;
    }
    action commit_only(bit<32> flags) {
        m.sends = 1;
        m.b.kind = OUT_COMMIT;
        m.b.qp = m.consumer_data_qp;
        m.b.psn = m.consumer_psn + m.frags;
        m.b.producer = m.producer;
        m.b.head = m.head + m.length;
        m.b.producer_tail = m.producer_tail + m.length;
        m.b.flags = flags;
        m.b.group = m.group;
        m.out_group = m.group;
    }
    action read() {
        m.sends = 1;
        m.b.kind = OUT_READ;
        m.b.qp = m.producer_data_qp;
        m.b.psn = m.producer_psn + m.from;
        m.b.address = m.b.address + m.from_bytes;
        m.b.length = m.length - m.from_bytes;
    }
    action tail() {
        m.sends = 1;
        m.b.kind = OUT_TAIL;
        m.b.qp = m.producer_data_qp;
        m.b.psn = m.producer_psn;
        m.b.producer_tail = m.producer_tail + m.length;
        m.counts = COUNT_TRANSFER;
    }
    action tail_again() {
        m.sends = 1;
        m.b.kind = OUT_TAIL;
        m.b.qp = m.producer_data_qp;
        m.b.psn = m.producer_psn;
        m.b.producer_tail = m.producer_tail;
    }
    action report_head(bit<8> reason) {
        m.report = reason;
        m.report_code = m.head;
        m.report_psn = m.consumer_psn;
    }
    action report_refused() {
        m.report = REPORT_REFUSED;
        m.report_code = m.aeth;
    }
    action report_bad_count() {
        m.report = REPORT_BAD_COUNT;
        m.report_code = m.length;
    }
    action silent() {
        m.report = REPORT_SILENT;
        m.report_code = m.tries;
    }

    // What ends a pass, by event and what it found: lacking = 0: all members have the commit; frags = 0: the last commit;
    // from_slack = 0: they have all fragments; word = 0 in EV_START: the producer has nothing behind this batch.
    table outcomes {
        key = {
            m.event       : ternary;
            m.phase       : ternary;
            m.lacking     : ternary;
            m.frags       : ternary;
            m.from_slack  : ternary;
            m.locked      : ternary;
            m.over        : ternary;
            m.word        : ternary;
            m.group       : ternary;
            m.gathered    : ternary;
            m.settings    : ternary;
        }
        actions = {
            again; gather; keep_turn; close; poll; commit_only; read; tail; tail_again; report_head; report_refused;
            report_bad_count; NoAction;
        }
        const default_action = NoAction();
        const entries = {
            (EV_START,         _, _, _, _, 1, 0, 0, _, _, _)             : again(EV_READ);
            (EV_START,         _, _, _, _, 1, 0, _, _, _, _)             : keep_turn();
            (EV_START,         _, _, _, _, 1, _, _, _, _, _)             : again(EV_READ);
            (EV_START,         _, _, _, _, _, _, _, _, _, _)             : again(EV_RELEASE);
            (EV_READ,          _, _, _, _, _, _, _, _, _, _)             : read();
            (EV_COMMITTED,     _, 0, 0, _, _, _, _, _, _, _)             : again(EV_CLOSED);
            (EV_COMMITTED,     _, 0, _, _, _, _, _, _, _, _)             : again(EV_DONE);
            (EV_DONE,          _, _, _, _, _, _, _, _, _, _)             : tail();
            (EV_TAIL_ACKED,    _, _, _, _, _, _, _, _, _, 0x04 &&& 0x04) : again(EV_UNLOCK);
            (EV_TAIL_ACKED,    _, _, _, _, _, _, _, _, _, _)             : again(EV_FREE);
            (EV_UNLOCK,        _, _, _, _, _, _, _, _, _, _)             : again(EV_TICK);
            (EV_PRODUCER_WORD, _, _, _, _, _, _, _, _, _, _)             : again(EV_VISIT);
            (EV_CONSUMER_WORD, _, _, _, _, _, _, _, 0, _, _)             : again(EV_ROOM);
            (EV_CONSUMER_WORD, _, _, _, _, _, _, _, _, _, _)             : again(EV_MEMBER);
            (EV_MEMBER,        _, _, _, _, _, _, _, _, _, _)             : again(EV_GATHER);
            (EV_GATHER,        _, _, _, _, _, _, _, _, 1, _)             : again(EV_ROOM);
            (EV_GATHER,        _, _, _, _, _, _, _, _, _, _)             : gather();
            (EV_POLL_PRODUCER, _, _, _, _, _, _, _, _, _, _)             : poll(0);
            (EV_POLL_CONSUMER, _, _, _, _, _, _, _, _, _, _)             : poll(RING_TAIL_WORD);
            (EV_REFILL,        _, _, _, _, _, _, _, _, _, _)             : again(EV_TICK);
            (EV_GAP,           _, _, _, _, _, _, _, _, _, _)             : again(EV_RETRY);
            (EV_RETRY, PHASE_DATA,    0, _, _, _, _, _, _, _, _)         : again(EV_DONE);
            (EV_RETRY, PHASE_DATA,    _, _, 0, _, _, _, _, _, _)         : commit_only(0);
            (EV_RETRY, PHASE_DATA,    _, _, _, _, _, _, _, _, _)         : read();
            (EV_RETRY, PHASE_TAIL,    _, _, _, _, _, _, _, _, _)         : tail_again();
            (EV_RETRY, PHASE_CLOSING, _, _, _, _, _, _, _, _, _)         : commit_only(FLAG_CLOSED);
            (EV_RETRY, PHASE_CLAIMED, _, _, _, _, _, _, _, _, _)         : again(EV_RELEASE);
            (EV_CLOSE,         _, _, _, _, _, _, _, _, _, _)             : close();
            (EV_LAST_COMMIT,   _, _, _, _, _, _, _, _, _, _)             : commit_only(FLAG_CLOSED);
            (EV_CLOSED,        _, _, _, _, _, _, _, _, _, _)             : report_head(REPORT_CLOSED);
            (EV_REFUSED,       _, _, _, _, _, _, _, _, _, _)             : report_refused();
            (EV_FAULT,         _, _, _, _, _, _, _, _, _, _)             : report_bad_count();
            (EV_QUERY,         _, _, _, _, _, _, _, _, _, _)             : report_head(REPORT_STATE);
        }
    }

    apply {
        if (m.event == EV_DATA) {
            data();
            if (m.position == 0) { m.b.first = 1; }
            if (m.slack == 0xffffff00) { m.b.last = 1; }
        } else if (m.looks == 1) {
            if (m.off_list == 0) { look(); }
            else if (m.index != 0) { first_producer(); }
        } else {
            outcomes.apply();
            if (m.event == EV_RETRY) {
                m.counts = COUNT_RETRY;
                if (m.tries_left == 0) { silent(); }
            }
        }
    }
}
