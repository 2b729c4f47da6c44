#!/usr/bin/env python3
"""The P4Runtime server as finsy sees it: every entity written and read back, packets, digests, errors.

Usage: finsy_client.py SERVER_BINARY PROGRAMS_FOLDER
"""

import asyncio
import sys
from pathlib import Path

import finsy as fy
from switch_process import SwitchProcess, ethernet

failures = 0


def same(what, got, wanted):
    global failures
    if got != wanted:
        failures += 1
        print(f"FAILED: {what}\n  wanted {wanted!r}\n  got    {got!r}")
    else:
        print(f"ok: {what}")


async def all_of(reader):
    return [entity async for entity in reader]


async def round_trip(sw, what, entity, filter_):
    await sw.insert([entity])
    same(f"{what} reads as written", await all_of(sw.read([filter_])), [entity])


async def refused(what, code, awaitable):
    global failures
    try:
        await awaitable
    except fy.P4ClientError as error:
        codes = [detail.canonical_code for detail in error.details.values()] or [error.code]
        same(f"{what} is refused", codes, [code])
    else:
        failures += 1
        print(f"FAILED: {what} was accepted")


async def tables(sw):
    l2 = fy.P4TableEntry(
        "l2", match=fy.Match({"dst": 0x1234}), action=fy.Action("forward", port=3), metadata=b"tag"
    )
    await round_trip(sw, "exact entry", l2, fy.P4TableEntry("l2"))
    await refused("a duplicate", fy.GRPCStatusCode.ALREADY_EXISTS, sw.insert([l2]))
    route = fy.P4TableEntry(
        "routes",
        match=fy.Match({"dst": (0x0A000000, 8)}),
        action=fy.Action("route", port=4),
        meter_config=fy.P4MeterConfig(cir=10, cburst=20, pir=30, pburst=40),
    )
    await round_trip(sw, "lpm entry with meter", route, fy.P4TableEntry("routes", meter_config=fy.P4MeterConfig(cir=0, cburst=0, pir=0, pburst=0)))
    acl = fy.P4TableEntry(
        "acl",
        match=fy.Match({"type": (0x800, 0xFF00), "ingress_port": 5, "ttl": (1, 9), "ip": 1}),
        action=fy.Action("hit", port=9),
        priority=7,
    )
    await round_trip(sw, "ternary, optional, range entry", acl, fy.P4TableEntry("acl"))
    for action, port in (("forward_named", "17"), ("forward_wide", 18)):
        entry = fy.P4TableEntry("l2", match=fy.Match({"dst": 1}), action=fy.Action(action, port=port))
        await sw.insert([entry])
        got = await all_of(sw.read([fy.P4TableEntry("l2", match=fy.Match({"dst": 1}))]))
        same(f"translated parameter of {action}", got, [entry])
        await sw.delete([entry])
    const = await all_of(sw.read([fy.P4TableEntry("fixed")]))
    same("const entries", [(entry.priority, entry.is_const) for entry in const], [(2, True), (1, True)])
    default = fy.P4TableEntry("keyless", is_default_action=True, action=fy.Action("forward", port=1))
    await sw.modify([default])
    same("default entry", await all_of(sw.read([fy.P4TableEntry("keyless", is_default_action=True)])), [default])
    same("all tables", len(await all_of(sw.read([fy.P4TableEntry()]))), 3 + 2 + 2)
    await refused("a value too wide", fy.GRPCStatusCode.OUT_OF_RANGE, sw.write([wide_entry(sw)]))


def wide_entry(sw):
    """finsy checks widths itself, so the message is made from a good one."""
    from finsy.proto import p4r

    entry = fy.P4TableEntry("l2", match=fy.Match({"dst": 2}), action=fy.Action("forward", port=3))
    message = p4r.Update(type=p4r.Update.INSERT)
    message.entity.CopyFrom(entry.encode(sw.p4info))
    message.entity.table_entry.match[0].exact.value = bytes([1] * 7)
    return message


async def profiles(sw):
    member = fy.P4ActionProfileMember("balance", member_id=1, action=fy.Action("forward", port=2))
    await round_trip(sw, "member", member, fy.P4ActionProfileMember())
    group = fy.P4ActionProfileGroup("balance", group_id=1, max_size=4, members=[fy.P4Member(1, weight=2)])
    await round_trip(sw, "group", group, fy.P4ActionProfileGroup())
    entry = fy.P4TableEntry("spread", match=fy.Match({"dst": 5}), action=fy.P4IndirectAction(group_id=1))
    await round_trip(sw, "entry with a group", entry, fy.P4TableEntry("spread"))
    await refused("deleting a group in use", fy.GRPCStatusCode.FAILED_PRECONDITION, sw.delete([group]))
    shots = fy.P4IndirectAction([(1, fy.Action("forward", port=1)), (2, fy.Action("forward", port=2))])
    entry = fy.P4TableEntry("spread2", match=fy.Match({"dst": 5}), action=shots)
    await round_trip(sw, "one-shot entry", entry, fy.P4TableEntry("spread2"))


async def cells(sw):
    counter = fy.P4CounterEntry("ports", index=1, data=fy.P4CounterData(byte_count=7, packet_count=8))
    await sw.modify([counter])
    same("counter", await all_of(sw.read([fy.P4CounterEntry("ports", index=1)])), [counter])
    same("all counters", len(await all_of(sw.read([fy.P4CounterEntry()]))), 8)
    meter = fy.P4MeterEntry("police", index=1, config=fy.P4MeterConfig(cir=1, cburst=2, pir=3, pburst=4))
    await sw.modify([meter])
    same("meter", await all_of(sw.read([fy.P4MeterEntry("police", index=1)])), [meter])
    register = fy.P4RegisterEntry("seen", index=2, data=77)
    await sw.modify([register])
    same("register", await all_of(sw.read([fy.P4RegisterEntry("seen", index=2)])), [register])
    signed = fy.P4RegisterEntry("level", index=2, data=-5)
    await sw.modify([signed])
    same("signed register", await all_of(sw.read([fy.P4RegisterEntry("level", index=2)])), [signed])
    direct = await all_of(sw.read([fy.P4DirectCounterEntry("l2_hits")]))
    same("direct counters", [entry.data.packet_count for entry in direct], [0])
    values = fy.P4ValueSetEntry("ip_types", members=[fy.p4entity.P4ValueSetMember(0x86DD)])
    await sw.modify([values])
    same("value set", await all_of(sw.read([fy.P4ValueSetEntry("ip_types", members=[])])), [values])
    multicast = fy.P4MulticastGroupEntry(3, replicas=(1, 2))
    await round_trip(sw, "multicast group", multicast, fy.P4MulticastGroupEntry())
    clone = fy.P4CloneSessionEntry(4, class_of_service=1, packet_length_bytes=60, replicas=(5,))
    await round_trip(sw, "clone session", clone, fy.P4CloneSessionEntry())


async def stream(sw, process):
    await sw.write([+fy.P4TableEntry("l2", match=fy.Match({"dst": 9}), action=fy.Action("punt"))])
    packets = sw.read_packets()
    frame = ethernet(9, 1, 0x1234)
    process.send(5, frame)
    packet = await anext(packets)
    same("packet-in", (packet.payload, packet["ingress_port"], packet["reason"]), (frame, 5, 7))
    await sw.write([fy.P4PacketOut(frame, **{"egress_port": 6, "class": 1})])
    same("packet-out", await asyncio.to_thread(process.receive), (6, frame))

    digests = sw.read_digests("learn_t")
    await sw.write([
        +fy.P4DigestEntry("learn_t", max_list_size=1, max_timeout_ns=0, ack_timeout_ns=10**9),
        ~fy.P4TableEntry("smac", is_default_action=True, action=fy.Action("learn")),
    ])
    process.send(5, ethernet(9, 0xABC, 0x1234))
    digest = await anext(digests)
    same("digest", digest.data, [{"address": 0xABC, "port": 5}])
    await sw.write([digest.ack()])

    idle = sw.read_idle_timeouts()
    entry = fy.P4TableEntry(
        "smac", match=fy.Match({"src": 7}), action=fy.Action("learn"), idle_timeout_ns=10**7
    )
    await sw.insert([entry])
    told = await anext(idle)
    same("idle entry", [one.match for one in told.table_entry], [entry.match])


async def main(binary, programs):
    process = SwitchProcess(binary)
    options = fy.SwitchOptions(
        p4info=programs / "p4runtime.p4info.txtpb", p4blob=programs / "p4runtime.json", device_id=1
    )
    async with fy.Switch("sw", process.address, options) as sw:
        same("version", str(sw.p4runtime_version).startswith("1."), True)
        await tables(sw)
        await profiles(sw)
        await cells(sw)
        await stream(sw, process)
        await sw.delete_all()
        left = await all_of(sw.read([fy.P4TableEntry()]))
        same("no table entries but const ones are left", {entry.table_id for entry in left}, {"fixed"})
    process.close()
    print("finsy:", "all agree" if failures == 0 else f"{failures} FAILED")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(asyncio.wait_for(main(sys.argv[1], Path(sys.argv[2])), 120)))
