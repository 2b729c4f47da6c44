// Internal packets on the wire: the bridge header itself, which parsers read and the deparser writes.

// What an earlier pass left for this one: the parser has read it, with what that pass was.
control Resume(inout headers_t hdr, inout meta_t m) {
    apply {
        m.b.kind = OUT_DROP;
        m.b.group = 0;
    }
}

// A packet for the next pass: the shell has seen to it before (main.p4), as what it is does not wait for what a look
// decides.
control Internal(inout headers_t hdr, inout meta_t m) {
    apply { }
}
