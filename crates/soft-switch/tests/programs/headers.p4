// Stacks, a union, varbit, lookahead, verify, advance, wide and signed arithmetic, checksums with payload.
#include <core.p4>
#include <v1model.p4>

error { TooDeep }
header first_t { bit<8> kind; bit<8> count; bit<16> sum; }
header label_t { bit<20> label; bit<3> exp; bit<1> bottom; bit<8> ttl; }
header opt_t { bit<8> len; varbit<320> data; }
header a_t { bit<8> tag; bit<16> x; }
header b_t { bit<8> tag; bit<32> x; }
header_union ab_t { a_t a; b_t b; }
header num_t { bit<128> big; int<16> small; bit<8> by; bit<8> sat; bit<64> mix; }
header result_t { bit<128> shifted; bit<128> added; bit<32> slice; bit<16> cmp; int<16> sub; bit<8> sat; bit<64> mul; bit<32> err; }
struct headers_t { first_t first; label_t[4] labels; opt_t opt; ab_t u; num_t num; result_t r; }
struct meta_t { bit<8> depth; }

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        p.extract(h.first);
        transition select(h.first.kind) { 1: labels; 2: option; 3: choice; 4: number; 5: skip; default: accept; }
    }
    state labels {
        verify(m.depth < 8w5, error.TooDeep);
        m.depth = m.depth + 1;
        p.extract(h.labels.next);
        transition select(h.labels.last.bottom) { 0: labels; default: accept; }
    }
    state option { bit<8> n = p.lookahead<bit<8>>(); p.extract(h.opt, (bit<32>)n * 8); transition accept; }
    state choice {
        transition select(p.lookahead<bit<8>>()) { 0x0a: a; 0x0b: b; 0xc0 &&& 0xf0: a; default: accept; }
    }
    state a { p.extract(h.u.a); transition accept; }
    state b { p.extract(h.u.b); transition accept; }
    state number { p.extract(h.num); transition accept; }
    state skip { p.advance((bit<32>)h.first.count * 8); p.extract(h.labels.next); transition accept; }
}
control V(inout headers_t h, inout meta_t m) {
    apply { verify_checksum_with_payload(h.first.kind == 9, { h.first.kind, h.first.count }, h.first.sum, HashAlgorithm.csum16); }
}
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    action mark(bit<8> exp) { h.first.kind = exp; }
    table by_ttl { key = { h.labels[h.first.sum].ttl : exact; } actions = { mark; NoAction; } default_action = NoAction(); size = 4; }
    apply {
        log_msg("a packet");
        s.egress_spec = 2;
        if (s.parser_error != error.NoError || s.checksum_error == 1) {
            h.r.setValid();
            h.r.err = 0xe;
            if (s.parser_error == error.TooDeep) { h.r.err = 1; }
            if (s.parser_error == error.PacketTooShort) { h.r.err = 2; }
            if (s.parser_error == error.StackOutOfBounds) { h.r.err = 3; }
            if (s.parser_error == error.HeaderTooShort) { h.r.err = 4; }
            if (s.checksum_error == 1) { h.r.err = h.r.err + 0x100; }
        } else if (h.first.kind == 1) {
            if (h.first.count == 1) { h.labels.push_front(1); h.labels[0].setValid(); h.labels[0].label = 0xabcde; }
            else if (h.first.count == 2) { h.labels.pop_front(2); }
            else if (h.first.count == 3) { h.labels[(bit<32>)h.first.sum].ttl = 77; }
            else if (h.first.count == 4 && h.labels[h.first.sum].isValid()) { log_msg("label {}", { h.first.sum }); by_ttl.apply(); }
        } else if (h.first.kind == 3 && h.u.a.isValid() && h.first.count == 1) {
            h.u.b.setValid(); h.u.b.tag = 0x0b; h.u.b.x = 0x01020304;
        } else if (h.num.isValid()) {
            h.r.setValid();
            h.r.shifted = h.num.big << h.num.by;
            h.r.added = h.num.big + ((bit<128>)h.num.mix << 64);
            h.r.slice = h.num.big[95:64];
            h.r.cmp = 0;
            if (h.num.small < 0) { h.r.cmp[0:0] = 1; }
            if (h.num.big > (bit<128>)h.num.mix) { h.r.cmp[1:1] = 1; }
            h.r.sub = h.num.small - 3;
            h.r.sat = h.num.sat |+| 100;
            h.r.mul = h.num.mix * 0x10001;
        }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout meta_t m) {
    apply { update_checksum_with_payload(h.first.kind == 8, { h.first.kind, h.first.count }, h.first.sum, HashAlgorithm.csum16); }
}
control D(packet_out p, in headers_t h) {
    apply { p.emit(h.first); p.emit(h.labels); p.emit(h.opt); p.emit(h.u); p.emit(h.num); p.emit(h.r); }
}
V1Switch(P(), V(), I(), E(), C(), D()) main;
