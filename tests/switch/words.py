#!/usr/bin/env python3
"""words.py SWITCH PROGRAM CLI [BMV2]: all of commands.txt, said by bmv2's own simple_switch_CLI to zsr-switch and to bmv2's simple_switch."""

import difflib
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

SWITCH, PROGRAM, CLI = sys.argv[1:4]
BMV2 = sys.argv[4] if len(sys.argv) > 4 else ""
COMMANDS = (Path(__file__).parent / "commands.txt").read_text()
PATIENCE = 60
# What differs: sockets of nanomsg, times; the ports of a LAG, where the command line shows those of some node. Values of parser value sets,
# to which the command line adds a byte that bmv2 keeps.
OTHER = re.compile(r"((?:notifications_socket|elogger_socket|debugger_socket|thrift_port|Life:|lag\(\d+\)).*)|^((?:RuntimeCmd: )*)00(\w+)$")


def said(port):
    done = subprocess.run(
        [CLI, "--thrift-port", str(port)], input=COMMANDS, capture_output=True, text=True, timeout=PATIENCE,
    )
    text = done.stdout + done.stderr
    if "Traceback" in text or "RuntimeCmd" not in text:
        sys.exit(f"FAILED switch: {CLI} at port {port}:\n{text[-2000:]}")
    lines = [OTHER.sub(lambda found: "" if found[1] else found[2] + found[3], line) for line in text.splitlines()]
    return blocks(lines)


def blocks(lines):
    """The lines, with entries, groups and values that stand in no order sorted: blocks between lines of stars, and runs of bare numbers."""
    out, block, all_blocks = [], [], None
    for line in lines:
        if line == "**********":
            all_blocks = [*(all_blocks or []), *([block] if block else [])]
            block = []
        elif all_blocks is not None and line.startswith("=========="):
            out += [one for part in sorted([*all_blocks, block]) for one in part] + [line]
            block, all_blocks = [], None
        elif all_blocks is not None:
            block.append(line)
        else:
            out.append(line)
    return out + block


def ours():
    switch = subprocess.Popen(
        [SWITCH, PROGRAM, "--thrift-port", "0", "--", "--grpc-server-addr", "127.0.0.1:0"],
        stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
    )
    switch.stdout.readline()
    return switch, int(switch.stdout.readline().rsplit(":", 1)[1])


def theirs():
    switch = subprocess.Popen(
        [BMV2, PROGRAM, "--thrift-port", "9090", "--log-file", "/dev/null"], stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    for _ in range(PATIENCE * 10):
        listens = subprocess.run(["ss", "-ltn"], capture_output=True, text=True, check=True).stdout
        if ":9090 " in listens:
            return switch, 9090
        time.sleep(0.1)
    sys.exit("FAILED switch: bmv2 does not come up")


def ask(start):
    switch, port = start()
    try:
        return said(port)
    finally:
        switch.send_signal(signal.SIGTERM)
        switch.wait(timeout=PATIENCE)


subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
mine = ask(ours)
print(f"OK switch: {len(COMMANDS.splitlines())} commands of simple_switch_CLI, {len(mine)} lines", flush=True)
if not BMV2:
    print("SKIPPED switch: bmv2's answers: no simple_switch on PATH, and ZSR_SIMPLE_SWITCH does not name one")
    sys.exit(0)
other = ask(theirs)
diff = list(difflib.unified_diff(other, mine, "bmv2", "zsr-switch", lineterm="", n=2))
if diff:
    sys.exit("FAILED switch: the answers differ:\n" + "\n".join(diff))
print("OK switch: bmv2 gives the same answers")
