// State registers, v1model. One control per register, touched at most once per pass, ingress only. Another architecture
// brings its own file of controls with the same names, signatures and meaning. `m.do_*` says what happens.
#ifndef ZSR_STATE_P4
#define ZSR_STATE_P4

// Producer ring -> the worker whose transfer it feeds.
control OwnerState(inout meta_t m) {
    register<bit<16>>(ZSR_MAX_PRODUCERS) owner;
    apply {
        if (m.do_owner == DO_SET) { owner.write((bit<32>)m.producer, m.worker); }
        else { owner.read(m.worker, (bit<32>)m.producer); }
    }
}

// Worker -> position of the producer to look at next.
control TurnState(inout meta_t m) {
    register<bit<16>>(ZSR_MAX_WORKERS) turn;
    apply {
        turn.read(m.index, (bit<32>)m.worker);
        if (m.index >= m.producers) { m.index = 0; }
        turn.write((bit<32>)m.worker, m.index + 1);
    }
}

// Worker -> the transfer: its producer, bytes and fragments.
control TransferState(inout meta_t m) {
    register<bit<16>>(ZSR_MAX_WORKERS) transfer_producer;
    register<bytes_t>(ZSR_MAX_WORKERS) transfer_length;
    register<bit<16>>(ZSR_MAX_WORKERS) transfer_frags;
    apply {
        if (m.do_transfer == DO_SET) {
            transfer_producer.write((bit<32>)m.worker, m.producer);
            transfer_length.write((bit<32>)m.worker, m.length);
            transfer_frags.write((bit<32>)m.worker, m.frags);
        } else {
            transfer_producer.read(m.producer, (bit<32>)m.worker);
            transfer_length.read(m.length, (bit<32>)m.worker);
            transfer_frags.read(m.frags, (bit<32>)m.worker);
        }
    }
}

// Worker -> PSN of the first fragment at its consumers. DO_MATCH: the commit's ACK moves it on.
control ConsumerPsnState(inout meta_t m) {
    register<psn_t>(ZSR_MAX_WORKERS) consumer_psn;
    apply {
        consumer_psn.read(m.consumer_psn, (bit<32>)m.worker);
        if (m.do_consumer_psn == DO_MATCH) {
            if (m.consumer_psn == m.expected) {
                consumer_psn.write((bit<32>)m.worker, m.next);
                m.matched = 1;
            }
        }
    }
}

// Worker -> head of its consumer rings, in bytes. DO_ADD: by the transfer's length; gives the old value.
control HeadState(inout meta_t m) {
    register<bytes_t>(ZSR_MAX_WORKERS) head;
    apply {
        head.read(m.head, (bit<32>)m.worker);
        if (m.do_head == DO_ADD) { head.write((bit<32>)m.worker, m.head + m.length); }
    }
}

// Producer ring -> its tail, in bytes. DO_ADD as above.
control ProducerTailState(inout meta_t m) {
    register<bytes_t>(ZSR_MAX_PRODUCERS) producer_tail;
    apply {
        producer_tail.read(m.producer_tail, (bit<32>)m.producer);
        if (m.do_producer_tail == DO_ADD) {
            producer_tail.write((bit<32>)m.producer, m.producer_tail + m.length);
        }
    }
}

// Producer ring -> its head and flags as last polled; gives the new values.
control ProducerHeadState(inout meta_t m) {
    register<bytes_t>(ZSR_MAX_PRODUCERS) producer_head;
    register<bit<32>>(ZSR_MAX_PRODUCERS) producer_flags;
    apply {
        if (m.do_producer_head == DO_SET) {
            producer_head.write((bit<32>)m.producer, m.word);
            producer_flags.write((bit<32>)m.producer, m.word_flags);
            m.producer_head = m.word;
            m.producer_flags = m.word_flags;
        } else {
            producer_head.read(m.producer_head, (bit<32>)m.producer);
            producer_flags.read(m.producer_flags, (bit<32>)m.producer);
        }
    }
}

// Worker -> its consumer's tail as last polled; gives the new value.
control ConsumerTailState(inout meta_t m) {
    register<bytes_t>(ZSR_MAX_WORKERS) consumer_tail;
    apply {
        if (m.do_consumer_tail == DO_SET) {
            consumer_tail.write((bit<32>)m.worker, m.word);
            m.consumer_tail = m.word;
        } else {
            consumer_tail.read(m.consumer_tail, (bit<32>)m.worker);
        }
    }
}

// Producer ring -> PSN of the outstanding or next request on its data QP. DO_ADD: by the READ's fragments; gives
// the new value. DO_MATCH: the tail's ACK moves it on.
control ProducerPsnState(inout meta_t m) {
    register<psn_t>(ZSR_MAX_PRODUCERS) producer_psn;
    apply {
        producer_psn.read(m.producer_psn, (bit<32>)m.producer);
        if (m.do_producer_psn == DO_ADD) {
            m.producer_psn = ((m.producer_psn + (psn_t)m.frags) & PSN_MASK) | TAIL_SENT;
            producer_psn.write((bit<32>)m.producer, m.producer_psn);
        } else if (m.do_producer_psn == DO_MATCH) {
            if (m.producer_psn == m.expected) {
                producer_psn.write((bit<32>)m.producer, m.next);
                m.matched = 1;
            }
        }
    }
}

// Poll QP -> PSN of the outstanding or next poll. DO_MATCH: its response moves it on.
control PollPsnState(inout meta_t m) {
    register<psn_t>(ZSR_MAX_QPS) poll_psn;
    apply {
        poll_psn.read(m.poll_psn, (bit<32>)m.poll_qp);
        if (m.do_poll_psn == DO_MATCH) {
            if (m.poll_psn == m.expected) {
                poll_psn.write((bit<32>)m.poll_qp, m.next);
                m.matched = 1;
            }
        }
    }
}

// Poll QP -> when it may be polled next. DO_GET: asks, and if so sets the time at which the poll counts as lost.
control PollDueState(inout meta_t m) {
    register<usec_t>(ZSR_MAX_QPS) poll_due;
    apply {
        if (m.do_poll_due == DO_GET) {
            usec_t at;
            poll_due.read(at, (bit<32>)m.poll_qp);
            usec_t left = at - m.now;
            if (at == 0 || left == 0 || left[31:31] == 1) {
                m.poll_due = 1;
                poll_due.write((bit<32>)m.poll_qp, m.poll_due_at);
            }
        } else {
            poll_due.write((bit<32>)m.poll_qp, m.poll_due_at);
        }
    }
}

// Worker -> first fragment that its consumer may lack; never moves back within a transfer. DO_SET: a new transfer.
// DO_MATCH: to `m.position` if that is further.
control FromState(inout meta_t m) {
    register<psn_t>(ZSR_MAX_WORKERS) from;
    apply {
        if (m.do_from == DO_SET) { from.write((bit<32>)m.worker, 0); }
        else {
            from.read(m.from, (bit<32>)m.worker);
            if (m.do_from == DO_MATCH) {
                if (m.position > m.from) { from.write((bit<32>)m.worker, m.position); }
            }
        }
    }
}

// Worker -> phase. DO_MATCH: from `phase_from` to `phase_to`. DO_SET: to `phase_to`. Gives the old value.
control PhaseState(inout meta_t m) {
    register<phase_t>(ZSR_MAX_WORKERS) phase;
    apply {
        phase.read(m.phase, (bit<32>)m.worker);
        if (m.do_phase == DO_SET) {
            phase.write((bit<32>)m.worker, m.phase_to);
        } else if (m.do_phase == DO_MATCH) {
            if (m.phase == m.phase_from) {
                phase.write((bit<32>)m.worker, m.phase_to);
                m.claimed = 1;
            }
        }
    }
}

// Producer ring -> 0, or the worker that drains it, plus 1. DO_MATCH: take it if it is free or ours. DO_SET: free it.
control LockState(inout meta_t m) {
    register<bit<16>>(ZSR_MAX_PRODUCERS) lock;
    apply {
        if (m.do_lock == DO_SET) {
            lock.write((bit<32>)m.producer, 0);
        } else {
            bit<16> holder;
            lock.read(holder, (bit<32>)m.producer);
            if (holder == 0 || holder == m.lock_value) {
                lock.write((bit<32>)m.producer, m.lock_value);
                m.locked = 1;
            }
        }
    }
}

// Worker -> producers in a row that were found closed and empty.
control DrainedState(inout meta_t m) {
    register<bit<16>>(ZSR_MAX_WORKERS) drained;
    apply {
        drained.read(m.drained, (bit<32>)m.worker);
        if (m.is_drained == 1) { m.drained = m.drained + 1; }
        else { m.drained = 0; }
        drained.write((bit<32>)m.worker, m.drained);
    }
}

// Worker -> when to send again. DO_GET: asks whether that time has come, and if so moves it on. DO_SET: progress.
control DueState(inout meta_t m) {
    register<usec_t>(ZSR_MAX_WORKERS) due;
    apply {
        if (m.do_due == DO_GET) {
            usec_t at;
            due.read(at, (bit<32>)m.worker);
            usec_t left = at - m.now;
            if (left[31:31] == 1) {
                m.due = 1;
                due.write((bit<32>)m.worker, m.due_at);
            }
        } else {
            due.write((bit<32>)m.worker, m.due_at);
        }
    }
}

// Worker -> retries since the last progress. DO_ADD: one more; gives the new value. DO_SET: progress.
control TriesState(inout meta_t m) {
    register<bit<32>>(ZSR_MAX_WORKERS) tries;
    apply {
        if (m.do_tries == DO_ADD) {
            tries.read(m.tries, (bit<32>)m.worker);
            m.tries = m.tries + 1;
            tries.write((bit<32>)m.worker, m.tries);
        } else {
            tries.write((bit<32>)m.worker, 0);
        }
    }
}
#endif
