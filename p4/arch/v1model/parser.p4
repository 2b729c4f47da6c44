// From bytes to headers and back.
parser ZsrParser(packet_in pkt, out headers_t hdr, inout meta_t m, inout standard_metadata_t std) {
    state start {
        pkt.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_IPV4     : ipv4;
            ETHERTYPE_ARP      : arp;
            ETHERTYPE_VLAN     : vlan;
            ETHERTYPE_PROVIDER : tags;
            ETHERTYPE_INTERNAL : internal;
            default            : accept;
        }
    }
    state vlan {
        pkt.extract(hdr.vlan);
        m.tci = hdr.vlan.tci;
        transition select(hdr.vlan.ether_type, hdr.vlan.tci) {
            (ETHERTYPE_IPV4, _)                : ipv4;
            (ETHERTYPE_ARP, _)                 : arp;
            (ETHERTYPE_VLAN, 0 &&& 0x0fff)     : hidden;
            (ETHERTYPE_PROVIDER, 0 &&& 0x0fff) : hidden;
            (ETHERTYPE_VLAN, _)                : tags;
            (ETHERTYPE_PROVIDER, _)            : tags;
            default                            : accept;
        }
    }
    // What is behind more tags is not looked into. A tag of VLAN 0 there could hide addresses from all checks: receivers take
    // such tags away, as many as there are.
    state tags {
        transition select(pkt.lookahead<bit<16>>()) {
            0 &&& 0x0fff : hidden;
            default      : accept;
        }
    }
    state hidden {
        m.malformed = 1;
        transition accept;
    }
    state internal {
        pkt.extract(hdr.internal);
        m.internal = 1;
        transition accept;
    }
    state arp {
        pkt.extract(hdr.arp);
        transition accept;
    }
    // Only a first fragment without options can be RoCE; all else is forwarded by its MAC address.
    state ipv4 {
        pkt.extract(hdr.ipv4);
        transition select(hdr.ipv4.version_ihl, hdr.ipv4.flags_frag, hdr.ipv4.protocol) {
            (0x45, 0 &&& 0x3fff, IPPROTO_UDP) : udp;
            default                           : accept;
        }
    }
    state udp {
        pkt.extract(hdr.udp);
        transition select(hdr.udp.dst_port) {
            UDP_PORT_ROCE     : bth;
            UDP_PORT_DOORBELL : doorbell;
            default           : accept;
        }
    }
    state doorbell {
        pkt.extract(hdr.doorbell);
        m.steer = hdr.doorbell.secret[31:24];
        transition accept;
    }
    state bth {
        pkt.extract(hdr.bth);
        m.steer = hdr.bth.dest_qp[23:16];
        transition select(hdr.bth.opcode, hdr.udp.length) {
            (OP_READ_FIRST, _) : aeth;
            (OP_READ_LAST, _)  : aeth;
            (OP_READ_ONLY, _)  : aeth;
            (OP_ACK, _)        : aeth;
#ifdef ZSR_SEQUENCER
            (OP_FETCH_ADD, 8 + 12 + 28 + 4) : atomic;
#endif
            default            : accept;
        }
    }
#ifdef ZSR_SEQUENCER
    state atomic {
        pkt.extract(hdr.atomic);
        transition icrc;
    }
#endif
    state aeth {
        pkt.extract(hdr.aeth);
        transition select(hdr.bth.opcode, hdr.udp.length) {
            (OP_READ_ONLY, 8 + 12 + 4 + 8 + 4) : word;
            (OP_ACK, 8 + 12 + 4 + 4)           : icrc;
            default                            : accept;
        }
    }
    state word {
        pkt.extract(hdr.word);
        transition icrc;
    }
    state icrc {
        pkt.extract(hdr.icrc);
        transition accept;
    }
}

control ZsrDeparser(packet_out pkt, in headers_t hdr) {
    apply {
        pkt.emit(hdr.ethernet);
        pkt.emit(hdr.vlan);
        pkt.emit(hdr.internal);
        pkt.emit(hdr.arp);
        pkt.emit(hdr.ipv4);
        pkt.emit(hdr.udp);
        pkt.emit(hdr.doorbell);
        pkt.emit(hdr.bth);
        pkt.emit(hdr.aeth);
        pkt.emit(hdr.reth);
        pkt.emit(hdr.atomic);
        pkt.emit(hdr.word);
        pkt.emit(hdr.commit);
        pkt.emit(hdr.icrc);
    }
}
