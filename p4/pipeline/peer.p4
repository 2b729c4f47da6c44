// The far end of the connection that a packet goes to: addresses, QP and memory key.
control Peer(inout meta_t m) {
    action peer(mac_t dst_mac, mac_t src_mac, ip4_t src_ip, ip4_t dst_ip, bit<24> qpn, bit<32> rkey, bit<8> swap,
                bit<32> flags, bit<16> mirror, bit<8> tos, bit<16> tci) {
        m.peer_dst_mac = dst_mac;
        m.peer_src_mac = src_mac;
        m.peer_src_ip = src_ip;
        m.peer_dst_ip = dst_ip;
        m.peer_qpn = qpn;
        m.peer_rkey = rkey;
        m.peer_swap = swap;
        m.peer_flags = flags;
        m.peer_mirror = mirror;
        m.peer_tos = tos;
        m.peer_tci = tci;
    }
    table peers {
        key = { m.b.qp : exact; }
        actions = { peer; NoAction; }
        const default_action = NoAction();
        size = ZSR_MAX_QPS;
    }
    apply { peers.apply(); }
}

// The VLAN tag of what is sent to the peer. What comes to be sent may have had one.
control Tag(inout headers_t hdr, inout meta_t m) {
    action tag() {
        hdr.ethernet.ether_type = ETHERTYPE_VLAN;
        hdr.vlan.setValid();
        hdr.vlan.tci = m.peer_tci;
        hdr.vlan.ether_type = ETHERTYPE_IPV4;
    }
    action untag() {
        hdr.ethernet.ether_type = ETHERTYPE_IPV4;
        hdr.vlan.setInvalid();
    }
    action urgent() { hdr.vlan.tci[15:13] = PRIORITY_CNP; }
    apply {
        if (m.peer_tci != 0) {
            tag();
            if (m.b.kind == OUT_CNP) { urgent(); }
        } else { untag(); }
    }
}
