// zsr on Tofino 1 (tna) and Tofino 2 (t2na): main and the shell around the shared pipeline.
#if __TARGET_TOFINO__ == 1
#include <tna.p4>
#else
#include <t2na.p4>
#endif

// Sizes that fit the chip: 4,096 pairs of a producer and a consumer, with their four connections.
#ifndef ZSR_MAX_WORKERS
#define ZSR_MAX_WORKERS 4096
#endif
#ifndef ZSR_MAX_PRODUCERS
#define ZSR_MAX_PRODUCERS 8192
#endif
#ifndef ZSR_MAX_LIST
#define ZSR_MAX_LIST 8192
#endif
#ifndef ZSR_MAX_MEMBERS
#define ZSR_MAX_MEMBERS 1024
#endif
#ifndef ZSR_MAX_FLOWS
#define ZSR_MAX_FLOWS 4096
#endif
#ifndef ZSR_MAX_QPS
#define ZSR_MAX_QPS 16384
#endif
#ifndef ZSR_MAX_HOSTS
#define ZSR_MAX_HOSTS 256
#endif
#define ZSR_PORT bit<9>
#define ZSR_OP bit<3>
#define ZSR_FLAG bit<1>
#define ZSR_BRIDGE header
#define ZSR_ARCH_META commit_copy_t copy;

#include "../../common/types.p4"
#include "../../common/headers.p4"

// Mirror header of a last fragment's copy. Its second byte tells it from a bridge header.
const kind_t COMMIT_COPY = 8;
const bit<32> COMMIT_COPY_BYTES = 54;          // what the mirror session keeps of the packet
header commit_copy_t {
    bit<8>   pad;
    kind_t   kind;
    bit<16>  qp;
    bit<16>  producer;
    bit<16>  pad_2;
    psn_t    psn;
    bytes_t  head;
    bytes_t  producer_tail;
}

// A message to the controller (digest): something that it has to act on or tell a person.
const DigestType_t REPORT_TYPE = 1;
struct report_t {
    bit<8>   reason;                       // REPORT_*
    bit<32>  aeth;                         // these four: what v1model's `code` is, by reason
    bit<32>  tries;
    bytes_t  word;
    bytes_t  head;
    bit<16>  worker;
    bit<16>  producer;
    bit<16>  qp;                           // connection, where one is concerned
    role_t   role;
    phase_t  phase;
    psn_t    psn;
}

#include "../../common/metadata.p4"

#include "ops.p4"
#include "parser.p4"
#include "internal.p4"
#include "icrc.p4"
#include "counters.p4"
#include "state.p4"
#include "../../pipeline/pipeline.p4"

// Metadata is zero before it is written.
@pa_auto_init_metadata
// But for what every packet that uses it writes first.
@pa_no_init("ingress", "m.position")
@pa_no_init("ingress", "m.slack")
@pa_no_init("ingress", "m.beyond")
@pa_no_init("ingress", "m.consumer_psn")
@pa_no_init("ingress", "m.producer_psn")
@pa_no_init("ingress", "m.next_psn")
@pa_no_init("ingress", "m.consumer_step")
@pa_no_init("ingress", "m.from")
@pa_no_init("ingress", "m.from_slack")
@pa_no_init("ingress", "m.credit_left")
@pa_no_init("ingress", "m.due_at")
@pa_no_init("ingress", "m.poll_due_at")
@pa_no_init("ingress", "m.wait")
@pa_no_init("ingress", "m.max_batch")
@pa_no_init("ingress", "m.consumer_mask")
@pa_no_init("ingress", "m.producer_mask")
@pa_no_init("ingress", "m.poll_interval")
@pa_no_init("ingress", "m.poll_timeout")
@pa_no_init("ingress", "m.rto")
@pa_no_init("ingress", "m.max_tries")
@pa_no_init("ingress", "m.tries")
@pa_no_init("ingress", "m.tries_left")
@pa_no_init("ingress", "m.all_members")
@pa_no_init("ingress", "m.acked")
@pa_no_init("ingress", "m.lacking")
@pa_no_init("ingress", "m.my_lock")
@pa_no_init("ingress", "m.other_sender")
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
control IngressShell(inout headers_t hdr, inout meta_t m, in ingress_intrinsic_metadata_t ig,
                     in ingress_intrinsic_metadata_from_parser_t prsr, inout ingress_intrinsic_metadata_for_deparser_t dprsr,
                     inout ingress_intrinsic_metadata_for_tm_t tm) {
    ZsrIngress() zsr;
    CountIngress() count_ingress;

    // All of the packet will be new.
    action strip() {
        hdr.ethernet.setInvalid();
        hdr.arp.setInvalid();
        hdr.ipv4.setInvalid();
        hdr.udp.setInvalid();
        hdr.doorbell.setInvalid();
        hdr.bth.setInvalid();
        hdr.aeth.setInvalid();
        hdr.word.setInvalid();
        hdr.icrc.setInvalid();
    }
    apply {
        m.now = prsr.global_tstamp[39:8];                // units of 0.256 microseconds
        m.b.setValid();
        zsr.apply(hdr, m);
        count_ingress.apply(m);
        if (m.report != 0) { dprsr.digest_type = REPORT_TYPE; }
        if (m.b.kind != OUT_FORWARD && m.b.kind != OUT_DATA) { strip(); }
        if (m.b.event == EV_LOOK) { m.g.setValid(); }
        tm.ucast_egress_port = m.out_port;
        tm.mcast_grp_a = m.out_group;
        tm.level2_exclusion_id = ig.ingress_port;       // a flooded frame does not go back to where it came from
    }
}

control EgressShell(inout headers_t hdr, inout meta_t m, in egress_intrinsic_metadata_t eg,
                    in egress_intrinsic_metadata_from_parser_t prsr, inout egress_intrinsic_metadata_for_deparser_t dprsr,
                    inout egress_intrinsic_metadata_for_output_port_t oport) {
    ZsrEgress() zsr;
    CountEgress() count_egress;

    // The copy of a last fragment becomes the commit right behind it.
    action commit() {
        m.b.kind = OUT_COMMIT;
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
    apply {
        if (m.copy.isValid()) { commit(); }
        // A replica's number says whom it is for.
        else if (m.b.group != 0) {
            if (m.b.event == EV_TICK) { m.b.worker = eg.egress_rid; }
            else { m.b.qp = eg.egress_rid; }
        }
        zsr.apply(hdr, m);
        count_egress.apply(m);
        if (m.internal == 0) {
            if (m.b.kind == OUT_DROP) { dprsr.drop_ctl = 1; }
            else if (m.b.kind == OUT_DATA && m.b.last == 1) { copy(); }
            m.b.setInvalid();
        }
    }
}

Pipeline(IngressParser(), IngressShell(), IngressDeparser(), EgressParser(), EgressShell(), EgressDeparser()) pipe;
Switch(pipe) main;
