// What each internal pass does to the worker's registers; `meaning` (connection.p4) says so of packets from outside,
// and steps.p4 of the transfer's registers.
#define VISIT \
    m.do_phase = DO_GET;

control Passes(inout meta_t m) {
    action tick() {
        m.do_phase = DO_GET;
        m.do_turn = DO_GET;
    }
    action next_producer() {
        m.do_phase = DO_GET;
        m.do_turn = DO_SET;
    }
    action visit() { VISIT }
    action free() {
        m.do_phase = DO_MATCH;
        m.phase_from = PHASE_TAIL;
        m.phase_to = PHASE_IDLE;
        m.do_turn = DO_GET;
    }
    action unlock() {
        m.do_phase = DO_MATCH;
        m.phase_from = PHASE_TAIL;
        m.phase_to = PHASE_IDLE;
    }
    action claim() {
        m.do_phase = DO_MATCH;
        m.phase_from = PHASE_IDLE;
        m.phase_to = PHASE_CLAIMED;
    }
    action read() {
        m.do_owner = DO_SET;
        m.do_phase = DO_MATCH;
        m.phase_from = PHASE_CLAIMED;
        m.phase_to = PHASE_DATA;
        m.do_turn = DO_SET;
    }
    action done() {
        m.do_phase = DO_MATCH;
        m.phase_from = PHASE_DATA;
        m.phase_to = PHASE_TAIL;
    }
    action closed() {
        m.do_phase = DO_MATCH;
        m.phase_from = PHASE_CLOSING;
        m.phase_to = PHASE_CLOSED;
    }
    action phase() { m.do_phase = DO_GET; }
    action release() {
        m.do_phase = DO_MATCH;
        m.phase_from = PHASE_CLAIMED;
        m.phase_to = PHASE_IDLE;
    }
    action last_commit() {
        m.do_phase = DO_MATCH;
        m.phase_from = PHASE_CLAIMED;
        m.phase_to = PHASE_CLOSING;
    }
    action fault() {
        m.do_phase = DO_SET;
        m.phase_to = PHASE_FAULT;
    }
    action poll_producer() {
        m.do_asker = DO_SET;
        m.do_poll_psn = DO_GET;
        m.do_turn = DO_SET;
    }
    action poll_consumer() { m.do_poll_psn = DO_GET; }
    action reset() {
        m.do_owner = DO_RESET;
        m.do_asker = DO_RESET;
        m.do_phase = DO_SET;
        m.do_turn = DO_SET;
        m.b.next = 0;
        m.b.time = m.now;
        m.do_poll_psn = DO_RESET;
    }

    table passes {
        key = { m.event : exact; }
        actions = {
            tick; next_producer; visit; free; unlock; claim; read; done; closed; phase; release; last_commit; fault;
            poll_producer; poll_consumer; reset; NoAction;
        }
        const default_action = NoAction();
        const entries = {
            // event         : what it does to the worker's registers
            EV_TICK          : tick();
            EV_NEXT          : next_producer();
            EV_VISIT         : visit();
            EV_ROOM          : tick();
            EV_FREE          : free();
            EV_UNLOCK        : unlock();
            EV_START         : claim();
            EV_READ          : read();
            EV_DONE          : done();
            EV_CLOSED        : closed();
            EV_RETRY         : phase();
            EV_RESEND        : phase();
            EV_REPEAT        : phase();
            EV_RELEASE       : release();
            EV_CLOSE         : claim();
            EV_LAST_COMMIT   : last_commit();
            EV_FAULT         : fault();
            EV_POLL_PRODUCER : poll_producer();
            EV_POLL_CONSUMER : poll_consumer();
            EV_RESET         : reset();
            EV_QUERY         : phase();
        }
    }

    apply { passes.apply(); }
}
