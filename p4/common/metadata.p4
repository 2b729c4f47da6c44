// What controls tell each other within a pass. `bridge_t` is all that egress learns from ingress.
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
ZSR_BRIDGE bridge_t {
    @field_list(FIELDS_COMMIT) kind_t  kind;
    bit<8>  last;                                      // 1: last fragment of the transfer
    bit<8>  first;                                     // 1: first fragment
    event_t event;                                     // of the next pass (OUT_AGAIN, OUT_FANOUT)
    @field_list(FIELDS_COMMIT) bit<16> qp;             // connection that the packet goes to
    bit<16> group;                                     // not 0: one copy per member, whose number is its connection
    @field_list(FIELDS_COMMIT) bit<16> producer;
    bit<16> worker;
    bit<16> flow;
    bit<16> next;
    bit<16> hops;
    @field_list(FIELDS_COMMIT) psn_t   psn;
    psn_t   frags;
    bytes_t address;
    bytes_t length;
    @field_list(FIELDS_COMMIT) bytes_t head;           // new head of the consumer ring
    @field_list(FIELDS_COMMIT) bit<32> flags;
    @field_list(FIELDS_COMMIT) bytes_t producer_tail;
    bytes_t word;
    bit<32> word_flags;
}

struct meta_t {
    bridge_t b;

    // From the architecture.
    bit<16>  port;
    @field_list(FIELDS_AGAIN)
    usec_t   now;
    @field_list(FIELDS_AGAIN)
    bit<8>   trusted;              // 1: internal packet of our own
    bit<8>   malformed;
    bit<32>  icrc_delta;           // 0: the ICRC is right

    // To the architecture.
    bit<16>  out_port;
    bit<16>  out_group;
    bit<8>   own;                  // 1: addressed to the switch
    ip4_t    arp_ip;

    // Who.
    event_t  event;
    role_t   role;
    bit<8>   swap;                 // 1: the peer's control words are little-endian
    bit<16>  received_qp;          // connection that the packet came on
    bit<16>  poll_qp;
    bit<16>  worker;
    bit<16>  producer;
    bit<16>  sender;               // producer ring whose QP the packet came on
    bit<16>  flow;
    bit<16>  index;                // place in the worker's list of producers
    bit<16>  next;                 // the place behind it
    bit<16>  hops;
    bit<32>  member_bit;           // of the consumer within its group

    // Parameters of the worker, its consumer rings and the producer ring.
    bit<8>   settings;             // WORKER_*
    bit<16>  producers;
    bit<16>  members;
    bit<32>  all_members;          // a bit for each
    bit<16>  group;                // multicast group of a replicate flow, or 0
    bytes_t  max_batch;
    bytes_t  consumer_size;
    bytes_t  consumer_mask;
    bytes_t  low_space;
    bit<8>   mtu;                  // 1..5: 256..4096 bytes
    bytes_t  mtu_mask;             // 255..4095
    bit<16>  consumer_data_qp;
    bit<16>  consumer_poll_qp;
    usec_t   poll_interval;
    usec_t   poll_timeout;
    usec_t   rto;
    bit<32>  max_tries;
    bytes_t  producer_size;
    bytes_t  producer_mask;
    bit<16>  producer_data_qp;
    bit<16>  producer_poll_qp;
    bytes_t  refill;               // bytes that a capped flow may move per `refill_every`
    bytes_t  burst;
    usec_t   refill_every;

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
    op_t     do_poll_due;
    op_t     do_due;
    op_t     do_tries;
    bytes_t  length;
    psn_t    frags;
    bit<8>   syndrome;
    psn_t    psn;                  // of the packet
    psn_t    expected;             // value that moves a PSN register on
    psn_t    next_psn;             // value that it then takes
    psn_t    consumer_psn;
    psn_t    producer_psn;
    psn_t    poll_psn;
    psn_t    position;             // fragment within the transfer
    psn_t    slack;                // position less number of fragments
    psn_t    from;                 // first fragment that the consumer lacks
    bytes_t  from_bytes;
    bytes_t  head;
    bytes_t  seen_head;            // as the deciding pass saw it
    bytes_t  seen_tail;
    bytes_t  producer_head;
    bytes_t  producer_tail;
    bytes_t  consumer_tail;
    bytes_t  member_tail;
    bit<32>  acked;                // a bit for each member
    bit<32>  lacking;
    bit<32>  producer_flags;
    bytes_t  word;                 // counter of a poll response, in our byte order
    bit<32>  word_flags;
    phase_t  phase;
    phase_t  phase_from;
    phase_t  phase_to;
    bit<8>   matched;              // 1: the packet answers the outstanding request
    bit<8>   claimed;
    bit<8>   locked;
    bit<16>  lock;                 // worker that drains the producer, plus 1
    bit<16>  my_lock;
    bit<8>   over;                 // 1: the producer's turn is over
    bytes_t  debt;                 // bytes that a capped flow has moved ahead of its rate
    bytes_t  debt_slack;
    usec_t   refill_at;
    usec_t   refill_in;
    usec_t   refill_next;
    usec_t   due_at;
    usec_t   due_in;
    usec_t   wait;
    usec_t   poll_due_at;
    usec_t   poll_due_in;
    bit<32>  tries;

    // Arithmetic of a decision.
    bytes_t  fill;
    bytes_t  space;
    bytes_t  batch;
    bytes_t  to_producer_wrap;
    bytes_t  to_consumer_wrap;
    bytes_t  fill_slack;
    bytes_t  space_slack;
    bytes_t  batch_slack;
    bytes_t  over_slack;
    bytes_t  batch_rest;           // what the producer still has behind the batch
    bytes_t  rounded;
    bytes_t  tail_diff;
    bit<8>   ask;                  // ASK_*: whose word is wanted
    bit<8>   closed;
    bit<8>   is_drained;           // 1: this producer and those looked at before it are closed and empty
    bit<8>   blocked;              // 1: another worker drains this producer
    bit<8>   idle;
    bit<8>   bad_count;

    bit<8>   report;
    bit<32>  report_code;
    bit<32>  report_psn;
    bit<8>   drop_reason;
    bit<8>   counts;               // COUNT_*: what to count for the worker

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
    bit<8>   peer_swap;
    bit<16>  egress_length;        // of a switch-made packet, from the IPv4 header on
}
#endif
