// The program of hop-v1model.p4 for DPDK's software pipeline. To compile it:
//     p4c-dpdk --arch pna -o hop.spec hop-pna.p4
#include <core.p4>
#include <dpdk/pna.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header ipv4_t {
    bit<8> version_ihl; bit<8> tos; bit<16> length;
    bit<16> ident; bit<16> offset;
    bit<8> ttl; bit<8> protocol; bit<16> checksum;
    bit<32> src; bit<32> dst;
}
struct headers_t { ethernet_t ethernet; ipv4_t ipv4; }
struct metadata_t { }

control Before(in headers_t hdr, inout metadata_t meta, in pna_pre_input_metadata_t istd, inout pna_pre_output_metadata_t ostd) { apply { } }

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta, in pna_main_parser_input_metadata_t istd) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) { 0x0800: ip; default: accept; }
    }
    state ip { packet.extract(hdr.ipv4); transition accept; }
}

control In(inout headers_t hdr, inout metadata_t meta, in pna_main_input_metadata_t istd, inout pna_main_output_metadata_t ostd) {
    action drop() { drop_packet(); }
    action forward(PortId_t port) { send_to_port(port); }
    action route(bit<48> mac, PortId_t port) {
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ethernet.dst = mac;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        send_to_port(port);
    }
    table hosts {
        key = { hdr.ipv4.dst: exact; }
        actions = { route; drop; }
        default_action = drop();
        size = 1048576;
    }
    table stations {
        key = { hdr.ethernet.dst: exact; }
        actions = { forward; drop; }
        default_action = drop();
        size = 1048576;
    }
    apply {
        if (hdr.ipv4.isValid()) { hosts.apply(); } else { stations.apply(); }
    }
}

control Deparse(packet_out packet, in headers_t hdr, in metadata_t meta, in pna_main_output_metadata_t ostd) {
    apply { packet.emit(hdr.ethernet); packet.emit(hdr.ipv4); }
}

PNA_NIC(Parse(), Before(), In(), Deparse()) main;
