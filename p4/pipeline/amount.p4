// How many bytes the next transfer moves: all that both rings allow, up to the flow's max_batch.
//
//   batch = min(fill, space, max_batch, bytes to the producer's wrap, bytes to the consumer's wrap)
//
// Every operand is a multiple of the item size, so the batch is one.
//
// FILL, SPACE and so on are fields that are used up (common/metadata.p4).
control Amount(inout meta_t m) {
    action differences() {
        FILL = m.g.producer_head - m.g.producer_tail;                   // with CLOSED
        SPACE = m.g.consumer_tail - m.g.head;
        PRODUCER_WRAP = m.g.producer_tail & m.producer_mask;
        CONSUMER_WRAP = m.g.head & m.consumer_mask;
    }
    action whole() {
        m.closed = FILL & 1;
        FILL = FILL & COUNTER_BYTES;
        SPACE = SPACE & COUNTER_BYTES;
        PRODUCER_WRAP = m.producer_size - PRODUCER_WRAP;
        CONSUMER_WRAP = m.consumer_size - CONSUMER_WRAP;
    }
    action distances() {
        SPACE = m.consumer_size + SPACE;
        FILL_BEYOND = FILL |-| m.producer_size;
        m.batch = MIN32(FILL, m.max_batch);
        BATCH_LACKING = m.max_batch |-| FILL;
        PRODUCER_WRAP = MIN32(PRODUCER_WRAP, CONSUMER_WRAP);
    }
    action slacks() {
        SPACE_LACKING = m.low_space |-| SPACE;
        SPACE_BEYOND = SPACE |-| m.consumer_size;
        m.batch = MIN32(m.batch, SPACE);
    }
    action smallest() { m.batch = MIN32(m.batch, PRODUCER_WRAP); }
    apply {
        differences();
        whole();
        distances();
        slacks();
        smallest();
    }
}

// Fragments of a transfer (RETH length over path MTU, rounded up), by shifts that each MTU fixes. What is left in the
// low byte EV_START takes away (steps.p4).
control Fragments(inout meta_t m) {
    Carry() carry;

    action frags_256()  { m.b.frags = m.rounded; }
    action frags_512()  { m.b.frags = m.rounded >> 1; }
    action frags_1024() { m.b.frags = m.rounded >> 2; }
    action frags_2048() { m.b.frags = m.rounded >> 3; }
    action frags_4096() { m.b.frags = m.rounded >> 4; }
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
    action round_up() { ROUNDED_UP = m.batch + m.mtu_mask; }
    apply {
        round_up();
        carry.apply(ROUNDED_UP, m.rounded);
        fragments.apply();
    }
}

// A READ that begins within the transfer: by the bytes in front of READ_FROM.
control FromBytes(inout meta_t m) {
    action from_256()  { m.from_bytes = READ_FROM; }
    action from_512()  { m.from_bytes = READ_FROM << 1; }
    action from_1024() { m.from_bytes = READ_FROM << 2; }
    action from_2048() { m.from_bytes = READ_FROM << 3; }
    action from_4096() { m.from_bytes = READ_FROM << 4; }
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
    action shorten() {
        m.b.address = m.b.address + m.from_bytes;
        m.b.length = m.b.length - m.from_bytes;
    }
    apply {
        from_bytes.apply();
        shorten();
    }
}

// When a capped flow is refilled again, and whether its rate allows a transfer now. Its workers look in one order:
// did the first look behind a refill always win, those behind it would get nothing. So while there is little to be
// had, each look is as good as any. A flow that has long been late begins anew, rather than catch up all at once.
control RefillTimes(inout meta_t m) {
    Dice() dice;

    action differences() {
        m.refill_late = m.b.time - m.g.refill_at;
        m.refill_limit = m.refill_every << 4;
        m.debt_over = m.g.debt |-| m.burst;
        m.debt_scarce = m.g.debt |-| m.scarce;
        m.time = m.g.refill_at + m.refill_every;
    }
    action excess() {
        m.refill_early = m.refill_late |-| 0x7fffffff;
        m.refill_limit = m.refill_late |-| m.refill_limit;
    }
    action anew() { m.time = m.b.time; }
    action not_this_time() { m.debt_over = 1; }
    apply {
        dice.apply(m.dice);
        differences();
        excess();
        if (m.refill_limit != 0) { anew(); }
        if (m.dice != 0) {
            if (m.debt_scarce != 0) { not_this_time(); }
        }
    }
}
