// From bytes to headers at ingress, and back at egress.
parser IngressParser(packet_in pkt, out headers_t hdr, out meta_t m, out ingress_intrinsic_metadata_t ig) {
    // The port is kept by the state that extracts it: a later one no longer has it.
    state start {
        transition select(pkt.lookahead<intrinsic_start_t>().port) {
            PORT_RECIRCULATE &&& 0x07f : again;      // of whichever pipe: recirculated, or from the packet generator
            PORT_CPU                   : from_cpu;
            default                    : from_host;
        }
    }
    state from_host {
        pkt.extract(ig);
        m.port = ig.ingress_port;
        pkt.advance(PORT_METADATA_SIZE);
        transition ethernet;
    }
    state again {
        pkt.extract(ig);
        m.again = ig.ingress_port;
        pkt.advance(PORT_METADATA_SIZE);
        transition select(pkt.lookahead<bit<8>>()) {
            CROSSED &&& CROSSED : crossed;
#ifdef ZSR_FOLDED
            GUEST &&& CROSSED   : guest;
#endif
            default             : own_packet;
        }
    }
    state from_cpu {
        pkt.extract(ig);
        m.again = PORT_RECIRCULATE;
        pkt.advance(PORT_METADATA_SIZE);
        transition own_packet;
    }
    // Of a host at another pipe: trusted no more than there.
    state crossed {
        pkt.extract(m.c);
        m.port = m.c.port;
        m.crossed = 1;
        transition ethernet;
    }
#ifdef ZSR_FOLDED
    // Of a host at the next pipe: as if from a port of this one.
    state guest {
        pkt.extract(m.c);
        m.port = m.c.port;
        transition ethernet;
    }
#endif
    state own_packet {
        m.trusted = 1;
        pkt.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_INTERNAL  : internal;
            ETHERTYPE_GENERATED : generated;
            default             : outside;
        }
    }
    state ethernet {
        pkt.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_INTERNAL : forged;
            default            : outside;
        }
    }
    // From outside: nothing of it is taken for a bridge header, which egress would act on.
    state forged {
        m.internal = 1;
        transition outside;
    }
    // What no table may have written before it is read.
    state outside {
        m.b.event = EV_NONE;
        m.b.kind = OUT_DROP;
        m.b.hops = 0;
        m.b.last = 0;
        m.b.first = 0;
        m.b.group = 0;
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_IPV4     : ipv4;
            ETHERTYPE_ARP      : arp;
            ETHERTYPE_VLAN     : vlan;
            ETHERTYPE_PROVIDER : tags;
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
        m.event = pkt.lookahead<event_t>();
        pkt.extract(m.b);
        m.internal = 1;
        transition accept;
    }
    // What fills the packet would stay behind all that is made of it.
    state generated {
        m.event = pkt.lookahead<event_t>();
        pkt.extract(m.b);
        pkt.advance(8 * GENERATED_FILL);
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
        m.steer = pkt.lookahead<bit<8>>();
        pkt.extract(hdr.doorbell);
        // Its own padding or the shortest frame's, which would stay behind what is made of it.
        pkt.extract(m.fill);
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

control EgressDeparser(packet_out pkt, inout headers_t hdr, in meta_t m,
                       in egress_intrinsic_metadata_for_deparser_t dprsr) {
    Checksum() checksum;
    Mirror(1) mirror;
    apply {
        if (dprsr.mirror_type == 1) { mirror.emit<commit_copy_t>((MirrorId_t)m.peer_mirror, m.copy); }
        hdr.ipv4.checksum = checksum.update({
            hdr.ipv4.version_ihl, hdr.ipv4.tos, hdr.ipv4.total_len, hdr.ipv4.ident, hdr.ipv4.flags_frag,
            hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst });
        pkt.emit(hdr.ethernet);
        pkt.emit(hdr.vlan);
        pkt.emit(m.b);
        pkt.emit(hdr.ipv4);
        pkt.emit(hdr.udp);
        pkt.emit(hdr.bth);
        pkt.emit(hdr.aeth);
        pkt.emit(hdr.reth);
        pkt.emit(hdr.word);
        pkt.emit(hdr.commit);
        pkt.emit(hdr.icrc);
    }
}
