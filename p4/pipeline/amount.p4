// How many bytes the next transfer moves: all that both rings allow, up to the flow's max_batch.
//
//   batch = min(fill, space, max_batch, bytes to the producer's wrap, bytes to the consumer's wrap)
//
// Every operand is a multiple of the item size, so the batch is one.
control Amount(inout meta_t m) {
    action differences() {
        m.fill = m.g.producer_head - m.g.producer_tail;
        m.space = m.g.consumer_tail - m.g.head;
        m.to_producer_wrap = m.g.producer_tail & m.producer_mask;
        m.to_consumer_wrap = m.g.head & m.consumer_mask;
    }
    action whole() {
        m.closed = m.fill & 1;
        m.fill = m.fill & COUNTER_BYTES;
        m.space = m.space & COUNTER_BYTES;
        m.to_producer_wrap = m.producer_size - m.to_producer_wrap;
        m.to_consumer_wrap = m.consumer_size - m.to_consumer_wrap;
    }
    action distances() {
        m.space = m.consumer_size + m.space;
        m.fill_over = m.fill |-| m.producer_size;
        m.batch_lacking = m.max_batch |-| m.fill;
        m.batch = MIN32(m.fill, m.max_batch);
        m.to_producer_wrap = MIN32(m.to_producer_wrap, m.to_consumer_wrap);
    }
    action slacks() {
        m.space_lacking = m.low_space |-| m.space;
        m.space_over = m.space |-| m.consumer_size;
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
        whole();
        distances();
        slacks();
        smallest();
        rest();
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
