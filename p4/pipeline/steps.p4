// What each pass does to each of the transfer's registers: with `meaning` (connection.p4) and `passes` (passes.p4)
// its state machine at a glance.
//
//   TICK --> START --> READ ~~> DATA ... ~~> COMMITTED --> DONE ~~> TAIL_ACKED --> FREE   (FREE goes on as TICK does)
//    |-> NEXT                                       (the same at the next producer)
//    |-> POLL_PRODUCER ~~> PRODUCER_WORD --> VISIT  (goes on as TICK does)
//    |-> POLL_CONSUMER ~~> CONSUMER_WORD --> ROOM   (likewise; a group: MEMBER --> GATHER, for each member --> ROOM)
//    |-> CLOSE --> LAST_COMMIT ~~> COMMITTED --> CLOSED
//    |-> RETRY ~~> PROBED --> RESEND ~~> DATA ... (a GAP: likewise; a group: when all members have answered)
//    |-> REFILL                                     --> another pass of the same packet    ~~> over the network

// What every look at a producer asks for.
#define LOOK \
    m.looks = 1; \
    m.g.blocked = 0; \
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
// What sending a part of a transfer again asks for.
#define SEND_AGAIN \
    m.do_transfer = DO_GET; \
    m.do_consumer_psn = DO_GET; \
    m.do_head = DO_GET; \
    m.do_acked = DO_GET; \
    m.do_producer_tail = DO_GET; \
    m.do_producer_psn = DO_GET;

control Steps(inout meta_t m) {
    // Packets from outside.
    action data() {
        m.do_transfer = DO_GET;
        m.do_consumer_psn = DO_GET;
        m.do_head = DO_GET;
        m.do_producer_tail = DO_GET;
        m.do_producer_psn = DO_GET;
        m.do_due = DO_MATCH;
    }
    action producer_word() { m.do_producer_due = DO_SET; }
    action consumer_word() { m.do_consumer_due = DO_SET; }
    action committed() {
        m.do_transfer = DO_GET;
        m.do_consumer_psn = DO_GET;
        m.do_acked = DO_ADD;
        m.do_from = DO_MATCH;
        m.do_tries = DO_GET;
    }
    action tail_acked() {
        m.do_producer_psn = DO_MATCH;
        m.producer_step = m.b.psn | TAIL_SENT;
        m.do_producer_due = DO_SET;
    }
    action gap() {
        m.do_transfer = DO_GET;
        m.do_consumer_psn = DO_GET;
        m.do_acked = DO_MATCH;
        m.do_from = DO_MATCH;
        m.do_tries = DO_SET;
    }
    action congested() { m.do_transfer = DO_GET; }

    // Looks.
    action look() {
        LOOK
        m.lists = 1;
    }
    action visit() {
        LOOK
        m.do_producer_head = DO_SET;
        m.b.next = NO_PLACE;
    }
    action room() {
        look();
        m.do_consumer_tail = DO_SET;
    }
    action free() {
        look();
        m.do_tries = DO_SET;
    }

    // A transfer.
    action unlock() {
        m.do_lock = DO_SET;
        m.do_tries = DO_SET;
    }
    action start() {
        m.b.frags = m.b.frags & 0xffffff00;
        m.do_head = DO_MATCH;
        m.do_producer_tail = DO_MATCH;
        m.do_lock = DO_MATCH;
        m.do_credit = DO_ADD;
        m.do_debt = DO_ADD;
        m.do_due = DO_SET;
    }
    action read() {
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
        m.counts = COUNT_TRANSFER;
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
        m.do_consumer_psn = DO_ADD;
        m.consumer_step = ONE_PACKET;
        m.do_head = DO_GET;
        m.do_acked = DO_SET;
        m.do_due = DO_SET;
        m.do_tries = DO_SET;
    }
    action retry() {
        m.counts = COUNT_RETRY;
        SEND_AGAIN
        m.do_from = DO_GET;
        m.do_due = DO_SET;
        m.do_tries = DO_ADD;
    }
    // All consumers have got further.
    action resend() {
        m.counts = COUNT_RETRY;
        SEND_AGAIN
        m.position = m.b.word | NO_FURTHER;
        m.do_from = DO_ADD;
        m.do_due = DO_SET;
        m.do_tries = DO_SET;
    }
    // One of them has not: the next retry comes when the last one said, and asks again.
    action repeat() {
        SEND_AGAIN
        m.position = m.b.word | NO_FURTHER;
        m.do_from = DO_ADD;
        m.do_due = DO_MATCH;
        m.do_tries = DO_ADD;
    }
    action close() { m.do_due = DO_SET; }
    action last_commit() {
        m.do_transfer = DO_SET;
        m.do_consumer_psn = DO_GET;
        m.do_head = DO_GET;
        m.do_acked = DO_SET;
        m.do_producer_tail = DO_GET;
        m.do_from = DO_SET;
        m.do_due = DO_SET;
        m.do_tries = DO_SET;
    }

    // The rest.
    action poll_producer() { m.do_producer_due = DO_SET; }
    action poll_consumer() { m.do_consumer_due = DO_SET; }
    action note_member() { m.do_member_tail = DO_SET; }
    action gather() { m.do_member_tail = DO_GET; }
    action refill() {
        m.do_debt = DO_SET;
        m.do_refill = DO_MATCH;
    }
    action reset() {
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
        m.do_producer_due = DO_SET;
        m.do_consumer_due = DO_SET;
        m.do_due = DO_SET;
        m.do_tries = DO_SET;
    }
    action query() {
        m.do_transfer = DO_GET;
        m.do_consumer_psn = DO_GET;
        m.do_head = DO_GET;
    }

    table steps {
        key = { m.event : exact; }
        actions = {
            data; producer_word; consumer_word; committed; tail_acked; gap; congested; look; visit; room; free; unlock;
            start; read; done; closed; retry; resend; repeat; close; last_commit; poll_producer; poll_consumer;
            note_member; gather; refill; reset; query; NoAction;
        }
        const default_action = NoAction();
        const entries = {
            // event         : what it does to the transfer's registers
            EV_DATA          : data();
            EV_PRODUCER_WORD : producer_word();
            EV_CONSUMER_WORD : consumer_word();
            EV_COMMITTED     : committed();
            EV_TAIL_ACKED    : tail_acked();
            EV_GAP           : gap();
            EV_CONGESTED     : congested();
            EV_TICK          : look();
            EV_NEXT          : look();
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
            EV_CLOSE         : close();
            EV_LAST_COMMIT   : last_commit();
            EV_POLL_PRODUCER : poll_producer();
            EV_POLL_CONSUMER : poll_consumer();
            EV_MEMBER        : note_member();
            EV_GATHER        : gather();
            EV_REFILL        : refill();
            EV_RESET         : reset();
            EV_QUERY         : query();
        }
    }

    apply { steps.apply(); }
}
