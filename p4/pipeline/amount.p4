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
        m.batch = m.max_batch;
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
    }

    apply {
        differences();
        distances();
        slacks();
        MIN32(m.batch, m.fill)
        MIN32(m.batch, m.space)
        MIN32(m.batch, m.to_producer_wrap)
        MIN32(m.batch, m.to_consumer_wrap)
    }
}

// Fragments of a transfer (RETH length over path MTU, rounded up), by shifts that each MTU fixes.
control Fragments(inout meta_t m) {
    action frags_256()  { m.frags = (bit<16>)((m.batch + 255) >> 8); }
    action frags_512()  { m.frags = (bit<16>)((m.batch + 511) >> 9); }
    action frags_1024() { m.frags = (bit<16>)((m.batch + 1023) >> 10); }
    action frags_2048() { m.frags = (bit<16>)((m.batch + 2047) >> 11); }
    action frags_4096() { m.frags = (bit<16>)((m.batch + 4095) >> 12); }
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
    apply { fragments.apply(); }
}

// Bytes in front of fragment `m.from`.
control FromBytes(inout meta_t m) {
    action from_256()  { m.from_bytes = m.from << 8; }
    action from_512()  { m.from_bytes = m.from << 9; }
    action from_1024() { m.from_bytes = m.from << 10; }
    action from_2048() { m.from_bytes = m.from << 11; }
    action from_4096() { m.from_bytes = m.from << 12; }
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
    action once()   { m.due_at = m.now + m.rto; }
    action by_2()   { m.due_at = m.now + (m.rto << 1); }
    action by_4()   { m.due_at = m.now + (m.rto << 2); }
    action by_8()   { m.due_at = m.now + (m.rto << 3); }
    action by_16()  { m.due_at = m.now + (m.rto << 4); }
    action by_32()  { m.due_at = m.now + (m.rto << 5); }
    action by_64()  { m.due_at = m.now + (m.rto << 6); }
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
    apply { backoff.apply(); }
}
