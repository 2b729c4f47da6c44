// What controls tell each other within a pass, by who writes it. `bridge_t` is all that egress learns from ingress,
// and `gathered_t` in a look. Fields that carry something else for a while are named at the end.
#ifndef ZSR_METADATA_P4
#define ZSR_METADATA_P4

// Field list of what a commit packet, cloned from the last fragment, needs (v1model; ignored elsewhere).
#define FIELDS_COMMIT 1
// Likewise for the next pass of an internal packet.
#define FIELDS_RECIRCULATE 2
// Likewise for what crosses to another pipe.
#define FIELDS_CROSS 3

// An architecture in which ingress hands over headers only defines ZSR_BRIDGE as `header`.
#ifndef ZSR_BRIDGE
#define ZSR_BRIDGE struct
#endif
// It is what passes of an internal packet hand on, too, in the order of `internal_t`.
ZSR_BRIDGE bridge_t {
    event_t event;                                     // of the next pass (OUT_RECIRCULATE, OUT_FANOUT)
    @field_list(FIELDS_COMMIT) kind_t  kind;
    bit<16> worker;
    @field_list(FIELDS_COMMIT) bit<16> producer;
    @field_list(FIELDS_COMMIT) bit<16> qp;             // connection that the packet goes to, or whose poll it is about
    bit<16> flow;
    bit<16> next;                                      // place behind the present producer in the worker's list
    bit<16> hops;                                      // producers looked at since the tick
    psn_t   frags;                                     // of the transfer
    bytes_t length;
    @field_list(FIELDS_COMMIT) bytes_t producer_tail;
    @field_list(FIELDS_COMMIT) bytes_t head;           // of the consumer ring
    bytes_t word;                                      // counter of a poll, CLOSED in its lowest bit
    usec_t  time;
    @field_list(FIELDS_COMMIT) psn_t   psn;
    bit<8>  last;                                // 1: last fragment of the transfer, or last commit of the worker
    bit<8>  first;                               // 1: first fragment
    bit<16> group;                                     // not 0: one copy per member, whose number is its connection
    bytes_t address;
}

// What a look has gathered (EV_LOOK), for egress too.
ZSR_BRIDGE gathered_t {
    phase_t phase;
    bit<8>  settings;
    bit<8>  blocked;               // 1: another worker drains this producer
    bit<8>  late;                  // 1: nothing has moved for too long
    bit<8>  ask_producer;          // 1: its word may be asked for again
    bit<8>  ask_consumer;          // 1: likewise
    bytes_t producer_head;
    bytes_t producer_tail;
    bytes_t consumer_tail;
    bytes_t head;
    bytes_t debt;                  // bytes that a capped flow has moved ahead of its rate
    usec_t  refill_at;             // when that may shrink
}

struct meta_t {
    bridge_t   b;
    gathered_t g;
#ifdef ZSR_ARCH_META
    ZSR_ARCH_META
#endif

    // From the architecture: its shell and parser.
    @field_list(FIELDS_CROSS)
    port_t   port;                 // where the packet came in, in whichever pipe
    @field_list(FIELDS_RECIRCULATE)
    port_t   again;                // leads back into this pipe
    @field_list(FIELDS_RECIRCULATE, FIELDS_CROSS)
    usec_t   now;
    @field_list(FIELDS_RECIRCULATE)
    flag_t   trusted;              // 1: internal packet of our own
    @field_list(FIELDS_CROSS)
    flag_t   crossed;              // 1: came in at another pipe
    bit<8>   steer;                // first byte of QPN or doorbell: its upper two bits are the pipe that it is for
    flag_t   malformed;
    flag_t   internal;             // 1: an internal packet
    bit<16>  tci;                  // of the packet's VLAN tag, or 0

    // Arrival: whose packet is it, what does it mean, and what does that do to the worker's registers (ingress.p4,
    // connection.p4, passes.p4)?
    event_t  event;
    role_t   role;
    flag_t   own;                  // 1: addressed to the switch
    flag_t   crosses;              // 1: likewise, but another pipe has the registers
    flag_t   foreign;              // 1: on another VLAN than its port
    flag_t   spoofed;              // 1: claims a source address that its port does not have
    ip4_t    arp_ip;
    bit<32>  icrc;                 // CRC over packet and ICRC: ICRC_RIGHT if that is right
    flag_t   swap;                 // 1: the peer's control words are little-endian
    bit<16>  received_qp;          // connection that the packet came on
    bit<32>  member_bit;           // of the consumer within its group
    bit<32>  aeth;                 // syndrome (8 bits), MSN
    bit<8>   drop_reason;
    op_t     do_owner;
    op_t     do_asker;
    op_t     do_phase;
    op_t     do_turn;
    op_t     do_poll_psn;
    phase_t  phase_from;
    phase_t  phase_to;
    psn_t    next_poll_psn;        // the one behind the poll's

    // What the worker's registers gave (claim.p4).
    bit<8>   claimed;
    bit<32>  answered;             // 1: the packet answers the outstanding poll
    bit<16>  index;                // place in the worker's list of producers

    // A sequencer (sequencer.p4).
    op_t     do_ticket_psn;
    op_t     do_ticket;
    op_t     do_last_ticket;
    psn_t    awaited;              // PSN of the client's next request
    psn_t    behind;               // ONE_PACKET: this is it; 0: it is the one before
    bit<32>  amount;               // of tickets
    bit<32>  amount_left;          // the largest lower word to which it can be added without a carry
    bit<32>  over_left;            // not 0: it is larger
    bit<32>  carry;                // to the upper word

    // Parameters of the worker and the producer ring (params.p4).
    bit<32>  all_members;          // a bit for each
    bit<16>  group;                // multicast group of a replicate flow, or 0
    bytes_t  max_batch;
    bytes_t  consumer_mask;
    bit<16>  consumer_data_qp;
    usec_t   poll_interval;
    usec_t   poll_timeout;
    usec_t   rto;
    tries_t  max_tries;
    bytes_t  producer_mask;
    bit<16>  producer_data_qp;
    flag_t   gathered;             // 1: the tails of all members are known
    flag_t   off_list;             // 1: the worker's list has become shorter

    // What a step does to each of the transfer's registers, and their operands (steps.p4, transfer.p4).
    flag_t   looks;                // 1: EV_TICK to EV_FREE
    flag_t   lists;                // 1: at the worker's next producer
    bit<8>   counts;               // COUNT_*: what to count for the worker
    op_t     do_transfer;          // producer, length and fragments of the transfer
    op_t     do_consumer_psn;
    op_t     do_head;
    op_t     do_consumer_tail;
    op_t     do_member_tail;
    op_t     do_acked;
    op_t     do_producer_tail;
    op_t     do_producer_head;
    op_t     do_producer_psn;
    op_t     do_from;
    op_t     do_lock;
    op_t     do_credit;
    op_t     do_debt;
    op_t     do_refill;
    op_t     do_producer_due;
    op_t     do_consumer_due;
    op_t     do_due;
    op_t     do_tries;
    bit<16>  sender;               // producer ring whose QP the packet came on
    bit<16>  my_lock;              // this worker's mark in LockState
    psn_t    next_psn;             // the one behind the packet's
    psn_t    consumer_step;        // operand of ConsumerPsnState
    psn_t    producer_step;        // operand of ProducerPsnState
    bytes_t  credit_left;          // of a turn, behind this transfer
    usec_t   wait;                 // until the next retry
    usec_t   due_at;
    usec_t   poll_due_at;

    // What the transfer's registers gave, and what follows from it (state.p4, position.p4, transfer.p4).
    psn_t    consumer_psn;
    psn_t    producer_psn;
    bit<32>  same_head;            // 1: as the deciding pass saw it
    bit<32>  same_tail;
    bit<32>  matched;              // 1: the packet answers the outstanding request
    bit<16>  other_sender;         // not 0: it is not the transfer's producer
    psn_t    position;             // fragment within the transfer
    psn_t    limit;                // number of fragments; for a commit's ACK, which lies behind them, one more
    psn_t    slack;                // position less that
    psn_t    beyond;               // not 0: position lies outside of the transfer
    psn_t    from;                 // first fragment that a consumer may lack, or the smallest that they have said
    psn_t    from_slack;           // less number of fragments
    bit<32>  acked;                // a bit for each member that has all, or that has answered
    bit<32>  lacking;
    bit<8>   locked;               // 1: the producer is ours
    bit<8>   over;                 // 1: the producer's turn is over
    bit<8>   is_due;               // 1: `due` has passed
    bit<8>   producer_is_due;
    bit<8>   consumer_is_due;
    tries_t  tries;
    tries_t  tries_left;

    // Outcome: what leaves (outcome.p4).
    flag_t   sends;                // 1: a packet to a PU
    port_t   out_port;
    bit<16>  out_group;
    bit<8>   report;

    // Egress: parameters of a look (look.p4).
    bit<16>  producers;
    bytes_t  consumer_size;
    bytes_t  low_space;
    bit<16>  consumer_poll_qp;
    bytes_t  producer_size;
    bit<16>  producer_poll_qp;
    bytes_t  refill;               // bytes that a capped flow may move per `refill_every`
    bytes_t  burst;                // debt with which a transfer may begin
    bytes_t  scarce;               // debt from which on chance decides which worker's
    usec_t   refill_every;
    bit<16>  ask_group;            // poll connections of a replicate flow, less 1
    bit<8>   mtu;                  // 1..5: 256..4096 bytes
    bytes_t  mtu_mask;             // 255..4095

    // Egress: arithmetic of a look, and what it finds (amount.p4, look.p4).
    bytes_t  rounded;              // of the transfer, up to whole fragments
    bytes_t  from_bytes;           // in front of READ_FROM
    bytes_t  batch;
    bytes_t  carried;              // the same as `batch`
    usec_t   time;                 // when a capped flow is to be refilled next
    usec_t   refill_late;          // time since it was due
    usec_t   refill_early;         // not 0: it is not due yet
    usec_t   refill_limit;         // how late it may be to be made up for
    bytes_t  debt_over;            // by how much a capped flow is ahead of its rate
    bytes_t  debt_scarce;          // by how much its debt is over `scarce`
    bit<8>   dice;
    bytes_t  closed;               // 1: the producer has closed its ring
    bit<16>  hops_left;
    bit<8>   ask;                  // ASK_*: whose word is wanted
    bit<8>   is_drained;           // 1: this producer and those looked at before it are closed and empty
    flag_t   idle;                 // the worker is
    flag_t   stopped;              // for good
    flag_t   empty;                // the producer is
    flag_t   is_low;               // the consumer's space
    flag_t   is_short;             // less than a full batch is known of
    flag_t   bad_count;            // a counter lies outside of its ring

    // Egress: the peer (peer.p4).
    mac_t    peer_dst_mac;
    mac_t    peer_src_mac;
    ip4_t    peer_src_ip;
    ip4_t    peer_dst_ip;
    bit<24>  peer_qpn;
    bit<32>  peer_rkey;
    bit<32>  peer_flags;           // of its commit records: the ring's epoch
    bit<16>  peer_mirror;          // clone session of its port
    bit<8>   peer_tos;             // DSCP of what is sent to it; ECN bits 0
    bit<8>   peer_swap;

    // Egress: the rewrite (rewrite.p4, solve.p4), and the length of what is composed (compose.p4).
    bit<32>  crc_old;
    bit<32>  crc_new;
    bit<32>  delta;
    bit<16>  ident_0;
    bit<16>  ident_1;
    bit<16>  ident_2;
    bit<16>  ident_3;
    bit<16>  sport_0;
    bit<16>  sport_1;
    bit<16>  sport_2;
    bit<16>  sport_3;
    bit<8>   old_aeth;
    bit<16>  egress_length;        // of a switch-made packet, from the IPv4 header on
}

// Fields that carry something else for a while, as few are left where they are needed. In internal passes:
#define TIMER_NUMBER   m.b.next             /* EV_FANOUT: number of the timer packet */
#define TICK_GROUP     m.group              /* EV_FANOUT: multicast group of workers that tick */
#define ASKED_GROUP    m.b.next             /* EV_ASK: multicast group of poll connections */
#define PIPES_GROUP    m.b.hops             /* ELSEWHERE: multicast group of pipes */
#define MEMBER         m.b.hops             /* EV_GATHER: number of the group's member */
#define ALL_DRAINED    m.b.word             /* EV_NEXT: 1: all producers so far are closed and empty */
#define BYTES_BEHIND   m.b.word             /* EV_START: that the producer has behind this batch */
#define BAD_FILL       m.b.word             /* EV_FAULT: what the producer ring would hold */
#define REFILL_FROM    m.b.psn              /* EV_REFILL: when the flow was to be refilled */
#define REFILL_TO      m.b.time             /* EV_REFILL: when it is next */
#define REFILL_BYTES   m.b.head             /* EV_REFILL */
// Of sequencers, in EV_TICKET_RESET and OUT_TICKET:
#define SEQUENCER      m.b.flow             /* number */
#define TICKET_HIGH    m.b.producer_tail    /* the ticket's upper word */
#define TICKET_LOW     m.b.head             /* its lower word */
#define TICKET_MSN     m.b.length           /* the answer's MSN, in the upper 24 bits */
#define MSN_LESS_PSN   m.member_bit         /* likewise: what makes an MSN of the client's PSN */
// In what leaves:
#define READ_FROM      m.b.frags            /* OUT_READ: first fragment that is read */
// In a look's arithmetic (amount.p4), results lie where operands were that are used up:
#define FILL           m.g.producer_head    /* bytes in the producer ring */
#define SPACE          m.g.consumer_tail    /* bytes free in the consumer ring */
#define PRODUCER_WRAP  m.producer_mask      /* bytes to the end of the producer ring; of either, in the end */
#define CONSUMER_WRAP  m.consumer_mask
#define FILL_BEYOND    m.producer_size      /* bytes by which a counter left its ring */
#define SPACE_BEYOND   m.consumer_size
#define SPACE_LACKING  m.low_space          /* bytes by which space is low */
#define BATCH_LACKING  m.max_batch          /* bytes that the producer lacks to a full batch */
#define ROUNDED_UP     m.mtu_mask           /* the transfer's bytes, and a fragment's less 1 */
#endif
