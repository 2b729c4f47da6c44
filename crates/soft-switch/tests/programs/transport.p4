// A transport-header rewrite of about the size of a real one: some twelve tables, six registers, three CRC-32 over
// some sixty bytes, four tables of 256 entries, an IPv4 checksum. It measures the engine; it does nothing useful.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header ipv4_t {
    bit<4> version; bit<4> ihl; bit<8> tos; bit<16> len; bit<16> id; bit<3> flags; bit<13> frag;
    bit<8> ttl; bit<8> proto; bit<16> sum; bit<32> src; bit<32> dst;
}
header udp_t { bit<16> sport; bit<16> dport; bit<16> len; bit<16> sum; }
header bth_t {
    bit<8> opcode; bit<8> flags; bit<16> pkey; bit<8> resv; bit<24> qpn; bit<1> ack; bit<7> resv2; bit<24> psn;
}
header aeth_t { bit<8> syndrome; bit<24> msn; }
header reth_t { bit<64> addr; bit<32> rkey; bit<32> len; }

struct headers_t { ethernet_t eth; ipv4_t ip; udp_t udp; bth_t bth; reth_t reth; aeth_t aeth; }
struct meta_t {
    bit<16> conn; bit<32> old_crc; bit<32> new_crc; bit<32> check; bit<32> diff; bit<32> sol;
    bit<32> part; bit<24> psn; bit<24> first; bit<32> left; bit<32> addr; bit<8> state; bit<16> peer;
    bit<32> a; bit<32> b; bit<32> c; bit<32> d; bit<9> port; bit<1> good;
}

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(h.eth); transition select(h.eth.type) { 0x0800: ip; default: accept; } }
    state ip { p.extract(h.ip); transition select(h.ip.proto) { 17: udp; default: accept; } }
    state udp { p.extract(h.udp); transition select(h.udp.dport) { 4791: bth; default: accept; } }
    state bth {
        p.extract(h.bth);
        transition select(h.bth.opcode) {
            0x0d: aeth; 0x0e: accept; 0x0f: aeth; 0x10: aeth; 0x11: aeth; 0x06: reth; 0x0a: reth; default: accept;
        }
    }
    state aeth { p.extract(h.aeth); transition accept; }
    state reth { p.extract(h.reth); transition accept; }
}

control V(inout headers_t h, inout meta_t m) {
    apply { }
}

control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    register<bit<32>>(1024) r_state;
    register<bit<32>>(1024) r_psn;
    register<bit<32>>(1024) r_left;
    register<bit<32>>(1024) r_addr;
    register<bit<32>>(1024) r_seen;
    register<bit<32>>(1024) r_count;

    action drop() { mark_to_drop(s); exit; }
    action set_conn(bit<16> conn, bit<16> peer, bit<9> port) { m.conn = conn; m.peer = peer; m.port = port; }
    table connection { key = { h.bth.qpn : exact; } actions = { set_conn; drop; } default_action = drop(); size = 4096; }
    action good() { m.good = 1; }
    table source { key = { m.conn : exact; s.ingress_port : exact; h.ip.src : exact; } actions = { good; drop; } default_action = drop(); size = 4096; }
    action kind(bit<8> k) { m.state = k; }
    table opcode { key = { h.bth.opcode : exact; } actions = { kind; drop; } default_action = drop(); size = 256; }
    action base(bit<32> a, bit<32> c) { m.a = a; m.b = c; }
    table params { key = { m.conn : exact; } actions = { base; drop; } default_action = drop(); size = 1024; }
    action target(bit<48> dmac, bit<48> smac, bit<32> src, bit<32> dst, bit<24> qpn, bit<32> rkey) {
        h.eth.dst = dmac; h.eth.src = smac; h.ip.src = src; h.ip.dst = dst; h.bth.qpn = qpn; h.reth.rkey = rkey;
    }
    table peer { key = { m.peer : exact; } actions = { target; drop; } default_action = drop(); size = 1024; }
    action t0(bit<32> v) { m.sol = m.sol ^ v; }
    table x0 { key = { m.diff[7:0] : exact; } actions = { t0; } default_action = t0(0); size = 256; }
    table x1 { key = { m.diff[15:8] : exact; } actions = { t0; } default_action = t0(0); size = 256; }
    table x2 { key = { m.diff[23:16] : exact; } actions = { t0; } default_action = t0(0); size = 256; }
    table x3 { key = { m.diff[31:24] : exact; } actions = { t0; } default_action = t0(0); size = 256; }
    action op(bit<8> o) { h.bth.opcode = o; }
    table rewrite_op { key = { m.state : exact; m.good : exact; } actions = { op; NoAction; } default_action = NoAction(); size = 64; }
    action send(bit<9> port) { s.egress_spec = port; }
    table route { key = { h.ip.dst : lpm; } actions = { send; drop; } default_action = drop(); size = 1024; }
    table acl { key = { h.ip.src : ternary; h.ip.dst : ternary; h.udp.dport : ternary; } actions = { good; drop; } default_action = good(); size = 64; }

    apply {
        if (!h.bth.isValid()) { s.egress_spec = 1; return; }
        connection.apply();
        source.apply();
        opcode.apply();
        params.apply();
        hash(m.old_crc, HashAlgorithm.crc32, 32w0,
            { h.eth.type, h.ip.version, h.ip.ihl, 8w0xff, h.ip.len, h.ip.id, h.ip.flags, h.ip.frag, 8w0xff, h.ip.proto,
              16w0xffff, h.ip.src, h.ip.dst, h.udp.sport, h.udp.dport, h.udp.len, 16w0xffff, h.bth.opcode, h.bth.flags,
              h.bth.pkey, 8w0xff, h.bth.qpn, h.bth.ack, h.bth.resv2, h.bth.psn, h.aeth.syndrome, h.aeth.msn, m.a, m.b },
            64w0x100000000);
        bit<32> st; r_state.read(st, (bit<32>)m.conn);
        bit<32> psn; r_psn.read(psn, (bit<32>)m.conn); 
        m.psn = h.bth.psn - psn[23:0];
        bit<32> left; r_left.read(left, (bit<32>)m.conn);
        if (st == 0) { m.left = left - 1024; } else { m.left = left; }
        r_left.write((bit<32>)m.conn, m.left);
        bit<32> addr; r_addr.read(addr, (bit<32>)m.conn);
        m.addr = addr + (((bit<32>)m.psn) << 10);
        r_addr.write((bit<32>)m.conn, addr);
        bit<32> seen; r_seen.read(seen, (bit<32>)m.conn);
        if (m.psn < 24w0x800000) { seen = (bit<32>)h.bth.psn; }
        r_seen.write((bit<32>)m.conn, seen);
        bit<32> count; r_count.read(count, (bit<32>)m.conn);
        r_count.write((bit<32>)m.conn, count + 1);
        peer.apply();
        acl.apply();
        h.aeth.setInvalid();
        h.reth.setValid();
        h.reth.addr = (bit<64>)m.addr;
        h.reth.len = m.left;
        rewrite_op.apply();
        h.bth.psn = m.psn + m.first;
        h.ip.len = h.ip.len + 12;
        h.udp.len = h.udp.len + 12;
        h.ip.id = 0; h.udp.sport = 0;
        hash(m.new_crc, HashAlgorithm.crc32, 32w0,
            { h.eth.type, h.ip.version, h.ip.ihl, 8w0xff, h.ip.len, h.ip.id, h.ip.flags, h.ip.frag, 8w0xff, h.ip.proto,
              16w0xffff, h.ip.src, h.ip.dst, h.udp.sport, h.udp.dport, h.udp.len, 16w0xffff, h.bth.opcode, h.bth.flags,
              h.bth.pkey, 8w0xff, h.bth.qpn, h.bth.ack, h.bth.resv2, h.bth.psn, h.reth.addr, h.reth.rkey, h.reth.len },
            64w0x100000000);
        m.diff = m.old_crc ^ m.new_crc;
        x0.apply(); x1.apply(); x2.apply(); x3.apply();
        h.ip.id = m.sol[31:16];
        h.udp.sport = m.sol[15:0];
        hash(m.check, HashAlgorithm.crc32, 32w0,
            { h.eth.type, h.ip.version, h.ip.ihl, 8w0xff, h.ip.len, h.ip.id, h.ip.flags, h.ip.frag, 8w0xff, h.ip.proto,
              16w0xffff, h.ip.src, h.ip.dst, h.udp.sport, h.udp.dport, h.udp.len, 16w0xffff, h.bth.opcode, h.bth.flags,
              h.bth.pkey, 8w0xff, h.bth.qpn, h.bth.ack, h.bth.resv2, h.bth.psn, h.reth.addr, h.reth.rkey, h.reth.len },
            64w0x100000000);
        m.c = m.check;
        route.apply();
    }
}

control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout meta_t m) {
    apply {
        update_checksum(h.ip.isValid(), { h.ip.version, h.ip.ihl, h.ip.tos, h.ip.len, h.ip.id, h.ip.flags, h.ip.frag,
            h.ip.ttl, h.ip.proto, h.ip.src, h.ip.dst }, h.ip.sum, HashAlgorithm.csum16);
    }
}
control D(packet_out p, in headers_t h) {
    apply { p.emit(h.eth); p.emit(h.ip); p.emit(h.udp); p.emit(h.bth); p.emit(h.reth); p.emit(h.aeth); }
}
V1Switch(P(), V(), I(), E(), C(), D()) main;
