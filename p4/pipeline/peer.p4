// The far end of the connection that a packet goes to: addresses, QP and memory key.
control Peer(inout meta_t m) {
    action peer(mac_t dst_mac, mac_t src_mac, ip4_t src_ip, ip4_t dst_ip, bit<24> qpn, bit<32> rkey, bit<8> swap,
                bit<32> flags, bit<16> mirror) {
        m.peer_dst_mac = dst_mac;
        m.peer_src_mac = src_mac;
        m.peer_src_ip = src_ip;
        m.peer_dst_ip = dst_ip;
        m.peer_qpn = qpn;
        m.peer_rkey = rkey;
        m.peer_swap = swap;
        m.peer_flags = flags;
        m.peer_mirror = mirror;
    }
    table peers {
        key = { m.b.qp : exact; }
        actions = { peer; NoAction; }
        const default_action = NoAction();
        size = ZSR_MAX_QPS;
    }
    apply { peers.apply(); }
}
