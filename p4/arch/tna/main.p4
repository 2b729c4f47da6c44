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
#ifndef ZSR_MAX_SEQUENCERS
#define ZSR_MAX_SEQUENCERS 1024
#endif
#ifndef ZSR_MAX_HOSTS
#define ZSR_MAX_HOSTS 256
#endif
#define ZSR_PORT bit<9>
#define ZSR_OP bit<3>
#define ZSR_FLAG bit<1>
#define ZSR_BRIDGE header
// A Tofino 1 has ingress in two of its pipes (folded.p4).
#if __TARGET_TOFINO__ == 1
#define ZSR_FOLDED
#define ZSR_ARCH_META commit_copy_t copy; crossing_t c; fill_t fill; handed_t h;
#else
#define ZSR_ARCH_META commit_copy_t copy; crossing_t c; fill_t fill;
#endif

#include "../../common/types.p4"
#include "../../common/headers.p4"

// Mirror header of a last fragment's copy. Its second byte tells it from a bridge header.
const kind_t COMMIT_COPY = 18;
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

// What every packet begins with, before its port is known.
header intrinsic_start_t {
    bit<7>   flags;
    PortId_t port;
}

// In front of a packet that crosses to another pipe: where it came in. No frame of the switch's own begins with these bits.
const bit<8> CROSSED = 0xfe;
header crossing_t {
    bit<7>   mark;
    PortId_t port;
}

// What is behind a doorbell.
header fill_t {
    bit<16> bytes;
}

// What one half of ingress tells the other, beside `bridge_t`. With that the shortest frame, so that nothing pads it.
header handed_t {
    event_t event;
    phase_t phase;
    role_t  role;
    bit<8>  pad;
    bit<16> received_qp;
    bit<16> index;
    bit<32> member_bit;
    bit<32> aeth;
}

// A message to the controller (digest): something that it has to act on or tell a person.
const DigestType_t REPORT_TYPE = 1;
struct report_t {
    bit<8>   reason;                       // REPORT_*
    bit<32>  aeth;                         // these four: what v1model's `code` is, by reason
    tries_t  tries;
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

#ifdef ZSR_SEQUENCER
#define STRIP_ATOMIC hdr.atomic.setInvalid();
#define EMIT_ATOMIC pkt.emit(hdr.atomic);
#else
#define STRIP_ATOMIC
#define EMIT_ATOMIC
#endif
// What both layouts of ingress do: leave nothing of the packet, emit all of it, pack a `report_t`, keep a flood from its origin.
#define STRIP \
        hdr.ethernet.setInvalid(); \
        hdr.vlan.setInvalid(); \
        hdr.arp.setInvalid(); \
        hdr.ipv4.setInvalid(); \
        hdr.udp.setInvalid(); \
        hdr.doorbell.setInvalid(); \
        m.fill.setInvalid(); \
        hdr.bth.setInvalid(); \
        hdr.aeth.setInvalid(); \
        STRIP_ATOMIC \
        hdr.word.setInvalid(); \
        hdr.icrc.setInvalid();
#define EMIT_PACKET \
        pkt.emit(m.c); \
        pkt.emit(hdr.ethernet); \
        pkt.emit(hdr.vlan); \
        pkt.emit(hdr.arp); \
        pkt.emit(hdr.ipv4); \
        pkt.emit(hdr.udp); \
        pkt.emit(hdr.doorbell); \
        pkt.emit(m.fill); \
        pkt.emit(hdr.bth); \
        pkt.emit(hdr.aeth); \
        EMIT_ATOMIC \
        pkt.emit(hdr.word); \
        pkt.emit(hdr.icrc);
#define CROSS \
        m.c.setValid(); \
        m.c.mark = 0x7f; \
        m.c.port = m.port;
// A flooded frame does not go back to where it came from: a copy is left out whose node has this number, at the port that the exclusion
// id stands for. The driver takes such ids up to 287, so a port has its pipe's number and the lower bits of its own there.
const bit<16> FLOODED = 0xffff;
#define EXCLUDE \
        tm.rid = FLOODED; \
        tm.level2_exclusion_id = 1w0 ++ ig.ingress_port[8:7] ++ ig.ingress_port[5:0];
#define REPORT \
        { m.report, m.aeth, m.tries, m.b.word, m.b.head, m.b.worker, m.b.producer, m.received_qp, m.role, m.g.phase, \
          m.consumer_psn }
#ifdef ZSR_FOLDED
#include "folded.p4"
#else
#include "single.p4"
#endif

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
control EgressShell(inout headers_t hdr, inout meta_t m, in egress_intrinsic_metadata_t eg,
                    in egress_intrinsic_metadata_from_parser_t prsr,
                    inout egress_intrinsic_metadata_for_deparser_t dprsr,
                    inout egress_intrinsic_metadata_for_output_port_t oport) {
    ZsrEgress() zsr;
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
        if (m.b.kind == OUT_RECIRCULATE || m.b.kind == OUT_FANOUT) { stay(); }
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

Pipeline(IngressParser(), IngressShell(), IngressDeparser(), EgressParser(), EgressShell(), EgressDeparser()) pipe;
#ifdef ZSR_FOLDED
Pipeline(FoldParser(), FoldIngressShell(), FoldDeparser(), PassParser(), PassShell(), PassDeparser()) fold;
Switch(pipe, fold) main;
#else
Switch(pipe) main;
#endif
