// What leaves the pipeline after a pass. Exactly one packet comes out of each pass; the commit behind the last fragment
// is a copy made in egress.
control Outcome(inout meta_t m) {
    action again(event_t event) {
        m.b.kind = OUT_AGAIN;
        m.b.event = event;
        m.b.worker = m.worker;
        m.b.producer = (bit<32>)m.producer;
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
    }
    action fault() {
        again(EV_FAULT);
        m.b.length = m.fill;
    }
    action next_producer() {
        again(EV_TICK);
        m.b.hops = m.hops + 1;
    }
    action poll() {
        m.b.kind = OUT_READ;
        m.b.qp = m.poll_qp;
        m.b.psn = m.poll_psn;
        m.b.length = 8;
    }
    action data() {
        m.b.kind = OUT_DATA;
        m.b.qp = m.consumer_data_qp;
        m.b.psn = (m.consumer_psn + m.position) & PSN_MASK;
        m.b.address = RING_ITEMS + (m.head & m.consumer_mask);
        m.b.length = m.length;
    }
    action commit_content() {
        m.b.head = m.head + m.length;
        m.b.flags = m.consumer_flags;
        m.b.producer = (bit<32>)m.producer;
        m.b.producer_tail = m.producer_tail + m.length;
    }
    action commit_only() {
        commit_content();
        m.b.kind = OUT_COMMIT;
        m.b.qp = m.consumer_data_qp;
        m.b.psn = (m.consumer_psn + (psn_t)m.frags) & PSN_MASK;
    }
    action read() {
        m.b.kind = OUT_READ;
        m.b.qp = m.producer_data_qp;
        m.b.psn = (m.producer_psn + m.from) & PSN_MASK;
        m.b.address = RING_ITEMS + (m.producer_tail & m.producer_mask) + m.from_bytes;
        m.b.length = m.length - m.from_bytes;
    }
    action tail() {
        m.b.kind = OUT_TAIL;
        m.b.qp = m.producer_data_qp;
        m.b.psn = m.producer_psn;
    }

    apply {
        if (m.event == EV_DATA) {
            data();
            commit_content();
            if (m.position == 0) { m.b.first = 1; }
            if (m.position + 1 == (psn_t)m.frags) { m.b.last = 1; }
        } else if (m.event == EV_TICK || m.event == EV_VISIT || m.event == EV_ROOM) {
            if (m.bad_count == 1) { fault(); }
            else if (m.due == 1) { again(EV_RETRY); }
            else if (m.poll_due == 1) { poll(); }
            else if (m.idle == 1 && m.batch != 0) { start(); }
            else if (m.is_drained == 1 && m.drained >= m.producers) { again(EV_CLOSE); }
            else if (m.idle == 1 && m.fill == 0 && m.hops + 1 < m.producers) { next_producer(); }
        } else if (m.event == EV_START) {
            if (m.locked == 1) { again(EV_READ); }
            else { again(EV_RELEASE); }
        } else if (m.event == EV_READ) {
            read();
        } else if (m.event == EV_COMMITTED) {
            m.counts = COUNT_TRANSFER;
            if (m.frags != 0) {
                tail();
                m.b.producer_tail = m.producer_tail + m.length;
            } else {
                m.counts = 0;
            }
        } else if (m.event == EV_TAIL_ACKED) {
            again(EV_TICK);
        } else if (m.event == EV_PRODUCER_WORD) {
            again(EV_VISIT);
        } else if (m.event == EV_CONSUMER_WORD) {
            again(EV_ROOM);
        } else if (m.event == EV_GAP) {
            again(EV_RETRY);
        } else if (m.event == EV_RETRY) {
            m.counts = COUNT_RETRY;
            if (m.tries == m.max_tries) {
                m.report = REPORT_SILENT;
                m.report_code = m.tries;
            }
            if (m.phase == PHASE_DATA) {
                if (m.from != (psn_t)m.frags) { read(); }
                else { commit_only(); }
            } else if (m.phase == PHASE_TAIL) {
                tail();
                m.b.producer_tail = m.producer_tail;
            } else if (m.phase == PHASE_CLOSING) {
                commit_only();
                m.b.flags = m.consumer_flags | FLAG_CLOSED;
            } else if (m.phase == PHASE_CLAIMED) {
                again(EV_RELEASE);
            }
        } else if (m.event == EV_CLOSE) {
            again(EV_LAST_COMMIT);
            m.b.length = 0;
            m.b.frags = 0;
        } else if (m.event == EV_LAST_COMMIT) {
            commit_only();
            m.b.flags = m.consumer_flags | FLAG_CLOSED;
        } else if (m.event == EV_REFUSED) {
            m.report = REPORT_REFUSED;
            m.report_code = (bit<32>)m.syndrome;
        } else if (m.event == EV_FAULT) {
            m.report = REPORT_BAD_COUNT;
            m.report_code = m.length;
        }
    }
}
