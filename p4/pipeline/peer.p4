// Addresses of the connection that a packet goes to, and the QP and memory key there.
control Peer(inout headers_t hdr, inout meta_t m) {
    action peer(mac_t dst_mac, mac_t src_mac, ip4_t src_ip, ip4_t dst_ip, bit<24> qpn, bit<32> rkey, bit<8> swap) {
        hdr.ethernet.dst = dst_mac;
        hdr.ethernet.src = src_mac;
        hdr.ipv4.src = src_ip;
        hdr.ipv4.dst = dst_ip;
        hdr.ipv4.ttl = 64;
        hdr.bth.dest_qp = qpn;
        hdr.reth.rkey = rkey;
        m.peer_swap = swap;
    }
    table peers {
        key = { m.b.qp : exact; }
        actions = { peer; NoAction; }
        const default_action = NoAction();
        size = ZSR_MAX_QPS;
    }
    apply { peers.apply(); }
}
