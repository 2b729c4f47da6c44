#!/usr/bin/env python3
"""The P4Runtime server as p4runtime-shell sees it.

Usage: shell_client.py SERVER_BINARY PROGRAMS_FOLDER
"""

import sys
from pathlib import Path

import p4runtime_sh.shell as sh
from p4runtime_sh.p4runtime import P4RuntimeWriteException
from switch_process import SwitchProcess, ethernet

failures = 0


def same(what, got, wanted):
    global failures
    if got != wanted:
        failures += 1
        print(f"FAILED: {what}\n  wanted {wanted!r}\n  got    {got!r}")
    else:
        print(f"ok: {what}")


def written(what, entity, read=None):
    entity.insert()
    same(f"{what} reads as written", [one.msg() for one in (read or type(entity)()).read()], [entity.msg()])


def main(binary, programs):
    process = SwitchProcess(binary)
    config = sh.FwdPipeConfig(str(programs / "p4runtime.p4info.txtpb"), str(programs / "p4runtime.json"))
    sh.setup(device_id=1, grpc_addr=process.address, election_id=(0, 1), config=config)

    entry = sh.TableEntry("In.l2")(action="In.forward")
    entry.match["hdr.ethernet.dst"] = "00:00:00:00:00:07"
    entry.action["port"] = "3"
    written("table entry", entry, sh.TableEntry("In.l2"))
    process.send(1, ethernet(7, 1, 0x1234))
    same("the entry forwards", process.receive(), (3, ethernet(7, 1, 0x1234)))
    try:
        entry.insert()
        same("a duplicate", "accepted", "refused")
    except P4RuntimeWriteException as error:
        same("a duplicate is refused", [one.canonical_code for _, one in error.errors], [6])

    member = sh.ActionProfileMember("In.balance")(member_id=1, action="In.forward")
    member.action["port"] = "2"
    written("member", member, sh.ActionProfileMember("In.balance"))
    group = sh.ActionProfileGroup("In.balance")(group_id=1)
    group.add(1, weight=2)
    written("group", group, sh.ActionProfileGroup("In.balance"))
    one_shot = sh.TableEntry("In.spread2")(is_default=False)
    one_shot.match["hdr.ethernet.dst"] = "1"
    action = sh.Action("In.forward")
    action["port"] = "4"
    one_shot.oneshot.add(action, weight=1)
    written("one-shot entry", one_shot, sh.TableEntry("In.spread2"))

    counter = sh.CounterEntry("In.ports")
    counter.index = 1
    same("counter", [one.data.packet_count for one in counter.read()], [1])
    counter.data.packet_count = 9
    counter.modify()
    same("counter after MODIFY", [one.data.packet_count for one in counter.read()], [9])
    meter = sh.MeterEntry("In.police")
    meter.index = 1
    meter.config.cir, meter.config.cburst, meter.config.pir, meter.config.pburst = 1, 2, 3, 4
    meter.modify()
    same("meter", [one.config.pburst for one in meter.read()], [4])

    multicast = sh.MulticastGroupEntry(1)
    multicast.add(1, 1).add(2, 2)
    multicast.insert()
    same("multicast group", [len(one.replicas) for one in sh.MulticastGroupEntry().read()], [2])
    clone = sh.CloneSessionEntry(1)
    clone.add(5, 1)
    clone.insert()
    same("clone session", [one.session_id for one in sh.CloneSessionEntry().read()], [1])

    out = sh.PacketOut(ethernet(1, 2, 3))
    out.metadata["egress_port"], out.metadata["class"] = "6", "0"
    out.send()
    same("packet-out", process.receive(), (6, ethernet(1, 2, 3)))
    punt = sh.TableEntry("In.l2")(action="In.punt")
    punt.match["hdr.ethernet.dst"] = "8"
    punt.insert()
    packets = []
    process.send(5, ethernet(8, 2, 3))
    sh.PacketIn().sniff(lambda packet: packets.append(packet.packet.payload), timeout=2)
    same("packet-in", packets, [ethernet(8, 2, 3)])

    sh.teardown()
    process.close()
    print("p4runtime-shell:", "all agree" if failures == 0 else f"{failures} FAILED")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
