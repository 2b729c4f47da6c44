#!/usr/bin/env python3
"""check.py SWITCH PROGRAM FOLDER: zsr-switch on veth pairs, in a network namespace that nobody else uses."""

import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

SWITCH, PROGRAM, FOLDER = sys.argv[1], sys.argv[2], Path(sys.argv[3])
PATIENCE = 30


class Failed(Exception):
    pass


def ok(what):
    print(f"OK switch: {what}", flush=True)


def check(is_so, what):
    if not is_so:
        raise Failed(what)


class Thrift:
    """Calls of bmv2's interface, put together byte by byte."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)

    @staticmethod
    def field(number, value):
        kind, body = {
            int: lambda: (8, struct.pack(">i", value)),
            str: lambda: (11, struct.pack(">i", len(value)) + value.encode()),
            float: lambda: (10, struct.pack(">q", int(value))),
        }[type(value)]()
        return struct.pack(">bh", kind, number) + body

    def call(self, name, *args):
        """The bytes of the answer behind its head; a float stands for an i64."""
        fields = b"".join(self.field(i + 1, value) for i, value in enumerate(args))
        head = struct.pack(">Ii", 0x80010001, len(name)) + name.encode() + struct.pack(">i", 9)
        self.socket.sendall(head + fields + b"\0")
        # The answer names the method without its service.
        head = 4 + 4 + len(name.split(":")[1]) + 4
        answer = b""
        while not (len(answer) > head and answer.endswith(b"\0")):
            more = self.socket.recv(65536)
            check(more, f"{name}: the connection ended behind {answer}")
            answer += more
        check(answer[3] == 2, f"{name}: {answer}")
        return answer[head:]


def veth(name):
    subprocess.run(["ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}-h"], check=True)
    for end in (name, f"{name}-h"):
        Path(f"/proc/sys/net/ipv6/conf/{end}/disable_ipv6").write_text("1")
        subprocess.run(["ip", "link", "set", end, "up"], check=True)
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    end.bind((f"{name}-h", 0))
    return end


def packet(number):
    return bytes([0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x88, 0xb5, number]) + bytes(45)


def got(end, many):
    """Numbers of the next packets."""
    numbers = []
    while len(numbers) < many:
        ready, _, _ = select.select([end], [], [], PATIENCE)
        check(ready, f"{len(numbers)} of {many} packets came: {numbers}")
        data = end.recv(2000)
        if data[12:14] == b"\x88\xb5":
            numbers.append(data[14])
    return numbers


def start(*args):
    switch = subprocess.Popen([SWITCH, *args], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    first, second = switch.stdout.readline(), switch.stdout.readline()
    check(first.startswith("P4Runtime at ") and second.startswith("simple_switch_CLI at "), f"{first}{second}")
    third = switch.stdout.readline()
    check(third.startswith("metrics at http://"), third)
    return switch, int(second.rsplit(":", 1)[1]), third.split()[-1]


def scrape(metrics):
    return urllib.request.urlopen(metrics, timeout=PATIENCE).read().decode()


def scraped(metrics, *wanted):
    lines = scrape(metrics).splitlines()
    for line in wanted:
        check(line in lines, f"{line} is not among the metrics: {lines}")


def run(threads):
    one, two, three = veth("one"), veth("two"), veth("three")
    commands = FOLDER / "commands.txt"
    # The entry of the program's own table `fixed` sends these packets to port 5; l2 comes behind it.
    commands.write_text("table_add l2 forward 00:00:00:00:00:01 => 2\n")
    captures = FOLDER / f"captures-{threads}"
    captures.mkdir()
    switch, port, metrics = start(
        PROGRAM, "-i", "1@one", "-i", "2@two", "--commands", str(commands), "--thrift-port", "0",
        "--threads", str(threads), "--pcap", str(captures), "--metrics", "127.0.0.1:0", "--", "--grpc-server-addr", "127.0.0.1:0",
    )
    try:
        thrift = Thrift(port)
        for n in range(20):
            one.send(packet(n))
        check(got(two, 20) == list(range(20)), "packets in their order")
        ok("commands are carried out before the first packet")
        scraped(
            metrics,
            'p4_port_received_packets_total{port="1",interface="one"} 20',
            'p4_port_sent_bytes_total{port="2",interface="two"} 1200',
            'p4_port_lost_packets_total{port="2",interface="two"} 0',
            'p4_port_up{port="2"} 1',
            'p4_port_waiting_packets{port="2"} 0',
            'p4_dropped_packets_total{cause="ingress"} 0',
            'p4_table_entries{table="In.l2"} 1',
            'p4_table_size{table="In.l2"} 16',
            "# EOF",
        )
        ok("metrics count packets and entries")

        shown = thrift.call("standard:bm_dev_mgr_show_ports")
        check(b"one" in shown and b"two" in shown and b"three" not in shown, f"ports: {shown}")
        thrift.call("standard:bm_dev_mgr_add_port", "three", 3, "")
        three.send(packet(77))
        check(got(two, 1) == [77], "a port that came later")
        for wrong in (("three", 4), ("four", 4), ("one", 3), ("lo", 510), ("lo", 600)):
            answer = thrift.call("standard:bm_dev_mgr_add_port", *wrong, "")
            check(answer[:3] == b"\x0c\0\1", f"{wrong}: {answer}")
        thrift.call("standard:bm_dev_mgr_remove_port", 3)
        check(b"three" not in thrift.call("standard:bm_dev_mgr_show_ports"), "a port that went")
        ok("ports come and go")

        # One packet per second: the first passes, one waits, the others are lost.
        thrift.call("simple_switch:set_egress_queue_rate", 2, 1.0)
        thrift.call("simple_switch:set_egress_queue_depth", 2, 1)
        for n in range(5):
            one.send(packet(100 + n))
        check(got(two, 2) == [100, 101], "a queue of one packet")
        thrift.call("simple_switch:set_egress_queue_depth", 2, 64)
        thrift.call("simple_switch:set_egress_queue_rate", 2, 0.0)
        one.send(packet(110))
        check(got(two, 1) == [110], "a queue without limits again")
        # Ten at a rate of one per second, and then without one: those that wait leave at once.
        thrift.call("simple_switch:set_egress_queue_rate", 2, 1.0)
        for n in range(10):
            one.send(packet(130 + n))
        check(got(two, 1) == [130], "the first of ten packets")
        if threads == 1:
            waiting = re.findall(r'^p4_port_waiting_packets\{port="2"\} ([0-9])$', scrape(metrics), re.M)
            check(waiting and waiting[0] != "0", f"of nine packets wait {waiting}")
        thrift.call("simple_switch:set_egress_queue_rate", 2, 0.0)
        check(got(two, 9) == list(range(131, 140)), "packets that waited behind a rate")
        ok("queues have the depth and the rate that are asked for")

        subprocess.run(["ip", "link", "set", "two", "down"], check=True)
        until = time.monotonic() + PATIENCE
        while b"\2\0\3\0" not in thrift.call("standard:bm_dev_mgr_show_ports"):
            check(time.monotonic() < until, "an interface that is down is shown as up")
            one.send(packet(120))
        subprocess.run(["ip", "link", "set", "two", "up"], check=True)
        ok("an interface that is down is shown so")
        again = subprocess.run(
            [SWITCH, PROGRAM, "--thrift-port", str(port), "--", "--grpc-server-addr", "127.0.0.1:0"],
            capture_output=True, text=True, timeout=PATIENCE,
        )
        check(again.returncode == 2 and f"--thrift-port {port}" in again.stderr, f"a second one: {again}")
        ok("a second switch at the same port is refused")
    finally:
        switch.send_signal(signal.SIGTERM)
        code = switch.wait(timeout=PATIENCE)
    check(code == 0, f"it ended with {code}")
    sizes = {path.name: path.stat().st_size for path in captures.iterdir()}
    # A head of 24 bytes, and for each packet 16 more than it has: 20 came in at one, and more went out at two.
    check(sizes["one.pcap"] >= 24 + 20 * 76 and sizes["two.pcap"] >= 24 + 20 * 76, f"captures: {sizes}")
    ok("captures are there when it has ended")
    for end in ("one", "two", "three"):
        subprocess.run(["ip", "link", "delete", end], check=True)


try:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for threads in (1, 3):
        print(f"switch with {threads} thread(s):", flush=True)
        run(threads)
except Failed as failed:
    print(f"FAILED switch: {failed}", flush=True)
    sys.exit(1)
