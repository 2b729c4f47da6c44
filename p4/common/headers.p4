// Headers on the wire and of internal packets. Fields are whole bytes, so that every target can hold and hash them.
#ifndef ZSR_HEADERS_P4
#define ZSR_HEADERS_P4

header ethernet_t {
    mac_t   dst;
    mac_t   src;
    bit<16> ether_type;
}

// 802.1Q: priority (3 bits), drop eligible (1), VLAN (12; 0: none). It lies outside of what the ICRC covers.
header vlan_t {
    bit<16> tci;
    bit<16> ether_type;
}

header arp_t {
    bit<16> hw_type;
    bit<16> proto_type;
    bit<16> sizes;
    bit<16> operation;
    mac_t   sender_mac;
    ip4_t   sender_ip;
    mac_t   target_mac;
    ip4_t   target_ip;
}

header ipv4_t {
    bit<8>  version_ihl;
    bit<8>  tos;
    bit<16> total_len;
    bit<16> ident;                 // free: chosen so that the ICRC stays valid
    bit<16> flags_frag;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
    ip4_t   src;
    ip4_t   dst;
}

header udp_t {
    bit<16> src_port;              // free: chosen so that the ICRC stays valid
    bit<16> dst_port;
    bit<16> length;
    bit<16> checksum;
}

// IBTA volume 1, section 9.2. The last word is AckReq (1 bit), reserved (7), PSN (24).
header bth_t {
    bit<8>  opcode;
    bit<8>  flags;                 // solicited event, migration, pad count, version
    bit<16> pkey;
    bit<8>  resv8a;                // FECN and BECN; masked in the ICRC
    bit<24> dest_qp;
    bit<32> ack_psn;
}

// Syndrome (8 bits) and MSN (24).
header aeth_t {
    bit<32> syndrome_msn;
}

header reth_t {
    bit<32> va_hi;
    bit<32> va_lo;
    bit<32> rkey;
    bit<32> length;
}

// What an atomic operation is about. The last two words are the value to compare with, which FETCH_ADD has no use for.
header atomic_t {
    bit<32> va_hi;
    bit<32> va_lo;
    bit<32> rkey;
    bit<32> add_hi;
    bit<32> add_lo;
    bit<32> compare_hi;
    bit<32> compare_lo;
}

// A ring's control word: 8 bytes in the PU's byte order.
header word_t {
    bit<32> counter;
    bit<32> flags;
}

// The commit record: 16 bytes in the PU's byte order.
header commit_t {
    bit<32> head;
    bit<32> flags;
    bit<32> producer_id;
    bit<32> producer_tail;
}

header icrc_t {
    bit<32> value;                 // little-endian CRC-32
}

// A PU rings: the newest `head` of its producer ring, in network byte order.
header doorbell_t {
    bit<32> secret;                // of the ring
    bit<32> counter;
    bit<32> flags;
    bit<32> check;                 // CRC-32 of these, little-endian as the ICRC is
}

// What one pass tells the next. Padded to the shortest Ethernet frame.
header internal_t {
    event_t event;
    bit<8>  phase;
    bit<16> worker;
    bit<16> producer;
    bit<16> qp;
    bit<16> flow;
    bit<16> next;                  // place in the worker's list behind the present producer
    bit<16> hops;                  // producers looked at since the tick
    psn_t   frags;                 // of the transfer
    bytes_t length;                // of the transfer
    bytes_t producer_tail;         // as the deciding pass saw it
    bytes_t head;                  // of the consumer ring, likewise
    bytes_t word;                  // a ring counter
    usec_t  time;
    psn_t   psn;
    bit<64> pad;
}

struct headers_t {
    ethernet_t ethernet;
    vlan_t     vlan;
    internal_t internal;
    arp_t      arp;
    ipv4_t     ipv4;
    udp_t      udp;
    doorbell_t doorbell;
    bth_t      bth;
    aeth_t     aeth;
    reth_t     reth;
    atomic_t   atomic;
    word_t     word;
    commit_t   commit;
    icrc_t     icrc;
}
#endif
