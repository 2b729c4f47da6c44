// Internal packets on the wire: the bridge header itself, which parsers read and the deparser writes.

// What an earlier pass left for this one: the parser has read it.
control Resume(inout headers_t hdr, inout meta_t m) {
    apply { }
}

// A packet for the next pass.
control Internal(inout headers_t hdr, inout meta_t m) {
    apply {
        hdr.ethernet.setValid();
        hdr.ethernet.dst = 0;
        hdr.ethernet.src = 0;
        hdr.ethernet.ether_type = ETHERTYPE_INTERNAL;
        m.internal = 1;
        m.b.kind = OUT_DROP;
        m.b.group = 0;
    }
}
