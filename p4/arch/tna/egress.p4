// Egress of one program: EGRESS_PARSER and EGRESS_SHELL name it. If not WHOLE, it has what pipeline/egress.p4 says of that. With
// EGRESS_PASSES, what one half of ingress hands to the other leaves as it is (folded.p4).

// Ingress has left the bridge in front, and of a packet that will be all new nothing behind it.
parser EGRESS_PARSER(packet_in pkt, out headers_t hdr, out meta_t m, out egress_intrinsic_metadata_t eg) {
    state start {
        pkt.extract(eg);
        transition select(pkt.lookahead<bit<16>>()) {
            (bit<16>)OUT_FORWARD &&& 0xff : forward;
            (bit<16>)OUT_DATA &&& 0xff    : data;
            (bit<16>)COMMIT_COPY &&& 0xff : commit_copy;
#ifdef EGRESS_PASSES
            (bit<16>)OUT_DROP &&& 0xff    : handed;
#endif
            default                       : made;
        }
    }
#ifdef EGRESS_PASSES
    // From one half of ingress to the other: nothing of it is read here, and all of it goes on.
    state handed {
        m.b.event = EV_NONE;
        m.b.kind = OUT_FORWARD;
        m.b.group = 0;
        transition accept;
    }
#endif
    state forward {
        pkt.extract(m.b);
        transition accept;
    }
    state made {
        pkt.extract(m.b);
        transition select(m.b.event) {
            EV_LOOK : look;
            default : accept;
        }
    }
    state look {
        pkt.extract(m.g);
        transition accept;
    }
    // The copy of a last fragment, cut short by the mirror session.
    state commit_copy {
        pkt.extract(m.copy);
        pkt.advance(COMMIT_COPY_BYTES * 8);
        transition accept;
    }
    state data {
        pkt.extract(m.b);
        pkt.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_VLAN : data_vlan;
            default        : data_ipv4;
        }
    }
    state data_vlan {
        pkt.extract(hdr.vlan);
        transition data_ipv4;
    }
    state data_ipv4 {
        pkt.extract(hdr.ipv4);
        pkt.extract(hdr.udp);
        pkt.extract(hdr.bth);
        transition select(hdr.bth.opcode) {
            OP_READ_MIDDLE : accept;
            default        : aeth;
        }
    }
    state aeth {
        pkt.extract(hdr.aeth);
        transition accept;
    }
}

// Whole containers for what ingress hands over.
@pa_container_size("egress", "m.b.event", 8)
@pa_container_size("egress", "m.b.kind", 8)
@pa_container_size("egress", "m.b.worker", 16)
@pa_container_size("egress", "m.b.qp", 16)
@pa_container_size("egress", "m.b.flow", 16)
@pa_container_size("egress", "m.b.next", 16)
@pa_container_size("egress", "m.b.hops", 16)
@pa_container_size("egress", "m.b.frags", 32)
@pa_container_size("egress", "m.b.length", 32)
@pa_container_size("egress", "m.b.word", 32)
@pa_container_size("egress", "m.b.time", 32)
@pa_container_size("egress", "m.b.psn", 32)
@pa_container_size("egress", "m.b.last", 8)
@pa_container_size("egress", "m.b.first", 8)
@pa_container_size("egress", "m.b.group", 16)
@pa_container_size("egress", "m.b.address", 32)
@pa_container_size("egress", "m.g.phase", 8)
@pa_container_size("egress", "m.g.settings", 8)
@pa_container_size("egress", "m.g.blocked", 8)
@pa_container_size("egress", "m.g.late", 8)
@pa_container_size("egress", "m.g.ask_producer", 8)
@pa_container_size("egress", "m.g.ask_consumer", 8)
@pa_container_size("egress", "m.g.producer_head", 32)
@pa_container_size("egress", "m.g.producer_tail", 32)
@pa_container_size("egress", "m.g.consumer_tail", 32)
@pa_container_size("egress", "m.g.head", 32)
@pa_container_size("egress", "m.g.debt", 32)
@pa_container_size("egress", "m.g.refill_at", 32)
control EGRESS_SHELL(inout headers_t hdr, inout meta_t m, in egress_intrinsic_metadata_t eg,
                     in egress_intrinsic_metadata_from_parser_t prsr,
                     inout egress_intrinsic_metadata_for_deparser_t dprsr,
                     inout egress_intrinsic_metadata_for_output_port_t oport) {
    ZsrEgress(WHOLE) zsr;
    CountEgress() count_egress;

    // The copy of a last fragment becomes the commit right behind it.
    action commit() {
        m.b.event = EV_NONE;
        m.b.kind = OUT_COMMIT;
        m.b.last = 0;
        m.b.qp = m.copy.qp;
        m.b.producer = m.copy.producer;
        m.b.psn = m.copy.psn + ONE_PACKET;
        m.b.head = m.copy.head;
        m.b.producer_tail = m.copy.producer_tail;
    }
    action copy() {
        dprsr.mirror_type = 1;
        m.copy.setValid();
        m.copy.kind = COMMIT_COPY;
        m.copy.pad = 0;
        m.copy.qp = m.b.qp;
        m.copy.producer = m.b.producer;
        m.copy.pad_2 = 0;
        m.copy.psn = m.b.psn;
        m.copy.head = m.b.head;
        m.copy.producer_tail = m.b.producer_tail;
    }
    // Behind an Ethernet header it is an internal packet for the next pass.
    action stay() {
        m.internal = 1;
        hdr.ethernet.setValid();
        hdr.ethernet.dst = 0;
        hdr.ethernet.src = 0;
        hdr.ethernet.ether_type = ETHERTYPE_INTERNAL;
    }
    action leave() { m.b.setInvalid(); }
    // The ICRC does not cover it.
    action mark() { hdr.ipv4.tos = hdr.ipv4.tos | ECN_CAPABLE; }
    apply {
        if (m.copy.isValid()) { commit(); }
        // A replica's number says whom it is for.
        else if (m.b.group != 0) {
            if (m.b.event == EV_TICK) { m.b.worker = eg.egress_rid; }
            else { m.b.qp = eg.egress_rid; }
        }
        if (WHOLE && (m.b.kind == OUT_RECIRCULATE || m.b.kind == OUT_FANOUT)) { stay(); }
        else {
            leave();
            if (m.b.kind == OUT_DATA && m.b.last == 1) { copy(); }
        }
        if (m.b.kind == OUT_DATA && eg.deq_qdepth[18:10] != 0) {     // 1,024 cells of 80 bytes and more
            if (hdr.ipv4.tos[1:0] != 0) { mark(); }
        }
        zsr.apply(hdr, m);
        count_egress.apply(m);
        if (m.b.kind == OUT_DROP) { dprsr.drop_ctl = 1; }
    }
}
