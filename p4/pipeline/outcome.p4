// Columns of the table `outcomes` that are more than a number.
#define RESEND_OR_REPEAT EV_RESEND &&& 0xfe
#define DATA_OR_TAIL     PHASE_DATA &&& 0xfe
#define LOCKING          0x04 &&& 0x04        /* LOCKS(settings) */
#define HAVE_ALL         0 &&& 0xffffff00     /* from_slack: all consumers have all fragments */
#define HAVE_COMMIT      ONE_PACKET           /* from_slack: and the commit */
#define FEW              0xffff8000 &&& 0xffff8000  /* from_slack: 128 fragments at most are lacking */
#define ODD              1 &&& 1              /* tries */
#define NO_MORE          1 &&& NO_FURTHER     /* from_slack: one of them has no more than was known */

// What leaves the pipeline after a pass. Exactly one packet comes out of each pass, or one per member of a group; the
// commit behind the last fragment is a copy made in egress.
control Outcome(inout meta_t m) {
    action next_pass(event_t event) {
        m.out_port = m.again;
        m.b.kind = OUT_RECIRCULATE;
        m.b.event = event;
        m.b.hops = 0;
    }
    // What is sent again begins where the smallest answer of this round lies.
    action from_there(event_t event) {
        next_pass(event);
        m.b.word = m.from;
    }
    // Egress decides (look.p4).
    action look() {
        m.out_port = m.again;
        m.b.kind = OUT_RECIRCULATE;
        m.b.event = EV_LOOK;
        m.b.time = m.now;
        m.g.late = m.is_due;
        m.g.ask_producer = m.producer_is_due;
        m.g.ask_consumer = m.consumer_is_due;
        m.g.producer_tail = m.b.producer_tail;
        m.g.head = m.b.head;
    }
    // The worker's list has become shorter.
    action first_producer() {
        next_pass(EV_NEXT);
        m.b.next = 0;
    }
    action gather() {
        m.out_port = m.again;
        m.b.kind = OUT_RECIRCULATE;
        m.b.event = EV_GATHER;
        MEMBER = MEMBER + 1;
    }
    action keep_turn() {
        next_pass(EV_READ);
        m.b.next = NO_PLACE;
    }
    action close() {
        next_pass(EV_LAST_COMMIT);
        m.b.length = 0;
        m.b.frags = 0;
    }
    action poll(bytes_t address) {
        m.sends = 1;
        m.b.kind = OUT_READ;
        m.b.address = address;
        m.b.length = 8;
        READ_FROM = 0;
    }
    action data() {
        m.sends = 1;
        m.b.kind = OUT_DATA;
        m.b.qp = m.consumer_data_qp;
        m.b.psn = m.consumer_psn + m.position;
        m.b.head = m.b.head + m.b.length;
        m.b.producer_tail = m.b.producer_tail + m.b.length;
        m.b.group = m.group;
        m.out_group = m.group;
    }
    action commit_only(bit<8> last) {
        m.sends = 1;
        m.b.kind = OUT_COMMIT;
        m.b.qp = m.consumer_data_qp;
        m.b.psn = m.consumer_psn + m.b.frags;
        m.b.head = m.b.head + m.b.length;
        m.b.producer_tail = m.b.producer_tail + m.b.length;
        m.b.last = last;
        m.b.group = m.group;
        m.out_group = m.group;
    }
    action read() {
        m.sends = 1;
        m.b.kind = OUT_READ;
        m.b.qp = m.producer_data_qp;
        m.b.psn = m.producer_psn + m.from;
        READ_FROM = m.from & 0xffffff00;
    }
    // A WRITE of nothing under the PSN of the last commit, which the consumer has executed: it answers with the PSN
    // of what it executed last.
    action probe() {
        m.sends = 1;
        m.b.kind = OUT_PROBE;
        m.b.qp = m.consumer_data_qp;
        m.b.psn = m.consumer_psn - ONE_PACKET;
        m.b.group = m.group;
        m.out_group = m.group;
    }
    // As the consumer's NIC told the switch, the switch tells the producer's (compose.p4).
    action slow_down() {
        m.sends = 1;
        m.b.kind = OUT_CNP;
        m.b.qp = m.producer_data_qp;
    }
    action late() { m.drop_reason = DROP_STALE; }
    action tail() {
        m.sends = 1;
        m.b.kind = OUT_TAIL;
        m.b.qp = m.producer_data_qp;
        m.b.psn = m.producer_psn;
        m.b.producer_tail = m.b.producer_tail + m.b.length;
    }
    action tail_again() {
        m.sends = 1;
        m.b.kind = OUT_TAIL;
        m.b.qp = m.producer_data_qp;
        m.b.psn = m.producer_psn;
    }
    // What else a report says is picked by the architecture (REPORT_* in types.p4).
    action tell(bit<8> reason) { m.report = reason; }

    // What ends a pass, by event and what it found.
    table outcomes {
        key = {
            m.event      : ternary;
            m.g.phase    : ternary;
            m.lacking    : ternary;
            m.b.frags    : ternary;
            m.from_slack : ternary;
            m.locked     : ternary;
            m.over       : ternary;
            BYTES_BEHIND : ternary;
            m.group      : ternary;
            m.gathered   : ternary;
            m.g.settings : ternary;
            m.tries      : ternary;
        }
        actions = {
            next_pass; from_there; gather; keep_turn; close; poll; commit_only; read; probe; slow_down; late; tail; tail_again;
            tell; NoAction;
        }
        const default_action = NoAction();
        const entries = {
            //                                  lacking: 0: all consumers have said what they have (an answer: EV_COMMITTED,
            //                                  |           EV_GAP, EV_PROBED), or they have the commit
            //                                  |  frags: 0: the last commit
            //                                  |  |  from_slack: over all fragments: the smallest answer, or what is known
            //                                  |  |  |            locked
            //                                  |  |  |            |  over: the producer's turn is
            //                                  |  |  |            |  |  BYTES_BEHIND
            //                                  |  |  |            |  |  |  group
            //                                  |  |  |            |  |  |  |  gathered
            //                                  |  |  |            |  |  |  |  |  settings
            // event            phase           |  |  |            |  |  |  |  |  |        tries: odd: ASKS(tries)
            (EV_START,          _,             _, _, _,           1, 0, 0, _, _, _,       _) : next_pass(EV_READ);
            (EV_START,          _,             _, _, _,           1, 0, _, _, _, _,       _) : keep_turn();
            (EV_START,          _,             _, _, _,           1, _, _, _, _, _,       _) : next_pass(EV_READ);
            (EV_START,          _,             _, _, _,           _, _, _, _, _, _,       _) : next_pass(EV_RELEASE);
            (EV_READ,           _,             _, _, _,           _, _, _, _, _, _,       _) : read();
            (EV_COMMITTED,      _,             0, 0, HAVE_COMMIT, _, _, _, _, _, _,       _) : next_pass(EV_CLOSED);
            (EV_COMMITTED,      _,             0, _, HAVE_COMMIT, _, _, _, _, _, _,       _) : next_pass(EV_DONE);
            (EV_COMMITTED,      _,             0, _, _,           _, _, _, _, _, _,       _) : from_there(EV_RESEND);
            (EV_DONE,           _,             _, _, _,           _, _, _, _, _, _,       _) : tail();
            (EV_TAIL_ACKED,     _,             _, _, _,           _, _, _, _, _, LOCKING, _) : next_pass(EV_UNLOCK);
            (EV_TAIL_ACKED,     _,             _, _, _,           _, _, _, _, _, _,       _) : next_pass(EV_FREE);
            (EV_UNLOCK,         _,             _, _, _,           _, _, _, _, _, _,       _) : next_pass(EV_TICK);
            (EV_PRODUCER_WORD,  _,             _, _, _,           _, _, _, _, _, _,       _) : next_pass(EV_VISIT);
            (EV_CONSUMER_WORD,  _,             _, _, _,           _, _, _, 0, _, _,       _) : next_pass(EV_ROOM);
            (EV_CONSUMER_WORD,  _,             _, _, _,           _, _, _, _, _, _,       _) : next_pass(EV_MEMBER);
            (EV_MEMBER,         _,             _, _, _,           _, _, _, _, _, _,       _) : next_pass(EV_GATHER);
            (EV_GATHER,         _,             _, _, _,           _, _, _, _, 1, _,       _) : next_pass(EV_ROOM);
            (EV_GATHER,         _,             _, _, _,           _, _, _, _, _, _,       _) : gather();
            (EV_POLL_PRODUCER,  _,             _, _, _,           _, _, _, _, _, _,       _) : poll(0);
            (EV_POLL_CONSUMER,  _,             _, _, _,           _, _, _, _, _, _,       _) : poll(RING_TAIL_WORD);
            (EV_REFILL,         _,             _, _, _,           _, _, _, _, _, _,       _) : next_pass(EV_TICK);
            (EV_GAP,            _,             0, _, _,           _, _, _, _, _, _,       _) : from_there(EV_RESEND);
            // Between transfers nobody sends to this consumer.
            (EV_CONGESTED,      DATA_OR_TAIL,  _, _, _,           _, _, _, _, _, _,       _) : slow_down();
            (EV_CONGESTED,      _,             _, _, _,           _, _, _, _, _, _,       _) : late();
            (EV_PROBED,         _,             0, _, NO_MORE,     _, _, _, _, _, _,       _) : from_there(EV_REPEAT);
            (EV_PROBED,         _,             0, _, _,           _, _, _, _, _, _,       _) : from_there(EV_RESEND);
            (EV_RETRY,          PHASE_DATA,    0, _, _,           _, _, _, _, _, _,       _) : next_pass(EV_DONE);
            (EV_RETRY,          PHASE_DATA,    _, _, HAVE_ALL,    _, _, _, _, _, _,       _) : commit_only(0);
            (EV_RETRY,          PHASE_DATA,    _, _, FEW,         _, _, _, _, _, _,       1) : read();
            // A NIC that has executed nothing yet may answer any PSN (rxe: 0xffffff), which can't be used.
            (EV_RETRY,          PHASE_DATA,    _, _, _,           _, _, _, _, _, _,     ODD) : probe();
            (EV_RETRY,          PHASE_DATA,    _, _, _,           _, _, _, _, _, _,       _) : read();
            (RESEND_OR_REPEAT,  PHASE_DATA,    0, _, _,           _, _, _, _, _, _,       _) : next_pass(EV_DONE);
            (RESEND_OR_REPEAT,  PHASE_DATA,    _, _, HAVE_ALL,    _, _, _, _, _, _,       _) : commit_only(0);
            (RESEND_OR_REPEAT,  PHASE_DATA,    _, _, _,           _, _, _, _, _, _,       _) : read();
            (EV_RETRY,          PHASE_TAIL,    _, _, _,           _, _, _, _, _, _,       _) : tail_again();
            (EV_RETRY,          PHASE_CLOSING, _, _, _,           _, _, _, _, _, _,       _) : commit_only(1);
            (EV_RETRY,          PHASE_CLAIMED, _, _, _,           _, _, _, _, _, _,       _) : next_pass(EV_RELEASE);
            (EV_CLOSE,          _,             _, _, _,           _, _, _, _, _, _,       _) : close();
            (EV_LAST_COMMIT,    _,             _, _, _,           _, _, _, _, _, _,       _) : commit_only(1);
            (EV_CLOSED,         _,             _, _, _,           _, _, _, _, _, _,       _) : tell(REPORT_CLOSED);
            (EV_REFUSED,        _,             _, _, _,           _, _, _, _, _, _,       _) : tell(REPORT_REFUSED);
            (EV_FAULT,          _,             _, _, _,           _, _, _, _, _, _,       _) : tell(REPORT_BAD_COUNT);
            (EV_QUERY,          _,             _, _, _,           _, _, _, _, _, _,       _) : tell(REPORT_STATE);
        }
    }

    apply {
        if (m.event == EV_DATA) {
            data();
            if (m.position == 0) { m.b.first = 1; }
            if (m.slack == 0xffffff00) { m.b.last = 1; }
        } else if (m.looks == 1) {
            if (m.off_list == 0) { look(); }
            else if (m.index != 0) { first_producer(); }
        } else {
            outcomes.apply();
        }
    }
}
