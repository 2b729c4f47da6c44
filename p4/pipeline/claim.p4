// Whose worker, and is the packet awaited there? What answers no outstanding poll, or finds the worker in another
// phase than it has to be in, ends here.
control Claim(inout meta_t m) {
    OwnerState() owner;
    AskerState() asker;
    PollPsnState() poll_psn;
    PhaseState() phase;
    TurnState() turn;

    action stale() {
        m.event = EV_NONE;
        m.drop_reason = DROP_STALE;
    }
    apply {
        if (m.do_owner != DO_NOTHING) { owner.apply(m); }
        if (m.event != EV_DATA) {
            m.next_poll_psn = m.b.psn + ONE_PACKET;
            if (m.do_asker != DO_NOTHING) { asker.apply(m); }
            if (m.do_poll_psn != DO_NOTHING) { poll_psn.apply(m); }
            if (m.do_turn == DO_GET || (m.do_turn == DO_SET && m.b.next != NO_PLACE)) { turn.apply(m); }
            if (m.do_phase != DO_NOTHING) { phase.apply(m); }
        }
        if ((m.do_phase == DO_MATCH && m.claimed == 0) || (m.do_poll_psn == DO_MATCH && m.answered == 0)) { stale(); }
    }
}
