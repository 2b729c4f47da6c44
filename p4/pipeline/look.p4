// A look at a worker and a producer: is there something to do, to ask, or to repeat? Sets what the registers behind it do.
control Look(inout meta_t m) {
    action ask_producer() {
        m.ask = ASK_PRODUCER;
        m.poll_qp = m.producer_poll_qp;
    }
    action ask_consumer() {
        m.ask = ASK_CONSUMER;
        m.poll_qp = m.consumer_poll_qp;
    }
    action ask_nobody() {
        m.ask = ASK_NOBODY;
        m.do_poll_due = DO_NOTHING;
    }

    apply {
        if (m.phase == PHASE_IDLE) { m.idle = 1; }
        if (m.producer_flags[0:0] == 1) { m.closed = 1; }
        // All producers of the round so far: the worker closes when it has found the whole list so.
        if (m.idle == 1 && m.closed == 1 && m.fill == 0 && (m.hops == 0 || m.word == 1)) { m.is_drained = 1; }
        if (m.lock != 0 && m.lock != m.my_lock) { m.blocked = 1; }

        // A PU whose counter left its ring. Only an idle worker can tell: while a commit is on its way, a consumer may
        // already have popped items that our head does not count yet.
        if (m.idle == 1 && m.blocked == 0) {
            if (m.fill_slack[31:31] == 1 || m.over_slack[31:31] == 1) { m.bad_count = 1; }
        }

        if (m.phase >= PHASE_CLOSED || m.bad_count == 1) {
            ask_nobody();
        } else if (m.fill == 0) {
            if (m.closed == 0) { ask_producer(); }
            else { ask_nobody(); }
        } else if (m.space_slack[31:31] == 1) {
            ask_consumer();
        } else if (m.idle == 0 && m.closed == 0 && m.batch_slack[31:31] == 1) {
            ask_producer();
        } else {
            ask_nobody();
        }
    }
}
