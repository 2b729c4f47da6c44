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
const bit<7> CROSSED_MARK = 0x7f;
// The same of a packet that has not been at Arrival (folded.p4).
const bit<8> GUEST = 0xfc;
const bit<7> GUEST_MARK = 0x7e;
header crossing_t {
    bit<7>   mark;
    PortId_t port;
}

// What is behind a doorbell.
header fill_t {
    bit<16> bytes;
}

// What one half of ingress tells the other, beside `bridge_t`. With that the shortest frame, so that nothing pads it. Its second byte
// tells it from a bridge header: it is OUT_DROP, and what is dropped goes to no port of the next pipe. (With a number of its own the
// compiler finds no containers.)
header handed_t {
    event_t event;
    kind_t  kind;
    phase_t phase;
    role_t  role;
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
        m.c.mark = CROSSED_MARK; \
        m.c.port = m.port;
// A flooded frame does not go back to where it came from: a copy is left out whose node has this number, at the port that the exclusion
// id stands for. The driver takes such ids up to 287, so a port has its pipe's number and the lower bits of its own there.
const bit<16> FLOODED = 0xffff;
#define EXCLUDE \
        tm.rid = FLOODED; \
        tm.level2_exclusion_id = 1w0 ++ m.port[8:7] ++ m.port[5:0];
#define REPORT \
        { m.report, m.aeth, m.tries, m.b.word, m.b.head, m.b.worker, m.b.producer, m.received_qp, m.role, m.g.phase, \
          m.consumer_psn }
#ifdef ZSR_FOLDED
#include "folded.p4"
#else
#include "single.p4"
#endif

#define EGRESS_PARSER EgressParser
#define EGRESS_SHELL EgressShell
#define WHOLE true
#include "egress.p4"

Pipeline(IngressParser(), IngressShell(), IngressDeparser(), EgressParser(), EgressShell(), EgressDeparser()) pipe;
#ifdef ZSR_FOLDED
#undef EGRESS_PARSER
#undef EGRESS_SHELL
#undef WHOLE
#define EGRESS_PARSER FoldEgressParser
#define EGRESS_SHELL FoldEgressShell
#define WHOLE false
#define EGRESS_PASSES
#include "egress.p4"

Pipeline(FoldParser(), FoldIngressShell(), FoldDeparser(), FoldEgressParser(), FoldEgressShell(), EgressDeparser()) fold;
Switch(pipe, fold) main;
#else
Switch(pipe) main;
#endif
