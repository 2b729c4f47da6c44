// READ response -> WRITE. The payload and the ICRC trailer stay as they are: the IPv4 identification and the UDP
// source port, both covered by the ICRC and free to choose, take the values that keep the trailer valid (solve.p4).
//
// The fragment's position decides what it becomes, not the response's own opcode: a retry may begin anywhere.
control Rewrite(inout headers_t hdr, inout meta_t m) {
    IcrcBefore() icrc_before;
    IcrcAfter() icrc_after;
    Solve() solve;

    action as_first() {
        hdr.bth.opcode = OP_WRITE_FIRST;
        hdr.reth.setValid();
    }
    action as_middle() {
        hdr.bth.opcode = OP_WRITE_MIDDLE;
    }
    action as_last() {
        hdr.bth.opcode = OP_WRITE_LAST;
    }
    action as_only() {
        hdr.bth.opcode = OP_WRITE_ONLY;
        hdr.reth.setValid();
    }
    table kinds {
        key = {
            m.b.first : exact;
            m.b.last  : exact;
        }
        actions = { as_first; as_middle; as_last; as_only; }
        const default_action = as_middle();
        const entries = {
            (1, 0) : as_first();
            (0, 1) : as_last();
            (1, 1) : as_only();
        }
    }

    // Lengths change by RETH (16 bytes) and AETH (4).
    action aeth_to_reth() {
        hdr.ipv4.total_len = hdr.ipv4.total_len + 12;
        hdr.udp.length = hdr.udp.length + 12;
        hdr.aeth.setInvalid();
    }
    action none_to_reth() {
        hdr.ipv4.total_len = hdr.ipv4.total_len + 16;
        hdr.udp.length = hdr.udp.length + 16;
    }
    action aeth_to_none() {
        hdr.ipv4.total_len = hdr.ipv4.total_len - 4;
        hdr.udp.length = hdr.udp.length - 4;
        hdr.aeth.setInvalid();
    }
    table lengths {
        key = {
            m.b.first    : exact;
            m.old_aeth   : exact;
        }
        actions = { aeth_to_reth; none_to_reth; aeth_to_none; NoAction; }
        const default_action = NoAction();
        const entries = {
            (1, 1) : aeth_to_reth();
            (1, 0) : none_to_reth();
            (0, 1) : aeth_to_none();
        }
    }

    action fields() {
        hdr.ethernet.dst = m.peer_dst_mac;
        hdr.ethernet.src = m.peer_src_mac;
        hdr.ipv4.tos[7:2] = m.peer_tos[7:2];   // the producer's ECN bits stay
        hdr.ipv4.ident = 0;
        hdr.ipv4.ttl = 64;
        hdr.ipv4.src = m.peer_src_ip;
        hdr.ipv4.dst = m.peer_dst_ip;
        hdr.udp.src_port = 0;
        hdr.udp.checksum = 0;
        hdr.bth.dest_qp = m.peer_qpn;
        hdr.bth.ack_psn = m.b.psn >> 8;
    }
    action reth_fields() {
        hdr.reth.va_hi = 0;
        hdr.reth.va_lo = m.b.address;
        hdr.reth.rkey = m.peer_rkey;
        hdr.reth.length = m.b.length;
    }

    apply {
        if (hdr.aeth.isValid()) { m.old_aeth = 1; }
        icrc_before.apply(hdr, m);
        lengths.apply();
        kinds.apply();
        fields();
        if (hdr.reth.isValid()) { reth_fields(); }
        icrc_after.apply(hdr, m);
        m.delta = m.crc_old ^ m.crc_new;
        solve.apply(hdr, m);
    }
}
