// Egress in one page: what the outcome of ingress looks like on the wire. No state here. If not `whole`, only what consumers get leaves here,
// and nothing goes round (arch/tna/folded.p4).
control ZsrEgress(inout headers_t hdr, inout meta_t m)(bool whole) {
    LookParams() look_params;
    Look() look;
    FromBytes() from_bytes;
    Internal() internal;
    Peer() peer;
    Rewrite() rewrite;
    Compose(whole) compose;

    apply {
        if (whole && (m.b.event == EV_LOOK || m.b.kind == OUT_READ)) { look_params.apply(m); }
        // A look never sends to a PU, so neither branch waits for the other.
        if (whole && m.b.event == EV_LOOK) { look.apply(m); }
        else if (m.b.kind > OUT_FORWARD && m.b.kind < OUT_RECIRCULATE) {
            m.sends = 1;
            if (whole && m.b.kind == OUT_READ && READ_FROM != 0) { from_bytes.apply(m); }
            peer.apply(hdr, m);
            if (m.b.kind == OUT_DATA) { rewrite.apply(hdr, m); }
            else { compose.apply(hdr, m); }
        }
        if (whole && (m.b.kind == OUT_RECIRCULATE || m.b.kind == OUT_FANOUT)) { internal.apply(hdr, m); }
    }
}
