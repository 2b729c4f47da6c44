// zsr on v1model (bmv2, the zsr software switch): main and the shell around the shared pipeline.
#include <core.p4>
#include <v1model.p4>

// Tickets of sequencers (pipeline/sequencer.p4).
#define ZSR_SEQUENCER

#include "../../common/types.p4"
#include "../../common/headers.p4"
#include "../../common/metadata.p4"
#include "ops.p4"
#include "parser.p4"
#include "internal.p4"
#include "icrc.p4"
#include "counters.p4"
#include "state.p4"
#include "../../pipeline/pipeline.p4"

// Ports of our own, and how v1model marks copies.
const bit<9>  PORT_TIMER = 500;            // timer packets come in here
const bit<9>  PORT_CPU = 510;              // the controller's packets come in here
const bit<32> INSTANCE_EGRESS_CLONE = 2;
const bit<19> DEEP_QUEUE = 32;             // packets in a port's queue from which on data is marked
const bit<32> FRAME_INTERNAL = 64;         // bytes of an internal frame
const bit<32> FRAME_ETHERNET = 14;
const bit<32> FRAME_TAGGED = 18;           // the same with a VLAN tag

// A message to the controller (P4Runtime digest): something that it has to act on or tell a person.
struct report_t {
    bit<8>  reason;                        // REPORT_*
    bit<32> code;
    bit<16> worker;
    bit<16> producer;
    bit<16> qp;                            // connection, where one is concerned
    role_t  role;
    phase_t phase;
    psn_t   psn;
}

control IngressShell(inout headers_t hdr, inout meta_t m, inout standard_metadata_t std) {
    ZsrIngress() zsr;
    CountArrival() count_arrival;
    CountDeparture() count_departure;
    apply {
        // A recirculated packet has neither port nor ingress timestamp (bmv2); it brings what it had in its last egress.
        if (m.crossed == 0) {
            m.port = (bit<16>)std.ingress_port;
            if (m.trusted == 0) { m.now = (usec_t)std.ingress_global_timestamp; }
        }
        if (std.parser_error != error.NoError) { m.malformed = 1; }
        if (std.ingress_port == PORT_TIMER || std.ingress_port == PORT_CPU) {
            m.trusted = 1;
            m.again = PORT_RECIRCULATE;
        }

        zsr.apply(hdr, m);
        count_arrival.apply(m);
        count_departure.apply(m);

        if (m.report != 0) {
            bit<32> code = m.b.head;
            if (m.report == REPORT_REFUSED) { code = m.aeth; }
            else if (m.report == REPORT_SILENT) { code = (bit<32>)m.tries; }
            else if (m.report == REPORT_BAD_COUNT) { code = BAD_FILL; }
            digest<report_t>(1, { m.report, code, m.b.worker, m.b.producer, m.received_qp, m.role, m.g.phase,
                                  m.consumer_psn });
        }
        if (m.b.kind == OUT_DROP) { mark_to_drop(std); }
        else if (m.out_group != 0) { std.mcast_grp = m.out_group; }
        else { std.egress_spec = (bit<9>)m.out_port; }
    }
}

control EgressShell(inout headers_t hdr, inout meta_t m, inout standard_metadata_t std) {
    ZsrEgress(true) zsr;
    CountEgress() count_egress;

    // The ICRC does not cover it.
    action mark() { hdr.ipv4.tos = hdr.ipv4.tos | ECN_CAPABLE; }
    apply {
        if (std.instance_type == INSTANCE_EGRESS_CLONE) {
            // The copy of a last fragment becomes the commit right behind it.
            m.b.kind = OUT_COMMIT;
            m.b.psn = m.b.psn + ONE_PACKET;
        }
        // A replica's instance says whom it is for.
        if (m.b.group != 0) {
            if (m.b.event == EV_TICK) { m.b.worker = std.egress_rid; }
            else { m.b.qp = std.egress_rid; }
        }
        // A flooded frame does not go back to where it came from.
        if (m.b.kind == OUT_FORWARD && std.egress_rid != 0 && std.egress_port == std.ingress_port) {
            mark_to_drop(std);
        }

        if (m.b.kind == OUT_DATA && std.enq_qdepth >= DEEP_QUEUE) {
            if (hdr.ipv4.tos[1:0] != 0) { mark(); }
        }
        zsr.apply(hdr, m);
        count_egress.apply(m);

        if (m.b.kind == OUT_DROP) {
            mark_to_drop(std);
        } else if (m.b.kind == OUT_RECIRCULATE || m.b.kind == OUT_FANOUT) {
            m.trusted = 1;
            m.again = (port_t)std.egress_port;
            m.now = (usec_t)std.egress_global_timestamp;
            truncate(FRAME_INTERNAL);
            recirculate_preserving_field_list(FIELDS_RECIRCULATE);
        } else if (m.crosses == 1) {
            m.crossed = 1;
            m.now = (usec_t)std.egress_global_timestamp;
            recirculate_preserving_field_list(FIELDS_CROSS);
        } else if (m.b.kind == OUT_DATA) {
            if (m.b.last == 1) { clone_preserving_field_list(CloneType.E2E, (bit<32>)m.peer_mirror, FIELDS_COMMIT); }
        } else if (m.b.kind > OUT_FORWARD) {
            if (hdr.vlan.isValid()) { truncate(FRAME_TAGGED + (bit<32>)m.egress_length); }
            else { truncate(FRAME_ETHERNET + (bit<32>)m.egress_length); }
        }
    }
}

control VerifyIpv4(inout headers_t hdr, inout meta_t m) {
    apply { }
}

control ComputeIpv4(inout headers_t hdr, inout meta_t m) {
    apply {
        update_checksum(m.b.kind > OUT_FORWARD && m.b.kind < OUT_RECIRCULATE,
            { hdr.ipv4.version_ihl, hdr.ipv4.tos, hdr.ipv4.total_len, hdr.ipv4.ident, hdr.ipv4.flags_frag,
              hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

V1Switch(ZsrParser(), VerifyIpv4(), IngressShell(), EgressShell(), ComputeIpv4(), ZsrDeparser()) main;
