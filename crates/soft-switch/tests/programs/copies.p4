// Every way in which a packet becomes several, comes again, or leaves: one operation per packet, named in its
// first byte. Egress writes down what it sees.
#include <core.p4>
#include <v1model.p4>

header cmd_t { bit<8> op; bit<8> port; bit<16> value; bit<32> data; }
header trace_t {
    bit<32> instance; bit<32> length; bit<16> rid; bit<16> keep; bit<16> lost; bit<7> pad; bit<9> port;
}
struct headers_t { trace_t trace; cmd_t cmd; }
struct meta_t {
    @field_list(1) bit<16> keep;
    bit<16> lost;
    @field_list(1) bit<16> passes;
}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(h.cmd); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    counter(16, CounterType.packets_and_bytes) seen;
    meter(4, MeterType.packets) rate;
    register<bit<48>>(8) times;
    apply {
        seen.count((bit<32>)h.cmd.op);
        s.egress_spec = 1w0 ++ h.cmd.port;
        m.keep = m.keep + 100;
        m.lost = m.lost + 1;
        if (h.cmd.op == 2) {
            mark_to_drop(s);
        } else if (h.cmd.op == 3) {
            clone_preserving_field_list(CloneType.I2E, 5, 1);
            h.cmd.data = 0x11111111;
        } else if (h.cmd.op == 5) {
            if (s.instance_type == 0) { h.cmd.data = 0x22222222; m.keep = 7; resubmit_preserving_field_list(1); }
            else { h.cmd.data = h.cmd.data + s.instance_type; }
        } else if (h.cmd.op == 7) {
            s.mcast_grp = h.cmd.value;
        } else if (h.cmd.op == 8) {
            digest<tuple<bit<32>, bit<8>>>(1, { h.cmd.data, h.cmd.port });
        } else if (h.cmd.op == 9) {
            truncate((bit<32>)h.cmd.value);
        } else if (h.cmd.op == 10) {
            bit<32> colour;
            rate.execute_meter((bit<32>)h.cmd.value, colour);
            h.cmd.data = colour;
        } else if (h.cmd.op == 11) {
            times.write((bit<32>)h.cmd.value, s.ingress_global_timestamp);
            bit<48> t;
            times.read(t, (bit<32>)h.cmd.value);
            h.cmd.data = t[31:0];
        } else if (h.cmd.op == 12) {
            random(h.cmd.data, 10, 12);
        } else if (h.cmd.op == 13) {
            s.mcast_grp = h.cmd.value;
            mark_to_drop(s);
        } else if (h.cmd.op == 14) {
            mark_to_drop(s);
            s.mcast_grp = h.cmd.value;
        } else if (h.cmd.op == 15) {
            clone(CloneType.I2E, 5);
            mark_to_drop(s);
        } else if (h.cmd.op == 16) {
            s.priority = 3;
        }
    }
}

control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        if (h.cmd.op == 6 && m.passes < h.cmd.value) {
            m.passes = m.passes + 1;
            recirculate_preserving_field_list(1);
        } else {
            if (h.cmd.op == 4 && s.instance_type == 0) {
                clone_preserving_field_list(CloneType.E2E, 6, 1);
                h.cmd.data = 0x33333333;
            }
            if (h.cmd.op == 17) { mark_to_drop(s); }
            h.trace.setValid();
            h.trace.instance = s.instance_type;
            h.trace.length = s.packet_length;
            h.trace.rid = s.egress_rid;
            h.trace.keep = m.keep;
            h.trace.lost = m.lost;
            h.trace.port = s.egress_port;
        }
    }
}
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h.trace); p.emit(h.cmd); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
