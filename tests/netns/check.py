#!/usr/bin/env python3
"""check.py ZSR NAMESPACE LINES XDP: what tests/netns/run shows. NAMESPACE is empty, and its own; XDP 1 where AF_XDP is."""
import ctypes, glob, os, shutil, signal, socket, subprocess, sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from live import Failed, System

ZSR, SCRATCH, LINES, XDP = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "1"
NAME = f"t{os.getpid()}"
SHUFFLE = """name: shuffle
defaults: {mtu: %d, first_psn: 0xffffc0}
hosts: [h1, h2, h3, h4]
links:
  - {from: h1, to: s1:1, faults: {loss: %s}}
  - {from: h2, to: s1:2, faults: {loss: %s}}
  - {from: h3, to: s1:3, faults: {loss: %s}}
  - {from: h4, to: s1:4, faults: {loss: %s}}
flows:
  - {name: f, producers: [h1, h2], consumers: [h3, h4], item_size: 2KiB, ring_size: 256KiB, max_batch: 64KiB}
workload: {kind: synthetic}
"""


def ok(what):
    print(f"OK netns: {what}", flush=True)


def expect(what, good):
    if not good:
        raise Failed(what)
    ok(what)


def ip(line):
    subprocess.run(["ip", *line.split()], check=True)


def namespaces():
    done = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    return [line.split()[0] for line in done.stdout.splitlines() if line]


def write(system_text):
    path = Path("/tmp") / f"zsr-{NAME}.yaml"
    path.write_text(system_text)
    return path


def system(topology, *args, **more):
    return System(ZSR, topology, "--system", NAME, *args, **more)


def drive(what, topology, *args):
    with system(topology, *args) as s:
        s.up()
        came = [s.drive(flow["name"], LINES) for flow in s.json("flow", "list")]
        s.down()
    left = [n for n in namespaces() if n.startswith(f"zsr-{NAME}-")]
    if left:
        raise Failed(f"{what}: namespaces are left: {left}")
    ok(f"{what}: {sum(came)} lines checked")


def inside(namespace, interface):
    """A socket on an interface of another namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/self/ns/net") as here, open(f"/run/netns/{namespace}") as there:
        if libc.setns(there.fileno(), 0x40000000) != 0:
            raise OSError(ctypes.get_errno(), "setns")
        try:
            s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            s.bind((interface, 0))
            s.setsockopt(263, 8, 1)  # SOL_PACKET, PACKET_AUXDATA: the kernel takes VLAN tags out
            s.settimeout(20)
        finally:
            libc.setns(here.fileno(), 0x40000000)
    return s


def receive(s, wanted):
    """Whether a frame with these bytes behind its addresses comes; others' are passed over."""
    while True:
        data, control, _, address = s.recvmsg(10000, 100)
        if address[2] == 4:  # our own
            continue
        for level, kind, aux in control:
            # tpacket_auxdata: TP_STATUS_VLAN_VALID, and the tag
            if (level, kind) == (263, 8) and int.from_bytes(aux[:4], sys.byteorder) & 0x10:
                tag, kind_of_tag = (int.from_bytes(aux[at : at + 2], sys.byteorder) for at in (16, 18))
                data = data[:12] + kind_of_tag.to_bytes(2, "big") + tag.to_bytes(2, "big") + data[12:]
        if data[12:] == wanted[12:]:
            return data == wanted


def frames():
    """What is no RoCE goes where its address says: every length up to an MTU of 9000, with tags and without."""
    with system(write("hosts: [h1, h2]\nflows: []\n"), "--netns") as s:
        s.up()
        hosts = {h["name"]: h for h in s.json("status")[0]["hosts"]}
        a, b = (inside(f"zsr-{NAME}-{h}", "eth0") for h in hosts)
        macs = [bytes((2, 0, 0, 1, 0, n)) for n in (1, 2)]
        for tag in (b"", b"\x81\x00\x60\x05", b"\x88\xa8\x00\x07\x81\x00\x00\x08"):
            # This system's sender has room for one plain tag beside an MTU, and for no other.
            for length in (60, 1514, 9014 if len(tag) < 8 else 9006):
                body = bytes((n * 31 + length) & 255 for n in range(length - 14))
                frame = macs[1] + macs[0] + tag + b"\x88\xb6" + body
                a.send(frame)
                expect(f"{len(frame)} B with tag {tag.hex() or 'none'} pass the switch whole", receive(b, frame))
        s.down()


def crashes():
    """Whatever dies, the next `up` or `down` takes it away."""
    topology = write(SHUFFLE % (4096, 0, 0, 0, 0))

    def kill_all(s):
        for pid in s.pids().values():
            os.kill(pid, signal.SIGKILL)
        while any(s.pids().values()):
            pass

    with system(topology, "--netns") as s:
        s.up()
        kill_all(s)
        expect("after a crash, up takes the namespaces away and makes them anew", "not ended in good order" in s.up())
        s.drive("f", 100)
        kill_all(s)
        # Somebody's program keeps a namespace alive, and yet its cable is gone.
        with subprocess.Popen(["ip", "netns", "exec", f"zsr-{NAME}-h1", "sleep", "1000"]) as stray:
            s.down()
            stray.kill()
        expect("after a crash, down leaves nothing", not [n for n in namespaces() if n.startswith(f"zsr-{NAME}-")])
        ip(f"netns add zsr-{NAME}-h2")
        said = s.up(code=1)
        expect("a namespace of somebody else's is not touched", f"ip netns delete zsr-{NAME}-h2" in said)
        expect("... and nothing is left", namespaces().count(f"zsr-{NAME}-h2") == 1 and f"zsr-{NAME}-h1" not in namespaces())
        ip(f"netns delete zsr-{NAME}-h2")


MIXED = """name: mixed
defaults: {mtu: 4096}
hosts:
  - {name: h1, nic: {interface: t-h1}, vlan: 100}
  - h2
  - {name: h3, nic: {kind: soft, interface: {name: t-h3}}}
links:
  - {from: h1, to: s1:1, interface: t-s1}
  - h2 -> s1:2
  - {from: h3, to: s1:3, interface: t-s3, faults: {loss: 0.01}}
flows:
  - {name: a, producers: [h1, h2], consumers: [h3], item_size: 1KiB}
  - {name: b, kind: replicate, producers: [h3], consumers: [h1, h2], item_size: 1KiB}
workload: {kind: synthetic}
"""


def plug(port):
    ip(f"-n {SCRATCH} link add t-s{port} mtu 9000 type veth peer name t-h{port} mtu 9000")
    for end in (f"t-s{port}", f"t-h{port}"):
        ip(f"-n {SCRATCH} link set {end} up")


def unplugged(s):
    """Interfaces that go down and vanish under a running system: events, state, and the system when they are back."""

    def state():
        shown = s.json("status")[0]
        troubles = {p["port"]: p["trouble"] for p in shown["switch"]["ports"] if p["trouble"]}
        return troubles | {h["name"]: h["trouble"] for h in shown["hosts"] if h["trouble"]}

    at_switch = lambda n: {"port": n, "interface": f"t-s{n}", "host": None}
    at_host = lambda n: {"port": n, "interface": f"t-h{n}", "host": f"h{n}"}
    expect("no port has a trouble at first", not state())
    ip(f"-n {SCRATCH} link set t-s1 down")
    said = s.event(kind="link-down", **at_switch(1), text="ip link set t-s1 up")
    s.event(kind="link-down", **at_host(1), text="no carrier")
    expect(f"an interface that goes down is an event, and so is the other end: {said['text']}",
           state().keys() == {1, "h1"} and state()[1] == said["text"])
    ip(f"-n {SCRATCH} link set t-s1 up")
    s.event(kind="link-up", **at_switch(1)), s.event(kind="link-up", **at_host(1))
    ip(f"-n {SCRATCH} link delete t-s3")
    said = s.event(kind="link-down", **at_switch(3), text="no interface t-s3")
    s.event(kind="link-down", **at_host(3), text="no interface t-h3")
    expect(f"an interface that vanishes is one: {said['text']}", state().keys() == {3, "h3"})
    plug(3)
    s.event(kind="link-up", **at_switch(3)), s.event(kind="link-up", **at_host(3))
    expect("events say when they are back, also made anew", not state())
    ip(f"-n {SCRATCH} link set t-h1 mtu 1500")
    said = s.event(kind="link-down", **at_host(1), text="mtu 4224")
    ip(f"-n {SCRATCH} link set t-h1 mtu 9000")
    expect(f"an MTU that becomes too small is one: {said['text']}", s.event(kind="link-up", after=said["number"], **at_host(1)))


def interfaces():
    """Interfaces that the topology names, in a namespace of this group's, which is entered for all of it."""
    ip(f"-n {SCRATCH} link set lo up")
    for port in (1, 3):
        plug(port)
    program = Path("/tmp") / f"zsr-{NAME}.sh"
    program.write_text(f'#!/bin/sh\nexec ip netns exec {SCRATCH} {ZSR} "$@"\n')
    program.chmod(0o755)
    topology = write(MIXED)

    def refused(what, *words):
        with System(str(program), topology, "--system", NAME) as s:
            said = s.up(code=1)
            if not all(w in said for w in words) or s.left():
                raise Failed(f"{what}: {said} {s.left()}")
            ok(f"{what}: {said.splitlines()[-1].removeprefix('error: ')}")

    with System(str(program), topology, "--system", NAME) as s:
        s.up()
        came = s.drive("a", LINES) + s.drive("b", LINES)
        unplugged(s)
        s.run("flow", "delete", "a")
        s.run("flow", "create", "again", "-p", "h1", "-c", "h3", "--item-size", "1KiB")
        came += s.drive("again", 100)
        s.down()
    ok(f"interfaces and sockets in one topology, interfaces that were down and gone: {came} lines checked")
    if XDP:
        names = ("t-h1", "t-s1", "t-s3")
        text = MIXED.replace("{name: t-h3}", "{name: t-h3, by: xdp}")
        for name in names:
            text = text.replace(f"interface: {name}", f"interface: {{name: {name}, by: xdp}}")
        write(text)
        with System(str(program), topology, "--system", NAME) as s:
            s.up()
            came = s.drive("a", LINES) + s.drive("b", LINES)
            s.down()
        ok(f"the same by AF_XDP: {came} lines checked")
        write(MIXED)
    ip(f"-n {SCRATCH} link set t-h3 mtu 1500")
    refused("small MTU at a NIC", "agent.h3 did not start", "has MTU 1500, the link needs 4224")
    ip(f"-n {SCRATCH} link set t-s1 mtu 1500")
    refused("small MTU at the switch", "the switch did not start", "t-s1 has MTU 1500, the link needs 4224")
    ip(f"-n {SCRATCH} link set t-s1 mtu 9000")
    ip(f"-n {SCRATCH} link set t-s1 down")
    refused("interface down", "ip link set t-s1 up")
    ip(f"-n {SCRATCH} link set t-s1 up")
    ip(f"-n {SCRATCH} link delete t-s3")
    refused("missing interface", "no interface t-s3")
    write(MIXED.replace("interface: t-s3", "interface: lo"))
    refused("not Ethernet", "not an Ethernet interface")
    if shutil.which("setpriv"):
        folder = Path(f"/tmp/zsr-{NAME}-nobody")
        nobody = ["setpriv", "--reuid", "65534", "--clear-groups", "env", f"XDG_RUNTIME_DIR={folder}", ZSR, "up"]
        folder.mkdir(mode=0o700)
        shutil.chown(folder, 65534)
        for what, words, args in (
            ("no privilege for raw frames", "setcap cap_net_raw", [str(topology)]),
            ("no privilege for namespaces", "need root", [str(ROOT / "topologies/one-to-one.yaml"), "--netns"]),
        ):
            done = subprocess.run(["ip", "netns", "exec", SCRATCH, *nobody, *args], capture_output=True, text=True)
            if done.returncode != 1 or words not in done.stderr:
                raise Failed(f"{what}: {done.stderr}")
            ok(f"{what}: {done.stderr.splitlines()[-1].removeprefix('error: ')}")
        shutil.rmtree(folder)


def tidy():
    """What runs left that were killed: names have the number of their process."""
    for place in glob.glob("/tmp/zsr-*/zsr/t[0-9]*"):
        number = os.path.basename(place)[1:]
        if number.isdigit() and not os.path.exists(f"/proc/{number}"):
            folder = os.path.dirname(os.path.dirname(place))
            subprocess.run([ZSR, "down", f"t{number}"], env=os.environ | {"XDG_RUNTIME_DIR": folder}, capture_output=True)
            shutil.rmtree(folder, ignore_errors=True)
    for name in namespaces():
        number = name.removeprefix("zsrtest-")
        if number != name and not os.path.exists(f"/proc/{number}"):
            ip(f"netns delete {name}")


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    tidy()
    try:
        for topology in sorted((ROOT / "topologies").glob("*.yaml")):
            drive(f"{topology.stem} in namespaces", topology, "--netns")
        for mtu in (1024, 4096):
            lossy = write(SHUFFLE % (mtu, *["0.01"] * 4))
            drive(f"2:2 shuffle with 1 % of frames lost each way, path MTU {mtu}", lossy, "--netns")
        bmv2 = os.environ.get("ZSR_BMV2") or shutil.which("simple_switch_grpc")
        if bmv2:
            drive("2:2 shuffle over bmv2 in namespaces", write(SHUFFLE % (1024, 0, 0, 0, 0)), "--netns", "--bmv2", bmv2)
        frames()
        crashes()
        interfaces()
    except (Failed, OSError, subprocess.SubprocessError) as e:
        print(f"FAILED netns: {e}")
        sys.exit(1)
    finally:
        for path in glob.glob(f"/tmp/zsr-{NAME}.*"):
            os.remove(path)


main()
