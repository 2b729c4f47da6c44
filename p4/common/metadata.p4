// What controls tell each other within a pass. `bridge_t` is all that egress learns from ingress.
#ifndef ZSR_METADATA_P4
#define ZSR_METADATA_P4

// Field list of what a commit packet, cloned from the last fragment, needs (v1model; ignored elsewhere).
#define FIELDS_COMMIT 1
// Likewise for the next pass of an internal packet.
#define FIELDS_AGAIN 2

struct bridge_t {
    @field_list(FIELDS_COMMIT) kind_t  kind;
    @field_list(FIELDS_COMMIT) bit<8>  last;           // 1: last fragment of the transfer
    @field_list(FIELDS_COMMIT) bit<8>  first;          // 1: first fragment
    @field_list(FIELDS_COMMIT) bit<16> qp;             // connection that the packet goes to
    @field_list(FIELDS_COMMIT) bit<16> mirror;         // clone session of that connection's port
    @field_list(FIELDS_COMMIT) psn_t   psn;
    @field_list(FIELDS_COMMIT) bytes_t address;
    @field_list(FIELDS_COMMIT) bytes_t length;
    @field_list(FIELDS_COMMIT) bytes_t head;           // new head of the consumer ring
    @field_list(FIELDS_COMMIT) bit<32> flags;
    @field_list(FIELDS_COMMIT) bit<32> producer;
    @field_list(FIELDS_COMMIT) bytes_t producer_tail;
    event_t event;                                     // of the next pass (OUT_AGAIN)
    bit<16> hops;
    bit<16> worker;
    bit<16> frags;
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
    bit<8>   icrc_ok;

    // To the architecture.
    bit<16>  out_port;
    bit<16>  out_group;
    bit<8>   own;                  // 1: addressed to the switch
    ip4_t    arp_ip;

    // Who.
    event_t  event;
    role_t   role;
    bit<16>  received_qp;          // connection that the packet came on
    bit<8>   swap;                 // 1: the peer's control words are little-endian
    bit<16>  worker;
    bit<16>  producer;
    bit<16>  sender;               // producer ring whose QP the packet came on
    bit<16>  index;                // position in the worker's list of producers
    bit<16>  hops;

    // Parameters of the worker, its consumer ring and the producer ring.
    bit<16>  producers;
    bytes_t  max_batch;
    bytes_t  consumer_size;
    bytes_t  consumer_mask;
    bytes_t  low_space;
    bit<8>   mtu;                  // 1..5: 256..4096 bytes
    bit<16>  consumer_data_qp;
    bit<16>  consumer_poll_qp;
    bit<32>  consumer_flags;
    usec_t   poll_interval;
    usec_t   poll_timeout;
    usec_t   rto;
    bit<32>  max_tries;
    bytes_t  producer_size;
    bytes_t  producer_mask;
    bit<16>  producer_data_qp;
    bit<16>  producer_poll_qp;

    // State registers: what each does in this pass, and what came out.
    op_t     do_owner;
    op_t     do_turn;
    op_t     do_transfer;          // producer, length and fragments of the transfer
    op_t     do_consumer_psn;
    op_t     do_head;
    op_t     do_producer_tail;
    op_t     do_producer_head;
    op_t     do_consumer_tail;
    op_t     do_producer_psn;
    op_t     do_from;
    op_t     do_phase;
    op_t     do_lock;
    op_t     do_drained;
    op_t     do_poll_psn;
    op_t     do_poll_due;
    op_t     do_due;
    op_t     do_tries;
    bytes_t  length;
    bit<16>  frags;
    bit<8>   syndrome;
    psn_t    psn;                  // of the packet
    psn_t    expected;             // value that moves a PSN register on
    psn_t    next;                 // value that it then takes
    psn_t    consumer_psn;
    psn_t    producer_psn;
    psn_t    poll_psn;
    bit<16>  poll_qp;
    psn_t    position;             // fragment within the transfer
    psn_t    from;                 // first fragment that the consumer lacks
    bytes_t  from_bytes;
    bytes_t  head;
    bytes_t  seen_head;            // as the deciding pass saw it
    bytes_t  seen_tail;
    bytes_t  producer_head;
    bytes_t  producer_tail;
    bytes_t  consumer_tail;
    bit<32>  producer_flags;
    bytes_t  word;                 // counter of a poll response, in our byte order
    bit<32>  word_flags;
    phase_t  phase;
    phase_t  phase_from;
    phase_t  phase_to;
    bit<8>   matched;              // 1: the packet answers the outstanding request
    bit<8>   claimed;
    bit<8>   locked;
    bit<16>  lock_value;
    bit<16>  drained;
    bit<8>   is_drained;
    usec_t   due_at;
    bit<8>   due;
    usec_t   poll_due_at;
    bit<8>   poll_due;
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
    bit<8>   closed;
    bit<8>   low;
    bit<8>   idle;
    bit<8>   bad_count;

    bit<8>   report;
    bit<32>  report_code;
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
    bit<8>   peer_swap;
    bit<16>  egress_length;        // of a switch-made packet, from the IPv4 header on
}
#endif
