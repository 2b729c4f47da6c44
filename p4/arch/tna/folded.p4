// Ingress in two pipes, for a chip whose pipes are too short for all of it: a packet from a host, or an internal one,
// has Arrival (pipeline/ingress.p4) in the hosts' pipe. Unless that is all there is to it, it goes on through
// PORT_FOLD, a recirculation port of the next pipe, has Departure there and comes back to the hosts' pipe for egress.
//
//   hosts -> pipe: Arrival -> fold: (egress passes) -> PORT_FOLD -> fold: Departure -> pipe: egress -> hosts
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
        m.h.phase = m.g.phase;
        m.h.role = m.role;
        m.h.pad = 0;
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

struct nothing_t { }

// The next pipe's egress: on to its recirculation port.
parser PassParser(packet_in pkt, out nothing_t hdr, out nothing_t m, out egress_intrinsic_metadata_t eg) {
    state start {
        pkt.extract(eg);
        transition accept;
    }
}

control PassShell(inout nothing_t hdr, inout nothing_t m, in egress_intrinsic_metadata_t eg,
                  in egress_intrinsic_metadata_from_parser_t prsr,
                  inout egress_intrinsic_metadata_for_deparser_t dprsr,
                  inout egress_intrinsic_metadata_for_output_port_t oport) {
    apply { }
}

control PassDeparser(packet_out pkt, inout nothing_t hdr, in nothing_t m,
                     in egress_intrinsic_metadata_for_deparser_t dprsr) {
    apply { }
}

// All ports of this pipe are loops. The packet itself stays behind what was handed over, unread.
parser FoldParser(packet_in pkt, out headers_t hdr, out meta_t m, out ingress_intrinsic_metadata_t ig) {
    state start {
        pkt.extract(ig);
        pkt.advance(PORT_METADATA_SIZE);
        transition select(ig.ingress_port) {
            PIPE_FOLD       : first;
            OTHER_PIPE_FOLD : second;
            default         : accept;      // foreign: dropped
        }
    }
    state first {
        m.again = PORT_RECIRCULATE;
        transition handed;
    }
    state second {
        m.again = OTHER_PORT_RECIRCULATE;
        transition handed;
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
    apply {
        m.now = prsr.global_tstamp[39:8];
        if (!m.h.isValid()) { dprsr.drop_ctl = 1; }
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
    }
}
