#!/usr/bin/env python3
"""Compares packets written by zsr-wire (JSON lines from its example emit_packets) with what Scapy makes of them.

Scapy dissects Ethernet, ARP, IPv4, UDP, BTH, AETH and CNP and computes the ICRC by its own code. RETH, DETH and
immediate data, which Scapy has no layer for, are read here from the bytes behind its BTH.
"""
import json
import struct
import sys

from scapy.contrib.roce import AETH, BTH, CNPPadding
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import ARP, Ether

bad = 0


def same(where, field, want, got):
    global bad
    if want != got:
        bad += 1
        print(f"{where}: {field}: zsr-wire wrote {want!r}, Scapy reads {got!r}")


def check_arp(where, line, frame):
    arp = Ether(frame)[ARP]
    same(where, "hwtype ptype hwlen plen", (1, 0x800, 6, 4), (arp.hwtype, arp.ptype, arp.hwlen, arp.plen))
    for ours, theirs in (("op", "op"), ("sender_mac", "hwsrc"), ("sender_ip", "psrc"), ("target_mac", "hwdst"), ("target_ip", "pdst")):
        same(where, ours, line[ours], getattr(arp, theirs))


def check_roce(where, line, frame):
    eth = Ether(frame)
    ip, udp, bth = eth[IP], eth[UDP], eth[BTH]
    same(where, "src_mac", line["src_mac"], eth.src)
    same(where, "dst_mac", line["dst_mac"], eth.dst)
    for ours, theirs in (("src_ip", "src"), ("dst_ip", "dst"), ("tos", "tos"), ("ttl", "ttl"), ("ident", "id")):
        same(where, ours, line[ours], getattr(ip, theirs))
    same(where, "IPv4 length", len(frame) - 14, ip.len)
    same(where, "UDP", (line["sport"], 4791, len(frame) - 34, 0), (udp.sport, udp.dport, udp.len, udp.chksum))
    fresh = IP(bytes(ip))
    del fresh.chksum
    same(where, "IPv4 checksum", ip.chksum, IP(bytes(fresh)).chksum)
    for field in ("opcode", "pkey", "dqpn", "psn"):
        same(where, field, line[field], getattr(bth, field))
    for field in ("solicited", "migreq", "ackreq", "fecn", "becn"):
        same(where, field, int(line[field]), int(getattr(bth, field)))
    payload = bytes.fromhex(line["payload"])
    same(where, "padcount", -len(payload) % 4, bth.padcount)
    same(where, "version", 0, bth.version)

    # Scapy's dissector cuts the ICRC off; compute_icrc() is its own implementation of the CRC.
    same(where, "ICRC", struct.unpack("!I", frame[-4:])[0], bth.icrc)
    covered = bytes(frame[54:-4])
    same(where, "ICRC computed", frame[-4:].hex(), bytes(bth.compute_icrc(covered)).hex())

    rest = covered
    if line["reth"]:
        va, rkey, length = struct.unpack("!QII", rest[:16])
        same(where, "RETH", line["reth"], {"va": va, "rkey": rkey, "len": length})
        rest = rest[16:]
    if line["deth"]:
        qkey, qp = struct.unpack("!II", rest[:8])
        same(where, "DETH", line["deth"], {"qkey": qkey, "src_qp": qp})
        rest = rest[8:]
    if line["aeth"]:
        if AETH in eth:
            same(where, "AETH", line["aeth"], {"syndrome": eth[AETH].syndrome, "msn": eth[AETH].msn})
        else:
            word = struct.unpack("!I", rest[:4])[0]
            same(where, "AETH", line["aeth"], {"syndrome": word >> 24, "msn": word & 0xFFFFFF})
        rest = rest[4:]
    if line["imm"] is not None:
        same(where, "immediate", line["imm"], struct.unpack("!I", rest[:4])[0])
        rest = rest[4:]
    if line["opcode"] == 0x81:
        same(where, "CNP layer", True, CNPPadding in eth)
        rest = rest[16:]
    same(where, "payload and pad", (payload + bytes(-len(payload) % 4)).hex(), rest.hex())


def main():
    kinds = {}
    with open(sys.argv[1]) as lines:
        for number, text in enumerate(lines, 1):
            line = json.loads(text)
            name = line.get("name", line["kind"])
            kinds[name] = kinds.get(name, 0) + 1
            check = check_arp if line["kind"] == "arp" else check_roce
            check(f"packet {number} ({name})", line, bytes.fromhex(line["frame"]))
    if len(kinds) != 22:
        print(f"expected 22 kinds of packet, got {sorted(kinds)}")
        sys.exit(1)
    print(f"{sum(kinds.values())} packets of {len(kinds)} kinds compared with Scapy, {bad} differences")
    sys.exit(bad != 0)


main()
