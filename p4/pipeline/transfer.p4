// One pass of the transfer's state machine: parameters, then every state register in one fixed order, each at most
// once (microcode.p4 says which and how), then what leaves (outcome.p4).
control Transfer(inout meta_t m) {
    Microcode() microcode;
    OwnerState() owner;
    WorkerParams() worker_params;
    TurnState() turn;
    ProducerList() producer_list;
    TransferState() transfer;
    ProducerParams() producer_params;
    ConsumerPsnState() consumer_psn;
    HeadState() head;
    ProducerTailState() producer_tail;
    ProducerHeadState() producer_head;
    ConsumerTailState() consumer_tail;
    ProducerPsnState() producer_psn;
    Amount() amount;
    Fragments() fragments;
    FromState() from;
    FromBytes() from_bytes;
    PhaseState() phase;
    LockState() lock;
    DrainedState() drained;
    DueState() due;
    TriesState() tries;
    Decide() decide;
    Backoff() backoff;
    PollPsnState() poll_psn;
    PollDueState() poll_due;
    Outcome() outcome;

    // Nothing moves on unless the packet answers the outstanding request.
    action stale() {
        m.event = EV_NONE;
        m.drop_reason = DROP_STALE;
    }

    apply {
        microcode.apply(m);

        // Who takes part.
        if (m.do_owner != DO_NOTHING) { owner.apply(m); }
        worker_params.apply(m);
        if (m.do_turn != DO_NOTHING) {
            turn.apply(m);
            producer_list.apply(m);
        }
        if (m.do_transfer != DO_NOTHING) { transfer.apply(m); }
        if (m.event != EV_DATA) { producer_params.apply(m); }
        m.due_at = m.now + m.rto;
        m.poll_due_at = m.now + m.poll_interval;
        m.lock_value = m.worker + 1;

        // Does an ACK answer the commit? Its PSN lies right behind the fragments.
        m.expected = m.psn;
        m.next = (m.psn + 1) & PSN_MASK;
        // A tail that came twice is acknowledged with the PSN of the newest request that the NIC has executed, perhaps
        // the READ behind it: that ACK answers nothing.
        if (m.event == EV_TAIL_ACKED) {
            m.expected = m.psn | TAIL_SENT;
        } else if (m.event == EV_COMMITTED) {
            m.expected = (m.psn - (psn_t)m.frags) & PSN_MASK;
            m.phase_from = PHASE_DATA;
            m.phase_to = PHASE_TAIL;
            if (m.frags == 0) {
                m.phase_from = PHASE_CLOSING;
                m.phase_to = PHASE_CLOSED;
                m.do_producer_psn = DO_NOTHING;
            }
        }
        if (m.do_consumer_psn != DO_NOTHING) {
            consumer_psn.apply(m);
            if (m.do_consumer_psn == DO_MATCH && m.matched == 0) { stale(); }
        }

        // Counters of the rings. Fragments, the many, take the short way past what concerns only the few others.
        if (m.event != EV_NONE) {
            if (m.do_head != DO_NOTHING) { head.apply(m); }
            if (m.do_producer_tail != DO_NOTHING) { producer_tail.apply(m); }
            if (m.event != EV_DATA) {
                if (m.do_producer_head != DO_NOTHING) { producer_head.apply(m); }
                if (m.do_consumer_tail != DO_NOTHING) { consumer_tail.apply(m); }
            }
            if (m.do_producer_psn != DO_NOTHING) {
                producer_psn.apply(m);
                if (m.do_producer_psn == DO_MATCH && m.matched == 0) { stale(); }
            }
        }

        // Where in the transfer.
        if (m.event == EV_DATA) {
            // A late response of a producer whose transfer is over must not pass for one of the worker's present transfer.
            if (m.sender != m.producer) { stale(); }
            m.position = (m.psn - m.producer_psn) & PSN_MASK;
            if (m.position >= (psn_t)m.frags) { stale(); }
        } else if (m.event == EV_GAP) {
            m.position = (m.psn - m.consumer_psn) & PSN_MASK;
            if (m.position > (psn_t)m.frags) { stale(); }
        } else if (m.event == EV_START) {
            if (m.head != m.seen_head || m.producer_tail != m.seen_tail) { stale(); }
        }

        if (m.event > EV_DATA) {
            if (m.do_from != DO_NOTHING) {
                from.apply(m);
                from_bytes.apply(m);
            }
            if (m.do_phase != DO_NOTHING) { phase.apply(m); }
            if (m.do_phase == DO_MATCH && m.claimed == 0) { stale(); }
        }
        if (m.event > EV_DATA) {
            if (m.do_lock != DO_NOTHING) { lock.apply(m); }
            if (m.do_turn != DO_NOTHING || m.event == EV_VISIT) {
                amount.apply(m);
                fragments.apply(m);
                decide.apply(m);
            }
            if (m.do_drained != DO_NOTHING) { drained.apply(m); }
        }
        if (m.event != EV_NONE) {
            if (m.do_tries != DO_NOTHING) { tries.apply(m); }
            if (m.event == EV_RETRY) { backoff.apply(m); }
            if (m.do_due != DO_NOTHING) { due.apply(m); }
        }
        if (m.event > EV_DATA) {
            // Polls: the PSN first, so that an answer to no poll changes nothing.
            if (m.do_poll_psn != DO_NOTHING) { poll_psn.apply(m); }
            if (m.do_poll_psn == DO_MATCH && m.matched == 0) { stale(); }
            else if (m.do_poll_due != DO_NOTHING && m.due == 0) { poll_due.apply(m); }
        }
        if (m.event != EV_NONE) { outcome.apply(m); }
    }
}
