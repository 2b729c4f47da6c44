// Every kind of table, one after the other; each writes its verdict into the packet.
#include <core.p4>
#include <v1model.p4>

header key_t { bit<32> a; bit<16> b; bit<8> c; bit<128> wide; }
header verdict_t {
    bit<16> exact; bit<16> direct; bit<16> lpm; bit<16> ternary; bit<16> range; bit<16> optional; bit<16> constant;
    bit<16> wide; bit<16> selected; bit<16> member; bit<8> colour; bit<8> hit;
}
struct headers_t { key_t key; verdict_t v; }
struct meta_t { bit<8> colour; }

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    value_set<bit<16>>(4) special;
    state start {
        p.extract(h.key);
        transition select(h.key.b) { special: marked; default: accept; }
    }
    state marked { s.priority = 1; transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    direct_counter(CounterType.packets_and_bytes) hits;
    direct_meter<bit<8>>(MeterType.packets) police;
    action_selector(HashAlgorithm.crc16, 64, 16) choice;
    action_profile(16) members;

    action set_exact(bit<16> x) { h.v.exact = x; hits.count(); }
    action direct(bit<16> x) { h.v.direct = x; }
    action set_lpm(bit<16> x) { h.v.lpm = x; }
    action set_ternary(bit<16> x) { h.v.ternary = x; }
    action range_(bit<16> x) { h.v.range = x; }
    action optional_(bit<16> x) { h.v.optional = x; }
    action constant(bit<16> x) { h.v.constant = x; }
    action wide(bit<16> x) { h.v.wide = x; }
    action selected(bit<16> x) { h.v.selected = x; }
    action member(bit<16> x) { h.v.member = x; }
    action metered(bit<16> x) { h.v.direct = x; police.read(m.colour); }

    table t_exact { key = { h.key.a : exact; h.key.c : exact; } actions = { set_exact; } default_action = set_exact(0xffff); counters = hits; size = 8; support_timeout = true; }
    table t_direct { key = { h.key.c : exact; } actions = { direct; metered; NoAction; } meters = police; default_action = NoAction(); size = 256; }
    table t_lpm { key = { h.key.a : lpm; } actions = { set_lpm; } default_action = set_lpm(0); size = 4096; }
    table t_ternary { key = { h.key.a : ternary; h.key.b : ternary; } actions = { set_ternary; } default_action = set_ternary(0); size = 4096; }
    table t_range { key = { h.key.b : range; h.key.c : exact; } actions = { range_; } default_action = range_(0); size = 64; }
    table t_optional { key = { h.key.b : optional; h.key.c : optional; } actions = { optional_; } default_action = optional_(0); size = 64; }
    table t_const {
        key = { h.key.b : ternary; h.key.c : exact; }
        actions = { constant; }
        const default_action = constant(99);
        const entries = {
            (0x1234, 1) : constant(1);
            (0x1200 &&& 0xff00, 1) : constant(2);
            (_, 2) : constant(3);
        }
    }
    table t_wide { key = { h.key.wide : exact; h.key.a : exact; } actions = { wide; } default_action = wide(0); size = 64; }
    table t_selected { key = { h.key.c : exact; h.key.a : selector; } actions = { selected; @defaultonly NoAction; } implementation = choice; size = 64; }
    table t_member { key = { h.key.c : exact; } actions = { member; NoAction; } implementation = members; size = 64; }

    apply {
        h.v.setValid();
        s.egress_spec = 1;
        if (t_exact.apply().hit) { h.v.hit = 1; } else { h.v.hit = 2; }
        t_direct.apply();
        t_lpm.apply(); t_ternary.apply(); t_range.apply(); t_optional.apply(); t_const.apply(); t_wide.apply();
        t_selected.apply();
        switch (t_member.apply().action_run) { member: { h.v.hit = h.v.hit + 16; } default: { } }
        h.v.colour = m.colour;
        if (s.priority == 1) { h.v.hit = h.v.hit + 64; s.priority = 0; }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h.v); p.emit(h.key); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
