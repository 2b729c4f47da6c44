// One pass of the transfer's state machine: parameters, then every state register in one fixed order, each at most
// once (connection.p4 and passes.p4 say which and how), then what leaves (outcome.p4).
control Transfer(inout meta_t m) {
    OwnerState() owner;
    AskerState() asker;
    WorkerParams() worker_params;
    PhaseState() phase;
    TurnState() turn;
    ProducerList() producer_list;
    TransferState() transfer;
    ProducerParams() producer_params;
    ConsumerPsnState() consumer_psn;
    HeadState() head;
    ConsumerTailState() consumer_tail;
    Members() members;
    MemberTailState() member_tail;
    AckedState() acked;
    ProducerTailState() producer_tail;
    ProducerHeadState() producer_head;
    ProducerPsnState() producer_psn;
    Position() position;
    Amount() amount;
    Fragments() fragments;
    FromState() from;
    FromBytes() from_bytes;
    FlowParams() flow_params;
    RefillTimes() refill_times;
    RefillState() refill;
    DebtState() debt;
    LockState() lock;
    CreditState() credit;
    Look() look;
    TriesState() tries;
    Backoff() backoff;
    DueState() due;
    PollPsnState() poll_psn;
    PollDueState() poll_due;
    Outcome() outcome;

    // Nothing moves on unless the packet answers the outstanding request.
    action stale() {
        m.event = EV_NONE;
        m.drop_reason = DROP_STALE;
    }
    action closing() {
        m.phase_from = PHASE_CLOSING;
        m.phase_to = PHASE_CLOSED;
        m.do_producer_psn = DO_NOTHING;
    }
    action unlock_first() {
        m.do_turn = DO_NOTHING;
        m.do_lock = DO_SET;
    }
    action difference()   { m.tail_diff = m.member_tail - m.word; }
    action smaller_tail() { m.word = m.member_tail; }
    action poll_soon() {
        m.do_poll_due = DO_SET;
        m.poll_qp = m.producer_poll_qp;
        m.poll_due_at = m.now;
    }
    action times() {
        m.due_at = m.now + m.rto;
        m.poll_due_at = m.now + m.poll_interval;
        m.my_lock = m.worker + 1;
        m.next_psn = m.psn + ONE_PACKET;
        m.locked = 1;
    }
    action void_start() {
        m.locked = 0;
        m.do_lock = DO_NOTHING;
    }

    apply {
        // Who takes part.
        if (m.do_owner != DO_NOTHING) { owner.apply(m); }
        if (m.do_asker != DO_NOTHING) { asker.apply(m); }
        if (m.event != EV_RESET) { worker_params.apply(m); }
        times();

        if (m.event > EV_DATA) {
            if (m.event == EV_DONE && m.frags == 0) { closing(); }
            if (m.do_phase != DO_NOTHING) {
                phase.apply(m);
                if (m.do_phase == DO_MATCH && m.claimed == 0) { stale(); }
            }
            if (!LOCKS(m)) {
                if (m.event != EV_RESET) { m.do_lock = DO_NOTHING; }
            } else if (m.event == EV_FREE) { unlock_first(); }
            if (m.event == EV_READ && m.next == NO_PLACE) { m.do_turn = DO_NOTHING; }
        }

        if (m.event != EV_NONE) {
            if (m.do_turn != DO_NOTHING) {
                turn.apply(m);
                if (m.event < EV_START) {
                    // The list may have become shorter.
                    if (m.index >= m.producers) { m.index = 0; }
                    producer_list.apply(m);
                }
            }
            if (m.do_transfer != DO_NOTHING) { transfer.apply(m); }
            if (m.do_consumer_psn != DO_NOTHING) { consumer_psn.apply(m); }
            if (m.do_head != DO_NOTHING) { head.apply(m); }
            if (m.do_producer_tail != DO_NOTHING) { producer_tail.apply(m); }
            // Fragments, the many, take the short way past what concerns only the few others.
            if (m.event != EV_DATA) {
                if (m.do_consumer_tail != DO_NOTHING) { consumer_tail.apply(m); }
                if (m.event == EV_GATHER) { members.apply(m); }
                if (m.do_member_tail != DO_NOTHING) { member_tail.apply(m); }
                if (m.event == EV_GATHER) {
                    difference();
                    if (m.tail_diff[31:31] == 1) { smaller_tail(); }
                }
                producer_params.apply(m);
                if (m.do_producer_head != DO_NOTHING) { producer_head.apply(m); }
                if (m.event == EV_TAIL_ACKED) { m.expected = m.psn | TAIL_SENT; }
                // Should EV_FREE have been lost, the tail is sent under a PSN of its own.
                else if (m.event == EV_RETRY && m.phase == PHASE_TAIL) { m.do_producer_psn = DO_SET; }
            }
            if (m.do_producer_psn != DO_NOTHING) { producer_psn.apply(m); }
        }

        // Where in the transfer?
        if (m.event > EV_NONE && m.event < EV_TICK) {
            position.apply(m);
            if (m.event == EV_DATA) {
                // A late response of a producer whose transfer is over must not pass for one of the present transfer.
                if (m.sender != m.producer || m.position[31:31] == 1 || m.slack[31:31] == 0) { stale(); }
            } else if (m.event == EV_COMMITTED) {
                // Its PSN lies right behind the fragments.
                if (m.slack != 0) { stale(); }
            } else if (m.event == EV_GAP) {
                if (m.position[31:31] == 1 || (m.slack != 0 && m.slack[31:31] == 0)) { stale(); }
            } else if (m.event == EV_TAIL_ACKED) {
                if (m.matched == 0) { stale(); }
            }
        }

        if (m.event > EV_DATA) {
            if (m.do_acked != DO_NOTHING) {
                acked.apply(m);
                m.lacking = m.all_members & ~m.acked;
            }
            // A group reads again from the beginning: its members miss different fragments.
            if (m.event == EV_GAP && m.group != 0) { m.do_from = DO_NOTHING; }
            if (m.do_from != DO_NOTHING) {
                from.apply(m);
                from_bytes.apply(m);
            }
            if (m.event >= EV_TICK && m.event <= EV_START) {
                if (m.event == EV_START) { fragments.apply(m); }
                else { amount.apply(m); }
            }
            if (m.event == EV_START) {
                // The deciding pass saw other counters: what it decided is void.
                if (m.head != m.seen_head || m.producer_tail != m.seen_tail) {
                    void_start();
                }
            }
            if (m.do_lock != DO_NOTHING) { lock.apply(m); }
            if (CAPPED(m) || m.event == EV_RESET) {
                flow_params.apply(m);
                if (m.event == EV_REFILL) { refill_times.apply(m); }
                if (m.do_refill != DO_NOTHING) { refill.apply(m); }
                if (m.do_refill == DO_MATCH && m.matched == 0) { stale(); }
                else if (m.do_debt != DO_NOTHING && m.locked == 1) {
                    debt.apply(m);
                    m.debt_slack = m.burst - m.debt;
                }
            }
            if (m.do_credit != DO_NOTHING && m.locked == 1) { credit.apply(m); }
            if (m.event >= EV_TICK && m.event < EV_START) {
                look.apply(m);
            }
        }
        if (m.event != EV_NONE) {
            if (m.do_tries != DO_NOTHING) { tries.apply(m); }
            if (m.event == EV_RETRY) { backoff.apply(m); }
            if (m.do_due != DO_NOTHING) { due.apply(m); }
            if (m.event != EV_DATA) {
                // Polls: the PSN first, so that an answer to no poll changes nothing.
                if (m.event == EV_POLL) { m.poll_due_at = m.now + m.poll_timeout; }
                // A transfer that takes all that is known of: ask for more at once, not after the interval.
                else if (m.event == EV_START && m.word == 0) { poll_soon(); }
                if (m.do_poll_psn != DO_NOTHING) { poll_psn.apply(m); }
                if (m.do_poll_psn == DO_MATCH && m.matched == 0) { stale(); }
                else if (m.do_poll_due != DO_NOTHING) { poll_due.apply(m); }
            }
        }
        if (m.event != EV_NONE) { outcome.apply(m); }
    }
}
