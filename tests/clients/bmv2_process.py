"""bmv2's simple_switch_grpc as a child process: frames in and out over its gRPC data plane, which needs no root."""

import queue
import socket
import subprocess
import tempfile
import threading
import time

import grpc

CPU_PORT = 510


def _varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _request(packet):
    """A PacketStreamRequest: device_id is field 2, port 3, packet 4."""
    device, port, frame = packet
    numbers = b"".join(bytes([field << 3]) + _varint(value) for field, value in ((2, device), (3, port)))
    return numbers + bytes([4 << 3 | 2]) + _varint(len(frame)) + frame


def _response(data):
    """Port and packet of a PacketStreamResponse, whose fields have the same numbers."""
    at, port, packet = 0, 0, b""

    def varint():
        nonlocal at
        number = shift = 0
        while True:
            byte = data[at]
            at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    while at < len(data):
        tag = varint()
        value = varint()
        if tag & 7 == 2:
            packet, at = data[at : at + value], at + value
        elif tag >> 3 == 3:
            port = value
    return port, packet


def _free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Bmv2Process:
    """Runs BINARY as device 1 on free loopback ports; `address` is its P4Runtime server's."""

    def __init__(self, binary):
        p4runtime, dataplane, thrift = _free_ports(3)
        self.address = f"127.0.0.1:{p4runtime}"
        self.log = tempfile.TemporaryFile()
        command = [binary, "--no-p4", "--device-id", "1", "--log-level", "error", "--log-console"]
        command += ["--thrift-port", str(thrift), "--", "--grpc-server-addr", self.address]
        command += ["--dp-grpc-server-addr", f"127.0.0.1:{dataplane}", "--cpu-port", str(CPU_PORT)]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        self.channel = grpc.insecure_channel(f"127.0.0.1:{dataplane}")
        grpc.channel_ready_future(self.channel).result(timeout=30)
        with grpc.insecure_channel(self.address) as channel:
            grpc.channel_ready_future(channel).result(timeout=30)
        self.outgoing, self.frames = queue.Queue(), queue.Queue()
        self.stream = self.channel.stream_stream(
            "/p4.bm.DataplaneInterface/PacketStream", request_serializer=_request, response_deserializer=_response
        )
        self.thread = None

    def _read(self):
        """bmv2 takes packets from its first program on, and says so until then."""
        deadline = time.monotonic() + 30
        while True:
            try:
                for port, frame in self.stream(iter(self.outgoing.get, None)):
                    self.frames.put((port, frame))
                return
            except grpc.RpcError as error:
                if error.details() != "not ready" or time.monotonic() > deadline:
                    return
                time.sleep(0.01)

    def send(self, port, frame):
        """A frame comes in."""
        if self.thread is None:
            self.thread = threading.Thread(target=self._read, daemon=True)
            self.thread.start()
        self.outgoing.put((1, port, frame))

    def receive(self):
        """The next frame that leaves: port and bytes."""
        return self.frames.get(timeout=30)

    def close(self):
        """Ends it."""
        self.outgoing.put(None)
        self.channel.close()
        self.process.kill()
        self.process.wait(timeout=30)
