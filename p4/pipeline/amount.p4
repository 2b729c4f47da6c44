// Where an answer lies within the transfer: fragments from its beginning, and from its end.
control Position(inout meta_t m) {
    action at_producer() { m.position = m.psn - m.producer_psn; }
    action at_consumer() { m.position = m.psn - m.consumer_psn; }
    apply {
        if (m.event == EV_DATA) { at_producer(); }
        else { at_consumer(); }
        m.slack = m.position - m.frags;
    }
}

// How many bytes the next transfer moves: all that both rings allow, up to the flow's max_batch.
//
//   batch = min(fill, space, max_batch, bytes to the producer's wrap, bytes to the consumer's wrap)
//
// Every operand is a multiple of the item size, so the batch is one.
control Amount(inout meta_t m) {
    action differences() {
        m.fill = m.producer_head - m.producer_tail;
        m.space = m.consumer_tail - m.head;
        m.to_producer_wrap = m.producer_tail & m.producer_mask;
        m.to_consumer_wrap = m.head & m.consumer_mask;
    }
    action distances() {
        m.space = m.consumer_size + m.space;
        m.to_producer_wrap = m.producer_size - m.to_producer_wrap;
        m.to_consumer_wrap = m.consumer_size - m.to_consumer_wrap;
        m.fill_slack = m.producer_size - m.fill;
        m.batch_slack = m.fill - m.max_batch;
    }
    action slacks() {
        m.space_slack = m.space - m.low_space;
        m.over_slack = m.consumer_size - m.space;
        m.batch = MIN32(m.fill, m.max_batch);
        m.to_producer_wrap = MIN32(m.to_producer_wrap, m.to_consumer_wrap);
    }
    action smaller() {
        m.batch = MIN32(m.batch, m.space);
    }
    action smallest() {
        m.batch = MIN32(m.batch, m.to_producer_wrap);
    }
    action rest() {
        m.batch_rest = m.fill - m.batch;
    }

    apply {
        differences();
        distances();
        slacks();
        smaller();
        smallest();
        rest();
    }
}

// Fragments of a transfer (RETH length over path MTU, rounded up), by shifts that each MTU fixes.
control Fragments(inout meta_t m) {
    action frags_256()  { m.frags = m.rounded; }
    action frags_512()  { m.frags = m.rounded >> 1; }
    action frags_1024() { m.frags = m.rounded >> 2; }
    action frags_2048() { m.frags = m.rounded >> 3; }
    action frags_4096() { m.frags = m.rounded >> 4; }
    table fragments {
        key = { m.mtu : exact; }
        actions = { frags_256; frags_512; frags_1024; frags_2048; frags_4096; }
        const default_action = frags_4096();
        const entries = {
            1 : frags_256();
            2 : frags_512();
            3 : frags_1024();
            4 : frags_2048();
        }
    }
    action round_up() { m.rounded = m.length + m.mtu_mask; }
    action whole()    { m.frags = m.frags & 0xffffff00; }
    apply {
        round_up();
        fragments.apply();
        whole();
    }
}

// Bytes in front of fragment `m.from`.
control FromBytes(inout meta_t m) {
    action from_256()  { m.from_bytes = m.from; }
    action from_512()  { m.from_bytes = m.from << 1; }
    action from_1024() { m.from_bytes = m.from << 2; }
    action from_2048() { m.from_bytes = m.from << 3; }
    action from_4096() { m.from_bytes = m.from << 4; }
    table from_bytes {
        key = { m.mtu : exact; }
        actions = { from_256; from_512; from_1024; from_2048; from_4096; }
        const default_action = from_4096();
        const entries = {
            1 : from_256();
            2 : from_512();
            3 : from_1024();
            4 : from_2048();
        }
    }
    apply { from_bytes.apply(); }
}

// Each retry waits twice as long as the one before, up to 64 times `rto`.
control Backoff(inout meta_t m) {
    action once()   { m.wait = m.rto; }
    action by_2()   { m.wait = m.rto << 1; }
    action by_4()   { m.wait = m.rto << 2; }
    action by_8()   { m.wait = m.rto << 3; }
    action by_16()  { m.wait = m.rto << 4; }
    action by_32()  { m.wait = m.rto << 5; }
    action by_64()  { m.wait = m.rto << 6; }
    table backoff {
        key = { m.tries : exact; }
        actions = { once; by_2; by_4; by_8; by_16; by_32; by_64; }
        const default_action = by_64();
        const entries = {
            0 : once();
            1 : once();
            2 : by_2();
            3 : by_4();
            4 : by_8();
            5 : by_16();
            6 : by_32();
        }
    }
    action until() { m.due_at = m.now + m.wait; }
    apply {
        backoff.apply();
        until();
    }
}

// When a capped flow is refilled again. One that has long been late begins anew, rather than catch up all at once.
control RefillTimes(inout meta_t m) {
    action on_time() {
        m.refill_next = m.word + m.refill_every;
        m.wait = m.refill_every << 4;
    }
    action left() { m.wait = m.word + m.wait; }
    action late() { m.wait = m.wait - m.now; }
    action anew() { m.refill_next = m.now; }
    apply {
        on_time();
        left();
        late();
        if (m.wait[31:31] == 1) { anew(); }
    }
}
