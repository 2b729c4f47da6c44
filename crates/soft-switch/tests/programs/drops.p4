// An action that marks its caller's standard metadata through a parameter: p4c gives it a copy of its own.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> what; }
struct headers_t { h_t h; }
struct meta_t { }

parser P(packet_in pkt, out headers_t hdr, inout meta_t m, inout standard_metadata_t std) {
    state start {
        pkt.extract(hdr.h);
        transition accept;
    }
}

action refuse(inout standard_metadata_t s) { mark_to_drop(s); }

control In(inout headers_t hdr, inout meta_t m, inout standard_metadata_t std) {
    action to(bit<9> port) { std.egress_spec = port; }
    action group(bit<16> id) { std.mcast_grp = id; }
    table first {
        key = { hdr.h.what : exact; }
        actions = { to; group; refuse(std); }
        const default_action = to(3);
        const entries = {
            1 : refuse(std);
            2 : group(7);
        }
    }
    table second {
        key = { hdr.h.what : exact; }
        actions = { refuse(std); NoAction; }
        const default_action = NoAction();
        const entries = { 2 : refuse(std); }
    }
    apply {
        first.apply();
        second.apply();
    }
}

control Out(inout headers_t hdr, inout meta_t m, inout standard_metadata_t std) { apply { } }
control Verify(inout headers_t hdr, inout meta_t m) { apply { } }
control Compute(inout headers_t hdr, inout meta_t m) { apply { } }
control Deparse(packet_out pkt, in headers_t hdr) { apply { pkt.emit(hdr.h); } }

V1Switch(P(), Verify(), In(), Out(), Compute(), Deparse()) main;
