#!/usr/bin/env python3
"""The example server itself: its command line, its ends, device 0 with a wrapped device config, assertions that do not hold.

Usage: example.py SERVER_BINARY PROGRAMS_FOLDER
"""

import json
import queue
import re
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import grpc
from google.protobuf import text_format
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc

p4 = p4runtime_pb2
BINARY, PROGRAMS = sys.argv[1], Path(sys.argv[2])


def wrapped(data):
    """p4.tmp.P4DeviceConfig: `reassign` (1) true, `device_data` (3)."""
    length, rest = b"", len(data)
    while rest > 127:
        length, rest = length + bytes([rest & 127 | 128]), rest >> 7
    return bytes([1 << 3, 1, 3 << 3 | 2]) + length + bytes([rest]) + data


def with_assertion():
    """p4runtime.json with an assertion that does not hold for EtherType 0x7777."""
    program = json.loads((PROGRAMS / "p4runtime.json").read_text())
    action = next(a for a in program["actions"] if "count" in [p["op"] for p in a["primitives"]])
    field = {"type": "field", "value": ["ethernet", "type"]}
    test = {"op": "!=", "left": field, "right": {"type": "hexstr", "value": "0x7777"}}
    source = {"filename": "p.p4", "line": 9, "column": 4, "source_fragment": "assert(hdr.ethernet.type != 0x7777)"}
    parameters = [{"type": "expression", "value": test}]
    action["primitives"].append({"op": "assert", "parameters": parameters, "source_info": source})
    return json.dumps(program).encode()


def ethernet(kind):
    return (bytes(12) + kind.to_bytes(2, "big") + bytes(46)).hex()


class Controller:
    """Primary for device 0, with the program that sends everything from port 1 on to port 3."""

    def __init__(self, address):
        election = p4.Uint128(low=1)
        channel = grpc.insecure_channel(address)
        stub = p4runtime_pb2_grpc.P4RuntimeStub(channel)
        self.out = queue.Queue()
        stream = stub.StreamChannel(iter(self.out.get, None))
        self.out.put(p4.StreamMessageRequest(arbitration=p4.MasterArbitrationUpdate(device_id=0, election_id=election)))
        assert next(stream).arbitration.status.code == 0
        info = text_format.Parse((PROGRAMS / "p4runtime.p4info.txtpb").read_text(), p4info_pb2.P4Info())
        request = p4.SetForwardingPipelineConfigRequest(device_id=0, election_id=election)
        request.action = p4.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT
        request.config.p4info.CopyFrom(info)
        request.config.p4_device_config = wrapped(with_assertion())
        stub.SetForwardingPipelineConfig(request)
        table = next(t for t in info.tables if t.preamble.alias == "l2").preamble.id
        action = next(a for a in info.actions if a.preamble.alias == "forward").preamble.id
        write = p4.WriteRequest(device_id=0, election_id=election)
        entry = write.updates.add(type=p4.Update.INSERT).entity.table_entry
        entry.table_id = table
        entry.match.add(field_id=1).exact.value = b"\0"
        entry.action.action.action_id = action
        entry.action.action.params.add(param_id=1, value=b"\3")
        stub.Write(write)


class Server:
    def __init__(self, *arguments, stdin=subprocess.PIPE):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([BINARY, *arguments], stdin=stdin, stdout=pipe, stderr=pipe, text=True)
        line = self.process.stdout.readline().strip()
        assert line.startswith("listening on "), line + self.process.stderr.read()
        self.address = line.removeprefix("listening on ")

    def frame(self, kind):
        print(1, ethernet(kind), file=self.process.stdin, flush=True)

    def end(self, with_signal=signal.SIGTERM):
        """Its exit status, and what is left of its output."""
        self.process.send_signal(with_signal)
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err


class Example(unittest.TestCase):
    def refused(self, *arguments):
        run = subprocess.run([BINARY, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        self.assertNotEqual(run.returncode, 0)
        return run.stderr

    def test_it_does_not_end_with_its_input(self):
        server = Server("127.0.0.1:0", stdin=subprocess.DEVNULL)
        with self.assertRaises(subprocess.TimeoutExpired):
            server.process.wait(timeout=1)
        host, port = server.address.split(":")
        socket.create_connection((host, int(port))).close()
        self.assertEqual(server.end(), (0, "", ""))
        self.assertEqual(Server("127.0.0.1:0").end(signal.SIGINT), (0, "", ""))

    def test_the_command_line_is_explained(self):
        shown = subprocess.run([BINARY, "--help"], capture_output=True, text=True, check=True).stdout
        for word in ["127.0.0.1:9559", "unix:/PATH", "--assert", "abort", "SIGTERM", "PORT HEX"]:
            self.assertIn(word, shown)
        for wrong in ["here", "127.0.0.1", "localhost:9559", "unix:here"]:
            self.assertRegex(self.refused(wrong), f"'{wrong}'.*expected IP:PORT or unix:/PATH")
        self.assertIn("'first'", self.refused("127.0.0.1:0", "first"))
        self.assertIn("another server has it", self.refused(self.running().address))

    def running(self):
        server = Server("127.0.0.1:0")
        self.addCleanup(server.end)
        return server

    def test_a_socket_is_there_as_long_as_the_server(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "p4runtime.sock")
            server = Server(f"unix:{path}")
            self.assertEqual((server.address, path.stat().st_mode & 0o777), (f"unix:{path}", 0o600))
            self.assertIn("another process listens", self.refused(f"unix:{path}"))
            self.assertEqual(server.end()[0], 0)
            self.assertFalse(path.exists())
            # One that a dead process has left.
            left = socket.socket(socket.AF_UNIX)
            left.bind(str(path))
            left.close()
            self.assertEqual(Server(f"unix:{path}").end(signal.SIGINT)[0], 0)
            self.assertFalse(path.exists())
            path.write_text("mine")
            self.assertIn("is no socket", self.refused(f"unix:{path}"))
            self.assertEqual(path.read_text(), "mine")

    def leaves(self, server):
        port, frame = server.process.stdout.readline().split()
        return int(port), frame

    def test_a_wrapped_program_runs_at_device_0(self):
        server = Server("127.0.0.1:0", "0")
        Controller(server.address)
        server.frame(0x1234)
        self.assertEqual(self.leaves(server), (3, ethernet(0x1234)))
        self.assertEqual(server.end(), (0, "", ""))

    def test_a_failed_assertion_is_told(self):
        line = r"p\.p4:9:4: assert\(hdr\.ethernet\.type != 0x7777\) does not hold \(1 more, 1 in all\)"
        server = Server("127.0.0.1:0", "0", "--assert", "count")
        Controller(server.address)
        for kind in [0x7777, 0x1234]:
            server.frame(kind)
            self.assertEqual(self.leaves(server), (3, ethernet(kind)))
        status, out, err = server.end()
        self.assertEqual((status, out), (0, ""))
        self.assertRegex(err, line)

        server = Server("127.0.0.1:0", "0", "--assert", "drop")
        Controller(server.address)
        server.frame(0x7777)
        server.frame(0x1234)
        self.assertEqual(self.leaves(server), (3, ethernet(0x1234)), "the first is dropped")
        status, out, err = server.end()
        self.assertEqual((status, out), (0, ""))
        self.assertRegex(err, line)

        server = Server("127.0.0.1:0", "0", "--assert", "abort")
        Controller(server.address)
        server.frame(0x7777)
        out, err = server.process.communicate(timeout=60)
        self.assertEqual((server.process.returncode, out), (1, ""))
        self.assertTrue(re.fullmatch(f"error: {line}\n", err), err)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
