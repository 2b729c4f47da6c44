// What each internal pass does to each state register: with `meaning` (connection.p4) the transfer's state machine at a glance.
//
//   TICK --> START --> READ ~~> DATA ... ~~> COMMITTED --> DONE ~~> TAIL_ACKED --> FREE   (FREE goes on as TICK does)
//    |-> NEXT                                       (the same at the next producer)
//    |-> POLL_PRODUCER ~~> PRODUCER_WORD --> VISIT  (goes on as TICK does)
//    |-> POLL_CONSUMER ~~> CONSUMER_WORD --> ROOM   (likewise; a group: MEMBER --> GATHER, for each member --> ROOM)
//    |-> CLOSE --> LAST_COMMIT ~~> COMMITTED --> CLOSED
//    |-> RETRY ~~> PROBED --> RESEND ~~> DATA ... (a GAP: likewise)
//    |-> REFILL                                     --> another pass of the same packet    ~~> over the network

// What every look at a producer asks for.
#define LOOK \
    m.looks = 1; \
    m.do_phase = DO_GET; \
    m.do_turn = DO_GET; \
    m.do_head = DO_GET; \
    m.do_consumer_tail = DO_GET; \
    m.do_producer_tail = DO_GET; \
    m.do_producer_head = DO_GET; \
    m.do_lock = DO_GET; \
    m.do_debt = DO_GET; \
    m.do_refill = DO_GET; \
    m.do_producer_due = DO_GET; \
    m.do_consumer_due = DO_GET; \
    m.do_due = DO_GET;
// The look behind a producer's word or a doorbell (connection.p4).
#define VISIT \
    LOOK \
    m.do_turn = DO_NOTHING; \
    m.do_producer_head = DO_SET; \
    m.b.next = NO_PLACE;
// What sending a part of a transfer again asks for.
#define SEND_AGAIN \
    m.do_phase = DO_GET; \
    m.do_transfer = DO_GET; \
    m.do_consumer_psn = DO_GET; \
    m.do_head = DO_GET; \
    m.do_acked = DO_GET; \
    m.do_producer_tail = DO_GET; \
    m.do_producer_psn = DO_GET;

control Passes(inout meta_t m) {
    action look() { LOOK }
    action tick() {
        look();
    }
    action next_producer() {
        look();
        m.do_turn = DO_SET;
    }
    action visit() { VISIT }
    action room() {
        look();
        m.do_consumer_tail = DO_SET;
    }
    action free() {
        look();
        m.do_phase = DO_MATCH;
        m.phase_from = PHASE_TAIL;
        m.phase_to = PHASE_IDLE;
        m.do_tries = DO_SET;
    }
    action unlock() {
        m.do_phase = DO_MATCH;
        m.phase_from = PHASE_TAIL;
        m.phase_to = PHASE_IDLE;
        m.do_lock = DO_SET;
        m.do_tries = DO_SET;
    }
    action start() {
        m.do_phase = DO_MATCH;
        m.phase_from = PHASE_IDLE;
        m.phase_to = PHASE_CLAIMED;
        m.do_head = DO_MATCH;
        m.do_producer_tail = DO_MATCH;
        m.do_lock = DO_MATCH;
        m.do_credit = DO_ADD;
        m.do_debt = DO_ADD;
        m.do_due = DO_SET;
    }
    action read() {
        m.do_owner = DO_SET;
        m.do_phase = DO_MATCH;
        m.phase_from = PHASE_CLAIMED;
        m.phase_to = PHASE_DATA;
        m.do_turn = DO_SET;
        m.do_transfer = DO_SET;
        m.do_acked = DO_SET;
        m.do_producer_tail = DO_GET;
        m.do_producer_psn = DO_GET;
        m.do_from = DO_SET;
        m.do_due = DO_SET;
        m.do_tries = DO_SET;
    }
    // Heads and tails move on. Producer, length and fragments are those that the ACK's pass found.
    action done() {
        m.do_phase = DO_MATCH;
        m.phase_from = PHASE_DATA;
        m.phase_to = PHASE_TAIL;
        m.do_consumer_psn = DO_ADD;
        m.consumer_step = m.b.frags + ONE_PACKET;
        m.do_head = DO_ADD;
        m.do_acked = DO_SET;
        m.do_producer_tail = DO_ADD;
        m.do_producer_psn = DO_ADD;
        m.producer_step = m.b.frags + TAIL_SENT;
        m.do_due = DO_SET;
        m.do_tries = DO_SET;
        m.do_consumer_due = DO_SET;
    }
    action closed() {
        m.do_phase = DO_MATCH;
        m.phase_from = PHASE_CLOSING;
        m.phase_to = PHASE_CLOSED;
        m.do_consumer_psn = DO_ADD;
        m.consumer_step = ONE_PACKET;
        m.do_head = DO_GET;
        m.do_acked = DO_SET;
        m.do_due = DO_SET;
        m.do_tries = DO_SET;
    }
    action retry() {
        SEND_AGAIN
        m.do_from = DO_ADD;
        m.do_due = DO_SET;
        m.do_tries = DO_ADD;
    }
    // The consumer has got further.
    action resend() {
        SEND_AGAIN
        m.do_from = DO_GET;
        m.do_due = DO_SET;
        m.do_tries = DO_SET;
    }
    // It has not: the next retry comes when the last one said.
    action repeat() {
        SEND_AGAIN
        m.do_from = DO_GET;
        m.do_due = DO_MATCH;
    }
    action release() {
        m.do_phase = DO_MATCH;
        m.phase_from = PHASE_CLAIMED;
        m.phase_to = PHASE_IDLE;
    }
    action close() {
        m.do_phase = DO_MATCH;
        m.phase_from = PHASE_IDLE;
        m.phase_to = PHASE_CLAIMED;
        m.do_due = DO_SET;
    }
    action last_commit() {
        m.do_phase = DO_MATCH;
        m.phase_from = PHASE_CLAIMED;
        m.phase_to = PHASE_CLOSING;
        m.do_transfer = DO_SET;
        m.do_consumer_psn = DO_GET;
        m.do_head = DO_GET;
        m.do_acked = DO_SET;
        m.do_producer_tail = DO_GET;
        m.do_from = DO_SET;
        m.do_due = DO_SET;
        m.do_tries = DO_SET;
    }
    action fault() {
        m.do_phase = DO_SET;
        m.phase_to = PHASE_FAULT;
    }
    action poll_producer() {
        m.do_asker = DO_SET;
        m.do_poll_psn = DO_GET;
        m.do_producer_due = DO_SET;
    }
    action poll_consumer() {
        m.do_poll_psn = DO_GET;
        m.do_consumer_due = DO_SET;
    }
    action note_member() {
        m.do_member_tail = DO_SET;
    }
    action gather() {
        m.do_member_tail = DO_GET;
    }
    action refill() {
        m.do_debt = DO_SET;
        m.do_refill = DO_MATCH;
    }
    action reset() {
        m.do_owner = DO_RESET;
        m.do_asker = DO_RESET;
        m.do_phase = DO_SET;
        m.do_turn = DO_SET;
        m.b.next = 0;
        m.do_transfer = DO_SET;
        m.do_consumer_psn = DO_RESET;
        m.do_head = DO_RESET;
        m.do_consumer_tail = DO_SET;
        m.do_member_tail = DO_SET;
        m.do_acked = DO_SET;
        m.do_producer_tail = DO_RESET;
        m.do_producer_head = DO_RESET;
        m.do_producer_psn = DO_RESET;
        m.producer_step = m.b.psn;
        m.do_from = DO_SET;
        m.do_lock = DO_SET;
        m.do_credit = DO_RESET;
        m.do_debt = DO_RESET;
        m.do_refill = DO_RESET;
        m.b.time = m.now;
        m.do_poll_psn = DO_RESET;
        m.do_producer_due = DO_SET;
        m.do_consumer_due = DO_SET;
        m.do_due = DO_SET;
        m.do_tries = DO_SET;
    }
    action query() {
        m.do_phase = DO_GET;
        m.do_transfer = DO_GET;
        m.do_consumer_psn = DO_GET;
        m.do_head = DO_GET;
    }

    table passes {
        key = { m.event : exact; }
        actions = {
            tick; next_producer; visit; room; free; unlock; start; read; done; closed; retry; resend; repeat; release; close; last_commit;
            fault; poll_producer; poll_consumer; note_member; gather; refill; reset; query; NoAction;
        }
        const default_action = NoAction();
        const entries = {
            EV_TICK          : tick();
            EV_NEXT          : next_producer();
            EV_VISIT         : visit();
            EV_ROOM          : room();
            EV_FREE          : free();
            EV_UNLOCK        : unlock();
            EV_START         : start();
            EV_READ          : read();
            EV_DONE          : done();
            EV_CLOSED        : closed();
            EV_RETRY         : retry();
            EV_RESEND        : resend();
            EV_REPEAT        : repeat();
            EV_RELEASE       : release();
            EV_CLOSE         : close();
            EV_LAST_COMMIT   : last_commit();
            EV_FAULT         : fault();
            EV_POLL_PRODUCER : poll_producer();
            EV_POLL_CONSUMER : poll_consumer();
            EV_MEMBER        : note_member();
            EV_GATHER        : gather();
            EV_REFILL        : refill();
            EV_RESET         : reset();
            EV_QUERY         : query();
        }
    }

    apply { passes.apply(); }
}
