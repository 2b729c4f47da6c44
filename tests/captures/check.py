#!/usr/bin/env python3
"""Checks captures of one run with Scapy's own RoCE layer: check.py COPIES PCAP...

Every packet's ICRC is right, and the data packets that leave the switch carry exactly the trailers and payloads of those that
entered it, COPIES times each: the rewrite touched neither.
"""
import collections
import struct
import sys

from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import RawPcapReader

READ_RESPONSES = {13: 4, 14: 0, 15: 4, 16: 4}   # opcode: bytes of the extension header
WRITES = {6: 16, 7: 0, 8: 0, 10: 16}
CONTROL = (8, 16)                               # bytes of control words and commit records

entered, left = collections.Counter(), collections.Counter()
packets = wrong = 0
copies = int(sys.argv[1])
for path in sys.argv[2:]:
    for raw, _ in RawPcapReader(path):
        frame = Ether(raw)
        if UDP not in frame or frame[UDP].dport != 4791:
            continue
        packets += 1
        bth = frame[BTH]
        covered = raw[14 + 20 + 8 + 12:-4]
        if bytes(bth.compute_icrc(covered)) != raw[-4:]:
            wrong += 1
            print(f"{path}: wrong ICRC: {frame.summary()}")
        fresh = frame[IP].copy()
        del fresh.chksum
        if IP(bytes(fresh)).chksum != frame[IP].chksum:
            wrong += 1
            print(f"{path}: wrong IPv4 checksum: {frame.summary()}")
        for table, counter in ((READ_RESPONSES, entered), (WRITES, left)):
            if bth.opcode in table:
                payload = covered[table[bth.opcode]:]
                # Control words travel alone; items of the same length are told apart by the address.
                if len(payload) in CONTROL and bth.opcode in (10, 16):
                    if bth.opcode == 16 or struct.unpack("!Q", covered[:8])[0] < 4096:
                        continue
                counter[(raw[-4:], payload)] += 1

for packet in entered:
    entered[packet] *= copies
missing = entered - left
extra = left - entered
print(f"{packets} RoCE packets, {sum(entered.values()) // copies} READ response fragments, {sum(left.values())} WRITE fragments, "
      f"{wrong} wrong, {sum(missing.values())} not passed on, {sum(extra.values())} from nowhere")
sys.exit(bool(wrong or missing or extra or not entered))
