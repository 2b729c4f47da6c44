// State registers, v1model. One control per register, touched at most once per pass, ingress only. Another
// architecture brings its own file of controls with the same names, signatures and meaning. `m.do_*` says what
// happens.
#ifndef ZSR_STATE_P4
#define ZSR_STATE_P4

// Producer ring -> the worker whose transfer it feeds.
control OwnerState(inout meta_t m) {
    register<bit<16>>(ZSR_MAX_PRODUCERS) owner;
    apply {
        if (m.do_owner == DO_GET) { owner.read(m.b.worker, (bit<32>)m.b.producer); }
        else { owner.write((bit<32>)m.b.producer, m.b.worker); }
    }
}

// Producer ring -> the worker that asked for its head word last.
control AskerState(inout meta_t m) {
    register<bit<16>>(ZSR_MAX_PRODUCERS) asker;
    apply {
        if (m.do_asker == DO_GET) { asker.read(m.b.worker, (bit<32>)m.b.producer); }
        else { asker.write((bit<32>)m.b.producer, m.b.worker); }
    }
}

// Worker -> phase. DO_MATCH: from `phase_from` to `phase_to`. DO_SET: to `phase_to`. Gives the old value, DO_MATCH
// the new.
control PhaseState(inout meta_t m) {
    register<phase_t>(ZSR_MAX_WORKERS) phase;
    apply {
        phase.read(m.g.phase, (bit<32>)m.b.worker);
        if (m.do_phase == DO_SET) {
            phase.write((bit<32>)m.b.worker, m.phase_to);
        } else if (m.do_phase == DO_MATCH) {
            if (m.g.phase == m.phase_from) {
                phase.write((bit<32>)m.b.worker, m.phase_to);
                m.g.phase = m.phase_to;
                m.claimed = 1;
            }
        }
    }
}

// Worker -> place of the producer to look at. DO_SET: to `m.b.next`; gives the new value.
control TurnState(inout meta_t m) {
    register<bit<16>>(ZSR_MAX_WORKERS) turn;
    apply {
        if (m.do_turn == DO_SET) {
            turn.write((bit<32>)m.b.worker, m.b.next);
            m.index = m.b.next;
        } else {
            turn.read(m.index, (bit<32>)m.b.worker);
        }
    }
}

// Worker -> the transfer: its producer, bytes and fragments.
control TransferState(inout meta_t m) {
    register<bit<16>>(ZSR_MAX_WORKERS) transfer_producer;
    register<bytes_t>(ZSR_MAX_WORKERS) transfer_length;
    register<psn_t>(ZSR_MAX_WORKERS) transfer_frags;
    apply {
        if (m.do_transfer == DO_SET) {
            transfer_producer.write((bit<32>)m.b.worker, m.b.producer);
            transfer_length.write((bit<32>)m.b.worker, m.b.length);
            transfer_frags.write((bit<32>)m.b.worker, m.b.frags);
        } else {
            transfer_producer.read(m.b.producer, (bit<32>)m.b.worker);
            transfer_length.read(m.b.length, (bit<32>)m.b.worker);
            transfer_frags.read(m.b.frags, (bit<32>)m.b.worker);
        }
    }
}

// Worker -> PSN of the first fragment at its consumers. DO_ADD: by `consumer_step`, behind the commit.
control ConsumerPsnState(inout meta_t m) {
    register<psn_t>(ZSR_MAX_WORKERS) consumer_psn;
    apply {
        if (m.do_consumer_psn == DO_RESET) {
            consumer_psn.write((bit<32>)m.b.worker, m.b.psn);
        } else {
            consumer_psn.read(m.consumer_psn, (bit<32>)m.b.worker);
            if (m.do_consumer_psn == DO_ADD) {
                consumer_psn.write((bit<32>)m.b.worker, m.consumer_psn + m.consumer_step);
            }
        }
    }
}

// Worker -> head of its consumer rings, in bytes. DO_ADD: by the transfer's length; gives the old value. DO_MATCH: is
// it the one that the deciding pass saw? DO_RESET: to that.
control HeadState(inout meta_t m) {
    register<bytes_t>(ZSR_MAX_WORKERS) head;
    apply {
        if (m.do_head == DO_RESET) {
            head.write((bit<32>)m.b.worker, m.b.head);
        } else if (m.do_head == DO_MATCH) {
            bytes_t now;
            head.read(now, (bit<32>)m.b.worker);
            if (now == m.b.head) { m.same_head = 1; }
        } else {
            head.read(m.b.head, (bit<32>)m.b.worker);
            if (m.do_head == DO_ADD) { head.write((bit<32>)m.b.worker, m.b.head + m.b.length); }
        }
    }
}

// Worker -> the smallest tail of its consumers, as last polled; gives the new value.
control ConsumerTailState(inout meta_t m) {
    register<bytes_t>(ZSR_MAX_WORKERS) consumer_tail;
    apply {
        if (m.do_consumer_tail == DO_SET) {
            consumer_tail.write((bit<32>)m.b.worker, m.b.word);
            m.g.consumer_tail = m.b.word;
        } else {
            consumer_tail.read(m.g.consumer_tail, (bit<32>)m.b.worker);
        }
    }
}

// Poll QP of a group's member -> its tail, as last polled. DO_GET: makes `word` the smaller of both.
control MemberTailState(inout meta_t m) {
    register<bytes_t>(ZSR_MAX_QPS) member_tail;
    apply {
        if (m.do_member_tail == DO_SET) {
            member_tail.write((bit<32>)m.b.qp, m.b.word);
        } else {
            bytes_t tail;
            member_tail.read(tail, (bit<32>)m.b.qp);
            bytes_t ahead = tail - m.b.word;
            if (ahead[31:31] == 1) { m.b.word = tail; }
        }
    }
}

// Worker -> consumers that have acknowledged the commit, and those that have said what they have since something was
// sent to them, a bit each. DO_ADD: one more of both; DO_MATCH: one more has said it; both give those that have said it.
// DO_GET: something is sent again: only those that have all need not say it; gives these. DO_SET: nobody.
control AckedState(inout meta_t m) {
    register<bit<32>>(ZSR_MAX_WORKERS) acked;
    register<bit<32>>(ZSR_MAX_WORKERS) answered;
    apply {
        bit<32> complete;
        if (m.do_acked == DO_SET) {
            acked.write((bit<32>)m.b.worker, 0);
            answered.write((bit<32>)m.b.worker, 0);
        } else if (m.do_acked == DO_GET) {
            acked.read(m.acked, (bit<32>)m.b.worker);
            answered.write((bit<32>)m.b.worker, m.acked);
        } else {
            if (m.do_acked == DO_ADD) {
                acked.read(complete, (bit<32>)m.b.worker);
                acked.write((bit<32>)m.b.worker, complete | m.member_bit);
            }
            answered.read(m.acked, (bit<32>)m.b.worker);
            m.acked = m.acked | m.member_bit;
            answered.write((bit<32>)m.b.worker, m.acked);
        }
    }
}

// Producer ring -> its tail, in bytes. DO_ADD: by the transfer's length; gives the old value. DO_MATCH: is it the
// one that the deciding pass saw? DO_RESET: to that.
control ProducerTailState(inout meta_t m) {
    register<bytes_t>(ZSR_MAX_PRODUCERS) producer_tail;
    apply {
        if (m.do_producer_tail == DO_RESET) {
            producer_tail.write((bit<32>)m.b.producer, m.b.producer_tail);
        } else if (m.do_producer_tail == DO_MATCH) {
            bytes_t now;
            producer_tail.read(now, (bit<32>)m.b.producer);
            if (now == m.b.producer_tail) { m.same_tail = 1; }
        } else {
            producer_tail.read(m.b.producer_tail, (bit<32>)m.b.producer);
            if (m.do_producer_tail == DO_ADD) {
                producer_tail.write((bit<32>)m.b.producer, m.b.producer_tail + m.b.length);
            }
        }
    }
}

// Producer ring -> its head as last polled or rung, CLOSED in its lowest bit; gives the new value. DO_SET: a head
// only moves forward, since a doorbell may overtake a poll's response.
control ProducerHeadState(inout meta_t m) {
    register<bytes_t>(ZSR_MAX_PRODUCERS) producer_head;
    apply {
        if (m.do_producer_head == DO_RESET) {
            producer_head.write((bit<32>)m.b.producer, m.b.producer_tail);
        } else {
            producer_head.read(m.g.producer_head, (bit<32>)m.b.producer);
            if (m.do_producer_head == DO_SET) {
                bytes_t ahead = m.b.word - m.g.producer_head;
                if (ahead[31:31] == 0) {
                    producer_head.write((bit<32>)m.b.producer, m.b.word);
                    m.g.producer_head = m.b.word;
                }
            }
        }
    }
}

// Producer ring -> PSN of the outstanding or next request on its data QP. All but DO_MATCH give the new value.
// DO_SET: the request is a tail (`producer_step` is TAIL_SENT). DO_ADD: it is the tail behind a READ (fragments and
// TAIL_SENT). DO_MATCH: if it is `producer_step`, a tail, its ACK moves it on to `next_psn`. DO_RESET: to
// `producer_step`.
control ProducerPsnState(inout meta_t m) {
    register<psn_t>(ZSR_MAX_PRODUCERS) producer_psn;
    apply {
        producer_psn.read(m.producer_psn, (bit<32>)m.b.producer);
        if (m.do_producer_psn == DO_ADD) {
            m.producer_psn = m.producer_psn + m.producer_step;
            producer_psn.write((bit<32>)m.b.producer, m.producer_psn);
        } else if (m.do_producer_psn == DO_SET) {
            m.producer_psn = m.producer_psn | m.producer_step;
            producer_psn.write((bit<32>)m.b.producer, m.producer_psn);
        } else if (m.do_producer_psn == DO_MATCH) {
            if (m.producer_psn == m.producer_step) {
                producer_psn.write((bit<32>)m.b.producer, m.next_psn);
                m.matched = 1;
            }
        } else if (m.do_producer_psn == DO_RESET) {
            m.producer_psn = m.producer_step;
            producer_psn.write((bit<32>)m.b.producer, m.producer_psn);
        }
    }
}

// Worker -> first fragment that a consumer may lack, with NO_FURTHER; never moves back within a transfer. And the
// smallest that consumers have said since. DO_SET: a new transfer. DO_MATCH: a consumer has all up to `m.position`;
// gives the smallest. DO_ADD: all have answered, and what the last one lacks is sent; gives where that begins, as DO_GET.
control FromState(inout meta_t m) {
    register<psn_t>(ZSR_MAX_WORKERS) from;
    register<psn_t>(ZSR_MAX_WORKERS) smallest;
    apply {
        psn_t said;
        if (m.do_from == DO_SET) {
            m.from = NO_FURTHER;
            from.write((bit<32>)m.b.worker, m.from);
            smallest.write((bit<32>)m.b.worker, NOBODY);
        } else {
            from.read(m.from, (bit<32>)m.b.worker);
            smallest.read(said, (bit<32>)m.b.worker);
            if (m.do_from == DO_MATCH) {
                if (m.position < m.from) { said = m.from; }
                else if (m.position < said) { said = m.position; }
                m.from = said;
                smallest.write((bit<32>)m.b.worker, said);
            } else if (m.do_from == DO_ADD) {
                if (m.position > m.from) { m.from = m.position; }
                from.write((bit<32>)m.b.worker, m.from);
                smallest.write((bit<32>)m.b.worker, NOBODY);
            }
        }
    }
}

// Producer ring -> 0, or the worker that drains it, plus 1. DO_MATCH: take it if it is free or ours. DO_SET: free it.
// DO_GET: has another worker got it?
control LockState(inout meta_t m) {
    register<bit<16>>(ZSR_MAX_PRODUCERS) lock;
    apply {
        if (m.do_lock == DO_SET) {
            lock.write((bit<32>)m.b.producer, 0);
        } else {
            bit<16> holder;
            lock.read(holder, (bit<32>)m.b.producer);
            if (m.do_lock == DO_MATCH) {
                if (holder == 0 || holder == m.my_lock) { lock.write((bit<32>)m.b.producer, m.my_lock); }
                else { m.locked = 0; }
            } else if (holder != 0 && holder != m.my_lock) { m.g.blocked = 1; }
        }
    }
}

// Producer ring -> bytes that it has moved of its present turn. DO_ADD: the transfer's length; a turn is `max_batch`
// bytes, what is over (`credit_left` is max_batch less length) counts for the next one.
control CreditState(inout meta_t m) {
    register<bytes_t>(ZSR_MAX_PRODUCERS) credit;
    apply {
        if (m.do_credit == DO_RESET) {
            credit.write((bit<32>)m.b.producer, 0);
        } else {
            bytes_t used;
            credit.read(used, (bit<32>)m.b.producer);
            if (used >= m.credit_left) {
                used = used - m.credit_left;
                m.over = 1;
            } else {
                used = used + m.b.length;
            }
            credit.write((bit<32>)m.b.producer, used);
        }
    }
}

// Flow -> bytes that it has moved ahead of its rate. DO_ADD: a transfer of `length` begins. DO_SET: a refill takes
// `head` away.
control DebtState(inout meta_t m) {
    register<bytes_t>(ZSR_MAX_FLOWS) debt;
    apply {
        if (m.do_debt == DO_RESET) {
            debt.write((bit<32>)m.b.flow, 0);
        } else {
            debt.read(m.g.debt, (bit<32>)m.b.flow);
            if (m.do_debt == DO_ADD) { debt.write((bit<32>)m.b.flow, m.g.debt + m.b.length); }
            else if (m.do_debt == DO_SET) { debt.write((bit<32>)m.b.flow, m.g.debt |-| REFILL_BYTES); }
        }
    }
}

// Flow -> when it may be refilled. DO_MATCH: from `psn` to `time`.
control RefillState(inout meta_t m) {
    register<usec_t>(ZSR_MAX_FLOWS) refill;
    apply {
        if (m.do_refill == DO_RESET) {
            refill.write((bit<32>)m.b.flow, REFILL_TO);
        } else {
            refill.read(m.g.refill_at, (bit<32>)m.b.flow);
            if (m.do_refill == DO_MATCH) {
                if (m.g.refill_at == REFILL_FROM) {
                    refill.write((bit<32>)m.b.flow, REFILL_TO);
                    m.matched = 1;
                }
            }
        }
    }
}

// Worker -> retries since the last progress. DO_ADD: one more; gives the new value, as DO_GET. DO_SET: progress.
control TriesState(inout meta_t m) {
    register<tries_t>(ZSR_MAX_WORKERS) tries;
    apply {
        if (m.do_tries == DO_ADD) {
            tries.read(m.tries, (bit<32>)m.b.worker);
            m.tries = m.tries + 1;
            tries.write((bit<32>)m.b.worker, m.tries);
        } else if (m.do_tries == DO_GET) {
            tries.read(m.tries, (bit<32>)m.b.worker);
        } else {
            tries.write((bit<32>)m.b.worker, 0);
        }
    }
}

// Worker -> when to send again. DO_GET: has it passed? DO_SET: at `due_at`. DO_MATCH: not before `due_at`.
control DueState(inout meta_t m) {
    register<usec_t>(ZSR_MAX_WORKERS) due;
    apply {
        if (m.do_due == DO_SET) {
            due.write((bit<32>)m.b.worker, m.due_at);
        } else {
            usec_t at;
            due.read(at, (bit<32>)m.b.worker);
            if (m.do_due == DO_MATCH) {
                at = m.due_at - at;
                if (at[31:31] == 0) { due.write((bit<32>)m.b.worker, m.due_at); }
            } else {
                at = at - m.now;
                m.is_due = (bit<8>)at[31:31];
            }
        }
    }
}

// Poll QP -> PSN of the outstanding or next poll. DO_MATCH: its response moves it on.
control PollPsnState(inout meta_t m) {
    register<psn_t>(ZSR_MAX_QPS) poll_psn;
    apply {
        if (m.do_poll_psn == DO_RESET) {
            poll_psn.write((bit<32>)m.b.qp, m.b.psn);
        } else {
            psn_t psn;
            poll_psn.read(psn, (bit<32>)m.b.qp);
            if (m.do_poll_psn == DO_MATCH) {
                if (psn == m.b.psn) {
                    poll_psn.write((bit<32>)m.b.qp, m.next_poll_psn);
                    m.answered = 1;
                }
            } else { m.b.psn = psn; }
        }
    }
}

// Producer ring -> when it may be polled next, or when its poll counts as lost. DO_GET: has it passed?
control ProducerDueState(inout meta_t m) {
    register<usec_t>(ZSR_MAX_PRODUCERS) producer_due;
    apply {
        if (m.do_producer_due == DO_SET) {
            producer_due.write((bit<32>)m.b.producer, m.poll_due_at);
        } else {
            usec_t at;
            producer_due.read(at, (bit<32>)m.b.producer);
            at = at - m.now;
            m.producer_is_due = (bit<8>)at[31:31];
        }
    }
}

// Worker -> likewise for its consumers.
control ConsumerDueState(inout meta_t m) {
    register<usec_t>(ZSR_MAX_WORKERS) consumer_due;
    apply {
        if (m.do_consumer_due == DO_SET) {
            consumer_due.write((bit<32>)m.b.worker, m.poll_due_at);
        } else {
            usec_t at;
            consumer_due.read(at, (bit<32>)m.b.worker);
            at = at - m.now;
            m.consumer_is_due = (bit<8>)at[31:31];
        }
    }
}

// Client of a sequencer -> PSN of its next request; gives the old value. DO_MATCH: a request that is this one moves it
// on to `next_psn`. DO_RESET: to `psn`.
control TicketPsnState(inout meta_t m) {
    register<psn_t>(ZSR_MAX_QPS) ticket_psn;
    apply {
        if (m.do_ticket_psn == DO_RESET) {
            ticket_psn.write((bit<32>)m.b.qp, m.b.psn);
        } else {
            ticket_psn.read(m.awaited, (bit<32>)m.b.qp);
            if (m.awaited == m.b.psn) { ticket_psn.write((bit<32>)m.b.qp, m.next_psn); }
        }
    }
}

// Sequencer -> lower word of the next ticket. DO_ADD: by `amount`; gives the old value. DO_RESET: to the packet's.
control TicketLowState(inout meta_t m) {
    register<bit<32>>(ZSR_MAX_FLOWS) ticket_low;
    apply {
        if (m.do_ticket == DO_RESET) {
            ticket_low.write((bit<32>)SEQUENCER, TICKET_LOW);
        } else {
            ticket_low.read(TICKET_LOW, (bit<32>)SEQUENCER);
            ticket_low.write((bit<32>)SEQUENCER, TICKET_LOW + m.amount);
        }
    }
}

// Sequencer -> upper word. DO_ADD: by `carry`; gives the old value. DO_RESET: to the packet's.
control TicketHighState(inout meta_t m) {
    register<bit<32>>(ZSR_MAX_FLOWS) ticket_high;
    apply {
        if (m.do_ticket == DO_RESET) {
            ticket_high.write((bit<32>)SEQUENCER, TICKET_HIGH);
        } else {
            ticket_high.read(TICKET_HIGH, (bit<32>)SEQUENCER);
            ticket_high.write((bit<32>)SEQUENCER, TICKET_HIGH + m.carry);
        }
    }
}

// Client of a sequencer -> its last ticket, for when it repeats its request. DO_RESET: it has had none.
control LastTicketState(inout meta_t m) {
    register<bit<32>>(ZSR_MAX_QPS) last_ticket_low;
    register<bit<32>>(ZSR_MAX_QPS) last_ticket_high;
    apply {
        if (m.do_last_ticket == DO_RESET) {
            last_ticket_high.write((bit<32>)m.b.qp, NO_TICKET);
        } else if (m.do_last_ticket == DO_SET) {
            last_ticket_low.write((bit<32>)m.b.qp, TICKET_LOW);
            last_ticket_high.write((bit<32>)m.b.qp, TICKET_HIGH);
        } else {
            last_ticket_low.read(TICKET_LOW, (bit<32>)m.b.qp);
            last_ticket_high.read(TICKET_HIGH, (bit<32>)m.b.qp);
        }
    }
}
#endif
