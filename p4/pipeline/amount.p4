// How many bytes the next transfer moves: all that both rings allow, up to the flow's max_batch.
//
//   batch = min(fill, space, max_batch, bytes to the producer's wrap, bytes to the consumer's wrap)
//
// Every operand is a multiple of the item size, so the batch is one.
//
// Fields change their meaning on the way, as few are left where all of this has to be at once: from a counter to a distance,
// from a size to what is beyond it.
control Amount(inout meta_t m) {
    action differences() {
        m.g.producer_head = m.g.producer_head - m.g.producer_tail;      // the fill, with CLOSED
        m.g.consumer_tail = m.g.consumer_tail - m.g.head;
        m.producer_mask = m.g.producer_tail & m.producer_mask;
        m.consumer_mask = m.g.head & m.consumer_mask;
    }
    action whole() {
        m.closed = m.g.producer_head & 1;
        m.g.producer_head = m.g.producer_head & COUNTER_BYTES;
        m.g.consumer_tail = m.g.consumer_tail & COUNTER_BYTES;
        m.producer_mask = m.producer_size - m.producer_mask;            // to the producer's wrap
        m.consumer_mask = m.consumer_size - m.consumer_mask;
    }
    action distances() {
        m.g.consumer_tail = m.consumer_size + m.g.consumer_tail;        // the space
        m.producer_size = m.g.producer_head |-| m.producer_size;        // fill beyond the ring
        m.batch = MIN32(m.g.producer_head, m.max_batch);
        m.max_batch = m.max_batch |-| m.g.producer_head;                // what the producer lacks to a full batch
        m.producer_mask = MIN32(m.producer_mask, m.consumer_mask);
    }
    action slacks() {
        m.low_space = m.low_space |-| m.g.consumer_tail;                // by how much space is low
        m.consumer_size = m.g.consumer_tail |-| m.consumer_size;        // space beyond the ring
        m.batch = MIN32(m.batch, m.g.consumer_tail);
    }
    action smallest() { m.batch = MIN32(m.batch, m.producer_mask); }
    apply {
        differences();
        whole();
        distances();
        slacks();
        smallest();
    }
}

// Fragments of a transfer (RETH length over path MTU, rounded up), by shifts that each MTU fixes.
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
    action round_up() { m.mtu_mask = m.batch + m.mtu_mask; }
    action whole()    { m.b.frags = m.b.frags & 0xffffff00; }
    apply {
        round_up();
        carry.apply(m.mtu_mask, m.rounded);
        fragments.apply();
        whole();
    }
}

// A READ that begins at fragment `m.b.frags` of the transfer: by the bytes in front of that.
control FromBytes(inout meta_t m) {
    action from_256()  { m.from_bytes = m.b.frags; }
    action from_512()  { m.from_bytes = m.b.frags << 1; }
    action from_1024() { m.from_bytes = m.b.frags << 2; }
    action from_2048() { m.from_bytes = m.b.frags << 3; }
    action from_4096() { m.from_bytes = m.b.frags << 4; }
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

// When a capped flow is refilled again. One that has long been late begins anew, rather than catch up all at once.
control RefillTimes(inout meta_t m) {
    action differences() {
        m.refill_late = m.b.time - m.g.refill_at;
        m.refill_limit = m.refill_every << 4;
        m.debt_over = m.g.debt |-| m.burst;
        m.time = m.g.refill_at + m.refill_every;
    }
    action excess() {
        m.refill_early = m.refill_late |-| 0x7fffffff;
        m.refill_limit = m.refill_late |-| m.refill_limit;
    }
    action anew() { m.time = m.b.time; }
    apply {
        differences();
        excess();
        if (m.refill_limit != 0) { anew(); }
    }
}
