// The far end of the connection that a packet goes to: addresses, QP, memory key, and its VLAN. What is rewritten may have had
// another tag, or one where there is to be none.
control Peer(inout headers_t hdr, inout meta_t m) {
    action far_end(mac_t dst_mac, mac_t src_mac, ip4_t src_ip, ip4_t dst_ip, bit<24> qpn, bit<32> rkey, bit<8> swap,
                   bit<32> flags, bit<16> mirror, bit<8> tos) {
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
    }
    action peer(mac_t dst_mac, mac_t src_mac, ip4_t src_ip, ip4_t dst_ip, bit<24> qpn, bit<32> rkey, bit<8> swap,
                bit<32> flags, bit<16> mirror, bit<8> tos) {
        far_end(dst_mac, src_mac, src_ip, dst_ip, qpn, rkey, swap, flags, mirror, tos);
        hdr.ethernet.ether_type = ETHERTYPE_IPV4;
        hdr.vlan.setInvalid();
    }
    action peer_on_vlan(mac_t dst_mac, mac_t src_mac, ip4_t src_ip, ip4_t dst_ip, bit<24> qpn, bit<32> rkey,
                        bit<8> swap, bit<32> flags, bit<16> mirror, bit<8> tos, bit<16> tci) {
        far_end(dst_mac, src_mac, src_ip, dst_ip, qpn, rkey, swap, flags, mirror, tos);
        hdr.ethernet.ether_type = ETHERTYPE_VLAN;
        hdr.vlan.setValid();
        hdr.vlan.tci = tci;
        hdr.vlan.ether_type = ETHERTYPE_IPV4;
    }
    table peers {
        key = { m.b.qp : exact; }
        actions = { peer; peer_on_vlan; NoAction; }
        const default_action = NoAction();
        size = ZSR_MAX_QPS;
    }
    apply { peers.apply(); }
}
