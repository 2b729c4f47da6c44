// What leaves the pipeline after a pass. Exactly one packet comes out of each pass, or one per member of a group; the commit
// behind the last fragment is a copy made in egress.
control Outcome(inout meta_t m) {
    action again(event_t event) {
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
        m.b.word_flags = m.word_flags;
    }
    action start() {
        again(EV_START);
        m.b.length = m.batch;
        m.b.word = m.batch_rest;
    }
    action fault() {
        again(EV_FAULT);
        m.b.length = m.fill;
    }
    action next_producer() {
        again(EV_NEXT);
        m.b.hops = m.hops + 1;
        m.b.word = (bit<32>)m.is_drained;
    }
    action refill() {
        again(EV_REFILL);
        m.b.word = m.refill_at;
    }
    action ask_producer() {
        again(EV_POLL);
        m.b.head = 0;
    }
    action ask_consumer() {
        again(EV_POLL);
        m.b.head = RING_TAIL_WORD;
    }
    action ask_members() {
        again(EV_POLL);
        m.b.kind = OUT_FANOUT;
        m.b.head = RING_TAIL_WORD;
        m.b.group = m.group + 1;
        m.out_group = m.group + 1;
    }
    action gather() {
        again(EV_GATHER);
        m.b.hops = m.hops + 1;
    }
    action read_items() {
        again(EV_READ);
    }
    action keep_turn() {
        m.b.next = NO_PLACE;
    }
    action poll() {
        m.b.kind = OUT_READ;
        m.b.qp = m.poll_qp;
        m.b.psn = m.poll_psn;
        m.b.address = m.seen_head;
        m.b.length = 8;
    }
    action data() {
        m.b.kind = OUT_DATA;
        m.b.qp = m.consumer_data_qp;
        m.b.psn = m.consumer_psn + m.position;
        m.b.address = m.head & m.consumer_mask;
        m.b.length = m.length;
        m.b.producer = m.producer;
        m.b.head = m.head + m.length;
        m.b.producer_tail = m.producer_tail + m.length;
        m.b.group = m.group;
        m.out_group = m.group;
    }
    action commit_only() {
        m.b.kind = OUT_COMMIT;
        m.b.qp = m.consumer_data_qp;
        m.b.psn = m.consumer_psn + m.frags;
        m.b.producer = m.producer;
        m.b.head = m.head + m.length;
        m.b.producer_tail = m.producer_tail + m.length;
        m.b.group = m.group;
        m.out_group = m.group;
    }
    action last_commit() {
        commit_only();
        m.b.flags = FLAG_CLOSED;
    }
    action read() {
        m.b.kind = OUT_READ;
        m.b.qp = m.producer_data_qp;
        m.b.psn = m.producer_psn + m.from;
        m.b.address = m.producer_tail & m.producer_mask;
        m.b.length = m.length - m.from_bytes;
    }
    action read_address() {
        m.b.address = m.b.address + m.from_bytes;
    }
    action items_address() {
        m.b.address = m.b.address + RING_ITEMS;
    }
    action tail() {
        m.b.kind = OUT_TAIL;
        m.b.qp = m.producer_data_qp;
        m.b.psn = m.producer_psn;
        m.b.producer_tail = m.producer_tail + m.length;
    }
    action tail_again() {
        tail();
        m.b.producer_tail = m.producer_tail;
    }
    action report(bit<8> reason, bit<32> code) {
        m.report = reason;
        m.report_code = code;
    }

    apply {
        if (m.event == EV_DATA) {
            data();
            items_address();
            if (m.position == 0) { m.b.first = 1; }
            if (m.slack == 0xffffff00) { m.b.last = 1; }
        } else if (m.event >= EV_TICK && m.event < EV_START) {
            if (m.bad_count == 1) { fault(); }
            else if (m.do_lock == DO_SET) { again(EV_TICK); }
            else if (m.idle == 0 && m.due_in[31:31] == 1 && m.phase < PHASE_CLOSED) { again(EV_RETRY); }
            else if (m.ask == ASK_PRODUCER && m.poll_due_in[31:31] == 1) { ask_producer(); }
            else if (m.ask == ASK_CONSUMER && m.poll_due_in[31:31] == 1) {
                if (m.group == 0) { ask_consumer(); }
                else { ask_members(); }
            }
            else if (CAPPED(m) && m.refill_in[31:31] == 1) { refill(); }
            else if (m.idle == 1) {
                if (m.batch != 0 && m.blocked == 0) {
                    if (!HOLDS(m) && m.debt_slack[31:31] == 0) { start(); }
                }
                else if (m.is_drained == 1 && m.hops + 1 >= m.producers && m.next != NO_PLACE && !OPEN(m)) { again(EV_CLOSE); }
                else if ((m.fill == 0 || m.blocked == 1) && m.hops + 1 < m.producers && m.next != NO_PLACE) { next_producer(); }
            }
        } else if (m.event == EV_START) {
            if (m.locked == 1) {
                read_items();
                if (m.over == 0 && m.word != 0) { keep_turn(); }
            } else { again(EV_RELEASE); }
        } else if (m.event == EV_READ) {
            read();
            items_address();
        } else if (m.event == EV_COMMITTED) {
            if (m.lacking == 0) { again(EV_DONE); }
        } else if (m.event == EV_DONE) {
            if (m.frags != 0) {
                m.counts = COUNT_TRANSFER;
                tail();
            } else { report(REPORT_CLOSED, m.head); }
        } else if (m.event == EV_TAIL_ACKED) {
            again(EV_FREE);
        } else if (m.event == EV_PRODUCER_WORD) {
            again(EV_VISIT);
        } else if (m.event == EV_CONSUMER_WORD) {
            if (m.group == 0) { again(EV_ROOM); }
            else { again(EV_MEMBER); }
        } else if (m.event == EV_MEMBER) {
            again(EV_GATHER);
            m.b.hops = 0;
        } else if (m.event == EV_GATHER) {
            if (m.hops + 1 < m.members) { gather(); }
            else { again(EV_ROOM); }
        } else if (m.event == EV_POLL) {
            poll();
        } else if (m.event == EV_REFILL) {
            again(EV_TICK);
        } else if (m.event == EV_GAP) {
            again(EV_RETRY);
        } else if (m.event == EV_RETRY) {
            m.counts = COUNT_RETRY;
            if (m.tries == m.max_tries) { report(REPORT_SILENT, m.tries); }
            if (m.phase == PHASE_DATA) {
                if (m.lacking == 0) { again(EV_DONE); }
                else if (m.from != m.frags) {
                    read();
                    read_address();
                    items_address();
                }
                else { commit_only(); }
            } else if (m.phase == PHASE_TAIL) {
                tail_again();
            } else if (m.phase == PHASE_CLOSING) {
                last_commit();
            } else if (m.phase == PHASE_CLAIMED) {
                again(EV_RELEASE);
            }
        } else if (m.event == EV_CLOSE) {
            again(EV_LAST_COMMIT);
            m.b.length = 0;
            m.b.frags = 0;
        } else if (m.event == EV_LAST_COMMIT) {
            last_commit();
        } else if (m.event == EV_REFUSED) {
            report(REPORT_REFUSED, (bit<32>)m.syndrome);
        } else if (m.event == EV_FAULT) {
            report(REPORT_BAD_COUNT, m.length);
        } else if (m.event == EV_QUERY) {
            report(REPORT_STATE, m.head);
            m.report_psn = m.consumer_psn;
        }
    }
}
