// What each event does to each state register: the transfer's state machine at a glance.
//
//   TICK --> START --> READ ~~> DATA ... ~~> COMMITTED ~~> TAIL_ACKED --> TICK
//    |-> (poll) ~~> PRODUCER_WORD --> VISIT, CONSUMER_WORD --> ROOM      (both go on as TICK does)
//    |-> CLOSE --> LAST_COMMIT ~~> COMMITTED
//    |-> RETRY                                 --> another pass of the same packet    ~~> over the network
control Microcode(inout meta_t m) {
    // A fragment: whose is it, where does it go?
    action data() {
        m.do_owner = DO_GET;
        m.do_transfer = DO_GET;
        m.do_consumer_psn = DO_GET;
        m.do_head = DO_GET;
        m.do_producer_tail = DO_GET;
        m.do_producer_psn = DO_GET;
        m.do_due = DO_SET;
        m.do_tries = DO_SET;
    }
    // A poll's answer: is it the outstanding poll's? Then the next pass notes the word.
    action poll_answered() {
        m.do_poll_psn = DO_MATCH;
        m.do_poll_due = DO_SET;
    }
    // The consumer has the items: heads and tails move on.
    action committed() {
        m.do_transfer = DO_GET;
        m.do_consumer_psn = DO_MATCH;
        m.do_head = DO_ADD;
        m.do_producer_tail = DO_ADD;
        m.do_producer_psn = DO_ADD;
        m.do_phase = DO_MATCH;
        m.do_due = DO_SET;
        m.do_tries = DO_SET;
    }
    // The producer knows its tail: the worker is free.
    action tail_acked() {
        m.do_owner = DO_GET;
        m.do_producer_psn = DO_MATCH;
        m.do_phase = DO_MATCH;
        m.phase_from = PHASE_TAIL;
        m.phase_to = PHASE_IDLE;
        m.do_lock = DO_SET;
        m.do_tries = DO_SET;
    }
    action gap() {
        m.do_transfer = DO_GET;
        m.do_consumer_psn = DO_GET;
        m.do_from = DO_MATCH;
    }
    action fault() {
        m.do_phase = DO_SET;
        m.phase_to = PHASE_FAULT;
    }
    action tick() {
        m.do_turn = DO_GET;
        m.do_head = DO_GET;
        m.do_producer_tail = DO_GET;
        m.do_producer_head = DO_GET;
        m.do_consumer_tail = DO_GET;
        m.do_phase = DO_GET;
        m.do_drained = DO_ADD;
        m.do_due = DO_GET;
    }
    action visit() {
        m.do_head = DO_GET;
        m.do_producer_tail = DO_GET;
        m.do_producer_head = DO_SET;
        m.do_consumer_tail = DO_GET;
        m.do_phase = DO_GET;
        m.do_due = DO_GET;
    }
    action room() {
        m.do_turn = DO_GET;
        m.do_head = DO_GET;
        m.do_producer_tail = DO_GET;
        m.do_producer_head = DO_GET;
        m.do_consumer_tail = DO_SET;
        m.do_phase = DO_GET;
        m.do_drained = DO_ADD;
        m.do_due = DO_GET;
    }
    action start() {
        m.do_head = DO_GET;
        m.do_producer_tail = DO_GET;
        m.do_phase = DO_MATCH;
        m.phase_from = PHASE_IDLE;
        m.phase_to = PHASE_CLAIMED;
        m.do_lock = DO_MATCH;
        m.do_due = DO_SET;
    }
    action read() {
        m.do_owner = DO_SET;
        m.do_transfer = DO_SET;
        m.do_producer_tail = DO_GET;
        m.do_producer_psn = DO_GET;
        m.do_from = DO_SET;
        m.do_phase = DO_MATCH;
        m.phase_from = PHASE_CLAIMED;
        m.phase_to = PHASE_DATA;
        m.do_due = DO_SET;
        m.do_tries = DO_SET;
    }
    action retry() {
        m.do_transfer = DO_GET;
        m.do_consumer_psn = DO_GET;
        m.do_head = DO_GET;
        m.do_producer_tail = DO_GET;
        m.do_producer_psn = DO_GET;
        m.do_from = DO_GET;
        m.do_phase = DO_GET;
        m.do_due = DO_SET;
        m.do_tries = DO_ADD;
    }
    action close() {
        m.do_phase = DO_MATCH;
        m.phase_from = PHASE_IDLE;
        m.phase_to = PHASE_CLAIMED;
        m.do_due = DO_SET;
    }
    action last_commit() {
        m.do_transfer = DO_SET;
        m.do_consumer_psn = DO_GET;
        m.do_head = DO_GET;
        m.do_producer_tail = DO_GET;
        m.do_from = DO_SET;
        m.do_phase = DO_MATCH;
        m.phase_from = PHASE_CLAIMED;
        m.phase_to = PHASE_CLOSING;
        m.do_due = DO_SET;
        m.do_tries = DO_SET;
    }
    action release() {
        m.do_phase = DO_MATCH;
        m.phase_from = PHASE_CLAIMED;
        m.phase_to = PHASE_IDLE;
    }

    table microcode {
        key = { m.event : exact; }
        actions = {
            data; poll_answered; committed; tail_acked; gap; fault;
            tick; visit; room; start; read; retry; close; last_commit; release; NoAction;
        }
        const default_action = NoAction();
        const entries = {
            EV_DATA          : data();
            EV_PRODUCER_WORD : poll_answered();
            EV_CONSUMER_WORD : poll_answered();
            EV_COMMITTED     : committed();
            EV_TAIL_ACKED    : tail_acked();
            EV_GAP           : gap();
            EV_REFUSED       : fault();
            EV_FAULT         : fault();
            EV_TICK          : tick();
            EV_VISIT         : visit();
            EV_ROOM          : room();
            EV_START         : start();
            EV_READ          : read();
            EV_RETRY         : retry();
            EV_CLOSE         : close();
            EV_LAST_COMMIT   : last_commit();
            EV_RELEASE       : release();
        }
    }

    apply { microcode.apply(); }
}
