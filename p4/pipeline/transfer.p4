// One pass of the transfer's state machine: every state register in one fixed order, each at most once (steps.p4 says
// which and how), then what leaves (outcome.p4). What a packet must fit is tested as early as its registers allow;
// one that is late (`stale`) touches no register behind that test.
control Transfer(inout meta_t m) {
    Steps() steps;
    WorkerParams() worker_params;
    ProducerList() producer_list;
    TransferState() transfer;
    ConsumerPsnState() consumer_psn;
    HeadState() head;
    ConsumerTailState() consumer_tail;
    Members() members;
    MemberTailState() member_tail;
    ProducerParams() producer_params;
    ProducerTailState() producer_tail;
    ProducerHeadState() producer_head;
    ProducerPsnState() producer_psn;
    RefillState() refill;
    Position() position;
    AckedState() acked;
    FromState() from;
    LockState() lock;
    DebtState() debt;
    CreditState() credit;
    TriesState() tries;
    Backoff() backoff;
    DueState() due;
    ProducerDueState() producer_due;
    ConsumerDueState() consumer_due;
    Outcome() outcome;

    // The packet answers no outstanding request.
    action stale() {
        m.event = EV_NONE;
        m.drop_reason = DROP_STALE;
        m.do_acked = DO_NOTHING;
        m.do_from = DO_NOTHING;
        m.do_due = DO_NOTHING;
    }
    action times() {
        m.due_at = m.now + m.rto;
        m.poll_due_at = m.now + m.poll_interval;
        m.credit_left = m.max_batch - m.b.length;
    }
    action poll_time()    { m.poll_due_at = m.now + m.poll_timeout; }
    // Due before now: the next pass may come within the same unit of time.
    action at_once() { m.poll_due_at = m.now - 1; }
    action poll_soon() {
        m.do_producer_due = DO_SET;
        m.poll_due_at = m.now - 1;
    }
    action tail_is_sent() {
        m.do_producer_psn = DO_SET;
        m.producer_step = TAIL_SENT;
    }
    // No ACK of a commit: the consumer says what it has.
    action probed() {
        m.event = EV_PROBED;
        m.do_acked = DO_MATCH;
    }
    action count_tries()  { m.tries_left = m.max_tries |-| m.tries; }
    action silent()       { m.report = REPORT_SILENT; }
    action behind_all()   { m.from_slack = m.from - m.b.frags; }
    action items_at_consumer() { m.b.address = m.b.head & m.consumer_mask; }
    action items_at_producer() { m.b.address = m.b.producer_tail & m.producer_mask; }

    apply {
        steps.apply(m);
        m.sender = m.b.producer;
        m.my_lock = m.b.worker + 1;
        m.next_psn = m.b.psn + ONE_PACKET;
        if (m.event != EV_RESET) { worker_params.apply(m); }
        times();

        if (m.event != EV_NONE) {
            if (m.lists == 1) { producer_list.apply(m); }
            else if (m.do_transfer != DO_NOTHING) { transfer.apply(m); }
            if (m.do_consumer_psn != DO_NOTHING) { consumer_psn.apply(m); }
            if (m.do_head != DO_NOTHING) { head.apply(m); }
            if (m.do_producer_tail != DO_NOTHING) { producer_tail.apply(m); }
            // Should EV_FREE have been lost, the tail is sent under a PSN of its own.
            if (m.event == EV_RETRY && m.g.phase == PHASE_TAIL) { tail_is_sent(); }
            if (m.do_producer_psn != DO_NOTHING) { producer_psn.apply(m); }
            if (m.do_tries != DO_NOTHING) { tries.apply(m); }

            if (m.event == EV_DATA) {
                m.other_sender = m.b.producer - m.sender;
                items_at_consumer();
            } else {
                if (m.do_consumer_tail != DO_NOTHING) { consumer_tail.apply(m); }
                if (m.event == EV_GATHER) { members.apply(m); }
                if (m.gathered == 0) {
                    if (m.do_member_tail != DO_NOTHING) { member_tail.apply(m); }
                }
                producer_params.apply(m);
                items_at_producer();
                if (m.do_producer_head != DO_NOTHING) { producer_head.apply(m); }
                if (m.do_refill != DO_NOTHING) { refill.apply(m); }
                if (m.event == EV_RETRY) {
                    count_tries();
                    backoff.apply(m);
                    if (m.tries_left == 0) { silent(); }
                }
                if (m.event == EV_POLL_PRODUCER || m.event == EV_POLL_CONSUMER) { poll_time(); }
                // A transfer that takes all that is known of: ask for more at once, not after the interval; and again
                // when the producer has its tail, from when on its doorbell rings.
                else if (m.event == EV_START && BYTES_BEHIND == 0) { poll_soon(); }
                else if (m.event == EV_TAIL_ACKED) { at_once(); }
                // The consumer, too, may have made room meanwhile.
                else if (m.event == EV_DONE) { at_once(); }
            }
            m.b.address = m.b.address + RING_ITEMS;

            if (m.event == EV_DATA || m.event == EV_COMMITTED || m.event == EV_GAP) {
                position.apply(m);
                if (m.beyond != 0) { stale(); }
                else if (m.event == EV_DATA && m.slack == 0) { stale(); }
                else if (m.event == EV_COMMITTED && m.slack != 0) {
                    if (ASKS(m.tries)) { probed(); }
                    else { stale(); }
                }
            } else if ((m.event == EV_TAIL_ACKED || m.event == EV_REFILL) && m.matched == 0) {
                stale();
            } else {
                // Other counters than the deciding pass saw: what it decided is void.
                if (m.event != EV_START || (m.same_head[0:0] == 1 && m.same_tail[0:0] == 1)) {
                    m.locked = 1;
                    if (LOCKS(m.g.settings) || m.event == EV_RESET) {
                        if (m.do_lock != DO_NOTHING) { lock.apply(m); }
                    }
                    if (m.locked == 1) {
                        if (CAPPED(m.g.settings) || m.event == EV_RESET) {
                            if (m.do_debt != DO_NOTHING) { debt.apply(m); }
                        }
                        if (m.do_credit != DO_NOTHING) { credit.apply(m); }
                    }
                }
                if (m.do_producer_due != DO_NOTHING) { producer_due.apply(m); }
                if (m.do_consumer_due != DO_NOTHING) { consumer_due.apply(m); }
            }

            if (m.do_acked != DO_NOTHING) { acked.apply(m); }
            m.lacking = m.all_members & ~m.acked;
            if (m.do_from != DO_NOTHING) { from.apply(m); }
            behind_all();
            if (m.do_due != DO_NOTHING) { due.apply(m); }
            outcome.apply(m);
        }
    }
}
