// What controls tell each other within a pass. `bridge_t` is all that egress learns from ingress, and `gathered_t` in a look.
#ifndef ZSR_METADATA_P4
#define ZSR_METADATA_P4

// Field list of what a commit packet, cloned from the last fragment, needs (v1model; ignored elsewhere).
#define FIELDS_COMMIT 1
// Likewise for the next pass of an internal packet.
#define FIELDS_AGAIN 2

// An architecture in which ingress hands over headers only defines ZSR_BRIDGE as `header`.
#ifndef ZSR_BRIDGE
#define ZSR_BRIDGE struct
#endif
// It is what passes of an internal packet hand on, too, in the order of `internal_t`.
ZSR_BRIDGE bridge_t {
    event_t event;                                     // of the next pass (OUT_AGAIN, OUT_FANOUT)
    @field_list(FIELDS_COMMIT) kind_t  kind;
    bit<16> worker;
    @field_list(FIELDS_COMMIT) bit<16> producer;
    @field_list(FIELDS_COMMIT) bit<16> qp;             // connection that the packet goes to, or whose poll it is about
    bit<16> flow;
    bit<16> next;                                      // place behind the present producer in the worker's list
    bit<16> hops;                                      // producers looked at since the tick, or members
    psn_t   frags;                                     // of the transfer
    bytes_t length;
    @field_list(FIELDS_COMMIT) bytes_t producer_tail;
    @field_list(FIELDS_COMMIT) bytes_t head;           // of the consumer ring
    bytes_t word;           // counter of a poll, CLOSED in its lowest bit
    usec_t  time;
    @field_list(FIELDS_COMMIT) psn_t   psn;
    bit<8>  last;                                      // 1: last fragment of the transfer, or last commit of the worker; OUT_READ: 1 a probe, 2 a CNP
    bit<8>  first;                                     // 1: first fragment
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

    // From the architecture.
    port_t   port;
    @field_list(FIELDS_AGAIN)
    usec_t   now;
    @field_list(FIELDS_AGAIN)
    flag_t   trusted;              // 1: internal packet of our own
    flag_t   malformed;
    flag_t   internal;             // 1: an internal packet
    bit<16>  tci;                  // of the packet's VLAN tag, or 0

    // To the architecture.
    port_t   out_port;
    bit<16>  out_group;
    flag_t   own;                  // 1: addressed to the switch
    flag_t   foreign;              // 1: on another VLAN than its port
    ip4_t    arp_ip;
    bit<32>  icrc;                 // CRC over packet and ICRC: ICRC_RIGHT if that is right

    // Who.
    event_t  event;
    flag_t   looks;                // 1: EV_TICK to EV_FREE
    flag_t   lists;                // 1: at the worker's next producer
    flag_t   sends;                // 1: a packet to a PU
    role_t   role;
    flag_t   swap;                 // 1: the peer's control words are little-endian
    bit<16>  received_qp;          // connection that the packet came on
    bit<16>  sender;               // producer ring whose QP the packet came on
    bit<16>  other_sender;         // not 0: it is not the transfer's producer
    bit<16>  index;                // place in the worker's list of producers
    bit<32>  member_bit;           // of the consumer within its group

    // Parameters of the worker and the producer ring.
    bit<32>  all_members;          // a bit for each
    bit<16>  group;                // multicast group of a replicate flow, or 0
    bytes_t  max_batch;
    bytes_t  consumer_mask;
    bit<16>  consumer_data_qp;
    usec_t   poll_interval;
    usec_t   poll_timeout;
    usec_t   rto;
    bit<32>  max_tries;
    bytes_t  producer_mask;
    bit<16>  producer_data_qp;

    // State registers: what each does in this pass, and what came out.
    op_t     do_owner;
    op_t     do_asker;
    op_t     do_phase;
    op_t     do_turn;
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
    op_t     do_poll_psn;
    op_t     do_producer_due;
    op_t     do_consumer_due;
    op_t     do_due;
    op_t     do_tries;
    bit<32>  aeth;                 // syndrome (8 bits), MSN
    psn_t    next_psn;             // the one behind the packet's
    psn_t    next_poll_psn;        // likewise
    psn_t    consumer_step;        // operand of ConsumerPsnState
    psn_t    producer_step;        // operand of ProducerPsnState
    psn_t    consumer_psn;
    psn_t    producer_psn;
    psn_t    position;             // fragment within the transfer
    psn_t    limit;                // number of fragments; for a commit's ACK, which lies behind them, one more
    psn_t    slack;                // position less that
    psn_t    beyond;               // not 0: position lies outside of the transfer
    psn_t    from;                 // first fragment that the consumer lacks
    psn_t    from_slack;           // less number of fragments, or less what a probe has found
    bit<32>  same_head;            // 1: as the deciding pass saw it
    bit<32>  same_tail;
    bit<32>  acked;                // a bit for each member
    bit<32>  lacking;
    usec_t   time;                 // when a capped flow is to be refilled next
    phase_t  phase_from;
    phase_t  phase_to;
    bit<32>  answered;             // 1: the packet answers the outstanding poll
    bit<32>  matched;              // 1: likewise the outstanding request
    bit<8>   claimed;
    bit<8>   locked;
    bit<16>  my_lock;              // this worker's mark in LockState
    bytes_t  credit_left;          // of a turn, behind this transfer
    bit<8>   over;                 // 1: the producer's turn is over
    usec_t   due_at;
    bit<8>   is_due;               // 1: `due` has passed
    usec_t   wait;
    usec_t   poll_due_at;
    bit<8>   producer_is_due;
    bit<8>   consumer_is_due;
    bit<32>  tries;
    bit<32>  tries_left;
    flag_t   gathered;             // 1: the tails of all members are known
    flag_t   off_list;             // 1: the worker's list has become shorter

    bit<8>   report;
    bit<8>   drop_reason;
    bit<8>   counts;               // COUNT_*: what to count for the worker

    // Egress: a look. Sizes of the rings, and arithmetic of the decision.
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
    usec_t   refill_late;          // time since it was due
    usec_t   refill_early;         // not 0: it is not due yet
    usec_t   refill_limit;         // how late it may be to be made up for
    bit<16>  ask_group;            // poll connections of a replicate flow, less 1
    bit<8>   mtu;                  // 1..5: 256..4096 bytes
    bytes_t  mtu_mask;             // 255..4095
    bytes_t  rounded;
    bytes_t  from_bytes;
    bytes_t  batch;
    bytes_t  carried;
    bytes_t  closed;               // 1: the producer is
    bytes_t  debt_over;            // by how much a capped flow is ahead of its rate
    bytes_t  debt_scarce;          // by how much its debt is over `scarce`
    bit<8>   dice;
    bit<16>  hops_left;
    bit<8>   ask;                  // ASK_*: whose word is wanted
    bit<8>   is_drained;           // 1: this producer and those looked at before it are closed and empty
    flag_t   idle;                 // the worker is
    flag_t   stopped;              // for good
    flag_t   empty;                // the producer is
    flag_t   is_low;               // the consumer's space
    flag_t   is_short;             // less than a full batch is known of
    flag_t   bad_count;            // a counter lies outside of its ring

    // Egress: the peer, and the rewrite.
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
    mac_t    peer_dst_mac;
    mac_t    peer_src_mac;
    ip4_t    peer_src_ip;
    ip4_t    peer_dst_ip;
    bit<24>  peer_qpn;
    bit<32>  peer_rkey;
    bit<32>  peer_flags;           // of its commit records: the ring's epoch
    bit<16>  peer_mirror;          // clone session of its port
    bit<8>   peer_tos;             // DSCP of what is sent to it; ECN bits 0
    bit<16>  peer_tci;             // VLAN tag of that, or 0
    bit<8>   peer_swap;
    bit<16>  egress_length;        // of a switch-made packet, from the IPv4 header on
}
#endif
