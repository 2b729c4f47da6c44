// Where an answer lies within the transfer: fragments from its beginning, from its end, and beyond that.
control Position(inout meta_t m) {
    action at_producer() { m.position = m.psn - m.producer_psn; }
    action at_consumer() { m.position = m.psn - m.consumer_psn; }
    action nowhere()     { m.position = 0xffffffff; }
    action rest() {
        m.slack = m.position - m.frags;
        m.beyond = m.position |-| m.frags;
    }
    apply {
        if (m.event == EV_DATA) {
            // A late response of a producer whose transfer is over must not pass for one of the present transfer.
            if (m.other_sender == 0) { at_producer(); }
            else { nowhere(); }
        } else {
            at_consumer();
        }
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
