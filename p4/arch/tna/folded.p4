// Ingress in two pipes, for a chip whose pipes are too short for all of it: a packet from a host, or an internal one,
// has Arrival (pipeline/ingress.p4) in the first one. Unless that is all there is to it, it goes on through
// PORT_FOLD, a recirculation port of the next pipe, has Departure there, and leaves by the egress of its receiver's pipe.
//
//   hosts -> pipe: Arrival -> fold: (egress passes) -> PORT_FOLD -> fold: Departure -> pipe or fold: egress -> hosts
//
// What comes from hosts at the next pipe has to be at Arrival first: it gets there through PORT_RECIRCULATE.
//
//   hosts -> fold: (guest) -> pipe: (egress passes) -> PORT_RECIRCULATE -> pipe: Arrival, as above
//
// The next pipe's egress has room for what consumers get. What a producer there gets is made by the first one's, goes round as if the switch were
// a host at port 0, and is forwarded by its MAC address: READ requests, tails and CNPs.
//
//   fold: Departure -> pipe: egress -> PORT_RECIRCULATE -> pipe: Arrival (Forward) -> fold: (egress passes) -> producers
//
// All packets of a worker take one way between both, so that both see them in one order. Where PORT_FOLD is too slow
// for all workers, ports of that pipe in loopback share them (table `ways`).

// Metadata is zero before it is written.
@pa_auto_init_metadata
control IngressShell(inout headers_t hdr, inout meta_t m, in ingress_intrinsic_metadata_t ig,
                     in ingress_intrinsic_metadata_from_parser_t prsr,
                     inout ingress_intrinsic_metadata_for_deparser_t dprsr,
                     inout ingress_intrinsic_metadata_for_tm_t tm) {
    Arrival() arrival;
    CountArrival() count_arrival;

    // All of the packet will be new.
    action strip() { STRIP }
    action cross() { CROSS }
    action hand_over() {
        m.h.setValid();
        m.h.event = m.event;
        m.h.kind = OUT_DROP;
        m.h.phase = m.g.phase;
        m.h.role = m.role;
        m.h.received_qp = m.received_qp;
        m.h.index = m.index;
        m.h.member_bit = m.member_bit;
        m.h.aeth = m.aeth;
    }
    action way(PortId_t port) { tm.ucast_egress_port = port; }
    table ways {
        key = {
            m.again[8:8]    : exact @name("half");
            m.b.worker[3:0] : exact @name("worker");
        }
        actions = { way; }
        const default_action = way(PORT_FOLD);
        size = 32;
    }
    apply {
        m.now = prsr.global_tstamp[39:8];                // units of 0.256 microseconds
        m.b.setValid();
        arrival.apply(hdr, m);
        count_arrival.apply(m);
        if (m.event != EV_NONE) {
            hand_over();
            ways.apply();
        } else { tm.ucast_egress_port = m.out_port; }
        if (m.crosses == 1) { cross(); }
        else { m.c.setInvalid(); }
        if (m.b.kind != OUT_FORWARD && m.event != EV_DATA) { strip(); }
        tm.mcast_grp_a = m.out_group;
        EXCLUDE
    }
}

control IngressDeparser(packet_out pkt, inout headers_t hdr, in meta_t m,
                        in ingress_intrinsic_metadata_for_deparser_t dprsr) {
    apply {
        pkt.emit(m.h);
        pkt.emit(m.b);
        EMIT_PACKET
    }
}

// What comes in at a loop was handed over; the packet itself stays behind that, unread. At all other ports are hosts.
parser FoldParser(packet_in pkt, out headers_t hdr, out meta_t m, out ingress_intrinsic_metadata_t ig) {
    // Ports in loopback, beside PORT_FOLD.
    value_set<PortId_t>(16) loops;

    // The port is kept by the state that extracts it: a later one no longer has it.
    state start {
        transition select(pkt.lookahead<intrinsic_start_t>().port) {
            PORT_FOLD       : first;
            OTHER_PORT_FOLD : second;
            loops           : loop;
            PIPE_FOLD       : first_guest;
            default         : second_guest;
        }
    }
    state loop {
        transition select(pkt.lookahead<intrinsic_start_t>().port) {
            PIPE_FOLD : first;
            default   : second;
        }
    }
    state first {
        pkt.extract(ig);
        pkt.advance(PORT_METADATA_SIZE);
        m.again = PORT_RECIRCULATE;
        transition handed;
    }
    state second {
        pkt.extract(ig);
        pkt.advance(PORT_METADATA_SIZE);
        m.again = OTHER_PORT_RECIRCULATE;
        transition handed;
    }
    state first_guest {
        pkt.extract(ig);
        m.port = ig.ingress_port;
        pkt.advance(PORT_METADATA_SIZE);
        m.out_port = PORT_RECIRCULATE;
        transition guest;
    }
    state second_guest {
        pkt.extract(ig);
        m.port = ig.ingress_port;
        pkt.advance(PORT_METADATA_SIZE);
        m.out_port = OTHER_PORT_RECIRCULATE;
        transition guest;
    }
    // Departure has no step for EV_NONE, and leaves all as it is.
    state guest {
        m.crosses = 1;
        transition accept;
    }
    state handed {
        pkt.extract(m.h);
        pkt.extract(m.b);
        m.event = m.h.event;
        m.role = m.h.role;
        m.received_qp = m.h.received_qp;
        m.index = m.h.index;
        m.member_bit = m.h.member_bit;
        m.aeth = m.h.aeth;
        m.g.phase = m.h.phase;
        transition accept;
    }
}

@pa_auto_init_metadata
#include "no_init.p4"
control FoldIngressShell(inout headers_t hdr, inout meta_t m, in ingress_intrinsic_metadata_t ig,
                         in ingress_intrinsic_metadata_from_parser_t prsr,
                         inout ingress_intrinsic_metadata_for_deparser_t dprsr,
                         inout ingress_intrinsic_metadata_for_tm_t tm) {
    Departure() departure;
    CountDeparture() count_departure;
    Counter<bit<64>, bit<8>>(8, CounterType_t.PACKETS) late;       // what `drops` is in the other half

    action be_guest() {
        m.b.setValid();
        m.b.event = EV_NONE;
        m.b.kind = OUT_FORWARD;
        m.b.group = 0;
        m.c.setValid();
        m.c.mark = GUEST_MARK;
        m.c.port = m.port;
    }
    apply {
        m.now = prsr.global_tstamp[39:8];
        if (m.crosses == 1) { be_guest(); }
        departure.apply(m);
        count_departure.apply(m);
        if (m.drop_reason != 0) { late.count(m.drop_reason); }
        if (m.report != 0) { dprsr.digest_type = REPORT_TYPE; }
        if (m.b.event == EV_LOOK) { m.g.setValid(); }
        m.h.setInvalid();
        tm.ucast_egress_port = m.out_port;
        tm.mcast_grp_a = m.out_group;
    }
}

control FoldDeparser(packet_out pkt, inout headers_t hdr, in meta_t m,
                     in ingress_intrinsic_metadata_for_deparser_t dprsr) {
    Digest<report_t>() report;
    apply {
        if (dprsr.digest_type == REPORT_TYPE) {
            report.pack(REPORT);
        }
        pkt.emit(m.b);
        pkt.emit(m.g);
        pkt.emit(m.c);
    }
}
