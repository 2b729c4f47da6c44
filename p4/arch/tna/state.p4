// State registers, Tofino: one Register each, with an action per operation; names, signatures and meaning are those of
// arch/v1model/state.p4. A stateful ALU takes four actions, and two operands from the packet over all of them.
#ifndef ZSR_STATE_P4
#define ZSR_STATE_P4

#define ACTION(name, type, reg, body) \
    RegisterAction<type, bit<16>, type>(reg) name = { void apply(inout type v, out type o) body };
// Likewise of two words; the first has the register's name, the second that of v1model's other register.
#define PAIR_ACTION(name, type, word, reg, body) \
    RegisterAction<type, bit<16>, word>(reg) name = { void apply(inout type v, out word o) body };
// One that gives a flag; in 32 bits where another action of the register gives a word.
#define TEST(name, type, reg, body) \
    RegisterAction<type, bit<16>, bit<8>>(reg) name = { void apply(inout type v, out bit<8> o) body };
#define WIDE_TEST(name, type, reg, body) \
    RegisterAction<type, bit<16>, bit<32>>(reg) name = { void apply(inout type v, out bit<32> o) body };

// A stage has four stateful ALUs. Beside the second egress of a Tofino 1 (folded.p4) the compiler puts these where the ALUs are needed that the
// next stages wait for.
#ifdef ZSR_FOLDED
#define DUE_STAGE @stage(5)
#else
#define DUE_STAGE
#endif

control OwnerState(inout meta_t m) {
    Register<bit<16>, bit<16>>(ZSR_MAX_PRODUCERS) owner;
    ACTION(get, bit<16>, owner, { o = v; })
    ACTION(put, bit<16>, owner, { v = m.b.worker; o = v; })

    action do_get() { m.b.worker = get.execute(m.b.producer); }
    action do_put() { put.execute(m.b.producer); }
    table ops {
        key = { m.do_owner : exact; }
        actions = { do_get; do_put; NoAction; }
        const default_action = NoAction();
        const entries = {
            DO_GET   : do_get();
            DO_SET   : do_put();
            DO_RESET : do_put();
        }
    }
    apply { ops.apply(); }
}

control AskerState(inout meta_t m) {
    Register<bit<16>, bit<16>>(ZSR_MAX_PRODUCERS) asker;
    ACTION(get, bit<16>, asker, { o = v; })
    ACTION(put, bit<16>, asker, { v = m.b.worker; o = v; })

    action do_get() { m.b.worker = get.execute(m.b.producer); }
    action do_put() { put.execute(m.b.producer); }
    // Where both are used, only one of them gives a worker.
    @ignore_table_dependency("IngressShell.zsr.arrival.claim.owner.ops")
    table ops {
        key = { m.do_asker : exact; }
        actions = { do_get; do_put; NoAction; }
        const default_action = NoAction();
        const entries = {
            DO_GET   : do_get();
            DO_SET   : do_put();
            DO_RESET : do_put();
        }
    }
    apply { ops.apply(); }
}

control PhaseState(inout meta_t m) {
    Register<phase_t, bit<16>>(ZSR_MAX_WORKERS) phase;
    ACTION(get, phase_t, phase, { o = v; })
    ACTION(put, phase_t, phase, { o = v; v = m.phase_to; })
    ACTION(move, phase_t, phase, { o = 0; if (v == m.phase_from) { v = m.phase_to; o = 1; } })

    action do_get() { m.g.phase = get.execute(m.b.worker); }
    action do_put() { m.g.phase = put.execute(m.b.worker); }
    action do_move() { m.claimed = move.execute(m.b.worker); m.g.phase = m.phase_to; }
    table ops {
        key = { m.do_phase : exact; }
        actions = { do_get; do_put; do_move; NoAction; }
        const default_action = NoAction();
        const entries = {
            DO_GET   : do_get();
            DO_SET   : do_put();
            DO_MATCH : do_move();
        }
    }
    apply { ops.apply(); }
}

control TurnState(inout meta_t m) {
    Register<bit<16>, bit<16>>(ZSR_MAX_WORKERS) turn;
    ACTION(get, bit<16>, turn, { o = v; })
    ACTION(put, bit<16>, turn, { v = m.b.next; o = v; })

    action do_get() { m.index = get.execute(m.b.worker); }
    action do_put() { m.index = put.execute(m.b.worker); }
    table ops {
        key = { m.do_turn : exact; }
        actions = { do_get; do_put; NoAction; }
        const default_action = NoAction();
        const entries = {
            DO_GET   : do_get();
            DO_SET   : do_put();
        }
    }
    apply { ops.apply(); }
}

control TransferState(inout meta_t m) {
    Register<bit<16>, bit<16>>(ZSR_MAX_WORKERS) transfer_producer;
    Register<bytes_t, bit<16>>(ZSR_MAX_WORKERS) transfer_length;
    Register<psn_t, bit<16>>(ZSR_MAX_WORKERS) transfer_frags;
    ACTION(get_producer, bit<16>, transfer_producer, { o = v; })
    ACTION(put_producer, bit<16>, transfer_producer, { v = m.b.producer; o = v; })
    ACTION(get_length, bytes_t, transfer_length, { o = v; })
    ACTION(put_length, bytes_t, transfer_length, { v = m.b.length; o = v; })
    ACTION(get_frags, psn_t, transfer_frags, { o = v; })
    ACTION(put_frags, psn_t, transfer_frags, { v = m.b.frags; o = v; })

    action do_get_producer() { m.b.producer = get_producer.execute(m.b.worker); }
    action do_put_producer() { put_producer.execute(m.b.worker); }
    table ops_producer {
        key = { m.do_transfer : exact; }
        actions = { do_get_producer; do_put_producer; NoAction; }
        const default_action = NoAction();
        const entries = {
            DO_GET : do_get_producer();
            DO_SET : do_put_producer();
        }
    }
    action do_get_length() { m.b.length = get_length.execute(m.b.worker); }
    action do_put_length() { put_length.execute(m.b.worker); }
    table ops_length {
        key = { m.do_transfer : exact; }
        actions = { do_get_length; do_put_length; NoAction; }
        const default_action = NoAction();
        const entries = {
            DO_GET : do_get_length();
            DO_SET : do_put_length();
        }
    }
    action do_get_frags() { m.b.frags = get_frags.execute(m.b.worker); }
    action do_put_frags() { put_frags.execute(m.b.worker); }
    table ops_frags {
        key = { m.do_transfer : exact; }
        actions = { do_get_frags; do_put_frags; NoAction; }
        const default_action = NoAction();
        const entries = {
            DO_GET : do_get_frags();
            DO_SET : do_put_frags();
        }
    }
    apply {
        ops_producer.apply();
        ops_length.apply();
        ops_frags.apply();
    }
}

control ConsumerPsnState(inout meta_t m) {
    Register<psn_t, bit<16>>(ZSR_MAX_WORKERS) consumer_psn;
    ACTION(get, psn_t, consumer_psn, { o = v; })
    ACTION(add, psn_t, consumer_psn, { o = v; v = v + m.consumer_step; })
    ACTION(put, psn_t, consumer_psn, { v = m.b.psn; o = v; })

    action do_get() { m.consumer_psn = get.execute(m.b.worker); }
    action do_add() { m.consumer_psn = add.execute(m.b.worker); }
    action do_put() { put.execute(m.b.worker); }
    table ops {
        key = { m.do_consumer_psn : exact; }
        actions = { do_get; do_add; do_put; NoAction; }
        const default_action = NoAction();
        const entries = {
            DO_GET   : do_get();
            DO_ADD   : do_add();
            DO_RESET : do_put();
        }
    }
    apply { ops.apply(); }
}

control HeadState(inout meta_t m) {
    Register<bytes_t, bit<16>>(ZSR_MAX_WORKERS) head;
    ACTION(get, bytes_t, head, { o = v; })
    ACTION(add, bytes_t, head, { o = v; v = v + m.b.length; })
    ACTION(put, bytes_t, head, { v = m.b.head; o = v; })
    WIDE_TEST(same, bytes_t, head, { o = 0; if (v == m.b.head) { o = 1; } })

    action do_get() { m.b.head = get.execute(m.b.worker); }
    action do_add() { m.b.head = add.execute(m.b.worker); }
    action do_put() { put.execute(m.b.worker); }
    action do_same() { m.same_head = same.execute(m.b.worker); }
    table ops {
        key = { m.do_head : exact; }
        actions = { do_get; do_add; do_put; do_same; NoAction; }
        const default_action = NoAction();
        const entries = {
            DO_GET   : do_get();
            DO_ADD   : do_add();
            DO_MATCH : do_same();
            DO_RESET : do_put();
        }
    }
    apply { ops.apply(); }
}

control ConsumerTailState(inout meta_t m) {
    Register<bytes_t, bit<16>>(ZSR_MAX_WORKERS) consumer_tail;
    ACTION(get, bytes_t, consumer_tail, { o = v; })
    ACTION(put, bytes_t, consumer_tail, { v = m.b.word; o = v; })

    action do_get() { m.g.consumer_tail = get.execute(m.b.worker); }
    action do_put() { m.g.consumer_tail = put.execute(m.b.worker); }
    table ops {
        key = { m.do_consumer_tail : exact; }
        actions = { do_get; do_put; NoAction; }
        const default_action = NoAction();
        const entries = {
            DO_GET   : do_get();
            DO_SET   : do_put();
        }
    }
    apply { ops.apply(); }
}

// The second word is where the smaller value is made.
struct tail_pair_t {
    bytes_t tail;
    bytes_t smaller;
}
control MemberTailState(inout meta_t m) {
    Register<tail_pair_t, bit<16>>(ZSR_MAX_QPS) member_tail;
    RegisterAction<tail_pair_t, bit<16>, bytes_t>(member_tail) get = {
        void apply(inout tail_pair_t v, out bytes_t o) {
            if ((int<32>)(v.tail - m.b.word) < 0) { v.smaller = v.tail; } else { v.smaller = m.b.word; }
            o = v.smaller;
        }
    };
    RegisterAction<tail_pair_t, bit<16>, bytes_t>(member_tail) put = {
        void apply(inout tail_pair_t v, out bytes_t o) { v.tail = m.b.word; o = v.smaller; }
    };
    action do_get() { m.b.word = get.execute(m.b.qp); }
    action do_put() { put.execute(m.b.qp); }
    table ops {
        key = { m.do_member_tail : exact; }
        actions = { do_get; do_put; NoAction; }
        const default_action = NoAction();
        const entries = {
            DO_GET   : do_get();
            DO_SET   : do_put();
        }
    }
    apply { ops.apply(); }
}

struct acked_pair_t {
    bit<32> acked;
    bit<32> answered;
}
control AckedState(inout meta_t m) {
    Register<acked_pair_t, bit<16>>(ZSR_MAX_WORKERS) acked;
    PAIR_ACTION(again, acked_pair_t, bit<32>, acked, { v.answered = v.acked; o = v.acked; })
    PAIR_ACTION(add, acked_pair_t, bit<32>, acked, {
        v.acked = v.acked | m.member_bit;
        v.answered = v.answered | m.member_bit;
        o = v.answered;
    })
    PAIR_ACTION(answer, acked_pair_t, bit<32>, acked, { v.answered = v.answered | m.member_bit; o = v.answered; })
    PAIR_ACTION(clear, acked_pair_t, bit<32>, acked, { v.acked = 0; v.answered = 0; o = v.answered; })

    action do_again() { m.acked = again.execute(m.b.worker); }
    action do_add() { m.acked = add.execute(m.b.worker); }
    action do_answer() { m.acked = answer.execute(m.b.worker); }
    action do_clear() { clear.execute(m.b.worker); }
    table ops {
        key = { m.do_acked : exact; }
        actions = { do_again; do_add; do_answer; do_clear; NoAction; }
        const default_action = NoAction();
        const entries = {
            DO_GET   : do_again();
            DO_ADD   : do_add();
            DO_MATCH : do_answer();
            DO_SET   : do_clear();
        }
    }
    apply { ops.apply(); }
}

control ProducerTailState(inout meta_t m) {
    Register<bytes_t, bit<16>>(ZSR_MAX_PRODUCERS) producer_tail;
    ACTION(get, bytes_t, producer_tail, { o = v; })
    ACTION(add, bytes_t, producer_tail, { o = v; v = v + m.b.length; })
    ACTION(put, bytes_t, producer_tail, { v = m.b.producer_tail; o = v; })
    WIDE_TEST(same, bytes_t, producer_tail, { o = 0; if (v == m.b.producer_tail) { o = 1; } })

    action do_get() { m.b.producer_tail = get.execute(m.b.producer); }
    action do_add() { m.b.producer_tail = add.execute(m.b.producer); }
    action do_put() { put.execute(m.b.producer); }
    action do_same() { m.same_tail = same.execute(m.b.producer); }
    table ops {
        key = { m.do_producer_tail : exact; }
        actions = { do_get; do_add; do_put; do_same; NoAction; }
        const default_action = NoAction();
        const entries = {
            DO_GET   : do_get();
            DO_ADD   : do_add();
            DO_MATCH : do_same();
            DO_RESET : do_put();
        }
    }
    apply { ops.apply(); }
}

control ProducerHeadState(inout meta_t m) {
    Register<bytes_t, bit<16>>(ZSR_MAX_PRODUCERS) producer_head;
    ACTION(get, bytes_t, producer_head, { o = v; })
    ACTION(forward, bytes_t, producer_head, { if ((int<32>)(m.b.word - v) >= 0) { v = m.b.word; } o = v; })
    ACTION(put, bytes_t, producer_head, { v = m.b.producer_tail; o = v; })

    action do_get() { m.g.producer_head = get.execute(m.b.producer); }
    action do_forward() { m.g.producer_head = forward.execute(m.b.producer); }
    action do_put() { put.execute(m.b.producer); }
    table ops {
        key = { m.do_producer_head : exact; }
        actions = { do_get; do_forward; do_put; NoAction; }
        const default_action = NoAction();
        const entries = {
            DO_GET   : do_get();
            DO_SET   : do_forward();
            DO_RESET : do_put();
        }
    }
    apply { ops.apply(); }
}

control ProducerPsnState(inout meta_t m) {
    Register<psn_t, bit<16>>(ZSR_MAX_PRODUCERS) producer_psn;
    ACTION(mark, psn_t, producer_psn, { v = v | m.producer_step; o = v; })
    ACTION(add, psn_t, producer_psn, { v = v + m.producer_step; o = v; })
    WIDE_TEST(move, psn_t, producer_psn, { o = 0; if (v == m.producer_step) { v = m.next_psn; o = 1; } })
    ACTION(put, psn_t, producer_psn, { v = m.producer_step; o = v; })

    action do_mark() { m.producer_psn = mark.execute(m.b.producer); }
    action do_add() { m.producer_psn = add.execute(m.b.producer); }
    action do_move() { m.matched = move.execute(m.b.producer); }
    action do_put() { put.execute(m.b.producer); }
    table ops {
        key = { m.do_producer_psn : exact; }
        actions = { do_mark; do_add; do_move; do_put; NoAction; }
        const default_action = NoAction();
        const entries = {
            DO_GET   : do_mark();
            DO_SET   : do_mark();
            DO_ADD   : do_add();
            DO_MATCH : do_move();
            DO_RESET : do_put();
        }
    }
    apply { ops.apply(); }
}

struct from_pair_t {
    psn_t from;
    psn_t smallest;
}
control FromState(inout meta_t m) {
    Register<from_pair_t, bit<16>>(ZSR_MAX_WORKERS) from;
    PAIR_ACTION(get, from_pair_t, psn_t, from, { o = v.from; })
    PAIR_ACTION(again, from_pair_t, psn_t, from, {
        if (m.position > v.from) { v.from = m.position; }
        v.smallest = NOBODY;
        o = v.from;
    })
    PAIR_ACTION(answer, from_pair_t, psn_t, from, {
        if (m.position < v.from) { v.smallest = v.from; }
        else if (m.position < v.smallest) { v.smallest = m.position; }
        o = v.smallest;
    })
    PAIR_ACTION(clear, from_pair_t, psn_t, from, { v.from = NO_FURTHER; v.smallest = NOBODY; o = v.from; })

    action do_get() { m.from = get.execute(m.b.worker); }
    action do_again() { m.from = again.execute(m.b.worker); }
    action do_answer() { m.from = answer.execute(m.b.worker); }
    action do_clear() { m.from = clear.execute(m.b.worker); }
    table ops {
        key = { m.do_from : exact; }
        actions = { do_get; do_again; do_answer; do_clear; NoAction; }
        const default_action = NoAction();
        const entries = {
            DO_GET   : do_get();
            DO_ADD   : do_again();
            DO_MATCH : do_answer();
            DO_SET   : do_clear();
        }
    }
    apply { ops.apply(); }
}

control LockState(inout meta_t m) {
    Register<bit<16>, bit<16>>(ZSR_MAX_PRODUCERS) lock;
    TEST(get, bit<16>, lock, { o = 0; if (v != 0 && v != m.my_lock) { o = 1; } })
    TEST(take, bit<16>, lock, { o = 0; if (v == 0 || v == m.my_lock) { v = m.my_lock; o = 1; } })
    ACTION(clear, bit<16>, lock, { v = 0; o = v; })

    action do_get() { m.g.blocked = get.execute(m.b.producer); }
    action do_take() { m.locked = take.execute(m.b.producer); }
    action do_clear() { clear.execute(m.b.producer); }
    table ops {
        key = { m.do_lock : exact; }
        actions = { do_get; do_take; do_clear; NoAction; }
        const default_action = NoAction();
        const entries = {
            DO_GET   : do_get();
            DO_MATCH : do_take();
            DO_SET   : do_clear();
        }
    }
    apply { ops.apply(); }
}

control CreditState(inout meta_t m) {
    Register<bytes_t, bit<16>>(ZSR_MAX_PRODUCERS) credit;
    TEST(use, bytes_t, credit, {
        if (v >= m.credit_left) { v = v - m.credit_left; o = 1; } else { v = v + m.b.length; o = 0; }
    })
    ACTION(clear, bytes_t, credit, { v = 0; o = v; })

    action do_use() { m.over = use.execute(m.b.producer); }
    action do_clear() { clear.execute(m.b.producer); }
    table ops {
        key = { m.do_credit : exact; }
        actions = { do_use; do_clear; NoAction; }
        const default_action = NoAction();
        const entries = {
            DO_ADD   : do_use();
            DO_RESET : do_clear();
        }
    }
    apply { ops.apply(); }
}

control DebtState(inout meta_t m) {
    Register<bytes_t, bit<16>>(ZSR_MAX_FLOWS) debt;
    ACTION(get, bytes_t, debt, { o = v; })
    ACTION(add, bytes_t, debt, { v = v + m.b.length; o = v; })
    ACTION(refill, bytes_t, debt, { v = v |-| REFILL_BYTES; o = v; })
    ACTION(clear, bytes_t, debt, { v = 0; o = v; })

    action do_get() { m.g.debt = get.execute(m.b.flow); }
    action do_add() { m.g.debt = add.execute(m.b.flow); }
    action do_refill() { m.g.debt = refill.execute(m.b.flow); }
    action do_clear() { clear.execute(m.b.flow); }
    table ops {
        key = { m.do_debt : exact; }
        actions = { do_get; do_add; do_refill; do_clear; NoAction; }
        const default_action = NoAction();
        const entries = {
            DO_GET   : do_get();
            DO_ADD   : do_add();
            DO_SET   : do_refill();
            DO_RESET : do_clear();
        }
    }
    apply { ops.apply(); }
}

control RefillState(inout meta_t m) {
    Register<usec_t, bit<16>>(ZSR_MAX_FLOWS) refill;
    ACTION(get, usec_t, refill, { o = v; })
    WIDE_TEST(move, usec_t, refill, { o = 0; if (v == REFILL_FROM) { v = REFILL_TO; o = 1; } })
    ACTION(put, usec_t, refill, { v = REFILL_TO; o = v; })

    action do_get() { m.g.refill_at = get.execute(m.b.flow); }
    action do_move() { m.matched = move.execute(m.b.flow); }
    action do_put() { put.execute(m.b.flow); }
    table ops {
        key = { m.do_refill : exact; }
        actions = { do_get; do_move; do_put; NoAction; }
        const default_action = NoAction();
        const entries = {
            DO_GET   : do_get();
            DO_MATCH : do_move();
            DO_RESET : do_put();
        }
    }
    apply { ops.apply(); }
}

control TriesState(inout meta_t m) {
    Register<tries_t, bit<16>>(ZSR_MAX_WORKERS) tries;
    ACTION(get, tries_t, tries, { o = v; })
    ACTION(add, tries_t, tries, { v = v + 1; o = v; })
    ACTION(clear, tries_t, tries, { v = 0; o = v; })

    action do_get() { m.tries = get.execute(m.b.worker); }
    action do_add() { m.tries = add.execute(m.b.worker); }
    action do_clear() { clear.execute(m.b.worker); }
    table ops {
        key = { m.do_tries : exact; }
        actions = { do_get; do_add; do_clear; NoAction; }
        const default_action = NoAction();
        const entries = {
            DO_GET   : do_get();
            DO_ADD   : do_add();
            DO_SET   : do_clear();
        }
    }
    apply { ops.apply(); }
}

control DueState(inout meta_t m) {
    Register<usec_t, bit<16>>(ZSR_MAX_WORKERS) due;
    TEST(get, usec_t, due, { o = 0; if ((int<32>)(v - m.now) < 0) { o = 1; } })
    ACTION(put, usec_t, due, { v = m.due_at; o = v; })
    ACTION(later, usec_t, due, { if ((int<32>)(m.due_at - v) >= 0) { v = m.due_at; } o = v; })

    action do_get() { m.is_due = get.execute(m.b.worker); }
    action do_put() { put.execute(m.b.worker); }
    action do_later() { later.execute(m.b.worker); }
    table ops {
        key = { m.do_due : exact; }
        actions = { do_get; do_put; do_later; NoAction; }
        const default_action = NoAction();
        const entries = {
            DO_GET   : do_get();
            DO_SET   : do_put();
            DO_MATCH : do_later();
        }
    }
    apply { ops.apply(); }
}

control PollPsnState(inout meta_t m) {
    Register<psn_t, bit<16>>(ZSR_MAX_QPS) poll_psn;
    ACTION(get, psn_t, poll_psn, { o = v; })
    WIDE_TEST(move, psn_t, poll_psn, { o = 0; if (v == m.b.psn) { v = m.next_poll_psn; o = 1; } })
    ACTION(put, psn_t, poll_psn, { v = m.b.psn; o = v; })

    action do_get() { m.b.psn = get.execute(m.b.qp); }
    action do_move() { m.answered = move.execute(m.b.qp); }
    action do_put() { put.execute(m.b.qp); }
    table ops {
        key = { m.do_poll_psn : exact; }
        actions = { do_get; do_move; do_put; NoAction; }
        const default_action = NoAction();
        const entries = {
            DO_GET   : do_get();
            DO_MATCH : do_move();
            DO_RESET : do_put();
        }
    }
    apply { ops.apply(); }
}

control ProducerDueState(inout meta_t m) {
    Register<usec_t, bit<16>>(ZSR_MAX_PRODUCERS) producer_due;
    TEST(get, usec_t, producer_due, { o = 0; if ((int<32>)(v - m.now) < 0) { o = 1; } })
    ACTION(put, usec_t, producer_due, { v = m.poll_due_at; o = v; })

    action do_get() { m.producer_is_due = get.execute(m.b.producer); }
    action do_put() { put.execute(m.b.producer); }
    DUE_STAGE
    table ops {
        key = { m.do_producer_due : exact; }
        actions = { do_get; do_put; NoAction; }
        const default_action = NoAction();
        const entries = {
            DO_GET   : do_get();
            DO_SET   : do_put();
        }
    }
    apply { ops.apply(); }
}

control ConsumerDueState(inout meta_t m) {
    Register<usec_t, bit<16>>(ZSR_MAX_WORKERS) consumer_due;
    TEST(get, usec_t, consumer_due, { o = 0; if ((int<32>)(v - m.now) < 0) { o = 1; } })
    ACTION(put, usec_t, consumer_due, { v = m.poll_due_at; o = v; })

    action do_get() { m.consumer_is_due = get.execute(m.b.worker); }
    action do_put() { put.execute(m.b.worker); }
    DUE_STAGE
    table ops {
        key = { m.do_consumer_due : exact; }
        actions = { do_get; do_put; NoAction; }
        const default_action = NoAction();
        const entries = {
            DO_GET   : do_get();
            DO_SET   : do_put();
        }
    }
    apply { ops.apply(); }
}

control TicketPsnState(inout meta_t m) {
    Register<psn_t, bit<16>>(ZSR_MAX_QPS) ticket_psn;
    ACTION(take, psn_t, ticket_psn, { o = v; if (v == m.b.psn) { v = m.next_psn; } })
    ACTION(put, psn_t, ticket_psn, { v = m.b.psn; o = v; })

    action do_take() { m.awaited = take.execute(m.b.qp); }
    action do_put() { put.execute(m.b.qp); }
    table ops {
        key = { m.do_ticket_psn : exact; }
        actions = { do_take; do_put; NoAction; }
        const default_action = NoAction();
        const entries = {
            DO_MATCH : do_take();
            DO_RESET : do_put();
        }
    }
    apply { ops.apply(); }
}

control TicketLowState(inout meta_t m) {
    Register<bit<32>, bit<16>>(ZSR_MAX_FLOWS) ticket_low;
    ACTION(add, bit<32>, ticket_low, { o = v; v = v + m.amount; })
    ACTION(put, bit<32>, ticket_low, { v = TICKET_LOW; o = v; })

    action do_add() { TICKET_LOW = add.execute(SEQUENCER); }
    action do_put() { put.execute(SEQUENCER); }
    table ops {
        key = { m.do_ticket : exact; }
        actions = { do_add; do_put; NoAction; }
        const default_action = NoAction();
        const entries = {
            DO_ADD   : do_add();
            DO_RESET : do_put();
        }
    }
    apply { ops.apply(); }
}

control TicketHighState(inout meta_t m) {
    Register<bit<32>, bit<16>>(ZSR_MAX_FLOWS) ticket_high;
    ACTION(add, bit<32>, ticket_high, { o = v; v = v + m.carry; })
    ACTION(put, bit<32>, ticket_high, { v = TICKET_HIGH; o = v; })

    action do_add() { TICKET_HIGH = add.execute(SEQUENCER); }
    action do_put() { put.execute(SEQUENCER); }
    table ops {
        key = { m.do_ticket : exact; }
        actions = { do_add; do_put; NoAction; }
        const default_action = NoAction();
        const entries = {
            DO_ADD   : do_add();
            DO_RESET : do_put();
        }
    }
    apply { ops.apply(); }
}

control LastTicketState(inout meta_t m) {
    Register<bit<32>, bit<16>>(ZSR_MAX_QPS) last_ticket_low;
    Register<bit<32>, bit<16>>(ZSR_MAX_QPS) last_ticket_high;
    ACTION(get_low, bit<32>, last_ticket_low, { o = v; })
    ACTION(put_low, bit<32>, last_ticket_low, { v = TICKET_LOW; o = v; })
    ACTION(get_high, bit<32>, last_ticket_high, { o = v; })
    ACTION(put_high, bit<32>, last_ticket_high, { v = TICKET_HIGH; o = v; })
    ACTION(clear_high, bit<32>, last_ticket_high, { v = NO_TICKET; o = v; })

    action do_get_low() { TICKET_LOW = get_low.execute(m.b.qp); }
    action do_put_low() { put_low.execute(m.b.qp); }
    table ops_low {
        key = { m.do_last_ticket : exact; }
        actions = { do_get_low; do_put_low; NoAction; }
        const default_action = NoAction();
        const entries = {
            DO_GET : do_get_low();
            DO_SET : do_put_low();
        }
    }
    action do_get_high() { TICKET_HIGH = get_high.execute(m.b.qp); }
    action do_put_high() { put_high.execute(m.b.qp); }
    action do_clear_high() { clear_high.execute(m.b.qp); }
    table ops_high {
        key = { m.do_last_ticket : exact; }
        actions = { do_get_high; do_put_high; do_clear_high; NoAction; }
        const default_action = NoAction();
        const entries = {
            DO_GET   : do_get_high();
            DO_SET   : do_put_high();
            DO_RESET : do_clear_high();
        }
    }
    apply {
        ops_low.apply();
        ops_high.apply();
    }
}
#endif
