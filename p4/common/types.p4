// Widths, sizes and codes, each in this one place. No architecture is included here.
#ifndef ZSR_TYPES_P4
#define ZSR_TYPES_P4

// Sizes: overridable with -D on the compiler's command line.
#ifndef ZSR_MAX_WORKERS
#define ZSR_MAX_WORKERS 16384     // workers: one per consumer ring, or per replicate flow
#endif
#ifndef ZSR_MAX_PRODUCERS
#define ZSR_MAX_PRODUCERS 32768   // producer rings
#endif
#ifndef ZSR_MAX_LIST
#define ZSR_MAX_LIST 65536        // places in the workers' lists of producers
#endif
#ifndef ZSR_MAX_MEMBERS
#define ZSR_MAX_MEMBERS 4096      // consumer rings of replicate flows
#endif
#ifndef ZSR_MAX_FLOWS
#define ZSR_MAX_FLOWS 16384       // flows with a rate cap
#endif
#ifndef ZSR_MAX_QPS
#define ZSR_MAX_QPS 65536         // connections: two per ring
#endif
#ifndef ZSR_MAX_SEQUENCERS
#define ZSR_MAX_SEQUENCERS 4096   // pairs of a sequencer and a client's connection
#endif
#ifndef ZSR_MAX_HOSTS
#define ZSR_MAX_HOSTS 1024        // MAC addresses behind the switch
#endif

#ifndef ZSR_PORT
#define ZSR_PORT bit<16>
#endif
typedef ZSR_PORT port_t;
#ifndef ZSR_FLAG
#define ZSR_FLAG bit<8>
#endif
typedef ZSR_FLAG flag_t;          // 0 or 1
typedef bit<48> mac_t;
typedef bit<32> ip4_t;
// A PSN, or a number of packets, in the upper 24 bits: sums wrap where PSNs do. The low byte is free for a mark.
typedef bit<32> psn_t;
typedef bit<32> bytes_t;          // ring counters and lengths, modulo 2^32
typedef bit<16> tries_t;          // retries since the last progress, modulo 2^16
typedef bit<32> usec_t;           // time in microseconds, modulo 2^32

const bit<16> ETHERTYPE_IPV4     = 0x0800;
const bit<16> ETHERTYPE_ARP      = 0x0806;
const bit<16> ETHERTYPE_VLAN     = 0x8100;   // 802.1Q
const bit<16> ETHERTYPE_PROVIDER = 0x88A8;   // 802.1ad
const bit<16> ETHERTYPE_INTERNAL = 0x88B5;   // IEEE local experimental: packets from the switch to itself
const bit<8>  IPPROTO_UDP        = 17;
const bit<16> UDP_PORT_ROCE      = 4791;
const bit<16> UDP_PORT_DOORBELL  = 50592;    // a PU says that its producer ring has items
const bit<16> UDP_SPORT_SELF     = 0xC5A0;   // source port of packets that the switch makes

const psn_t ONE_PACKET = 0x00000100;
const psn_t TAIL_SENT  = 0x00000001;   // in a producer's PSN register: the outstanding request is a tail, not a READ
const psn_t NO_FURTHER = 0x00000001;   // in a transfer's `from` register, so that a position which was known is below it
const psn_t NOBODY     = 0xffffffff;   // in a transfer's smallest position: nobody has said one, all of which are below 2^31
const bit<32> ACK_REQ  = 0x80000000;   // in the BTH

// Opcodes of the RC transport (IBTA volume 1, section 9.2.1).
const bit<8> OP_WRITE_FIRST  = 6;
const bit<8> OP_WRITE_MIDDLE = 7;
const bit<8> OP_WRITE_LAST   = 8;
const bit<8> OP_WRITE_ONLY   = 10;
const bit<8> OP_READ_REQUEST = 12;
const bit<8> OP_READ_FIRST   = 13;
const bit<8> OP_READ_MIDDLE  = 14;
const bit<8> OP_READ_LAST    = 15;
const bit<8> OP_READ_ONLY    = 16;
const bit<8> OP_ACK          = 17;
const bit<8> OP_ATOMIC_ACK   = 18;
const bit<8> OP_FETCH_ADD    = 20;
const bit<8> OP_CNP          = 0x81;   // congestion notification (annex A17): BTH with BECN, 16 bytes of zeros
const bit<8> BECN            = 0x40;   // in the byte behind the BTH's P_Key
const bit<8> TOS_CNP         = 0xc0;   // DSCP 48, and the priority, that set-ups of RoCE have for CNPs
const bit<3> PRIORITY_CNP    = 6;
const bit<8> ECN_CAPABLE     = 0x03;   // in the IPv4 TOS: not zero, the sender heeds marks; all ones, marked

// Ring ABI version 1.
const bytes_t COUNTER_BYTES  = 0xfffffffc;   // of a counter; the lowest bit of a producer's says CLOSED
const bytes_t RING_ITEMS     = 4096;         // offset of the first item
const bytes_t RING_TAIL_WORD = 64;           // offset of the tail word; head word and commit record are at 0
const bit<32> FLAG_CLOSED    = 1;

// Length of switch-made packets from the IPv4 header to the ICRC, in bytes, by payload.
const bit<16> LEN_READ   = 20 + 8 + 12 + 16 + 4;
const bit<16> LEN_TAIL   = LEN_READ + 8;
const bit<16> LEN_COMMIT = LEN_READ + 16;
const bit<16> LEN_TICKET = 20 + 8 + 12 + 4 + 8 + 4;

// Sequencers.
const bit<32> ACK_UNLIMITED = 0x1f000000;    // in an AETH: an ACK that says nothing of credits
const bit<32> NO_TICKET     = 0xffffffff;    // upper word of a client's last ticket: it has had none

// What a QP is for (table qps).
typedef bit<8> role_t;
const role_t ROLE_PRODUCER_DATA = 1;
const role_t ROLE_PRODUCER_POLL = 2;
const role_t ROLE_CONSUMER_DATA = 3;
const role_t ROLE_CONSUMER_POLL = 4;
const role_t ROLE_TICKETS       = 5;   // a sequencer's client

// What a pass through the pipeline is about. Those from 16 on travel in the internal header.
typedef bit<8> event_t;
const event_t EV_NONE          = 0;
const event_t EV_DATA          = 1;    // READ response fragment with items
const event_t EV_PRODUCER_WORD = 2;    // poll response: a producer's head word
const event_t EV_CONSUMER_WORD = 3;    // poll response: a consumer's tail word
const event_t EV_COMMITTED     = 4;    // ACK from a consumer
const event_t EV_TAIL_ACKED    = 5;    // ACK from a producer
const event_t EV_GAP           = 6;    // NAK 0x60 from a consumer
const event_t EV_REFUSED       = 7;    // fatal NAK from either
const event_t EV_PROBED        = 8;    // ACK from a consumer that was asked, and has not all of the transfer
const event_t EV_CONGESTED     = 9;    // CNP from a consumer: what comes to it is marked on its way
const event_t EV_TICKET        = 10;   // FETCH_ADD from a sequencer's client
// Looks at a worker's next producer; each but EV_TICK notes something on the way.
const event_t EV_TICK          = 16;
const event_t EV_NEXT          = 17;   // nothing to do at the last one: on to the next producer
const event_t EV_VISIT         = 18;   // a producer's head word has come: look at this producer
const event_t EV_ROOM          = 19;   // the consumers' smallest tail is known
const event_t EV_FREE          = 20;   // the producer knows its tail: the worker is idle
// A transfer, step by step.
const event_t EV_START         = 24;   // claim the worker
const event_t EV_READ          = 25;   // note the transfer, send its READ
const event_t EV_DONE          = 26;   // all consumers have it: heads and tails move on
const event_t EV_RETRY         = 27;   // nothing moved for too long: ask the consumer what it has, or send again
const event_t EV_RELEASE       = 28;   // a claim that came to nothing
const event_t EV_CLOSE         = 29;   // all producers are drained: claim the worker for the last commit
const event_t EV_LAST_COMMIT   = 30;   // write the last commit record
const event_t EV_FAULT         = 31;   // a PU broke the ring ABI: stop its worker, tell the controller
// The rest.
const event_t EV_FANOUT        = 32;   // timer packet: becomes one tick per worker of a group
const event_t EV_POLL_PRODUCER = 33;   // READ a producer's head word
const event_t EV_MEMBER        = 34;   // note a group member's tail
const event_t EV_GATHER        = 35;   // the smallest tail of a group, member by member
const event_t EV_REFILL        = 36;   // a flow with a rate cap may move more bytes
const event_t EV_RESET         = 37;   // controller: what registers begin with
const event_t EV_QUERY         = 38;   // controller: what do they hold?
const event_t EV_POLL_CONSUMER = 39;   // READ a consumer's tail word
const event_t EV_ASK           = 40;   // becomes one EV_POLL_CONSUMER per member of a group
const event_t EV_UNLOCK        = 41;   // as EV_FREE, where other workers may want the producer: frees it
const event_t EV_CLOSED        = 42;   // the last commit is acknowledged
const event_t EV_LOOK          = 43;   // from ingress to egress only: what a look has gathered
const event_t EV_RESEND        = 44;   // where the last consumer goes on is known: send from there
const event_t EV_REPEAT        = 45;   // likewise, but it was known before
const event_t EV_TICKET_RESET  = 46;   // controller: what a sequencer's registers begin with
// With an event of the controller's: first to the pipes of a multicast group.
const event_t ELSEWHERE        = 0x80;
#define IS_ELSEWHERE(event) (event[7:7] == 1)

// Every other retry asks the consumers what they have; the others send again, since what asks may be lost, too.
#define ASKS(tries) (tries[0:0] == 1)

// What a worker is doing.
typedef bit<8> phase_t;
const phase_t PHASE_IDLE    = 0;
const phase_t PHASE_CLAIMED = 1;       // EV_START has passed, EV_READ has not
const phase_t PHASE_DATA    = 2;       // READ sent, commit not acknowledged
const phase_t PHASE_TAIL    = 3;       // commit acknowledged, producer's tail not
const phase_t PHASE_CLOSING = 4;       // last commit sent
const phase_t PHASE_CLOSED  = 5;
const phase_t PHASE_FAULT   = 6;       // a peer refused a request; the controller acts

// Settings of a worker that change while it runs, a bit each.
#define HOLDS(settings)  (settings[0:0] == 1)   // start no transfer
#define OPEN(settings)   (settings[1:1] == 1)   // do not close when all producers are drained
#define LOCKS(settings)  (settings[2:2] == 1)   // its producers have other workers too (load balance)
#define CAPPED(settings) (settings[3:3] == 1)   // its flow has a rate cap
#define RINGS(settings)  (settings[4:4] == 1)   // its producers have doorbells

// Multicast groups of workers, by how often they tick: the only one, or the upper bits of the number.
const bit<16> TICKS_OFTEN = 1;
const bit<13> TICKS_8     = 0x020;     // groups 0x100 to 0x107
const bit<9>  TICKS_12    = 0x004;     // groups 0x200 to 0x27f
const bit<5>  TICKS_16    = 0x01;      // groups 0x800 to 0xfff

// What leaves the pipeline.
typedef bit<8> kind_t;
const kind_t OUT_DROP    = 0;
const kind_t OUT_FORWARD = 1;          // unchanged, or an ARP reply
const kind_t OUT_DATA    = 2;          // READ response rewritten to a WRITE
const kind_t OUT_READ    = 3;          // READ request, for items or a control word
const kind_t OUT_PROBE   = 4;          // WRITE of nothing: the consumer acknowledges what it has
const kind_t OUT_CNP     = 5;          // congestion notification to a producer's NIC
const kind_t OUT_TAIL    = 6;          // WRITE of a producer's tail word
const kind_t OUT_COMMIT  = 7;          // WRITE of a consumer's commit record
const kind_t OUT_TICKET  = 8;          // ATOMIC ACKNOWLEDGE to a sequencer's client
// From a power of two on, so that 1 < kind < OUT_RECIRCULATE asks for bits and not for a number in between: p4c ends with an
// internal error at such a condition on a Tofino 2.
const kind_t OUT_RECIRCULATE = 16;     // internal packet: once more through the pipeline
const kind_t OUT_FANOUT  = 17;         // internal packet: one copy per replica of a multicast group

// What a state register does in a pass; 0 is nothing. A register is touched at most once per pass.
#ifndef ZSR_OP
#define ZSR_OP bit<8>
#endif
typedef ZSR_OP op_t;
const op_t DO_NOTHING = 0;
const op_t DO_GET     = 1;
const op_t DO_SET     = 2;
const op_t DO_ADD     = 3;
const op_t DO_MATCH   = 4;             // move on if the value is the one expected
const op_t DO_RESET   = 5;             // what the controller says

// Whose control word a look wants.
const bit<8> ASK_NOBODY   = 0;
const bit<8> ASK_PRODUCER = 1;
const bit<8> ASK_CONSUMER = 2;
const bit<16> NO_PLACE = 0xffff;       // leaves a worker's turn as it is

// Why a packet was dropped (index of counter `drops`).
const bit<8> DROP_UNKNOWN_QP  = 1;     // no such QP at this port from this source, or no such opcode there
const bit<8> DROP_BAD_ICRC    = 2;
const bit<8> DROP_STALE       = 3;     // answers no outstanding request
const bit<8> DROP_FORGED      = 4;     // internal packet from outside
const bit<8> DROP_NO_ROUTE    = 5;     // no port for this MAC address
const bit<8> DROP_MALFORMED   = 6;     // a parser error, VLAN 0 among several tags, or a poll response that is not 8 bytes
const bit<8> DROP_VLAN        = 7;     // for the switch, on another VLAN than that of its port; also counted by port
const bit<8> DROP_SOURCE      = 8;     // claims a source address that its port does not have; also counted by port

// What is reported to the controller.
const bit<8> REPORT_REFUSED   = 1;     // fatal NAK: code is the AETH: the syndrome is its upper byte
const bit<8> REPORT_SILENT    = 2;     // retries used up, still trying: code is their number
const bit<8> REPORT_BAD_COUNT = 3;     // a PU's counter runs ahead of its ring
const bit<8> REPORT_STATE     = 4;     // answers EV_QUERY
const bit<8> REPORT_CLOSED    = 5;     // a worker's last commit is acknowledged

// What is counted for a worker.
const bit<8> COUNT_TRANSFER = 1;
const bit<8> COUNT_RETRY    = 2;
#endif
