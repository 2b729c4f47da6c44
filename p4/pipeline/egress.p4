// Egress in one page: what the outcome of ingress looks like on the wire. No state here.
control ZsrEgress(inout headers_t hdr, inout meta_t m) {
    LookParams() look_params;
    Look() look;
    FromBytes() from_bytes;
    Internal() internal;
    Peer() peer;
    Rewrite() rewrite;
    Compose() compose;

    apply {
        if (m.b.event == EV_LOOK || m.b.kind == OUT_READ) { look_params.apply(m); }
        // A look never sends to a PU, so neither branch waits for the other.
        if (m.b.event == EV_LOOK) { look.apply(m); }
        else if (m.b.kind > OUT_FORWARD && m.b.kind < OUT_RECIRCULATE) {
            m.sends = 1;
            if (m.b.kind == OUT_READ && READ_FROM != 0) { from_bytes.apply(m); }
            peer.apply(hdr, m);
            if (m.b.kind == OUT_DATA) { rewrite.apply(hdr, m); }
            else { compose.apply(hdr, m); }
        }
        if (m.b.kind == OUT_RECIRCULATE || m.b.kind == OUT_FANOUT) { internal.apply(hdr, m); }
    }
}
