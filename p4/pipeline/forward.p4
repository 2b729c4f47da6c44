// Is the packet on its port's VLAN? A tag of VLAN 0, which says a priority only, is as good as none.
control PortVlan(inout meta_t m) {
    action expected() { }
    action foreign() { m.foreign = 1; }
    table vlans {
        key = {
            m.port      : exact;
            m.tci[11:0] : exact @name("vlan");
        }
        actions = { expected; foreign; }
        const default_action = foreign();
        size = ZSR_MAX_HOSTS;
    }
    apply { vlans.apply(); }
}

// Is the frame from who is at its port, by all source addresses that it claims? Of what is neither IPv4 nor ARP that is the
// MAC address only.
control PortSource(inout headers_t hdr, inout meta_t m) {
    action own_source() { }
    action spoofed() { m.spoofed = 1; }
    table sources {
        key = {
            m.port           : exact;
            hdr.ethernet.src : exact @name("mac");
        }
        actions = { own_source; spoofed; }
        const default_action = spoofed();
        size = ZSR_MAX_HOSTS;
    }
    table ip_sources {
        key = {
            m.port           : exact;
            hdr.ethernet.src : exact @name("mac");
            hdr.ipv4.src     : exact @name("ip");
        }
        actions = { own_source; spoofed; }
        const default_action = spoofed();
        size = 2 * ZSR_MAX_HOSTS;
    }
    table arp_sources {
        key = {
            m.port             : exact;
            hdr.ethernet.src   : exact @name("mac");
            hdr.arp.sender_mac : exact;
            hdr.arp.sender_ip  : exact;
        }
        actions = { own_source; spoofed; }
        const default_action = spoofed();
        size = 2 * ZSR_MAX_HOSTS;
    }
    apply {
        if (hdr.ipv4.isValid()) { ip_sources.apply(); }
        else if (hdr.arp.isValid()) { arp_sources.apply(); }
        else { sources.apply(); }
    }
}

// Everything that is not for the switch itself: forwarded by destination MAC address, with the tag that it has. ARP
// requests for the switch's own addresses are answered here, on the VLAN on which they came.
control Forward(inout headers_t hdr, inout meta_t m) {
    action to_port(port_t port) {
        m.b.kind = OUT_FORWARD;
        m.out_port = port;
    }
    action to_group(bit<16> group) {
        m.b.kind = OUT_FORWARD;
        m.out_group = group;
    }
    action no_route() { m.drop_reason = DROP_NO_ROUTE; }
    table stations {
        key = { hdr.ethernet.dst : exact; }
        actions = { to_port; to_group; no_route; }
        const default_action = no_route();
        size = ZSR_MAX_HOSTS;
    }
    apply { stations.apply(); }
}

control ArpReply(inout headers_t hdr, inout meta_t m) {
    action reply(mac_t mac) {
        hdr.ethernet.dst = hdr.arp.sender_mac;
        hdr.ethernet.src = mac;
        hdr.arp.operation = 2;
        hdr.arp.target_mac = hdr.arp.sender_mac;
        hdr.arp.sender_mac = mac;
        m.arp_ip = hdr.arp.target_ip;
        hdr.arp.target_ip = hdr.arp.sender_ip;
        hdr.arp.sender_ip = m.arp_ip;
        m.b.kind = OUT_FORWARD;
        m.out_port = m.port;
    }
    // What is dropped is said once for all packets (ingress.p4).
    action ignore() { m.own = 1; }
    table own_arp {
        key = {
            hdr.arp.operation : exact;
            hdr.arp.target_ip : exact;
            m.foreign         : exact;
            m.spoofed         : exact;
        }
        actions = { reply; ignore; NoAction; }
        const default_action = NoAction();
        size = ZSR_MAX_HOSTS;
    }
    apply { own_arp.apply(); }
}

// Is a RoCE packet or a doorbell for the switch, and for this pipe? Registers of a flow are those of one pipe, which its QPNs
// and secrets name. What comes in at another goes there through a port that leads back into that pipe.
control OwnAddress(inout headers_t hdr, inout meta_t m) {
    action own(port_t again) {
        m.own = 1;
        m.again = again;
    }
    action cross(port_t way) {
        m.crosses = 1;
        m.b.kind = OUT_FORWARD;
        m.out_port = way;
    }
    table own_ip {
        key = {
            hdr.ipv4.dst : exact;
            m.port       : exact;
            m.steer[7:6] : exact @name("home");
            m.crossed    : exact;
        }
        actions = { own; cross; NoAction; }
        const default_action = NoAction();
        size = 8 * ZSR_MAX_HOSTS;
    }
    apply { own_ip.apply(); }
}

// The port behind which a connection's peer is.
control Route(inout meta_t m) {
    action route(port_t port) { m.out_port = port; }
    action lost() { m.b.kind = OUT_DROP; }
    table routes {
        key = { m.b.qp : exact; }
        actions = { route; lost; }
        const default_action = lost();
        size = ZSR_MAX_QPS;
    }
    apply { routes.apply(); }
}
