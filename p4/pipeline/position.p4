// Where an answer lies within the transfer: fragments from its beginning, from its end, and beyond that.
control Position(inout meta_t m) {
    action at_producer() {
        m.position = m.b.psn - m.producer_psn;
        m.limit = m.b.frags;
    }
    action at_consumer() {
        m.position = m.b.psn - m.consumer_psn;
        m.limit = m.b.frags;
    }
    // A NAK names what is expected, an ACK what came last.
    action behind_at_consumer() {
        m.position = m.next_psn - m.consumer_psn;
        m.limit = m.b.frags + ONE_PACKET;
    }
    action nowhere() {
        m.position = 0xffffffff;
        m.limit = 0;
    }
    action rest() {
        m.slack = m.position - m.limit;
        m.beyond = m.position |-| m.limit;
    }
    apply {
        if (m.event == EV_DATA) {
            // A late response of a producer whose transfer is over must not pass for one of the present transfer.
            if (m.other_sender == 0) { at_producer(); }
            else { nowhere(); }
        } else if (m.event == EV_COMMITTED) {
            behind_at_consumer();
        } else {
            at_consumer();
        }
        rest();
    }
}

// The first nine retries wait for `rto`, since losses are what they usually are about; each two further ones wait twice as long as those
// before, up to 64 times `rto`. One that was answered, and got nowhere, counts twice.
control Backoff(inout meta_t m) {
    action once()   { m.wait = m.rto; }
    action by_2()   { m.wait = m.rto << 1; }
    action by_4()   { m.wait = m.rto << 2; }
    action by_8()   { m.wait = m.rto << 3; }
    action by_16()  { m.wait = m.rto << 4; }
    action by_32()  { m.wait = m.rto << 5; }
    action by_64()  { m.wait = m.rto << 6; }
    table backoff {
        key = { m.tries[15:1] : exact @name("tries"); }
        actions = { once; by_2; by_4; by_8; by_16; by_32; by_64; }
        const default_action = by_64();
        const entries = {
            0 : once();
            1 : once();
            2 : once();
            3 : once();
            4 : once();
            5 : by_2();
            6 : by_4();
            7 : by_8();
            8 : by_16();
            9 : by_32();
        }
    }
    action until() { m.due_at = m.now + m.wait; }
    apply {
        backoff.apply();
        until();
    }
}
