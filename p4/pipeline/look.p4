// A look at a worker and a producer, in egress: ingress has gathered what the registers say (outcome.p4). Is there
// something to do, to ask, or to repeat? The packet's next pass does it.

// Sizes of the rings and the flow's rate cap: `refill` bytes every `refill_every`.
control LookParams(inout meta_t m) {
    action worker_ring(bit<16> producers, bytes_t max_batch, bytes_t size, bytes_t mask, bytes_t low_space,
                       bit<16> poll_qp, bit<16> group, bit<8> mtu, bytes_t mtu_mask) {
        m.producers = producers;
        m.max_batch = max_batch;
        m.consumer_size = size;
        m.consumer_mask = mask;
        m.low_space = low_space;
        m.consumer_poll_qp = poll_qp;
        m.ask_group = group;
        m.mtu = mtu;
        m.mtu_mask = mtu_mask;
    }
    table worker_rings {
        key = { m.b.worker : exact; }
        actions = { worker_ring; NoAction; }
        const default_action = NoAction();
        size = ZSR_MAX_WORKERS;
    }
    action producer_ring(bytes_t size, bytes_t mask, bit<16> poll_qp) {
        m.producer_size = size;
        m.producer_mask = mask;
        m.producer_poll_qp = poll_qp;
    }
    table producer_rings {
        key = { m.b.producer : exact; }
        actions = { producer_ring; NoAction; }
        const default_action = NoAction();
        size = ZSR_MAX_PRODUCERS;
    }
    action flow(bytes_t refill, bytes_t burst, bytes_t scarce, usec_t refill_every) {
        m.refill = refill;
        m.burst = burst;
        m.scarce = scarce;
        m.refill_every = refill_every;
    }
    table flows {
        key = { m.b.flow : exact; }
        actions = { flow; NoAction; }
        const default_action = NoAction();
        size = ZSR_MAX_FLOWS;
    }
    apply {
        worker_rings.apply();
        if (m.b.event == EV_LOOK) {
            producer_rings.apply();
            if (CAPPED(m.g.settings)) { flows.apply(); }
        }
    }
}

control Look(inout meta_t m) {
    Amount() amount;
    Fragments() fragments;
    Carry() carry;
    RefillTimes() refill_times;

    action nothing() {
        m.b.kind = OUT_DROP;
        m.ask = ASK_NOBODY;
        m.hops_left = m.producers |-| m.b.hops;
    }
    action next_pass(event_t event) {
        m.b.kind = OUT_RECIRCULATE;
        m.b.event = event;
    }
    action fault() {
        next_pass(EV_FAULT);
        BAD_FILL = FILL;
    }
    action poll_producer() {
        next_pass(EV_POLL_PRODUCER);
        m.b.qp = m.producer_poll_qp;
    }
    action leave_turn() { m.b.next = NO_PLACE; }
    action poll_consumer() {
        next_pass(EV_POLL_CONSUMER);
        m.b.qp = m.consumer_poll_qp;
    }
    action ask_members() {
        next_pass(EV_ASK);
        ASKED_GROUP = m.ask_group + 1;
    }
    action refill() {
        next_pass(EV_REFILL);
        REFILL_FROM = m.g.refill_at;
        REFILL_TO = m.time;
        REFILL_BYTES = m.refill;
    }
    action start() {
        next_pass(EV_START);
        m.b.length = m.carried;
        BYTES_BEHIND = FILL - m.batch;
    }
    action next_producer() {
        next_pass(EV_NEXT);
        m.b.hops = m.b.hops + 1;
        ALL_DRAINED = 0;
    }

    apply {
        nothing();
        amount.apply(m);
        fragments.apply(m);
        carry.apply(m.batch, m.carried);
        if (CAPPED(m.g.settings)) { refill_times.apply(m); }

        if (m.g.phase == PHASE_IDLE) { m.idle = 1; }
        else if (m.g.phase == PHASE_CLOSED || m.g.phase == PHASE_FAULT) { m.stopped = 1; }
        // All producers of the round so far: the worker closes when it has found the whole list so.
        if (m.b.hops == 0) { m.is_drained = 1; }
        else if (ALL_DRAINED == 1) { m.is_drained = 1; }
        if (FILL == 0) { m.empty = 1; }
        // A PU whose counter left its ring. Only an idle worker can tell: while a commit is on its way, a consumer may
        // already have popped items that our head does not count yet.
        if (FILL_BEYOND != 0) { m.bad_count = 1; }
        else if (SPACE_BEYOND != 0) { m.bad_count = 1; }
        if (SPACE_LACKING != 0) { m.is_low = 1; }
        if (BATCH_LACKING != 0) { m.is_short = 1; }

        if (m.stopped == 0) {
            if (m.empty == 1) {
                if (m.closed == 0) { m.ask = ASK_PRODUCER; }
            }
            else if (m.is_low == 1) { m.ask = ASK_CONSUMER; }
            // While a transfer is under way; not where producers ring: an answer from before the tail is written
            // misses items that come too early for the bell, and the poll behind the tail would be its repetition.
            else if (m.idle == 0 && m.closed == 0 && m.is_short == 1 && !RINGS(m.g.settings)) { m.ask = ASK_PRODUCER; }
        }
        if (m.idle == 0 || m.closed == 0 || m.empty == 0) { m.is_drained = 0; }

        if (m.bad_count == 1 && m.idle == 1 && m.g.blocked == 0) { fault(); }
        else if (m.idle == 0 && m.g.late == 1 && m.stopped == 0) { next_pass(EV_RETRY); }
        else if (m.ask == ASK_PRODUCER && m.g.ask_producer == 1) {
            poll_producer();
            // A producer that was found empty gives its turn up: where polls are due at every tick, no other would get one.
            if (m.idle == 0) { leave_turn(); }
        }
        else if (m.ask == ASK_CONSUMER && m.g.ask_consumer == 1) {
            if (m.ask_group == 0) { poll_consumer(); }
            else { ask_members(); }
        }
        else if (CAPPED(m.g.settings) && m.refill_early == 0) { refill(); }
        else if (m.idle == 1) {
            if (m.batch != 0 && m.g.blocked == 0) {
                if (!HOLDS(m.g.settings) && m.debt_over == 0) { start(); }
            }
            else if (m.b.next != NO_PLACE) {
                // The list has `producers` places, of which `hops` + 1 have been looked at.
                if ((m.empty == 1 || m.g.blocked == 1) && m.hops_left != 0 && m.hops_left != 1) {
                    next_producer();
                    if (m.is_drained == 1) { ALL_DRAINED = 1; }
                }
                // Nor while it is held: its list may be about to change.
                else if (m.is_drained == 1 && !OPEN(m.g.settings) && !HOLDS(m.g.settings)) { next_pass(EV_CLOSE); }
            }
        }
    }
}
