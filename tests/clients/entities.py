#!/usr/bin/env python3
"""Every P4Runtime entity in raw messages, of which clients hide some: what our server answers is held against what it
should, and, if there is one, against what bmv2's simple_switch_grpc answers to the same.

Usage: entities.py SERVER_BINARY PROGRAMS_FOLDER [SIMPLE_SWITCH_GRPC]

What our server should answer is in entities.golden, read and agreed to by hand; with ZSR_WRITE_GOLDEN=1 it is written anew.
"""

import os
import queue
import sys
import threading
from pathlib import Path

import grpc
from bmv2_process import Bmv2Process
from google.protobuf import text_format
from google.rpc import code_pb2, status_pb2
from p4.config.v1 import p4info_pb2
from p4.v1 import p4data_pb2, p4runtime_pb2, p4runtime_pb2_grpc
from switch_process import SwitchProcess, ethernet

p4 = p4runtime_pb2
INSERT, MODIFY, DELETE = p4.Update.INSERT, p4.Update.MODIFY, p4.Update.DELETE

# Where bmv2 answers otherwise, and what is behind it.
BMV2_DIFFERS = {
    "arbitration: another device": "it makes a device of any number",
    "arbitration: writing to another device": "it makes a device of any number",
    "arbitration: reading from another device": "it makes a device of any number",
    "arbitration: the second goes": "it makes the next controller primary, where the specification waits for one to ask",
    "tables: a key too wide": "INVALID_ARGUMENT, where the specification has OUT_OF_RANGE",
    "tables: a parameter too wide": "INVALID_ARGUMENT, where the specification has OUT_OF_RANGE",
    "tables: an entry in a const table": "without a code of its own",
    "profiles: all groups": "a group whose write failed stays behind",
    "profiles: an entry with a group that is not there": "another code",
    "profiles: deleting a member in use": "without a code of its own",
    "cells: beyond the end": "without a code of its own",
    "cells: beyond the end (2)": "without a code of its own",
    "cells: a peak below the committed rate": "without a code of its own",
    "cells: its counter is gone": "another code",
    "cells: a register": "registers are not implemented",
    "cells: it reads (4)": "registers are not implemented",
    "cells: a value set": "value sets are not implemented",
    "cells: it reads (5)": "value sets are not implemented",
    "cells: inserting into it": "value sets are not implemented",
    "replication: a session": "a length in a clone session is not implemented",
    "replication: it reads (2)": "so there is no session",
    "replication: again (2)": "so there is no session",
}


def code(number):
    return code_pb2.Code.Name(number)


class Session:
    """A controller."""

    def __init__(self, address, election):
        self.election = p4.Uint128(high=0, low=election)
        self.channel = grpc.insecure_channel(address, [("grpc.max_metadata_size", 1 << 20)])
        self.stub = p4runtime_pb2_grpc.P4RuntimeStub(self.channel)
        self.out, self.messages = queue.Queue(), queue.Queue()
        self.responses = self.stub.StreamChannel(iter(self.out.get, None))
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        try:
            for message in self.responses:
                self.messages.put(message)
        except grpc.RpcError as error:
            self.messages.put(error)

    def send(self, **update):
        self.out.put(p4.StreamMessageRequest(**update))

    def next(self, kind):
        """The next message of a kind, or the name of the status with which the stream ended."""
        while True:
            message = self.messages.get(timeout=30)
            if isinstance(message, grpc.RpcError):
                return message.code().name
            if message.WhichOneof("update") == kind:
                return getattr(message, kind)

    def arbitrate(self, device=1):
        """The status of the answer."""
        update = p4.MasterArbitrationUpdate(device_id=device, election_id=self.election)
        self.send(arbitration=update)
        answer = self.next("arbitration")
        return answer if isinstance(answer, str) else code(answer.status.code)

    def push(self, info, json, action=p4.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT):
        request = p4.SetForwardingPipelineConfigRequest(device_id=1, election_id=self.election, action=action)
        request.config.p4info.CopyFrom(info)
        request.config.p4_device_config = json
        request.config.cookie.cookie = 77
        return self._call(self.stub.SetForwardingPipelineConfig, request)

    def cookie(self):
        request = p4.GetForwardingPipelineConfigRequest(device_id=1)
        request.response_type = p4.GetForwardingPipelineConfigRequest.COOKIE_ONLY
        return self.stub.GetForwardingPipelineConfig(request).config.cookie.cookie

    def write(self, *updates, election=None, device=1):
        """OK, or the code of each update, or the code of the whole."""
        request = p4.WriteRequest(device_id=device, election_id=election or self.election)
        for kind, entity in updates:
            request.updates.add(type=kind).entity.CopyFrom(entity)
        return self._call(self.stub.Write, request)

    def read(self, *entities, device=1):
        """Entities as text, sorted; or the code."""
        request = p4.ReadRequest(device_id=device, entities=entities)
        try:
            found = [entity for response in self.stub.Read(request) for entity in response.entities]
        except grpc.RpcError as error:
            return self._codes(error)
        return sorted(text_format.MessageToString(entity, as_one_line=True) for entity in found)

    def _call(self, method, request):
        try:
            method(request)
        except grpc.RpcError as error:
            return self._codes(error)
        return "OK"

    @staticmethod
    def _codes(error):
        packed = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin")
        if packed is None:
            return error.code().name
        codes = []
        for detail in status_pb2.Status.FromString(packed).details:
            one = p4.Error()
            detail.Unpack(one)
            codes.append(code(one.canonical_code))
        return codes or error.code().name

    def close(self):
        self.out.put(None)
        self.channel.close()


class Program:
    """Names to ids."""

    def __init__(self, folder):
        self.info = text_format.Parse((folder / "p4runtime.p4info.txtpb").read_text(), p4info_pb2.P4Info())
        self.json = (folder / "p4runtime.json").read_bytes()

    def object(self, kind, name):
        return next(o for o in getattr(self.info, kind) if o.preamble.alias == name)

    def id(self, kind, name):
        return self.object(kind, name).preamble.id

    def action(self, name, *values):
        action = self.object("actions", name)
        params = [p4.Action.Param(param_id=p.id, value=v) for p, v in zip(action.params, values)]
        return p4.Action(action_id=action.preamble.id, params=params)

    def entry(self, table, match=(), action=None, **more):
        entity = p4.Entity()
        entry = entity.table_entry
        entry.table_id = self.id("tables", table)
        fields = self.object("tables", table).match_fields
        for at, kind in enumerate(match):
            if kind is not None:
                (how, values), = kind.items()
                field = entry.match.add(field_id=fields[at].id)
                for key, value in values.items():
                    setattr(getattr(field, how), key, value)
        if isinstance(action, p4.TableAction):
            entry.action.CopyFrom(action)
        elif action is not None:
            entry.action.action.CopyFrom(action)
        for key, value in more.items():
            if isinstance(value, (int, bytes)):
                setattr(entry, key, value)
            else:
                getattr(entry, key).CopyFrom(value)
        return entity

    def l2(self, dst, action=None, **more):
        return self.entry("l2", [{"exact": {"value": dst}}], action, **more)


def tables(s, p):
    """Keys of every kind; insert, modify, delete; defaults, const entries, wildcards; what is refused, and how."""
    forward = p.action("forward", b"\x03")
    yield "insert", s.write((INSERT, p.l2(b"\x07", forward)))
    yield "insert again", s.write((INSERT, p.l2(b"\x07", forward)))
    yield "read", s.read(p.entry("l2"))
    yield "modify", s.write((MODIFY, p.l2(b"\x07", p.action("forward", b"\x04"))))
    yield "read the modified one", s.read(p.l2(b"\x07"))
    yield "modify what is not there", s.write((MODIFY, p.l2(b"\x08", forward)))
    yield "delete what is not there", s.write((DELETE, p.l2(b"\x08")))
    yield "an unknown table", s.write((INSERT, p4.Entity(table_entry=p4.TableEntry(table_id=0x02FFFFFF))))
    yield "a key too wide", s.write((INSERT, p.l2(b"\x01" * 7, forward)))
    yield "no key", s.write((INSERT, p.entry("l2", [], forward)))
    yield "an action of another table", s.write((INSERT, p.l2(b"\x09", p.action("learn"))))
    yield "a parameter too wide", s.write((INSERT, p.l2(b"\x09", p.action("forward", b"\x02\x00"))))
    yield "no parameter", s.write((INSERT, p.l2(b"\x09", p.action("forward"))))
    yield "a priority where none belongs", s.write((INSERT, p.l2(b"\x09", forward, priority=3)))
    yield "a batch with one bad update", s.write(
        (INSERT, p.l2(b"\x0a", forward)), (INSERT, p.l2(b"\x0a", forward)), (INSERT, p.l2(b"\x0b", forward))
    )
    yield "what is left of it", s.read(p.entry("l2"))
    yield "delete", s.write(*((DELETE, p.l2(dst)) for dst in (b"\x07", b"\x0a", b"\x0b")))
    yield "read nothing", s.read(p.entry("l2"))

    # Byte strings with leading zeros are taken; all that is read back is canonical.
    yield "not canonical", s.write((INSERT, p.l2(b"\x00\x00\x0c", p.action("forward", b"\x00\x05"))))
    yield "canonical", s.read(p.entry("l2"))
    yield "named canonically", s.write((DELETE, p.l2(b"\x0c")))

    lpm = lambda value, bits: [{"lpm": {"value": value, "prefix_len": bits}}]
    route = p.action("route", b"\x04")
    yield "prefix", s.write((INSERT, p.entry("routes", lpm(b"\x0a\x00\x00\x00", 8), route)))
    yield "prefix of length 0", s.write((INSERT, p.entry("routes", lpm(b"\x00", 0), route)))
    yield "prefix with bits behind it", s.write((INSERT, p.entry("routes", lpm(b"\x0b\x00\x00\x01", 8), route)))
    yield "a prefix left out matches all", s.write((INSERT, p.entry("routes", [], route)))
    yield "prefixes", s.read(p.entry("routes"))
    yield "prefixes go", s.write(
        (DELETE, p.entry("routes", lpm(b"\x0a\x00\x00\x00", 8))), (DELETE, p.entry("routes"))
    )

    drop = p.action("drop")
    acl = [{"ternary": {"value": b"\x08\x00", "mask": b"\xff\x00"}}, {"optional": {"value": b"\x05"}}]
    acl += [{"range": {"low": b"\x01", "high": b"\x09"}}, {"exact": {"value": b"\x01"}}]
    yield "ternary, optional, range", s.write((INSERT, p.entry("acl", acl, drop, priority=7)))
    yield "no priority", s.write((INSERT, p.entry("acl", [None, None, None, acl[3]], drop)))
    yield "another priority", s.write((INSERT, p.entry("acl", acl, drop, priority=8)))
    yield "value outside the mask", s.write(
        (INSERT, p.entry("acl", [{"ternary": {"value": b"\x09", "mask": b"\x01"}}, *acl[1:]], drop, priority=9))
    )
    yield "empty mask", s.write(
        (INSERT, p.entry("acl", [{"ternary": {"value": b"\x00", "mask": b"\x00"}}, *acl[1:]], drop, priority=9))
    )
    yield "range turned round", s.write(
        (INSERT, p.entry("acl", [None, None, {"range": {"low": b"\x05", "high": b"\x02"}}, acl[3]], drop, priority=9))
    )
    yield "a default-only action", s.write((INSERT, p.entry("acl", acl, p.action("miss"), priority=9)))
    yield "acl", s.read(p.entry("acl"))
    yield "acl goes", s.write(*((DELETE, p.entry("acl", acl, priority=n)) for n in (7, 8)))

    yield "default action", s.write((MODIFY, p.entry("l2", [], p.action("punt"), is_default_action=True)))
    yield "read it", s.read(p.entry("l2", is_default_action=True))
    yield "insert a default", s.write((INSERT, p.entry("l2", [], drop, is_default_action=True)))
    yield "delete a default", s.write((DELETE, p.entry("l2", is_default_action=True)))
    yield "the program's default again", s.write((MODIFY, p.entry("l2", is_default_action=True)))
    yield "read that", s.read(p.entry("l2", is_default_action=True))
    yield "a const default", s.write((MODIFY, p.entry("routes", [], p.action("NoAction"), is_default_action=True)))
    yield "a table-only default", s.write((MODIFY, p.entry("acl", [], p.action("hit", b"\x01"), is_default_action=True)))
    const = [{"ternary": {"value": b"\x01", "mask": b"\xff\xff"}}]
    yield "an entry in a const table", s.write((INSERT, p.entry("fixed", const, drop, priority=5)))


def profiles(s, p):
    """Members, groups, entries that use them; one-shot sets."""
    member = lambda n, port, profile="balance": p4.Entity(
        action_profile_member=p4.ActionProfileMember(
            action_profile_id=p.id("action_profiles", profile), member_id=n, action=p.action("forward", port)
        )
    )
    group = lambda n, *members, size=0: p4.Entity(
        action_profile_group=p4.ActionProfileGroup(
            action_profile_id=p.id("action_profiles", "balance"), group_id=n, max_size=size,
            members=[p4.ActionProfileGroup.Member(member_id=m, weight=w) for m, w in members],
        )
    )
    any_member = p4.Entity(action_profile_member=p4.ActionProfileMember())
    any_group = p4.Entity(action_profile_group=p4.ActionProfileGroup())
    yield "members", s.write((INSERT, member(1, b"\x01")), (INSERT, member(2, b"\x02")))
    yield "a member again", s.write((INSERT, member(1, b"\x01")))
    yield "a member changes", s.write((MODIFY, member(2, b"\x03")))
    yield "all members", s.read(any_member)
    yield "a group", s.write((INSERT, group(1, (1, 1), (2, 2))))
    yield "a group again", s.write((INSERT, group(1)))
    yield "a group with a member that is not there", s.write((INSERT, group(2, (9, 1))))
    yield "all groups", s.read(any_group)
    yield "a group changes", s.write((MODIFY, group(1, (1, 3))))
    yield "the group", s.read(group(1))
    use = lambda kind: p4.TableAction(**kind)
    key = [{"exact": {"value": b"\x05"}}]
    yield "an entry with a group", s.write((INSERT, p.entry("spread", key, use({"action_profile_group_id": 1}))))
    yield "an entry with a member", s.write((MODIFY, p.entry("spread", key, use({"action_profile_member_id": 2}))))
    yield "read it", s.read(p.entry("spread"))
    yield "an entry with a group that is not there", s.write(
        (MODIFY, p.entry("spread", key, use({"action_profile_group_id": 7})))
    )
    yield "a direct action where a group belongs", s.write((MODIFY, p.entry("spread", key, p.action("drop"))))
    yield "deleting a member in use", s.write((DELETE, member(2, b"")))
    yield "clean up", s.write((DELETE, p.entry("spread", key)), (DELETE, group(1)))
    yield "members go", s.write((DELETE, member(1, b"")), (DELETE, member(2, b"")))
    yield "a member that is gone", s.write((DELETE, member(1, b"")))
    shots = p4.ActionProfileActionSet()
    for port, weight in ((b"\x01", 1), (b"\x02", 2)):
        shots.action_profile_actions.add(weight=weight).action.CopyFrom(p.action("forward", port))
    shot = lambda: p4.TableAction(action_profile_action_set=shots)
    yield "one-shot", s.write((INSERT, p.entry("spread2", key, shot())))
    yield "read it", s.read(p.entry("spread2"))
    shots.action_profile_actions[0].weight = 0
    yield "weight 0", s.write((MODIFY, p.entry("spread2", key, shot())))
    yield "one-shot goes", s.write((DELETE, p.entry("spread2", key)))
    return


def cells(s, p):
    """Counters, meters, registers, value sets; with and without index."""
    index = lambda n: {"index": p4.Index(index=n)} if n is not None else {}
    counter = lambda n=None, **data: p4.Entity(
        counter_entry=p4.CounterEntry(
            counter_id=p.id("counters", "ports"), **index(n), **({"data": p4.CounterData(**data)} if data else {})
        )
    )
    yield "a counter", s.write((MODIFY, counter(1, packet_count=8, byte_count=7)))
    yield "it reads", s.read(counter(1))
    yield "all of it", len(s.read(counter()))
    yield "beyond the end", s.read(counter(8))
    yield "inserting one", s.write((INSERT, counter(1, packet_count=1)))
    meter = lambda n=None, *config: p4.Entity(
        meter_entry=p4.MeterEntry(
            meter_id=p.id("meters", "police"), **index(n),
            **({"config": p4.MeterConfig(cir=config[0], cburst=config[1], pir=config[2], pburst=config[3])} if config else {}),
        )
    )
    yield "a meter", s.write((MODIFY, meter(1, 1000, 2000, 3000, 4000)))
    yield "it reads", s.read(meter(1))
    yield "all meters", len(s.read(meter()))
    yield "a peak below the committed rate", s.write((MODIFY, meter(1, 5000, 10, 10, 10)))
    yield "a meter as at first", s.write((MODIFY, meter(1)))
    yield "it reads", s.read(meter(1))
    yield "beyond the end", s.write((MODIFY, meter(4, 1, 1, 1, 1)))
    register = lambda n=None, value=None: p4.Entity(
        register_entry=p4.RegisterEntry(
            register_id=p.id("registers", "seen"), **index(n),
            **({"data": p4data_pb2.P4Data(bitstring=value)} if value else {}),
        )
    )
    yield "a register", s.write((MODIFY, register(2, b"\x4d")))
    yield "it reads", s.read(register(2))
    forward = p.action("forward", b"\x03")
    entry = p.l2(b"\x07", forward, counter_data=p4.CounterData(packet_count=5, byte_count=6))
    yield "an entry with its counter", s.write((INSERT, entry))
    direct = p4.Entity(direct_counter_entry=p4.DirectCounterEntry(table_entry=p.l2(b"\x07").table_entry))
    yield "the direct counter", s.read(direct)
    direct.direct_counter_entry.data.packet_count = 50
    yield "it is set", s.write((MODIFY, direct))
    yield "the direct counter", s.read(direct)
    yield "with the entry", s.read(p.entry("l2", counter_data=p4.CounterData()))
    yield "the entry goes", s.write((DELETE, p.l2(b"\x07")))
    yield "its counter is gone", s.read(direct)
    lpm = [{"lpm": {"value": b"\x0a\x00\x00\x00", "prefix_len": 8}}]
    config = p4.MeterConfig(cir=10, cburst=20, pir=30, pburst=40)
    yield "an entry with a meter", s.write((INSERT, p.entry("routes", lpm, p.action("route", b"\x04"), meter_config=config)))
    direct = p4.Entity(direct_meter_entry=p4.DirectMeterEntry(table_entry=p.entry("routes", lpm).table_entry))
    yield "the direct meter", s.read(direct)
    yield "that entry goes", s.write((DELETE, p.entry("routes", lpm)))
    sets = p4.Entity(value_set_entry=p4.ValueSetEntry(value_set_id=p.id("value_sets", "ip_types")))
    one = p4.Entity()
    one.CopyFrom(sets)
    one.value_set_entry.members.add().match.add(field_id=1).exact.value = b"\x86\xdd"
    yield "a value set", s.write((MODIFY, one))
    yield "it reads", s.read(sets)
    yield "inserting into it", s.write((INSERT, one))


def replication(s, p):
    """Multicast groups and clone sessions."""
    engine = lambda **what: p4.Entity(packet_replication_engine_entry=p4.PacketReplicationEngineEntry(**what))
    replica = lambda port, instance: p4.Replica(port=port, instance=instance)
    group = lambda n, *replicas: engine(
        multicast_group_entry=p4.MulticastGroupEntry(multicast_group_id=n, replicas=replicas)
    )
    clone = lambda n, *replicas, **more: engine(
        clone_session_entry=p4.CloneSessionEntry(session_id=n, replicas=replicas, **more)
    )
    yield "a group", s.write((INSERT, group(1, replica(b"\x01", 1))))
    yield "it reads", s.read(group(1))
    yield "again", s.write((INSERT, group(1)))
    yield "group 0", s.write((INSERT, group(0)))
    yield "a replica twice", s.write((INSERT, group(2, replica(b"\x01", 1), replica(b"\x01", 1))))
    yield "changed", s.write((MODIFY, group(1, replica(b"\x01", 1), replica(b"\x02", 1))))
    yield "all groups", s.read(group(0))
    yield "none to change", s.write((MODIFY, group(9)))
    yield "a session", s.write((INSERT, clone(4, replica(b"\x05", 1), packet_length_bytes=60)))
    yield "it reads", s.read(clone(4))
    yield "again", s.write((INSERT, clone(4, replica(b"\x05", 1))))
    yield "changed", s.write((MODIFY, clone(4, replica(b"\x06", 2))))
    yield "all sessions", s.read(clone(0))
    yield "none to delete", s.write((DELETE, clone(5)))
    yield "clean up", s.write((DELETE, group(1)), (DELETE, clone(4)))


def packets(s, p, switch):
    """Entries at work: forwarding, copies, packet I/O, digests, idle entries."""
    frame = lambda dst, src=1: ethernet(dst, src, 0x1234)
    replicas = [p4.Replica(port=port, instance=1) for port in (b"\x01", b"\x02")]
    group = p4.MulticastGroupEntry(multicast_group_id=1, replicas=replicas)
    clone = p4.CloneSessionEntry(session_id=4, replicas=[p4.Replica(port=b"\x05", instance=1)])
    engine = lambda **what: p4.Entity(packet_replication_engine_entry=p4.PacketReplicationEngineEntry(**what))
    yield "entries", s.write(
        (INSERT, engine(multicast_group_entry=group)),
        (INSERT, engine(clone_session_entry=clone)),
        (INSERT, p.l2(b"\x07", p.action("forward", b"\x03"))),
        (INSERT, p.l2(b"\x08", p.action("flood", b"\x01"))),
        (INSERT, p.l2(b"\x09", p.action("punt"))),
    )
    receive = lambda: (lambda port, data: (port, data.hex()))(*switch.receive())
    switch.send(1, frame(7))
    yield "forwarded", receive()
    switch.send(1, frame(8))
    yield "to a group", sorted(receive() for _ in range(2))
    yield "counted", s.read(p.entry("l2", [{"exact": {"value": b"\x07"}}], counter_data=p4.CounterData()))
    switch.send(5, frame(9))
    answer = s.next("packet")
    yield "packet-in", (answer.payload.hex(), sorted((m.metadata_id, m.value) for m in answer.metadata))
    metadata = [p4.PacketMetadata(metadata_id=1, value=b"\x06"), p4.PacketMetadata(metadata_id=2, value=b"\x00")]
    s.send(packet=p4.PacketOut(payload=frame(1), metadata=metadata))
    yield "packet-out", receive()

    digest = p4.DigestEntry(digest_id=p.id("digests", "learn_t"))
    digest.config.max_list_size = 1
    digest.config.ack_timeout_ns = 10**9
    learn = p.action("learn")
    yield "a digest", s.write(
        (INSERT, p4.Entity(digest_entry=digest)),
        (MODIFY, p.entry("smac", [], learn, is_default_action=True)),
    )
    yield "it reads", s.read(p4.Entity(digest_entry=p4.DigestEntry(digest_id=digest.digest_id)))
    switch.send(5, frame(7, 0xABC))
    message = s.next("digest")
    s.send(digest_ack=p4.DigestListAck(digest_id=message.digest_id, list_id=message.list_id))
    yield "learned", [text_format.MessageToString(data, as_one_line=True) for data in message.data]
    switch.receive()
    yield "no digest any more", s.write((DELETE, p4.Entity(digest_entry=digest)))

    idle = p.entry("smac", [{"exact": {"value": b"\x0d"}}], p.action("NoAction"), idle_timeout_ns=10**8)
    yield "an entry that times out", s.write((INSERT, idle))
    told = s.next("idle_timeout_notification")
    yield "it is told of", [(e.table_id, [f.exact.value for f in e.match]) for e in told.table_entry]


def arbitration(address, p):
    """Two controllers, and who may write."""
    first, second = Session(address, 5), Session(address, 9)
    entry = (INSERT, p.l2(b"\x21", p.action("forward", b"\x01")))
    yield "the first becomes primary", first.arbitrate()
    yield "its pipeline", first.push(p.info, p.json)
    yield "its cookie", first.cookie()
    yield "it writes", first.write(entry)
    yield "a higher one takes over", second.arbitrate()
    lost = first.next("arbitration")
    yield "the first is told", (code(lost.status.code), lost.election_id.low)
    yield "it may not write any more", first.write((DELETE, entry[1]))
    yield "it may read", first.read(p.l2(b"\x21"))
    yield "it may not push", first.push(p.info, p.json)
    yield "the second writes", second.write((DELETE, entry[1]))
    yield "not under the id of another", second.write(entry, election=first.election)
    third = Session(address, 9)
    yield "the same id again", third.arbitrate()
    third.close()
    other = Session(address, 20)
    yield "another device", other.arbitrate(device=2)
    other.close()
    yield "writing to another device", second.write(entry, device=2)
    yield "reading from another device", second.read(p.l2(b"\x21"), device=2)
    second.close()
    back = first.next("arbitration")
    yield "the second goes", code(back.status.code)
    first.close()


def answers(switch, p):
    """All questions and answers, by name."""
    out = {}

    def ask(part, questions):
        for name, answer in questions:
            key = f"{part}: {name}"
            count = 2
            while key in out:
                key = f"{part}: {name} ({count})"
                count += 1
            out[key] = answer

    ask("arbitration", arbitration(switch.address, p))
    s = Session(switch.address, 100)
    out["arbitration: a new one"] = s.arbitrate()
    out["pipeline"] = s.push(p.info, p.json)
    for part in (tables, profiles, cells, replication):
        ask(part.__name__, part(s, p))
    ask("packets", packets(s, p, switch))
    s.close()
    return out


def main(binary, programs, bmv2=None):
    p = Program(Path(programs))
    ours = SwitchProcess(binary)
    got = {name: repr(answer) for name, answer in answers(ours, p).items()}
    ours.close()
    golden = Path(__file__).with_name("entities.golden")
    if os.environ.get("ZSR_WRITE_GOLDEN") == "1":
        golden.write_text("".join(f"{name} -> {answer}\n" for name, answer in got.items()))
    wanted = dict(line.split(" -> ", 1) for line in golden.read_text().splitlines())
    failed = 0
    for name in wanted | got:
        if got.get(name) != wanted.get(name):
            failed += 1
            print(f"FAILED: {name}\n  wanted {wanted.get(name)}\n  got    {got.get(name)}")
    print(f"entities: {len(got)} answers, {failed} of them wrong")
    if bmv2 is None:
        print("entities: not held against bmv2: there is no simple_switch_grpc on PATH, nor does ZSR_BMV2 name one")
        return 1 if failed else 0
    theirs = Bmv2Process(bmv2)
    their = {name: repr(answer) for name, answer in answers(theirs, p).items()}
    theirs.close()
    others = {name for name in got if got[name] != their.get(name)}
    for name in sorted(others - set(BMV2_DIFFERS)):
        failed += 1
        print(f"FAILED: bmv2 answers otherwise: {name}\n  ours {got[name]}\n  bmv2 {their.get(name)}")
    print(f"entities: bmv2 gives {len(got) - len(others)} of {len(got)} answers too, and others for known reasons:")
    for name in sorted(others & set(BMV2_DIFFERS)):
        print(f"  {name}: {BMV2_DIFFERS[name]}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
