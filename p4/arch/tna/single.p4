// A pipe that holds all of ingress.

// Metadata is zero before it is written.
@pa_auto_init_metadata
// But for what every packet that uses it writes first.
#include "no_init.p4"
// Whole containers for what is handed over, which actions write field by field.
@pa_container_size("ingress", "m.b.event", 8)
@pa_container_size("ingress", "m.b.kind", 8)
@pa_container_size("ingress", "m.b.worker", 16)
@pa_container_size("ingress", "m.b.producer", 16)
@pa_container_size("ingress", "m.b.qp", 16)
@pa_container_size("ingress", "m.b.flow", 16)
@pa_container_size("ingress", "m.b.next", 16)
@pa_container_size("ingress", "m.b.hops", 16)
@pa_container_size("ingress", "m.b.frags", 32)
@pa_container_size("ingress", "m.b.length", 32)
@pa_container_size("ingress", "m.b.producer_tail", 32)
@pa_container_size("ingress", "m.b.head", 32)
@pa_container_size("ingress", "m.b.word", 32)
@pa_container_size("ingress", "m.b.time", 32)
@pa_container_size("ingress", "m.b.psn", 32)
@pa_container_size("ingress", "m.b.last", 8)
@pa_container_size("ingress", "m.b.first", 8)
@pa_container_size("ingress", "m.b.group", 16)
@pa_container_size("ingress", "m.b.address", 32)
@pa_container_size("ingress", "m.g.phase", 8)
@pa_container_size("ingress", "m.g.settings", 8)
@pa_container_size("ingress", "m.g.blocked", 8)
@pa_container_size("ingress", "m.g.late", 8)
@pa_container_size("ingress", "m.g.ask_producer", 8)
@pa_container_size("ingress", "m.g.ask_consumer", 8)
@pa_container_size("ingress", "m.g.producer_head", 32)
@pa_container_size("ingress", "m.g.producer_tail", 32)
@pa_container_size("ingress", "m.g.consumer_tail", 32)
@pa_container_size("ingress", "m.g.head", 32)
@pa_container_size("ingress", "m.g.debt", 32)
@pa_container_size("ingress", "m.g.refill_at", 32)
control IngressShell(inout headers_t hdr, inout meta_t m, in ingress_intrinsic_metadata_t ig,
                     in ingress_intrinsic_metadata_from_parser_t prsr,
                     inout ingress_intrinsic_metadata_for_deparser_t dprsr,
                     inout ingress_intrinsic_metadata_for_tm_t tm) {
    ZsrIngress() zsr;
    CountArrival() count_arrival;
    CountDeparture() count_departure;

    // All of the packet will be new.
    action strip() { STRIP }
    action cross() { CROSS }
    apply {
        m.now = prsr.global_tstamp[39:8];                // units of 0.256 microseconds
        m.b.setValid();
        zsr.apply(hdr, m);
        count_arrival.apply(m);
        count_departure.apply(m);
        if (m.report != 0) { dprsr.digest_type = REPORT_TYPE; }
        if (m.crosses == 1) { cross(); }
        else { m.c.setInvalid(); }
        if (m.b.kind != OUT_FORWARD && m.b.kind != OUT_DATA) { strip(); }
        if (m.b.event == EV_LOOK) { m.g.setValid(); }
        tm.ucast_egress_port = m.out_port;
        tm.mcast_grp_a = m.out_group;
        EXCLUDE
    }
}

control IngressDeparser(packet_out pkt, inout headers_t hdr, in meta_t m,
                        in ingress_intrinsic_metadata_for_deparser_t dprsr) {
    Digest<report_t>() report;
    apply {
        if (dprsr.digest_type == REPORT_TYPE) {
            report.pack(REPORT);
        }
        pkt.emit(m.b);
        pkt.emit(m.g);
        EMIT_PACKET
    }
}
