// A tick: is there something to do, to ask, or to repeat? Sets what the registers behind it do.
control Decide(inout meta_t m) {
    action ask_producer() {
        m.poll_qp = m.producer_poll_qp;
        m.b.address = 0;
        m.do_poll_psn = DO_GET;
        m.do_poll_due = DO_GET;
    }
    action ask_consumer() {
        m.poll_qp = m.consumer_poll_qp;
        m.b.address = RING_TAIL_WORD;
        m.do_poll_psn = DO_GET;
        m.do_poll_due = DO_GET;
    }

    apply {
        if (m.phase == PHASE_IDLE) {
            m.idle = 1;
            m.do_due = DO_NOTHING;
        }
        if (m.producer_flags[0:0] == 1) { m.closed = 1; }
        if (m.idle == 1 && m.closed == 1 && m.fill == 0) { m.is_drained = 1; }
        if (m.space_slack[31:31] == 1) { m.low = 1; }
        m.poll_due_at = m.now + m.poll_timeout;

        // A PU whose counter left its ring. Only an idle worker can tell: while a commit is on its way, a consumer may
        // already have popped items that our head does not count yet.
        if (m.idle == 1) {
            if (m.fill_slack[31:31] == 1 || m.over_slack[31:31] == 1) { m.bad_count = 1; }
        }

        if (m.phase >= PHASE_CLOSED || m.bad_count == 1) {
            m.do_due = DO_NOTHING;
        } else if (m.fill == 0) {
            if (m.closed == 0) { ask_producer(); }
        } else if (m.low == 1) {
            ask_consumer();
        } else if (m.idle == 0 && m.closed == 0 && m.batch_slack[31:31] == 1) {
            ask_producer();
        }
    }
}
