// Ingress in one page: whose packet is this, what does it mean, what leaves?
//
//   Arrival:  internal packet ---------------------------> Passes --\
//             RoCE for us -> Connection (QP, ICRC, meaning) ---------+-> Claim (worker, phase) --> Transfer -> Route
//             doorbell    -> Doorbell ------------------------------/
//             ... of a sequencer's client ---------------------------> Sequencer
//             ARP for us  -> ArpReply
//             the rest    -> Forward
//             RoCE and doorbells for another pipe's registers -> that pipe's Arrival (OwnAddress)
//
// A chip whose pipes are too short for both has Arrival in one and Departure in the next (arch/tna/folded.p4).
control Arrival(inout headers_t hdr, inout meta_t m) {
    PortVlan() port_vlan;
    PortSource() port_source;
    ArpReply() arp_reply;
    OwnAddress() own_address;
    Connection() connection;
    Doorbell() doorbell;
    Resume() resume;
    TickGroup() tick_group;
    Passes() passes;
    Claim() claim;
#ifdef ZSR_SEQUENCER
    Sequencer() sequencer;
#endif
    Forward() forward;

    action reject(bit<8> reason) {
        m.event = EV_NONE;
        m.drop_reason = reason;
    }
    action wrong_vlan() { m.drop_reason = DROP_VLAN; }
    action wrong_source() {
        m.drop_reason = DROP_SOURCE;
        m.b.kind = OUT_DROP;
    }
    action fan_out(event_t event, bit<16> group) {
        m.event = EV_NONE;
        m.b.kind = OUT_FANOUT;
        m.b.event = event;
        m.b.group = group;
        m.out_group = group;
    }
    action elsewhere() {
        m.b.kind = OUT_FANOUT;
        m.b.event = m.event & ~ELSEWHERE;
        m.event = EV_NONE;
        m.out_group = PIPES_GROUP;
    }
    action nothing() { m.event = EV_NONE; }

    apply {
        if (m.malformed == 1) {
            reject(DROP_MALFORMED);
        } else if (m.internal == 1) {
            if (m.trusted == 0) { reject(DROP_FORGED); }
            else {
                resume.apply(hdr, m);
                passes.apply(m);
            }
        } else {
            port_vlan.apply(m);
            port_source.apply(hdr, m);
            if (hdr.ipv4.isValid()) { own_address.apply(hdr, m); }
            if (hdr.bth.isValid()) { connection.apply(hdr, m); }
            else if (hdr.doorbell.isValid()) { doorbell.apply(hdr, m); }
            else if (hdr.arp.isValid()) { arp_reply.apply(hdr, m); }
            if (m.spoofed == 1) { wrong_source(); }
            else if (m.own == 0 && m.event == EV_NONE && m.b.kind == OUT_DROP) { forward.apply(hdr, m); }
            else if (m.own == 1 && m.foreign == 1) { wrong_vlan(); }
        }

        if (IS_ELSEWHERE(m.event)) { elsewhere(); }
        else if (m.event == EV_FANOUT) {
            tick_group.apply(TIMER_NUMBER, TICK_GROUP);
            if (TICK_GROUP != 0) { fan_out(EV_TICK, TICK_GROUP); }
            else { nothing(); }
        } else if (m.event == EV_ASK) {
            fan_out(EV_POLL_CONSUMER, ASKED_GROUP);
#ifdef ZSR_SEQUENCER
        } else if (m.event == EV_TICKET || m.event == EV_TICKET_RESET) {
            sequencer.apply(hdr, m);
#endif
        } else if (m.event != EV_NONE) {
            claim.apply(m);
        }
    }
}

control Departure(inout meta_t m) {
    Transfer() transfer;
    Route() route;
    apply {
        transfer.apply(m);
        if (m.sends == 1 && m.b.group == 0) { route.apply(m); }
    }
}

// Both, where one pipe holds them.
control ZsrIngress(inout headers_t hdr, inout meta_t m) {
    Arrival() arrival;
    Departure() departure;
    apply {
        arrival.apply(hdr, m);
        if (m.event != EV_NONE) { departure.apply(m); }
    }
}
