// One of everything that P4Runtime can name, for the tests of the server. To compile it:
//     p4c-bm2-ss --arch v1model -o p4runtime.json --p4runtime-files p4runtime.p4info.txtpb p4runtime.p4
#include <core.p4>
#include <v1model.p4>

const bit<9> CPU_PORT = 510;

typedef bit<48> mac_t;
@p4runtime_translation("zsr/port", string) type bit<9> port_name_t;
@p4runtime_translation("zsr/wide", bit<32>) type bit<9> port_wide_t;

@controller_header("packet_out")
header packet_out_t { bit<9> egress_port; bit<7> class; }

@controller_header("packet_in")
header packet_in_t { bit<9> ingress_port; bit<7> reason; }

header ethernet_t { mac_t dst; mac_t src; bit<16> type; }
header ipv4_t {
    bit<4> version; bit<4> ihl; bit<8> tos; bit<16> length;
    bit<16> ident; bit<3> flags; bit<13> offset;
    bit<8> ttl; bit<8> protocol; bit<16> checksum;
    bit<32> src; bit<32> dst;
}

struct headers_t { packet_out_t packet_out; packet_in_t packet_in; ethernet_t ethernet; ipv4_t ipv4; }
struct metadata_t { bit<2> color; bit<2> direct_color; }
struct learn_t { mac_t address; bit<9> port; }
struct key_t { bit<16> type; bit<8> tos; }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    value_set<bit<16>>(4) ip_types;
    value_set<key_t>(2) pairs;
    state start {
        transition select(std.ingress_port) {
            CPU_PORT: from_cpu;
            default: ethernet;
        }
    }
    state from_cpu { packet.extract(hdr.packet_out); transition ethernet; }
    state ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type, packet.lookahead<bit<16>>()[7:0]) {
            pairs: ip;
            default: single;
        }
    }
    state single {
        transition select(hdr.ethernet.type) {
            0x0800: ip;
            ip_types: ip;
            default: accept;
        }
    }
    state ip { packet.extract(hdr.ipv4); transition accept; }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply { } }

control In(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    counter(8, CounterType.packets_and_bytes) ports;
    meter(4, MeterType.bytes) police;
    register<bit<32>>(16) seen;
    register<int<12>>(4) level;
    direct_counter(CounterType.packets_and_bytes) l2_hits;
    direct_meter<bit<2>>(MeterType.packets) route_meter;

    action drop() { mark_to_drop(std); }
    action forward(bit<9> port) { std.egress_spec = port; }
    action forward_named(port_name_t port) { std.egress_spec = (bit<9>)port; }
    action forward_wide(port_wide_t port) { std.egress_spec = (bit<9>)port; }
    action flood(bit<16> group) { std.mcast_grp = group; }
    action mirror(bit<32> session) { clone(CloneType.I2E, session); }
    action punt() { std.egress_spec = CPU_PORT; }
    action learn() { digest<learn_t>(1, { hdr.ethernet.src, std.ingress_port }); }
    action miss() { }
    action hit(bit<9> port) { std.egress_spec = port; }

    table smac {
        key = { hdr.ethernet.src: exact; }
        actions = { learn; NoAction; }
        default_action = NoAction();
        support_timeout = true;
        size = 8;
    }
    table l2 {
        key = { hdr.ethernet.dst: exact; }
        actions = { forward; forward_named; forward_wide; flood; mirror; punt; drop; }
        default_action = drop();
        counters = l2_hits;
        support_timeout = true;
        size = 16;
    }
    action route(bit<9> port) { route_meter.read(meta.direct_color); std.egress_spec = port; }
    table routes {
        key = { hdr.ipv4.dst: lpm; }
        actions = { route; NoAction; }
        meters = route_meter;
        const default_action = NoAction();
        size = 32;
    }
    table acl {
        key = {
            hdr.ethernet.type: ternary;
            std.ingress_port: optional;
            hdr.ipv4.ttl: range;
            hdr.ipv4.isValid(): exact @name("ip");
        }
        actions = { drop; @tableonly hit; @defaultonly miss; NoAction; }
        default_action = miss();
        size = 8;
    }
    table fixed {
        key = { hdr.ethernet.type: ternary; }
        actions = { forward; drop; NoAction; }
        const entries = {
            0x88b5: forward(5);
            0x8800 &&& 0xff00: drop();
        }
    }
    table initial {
        key = { hdr.ethernet.type: exact; }
        actions = { forward; drop; NoAction; }
        entries = {
            const 0x1111: forward(1);
            0x2222: forward(2);
        }
        size = 4;
    }
    action_profile(4) next_hops;
    table indirect {
        key = { std.ingress_port: exact; }
        actions = { forward; drop; NoAction; }
        implementation = next_hops;
        size = 8;
    }
    action_selector(HashAlgorithm.crc16, 32w16, 32w8) balance;
    @max_group_size(4) action_selector(HashAlgorithm.crc16, 32w16, 32w8) limited;
    table spread {
        key = { hdr.ethernet.dst: exact; hdr.ipv4.src: selector; hdr.ipv4.dst: selector; }
        actions = { forward; drop; NoAction; }
        implementation = balance;
        size = 8;
    }
    table spread2 {
        key = { hdr.ethernet.dst: exact; hdr.ipv4.src: selector; }
        actions = { forward; NoAction; }
        implementation = limited;
        size = 8;
    }
    table keyless { actions = { forward; NoAction; } }

    apply {
        if (hdr.packet_out.isValid()) {
            std.egress_spec = hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
        } else {
            keyless.apply();
            smac.apply();
            ports.count((bit<32>)std.ingress_port & 7);
            police.execute_meter((bit<32>)std.ingress_port & 3, meta.color);
            bit<32> n;
            seen.read(n, (bit<32>)std.ingress_port & 15);
            seen.write((bit<32>)std.ingress_port & 15, n + 1);
            int<12> v;
            level.read(v, 0);
            level.write(0, v - 1);
            fixed.apply();
            initial.apply();
            indirect.apply();
            if (!l2.apply().hit) {
                spread.apply();
                spread2.apply();
                if (hdr.ipv4.isValid()) { routes.apply(); }
            }
            acl.apply();
        }
    }
}

control Out(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (std.egress_port == CPU_PORT) {
            hdr.packet_in.setValid();
            hdr.packet_in.ingress_port = std.ingress_port;
            hdr.packet_in.reason = 7;
        }
    }
}

control Compute(inout headers_t hdr, inout metadata_t meta) { apply { } }

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
    }
}

V1Switch(Parse(), Verify(), In(), Out(), Compute(), Deparse()) main;
