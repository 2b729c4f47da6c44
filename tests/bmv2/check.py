#!/usr/bin/env python3
"""check.py ZSR BMV2 LINES: systems whose switch is bmv2, through `zsr up`; and what they get that can't be one."""
import hashlib, json, os, shutil, signal, socket, subprocess, sys, tempfile, time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from live import PATIENCE, Failed, System

ZSR, BMV2, LINES = sys.argv[1], sys.argv[2], int(sys.argv[3])
ONE = ROOT / "topologies/one-to-one.yaml"


def ok(what):
    print(f"OK bmv2: {what}", flush=True)


def drive(what, topology, *args):
    with System(ZSR, topology, *args) as s:
        s.up()
        came = [s.drive(flow["name"], LINES) for flow in s.json("flow", "list")]
        s.down()
    ok(f"{what}: {sum(came)} lines checked")


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def children(pid):
    """Processes that this one has started."""
    return [int(n) for task in Path(f"/proc/{pid}/task").iterdir() for n in (task / "children").read_text().split()]


def refused(what, words, *args, topology=ONE, system=()):
    with System(ZSR, topology, *args, *system) as s:
        done = subprocess.run([ZSR, "up", s.topology, *s.args], env=s.env, capture_output=True, text=True, timeout=120)
        if done.returncode not in (1, 2) or not all(w in done.stderr for w in words) or s.left():
            raise Failed(f"{what}: exit code {done.returncode}, left {s.left()}: {done.stderr}")
    ok(f"{what}: {done.stderr.splitlines()[-1].removeprefix('error: ')}")


class Running:
    """A bmv2 that nobody of ours has started."""

    def __init__(self, device, interfaces=None):
        """With the packet stream, or with `interfaces` (by port) of its own."""
        free = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
        self.address, self.packets, thrift = (f"127.0.0.1:{s.getsockname()[1]}" for s in free)
        for s in free:
            s.close()
        ports = [arg for port, name in (interfaces or {}).items() for arg in ("-i", f"{port}@{name}")]
        stream = [] if interfaces else ["--dp-grpc-server-addr", self.packets]
        self.process = subprocess.Popen(
            [BMV2, "--no-p4", "--device-id", str(device), "--thrift-port", thrift.split(":")[1], *ports, "--",
             "--grpc-server-addr", self.address, *stream, "--cpu-port", "510"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 60
        for at in (self.address, self.packets)[: 1 if interfaces else 2]:
            host, port = at.split(":")
            while True:
                try:
                    socket.create_connection((host, int(port))).close()
                    break
                except OSError:
                    if self.process.poll() is not None or time.monotonic() > until:
                        raise Failed("a bmv2 of its own does not come up")

    def args(self):
        return ["--bmv2", self.address, "--packets", self.packets]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def running():
    with Running(1) as bmv2:
        drive("a bmv2 that runs", ROOT / "topologies/shuffle-2x2.yaml", *bmv2.args())
        drive("the same bmv2 again, with another system", ROOT / "topologies/replicate.yaml", *bmv2.args())
        with System(ZSR, ONE, *bmv2.args()) as first:
            first.up()
            refused("a bmv2 whose packets somebody else takes", ["somebody else exchanges packets"], *bmv2.args(), system=["--system", "second"])
            os.kill(first.pids()["switch"], signal.SIGKILL)
            refused("a peer controller that holds the election id", ["another controller holds election id 1", "stop it first"],
                    *bmv2.args(), system=["--system", "second"])
            first.down()
        if bmv2.process.poll() is not None:
            raise Failed("a bmv2 that ran before does not run on")
        host, port = bmv2.address.split(":")
        refused("no packet stream at the address", ["--dp-grpc-server-addr"], "--bmv2", bmv2.address, "--packets", bmv2.address.replace(port, "1"))
        refused("neither packet stream nor an interface for ticks", ["--packets", "tick: {interface"], "--bmv2", bmv2.address)
    with Running(0) as bmv2:
        refused("another device id", ["--device-id 1", "device_id"], *bmv2.args())
        refused("nobody at the address", ["start bmv2 there"], "--bmv2", "127.0.0.1:1", "--packets", bmv2.packets)


# Packet numbers wrap within the first items.
INTERFACES = """name: interfaces
defaults: {{first_psn: 0xfffff8}}
switches:
  - {{name: s1, kind: bmv2, address: '{address}', tick: {{interval: 2ms, interface: ticks}}}}
hosts:
{hosts}
links:
{links}
flows:
  - {{name: shuffle, producers: [h1, h2], consumers: [h3, h4], item_size: 64, ring_size: 64KiB}}
  - {{name: balance, kind: load-balance, producers: [h1, h2], consumers: [h3, h4], item_size: 64, ring_size: 64KiB}}
  - {{name: replicate, kind: replicate, producers: [h1, h2], consumers: [h3, h4], item_size: 64, ring_size: 64KiB}}
workload: {{kind: synthetic}}
"""


def interfaces():
    """A bmv2 on interfaces of its own, as in a lab: veth pairs here, in a network namespace that ends with this process."""
    hosts = ["h1", "h2", "h3", "h4"]

    def ip(line):
        subprocess.run(["ip", *line.split()], check=True)

    Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
    ip("link set lo up")
    for near, far in [(h, "to-" + h) for h in hosts] + [("ticks", "to-ticks")]:
        ip(f"link add {near} mtu 9000 type veth peer name {far} mtu 9000")
        ip(f"link set {near} up")
        ip(f"link set {far} up")
    with Running(1, {n: "to-" + h for n, h in enumerate(hosts, 1)} | {500: "to-ticks"}) as bmv2:
        text = INTERFACES.format(
            address=bmv2.address,
            hosts="\n".join(f"  - {{name: {h}, nic: {{interface: {h}}}}}" for h in hosts),
            links="\n".join(f"  - {{from: {h}, to: s1:{n}}}" for n, h in enumerate(hosts, 1)))
        with tempfile.TemporaryDirectory(prefix="zsr-bmv2-") as folder:
            path = Path(folder) / "interfaces.yaml"
            path.write_text(text)
            drive("a bmv2 with interfaces of its own, every flow kind", path)
            with System(ZSR, path) as s:
                s.up()
                # Nothing of ours is at the switch's end.
                s.run("pcap", "h1-s1-1", "--host-end", "--count", "1", "-w", os.devnull)
                s.down()
            lost = Path(folder) / "lost.yaml"
            lost.write_text(text.replace("interface: ticks", "interface: nothing"))
            refused("no interface for ticks", ["nothing"], topology=lost)


def in_a_namespace():
    done = subprocess.run(["unshare", "-Urn", "ip", "link", "set", "lo", "up"], capture_output=True, text=True)
    if done.returncode != 0:
        print(f"SKIPPED: bmv2: interfaces of its own: no network namespace here: {done.stderr.strip()}", flush=True)
    elif subprocess.run(["unshare", "-Urn", sys.executable, *sys.argv[:4], "interfaces"]).returncode != 0:
        raise Failed("see above")


def bad_programs(folder):
    def script(name, data):
        path = folder / name
        path.write_bytes(data)
        path.chmod(0o755)
        return str(path)

    head = bytearray(Path(BMV2).read_bytes()[:4096])
    if head.startswith(b"\x7fELF"):
        head[18:20] = b"\x53\x00" if head[5] == 1 else b"\x00\x53"  # EM_AVR
        refused("a bmv2 for another machine", ["no program for this machine"], "--bmv2", script("avr", bytes(head)))
    refused("a bmv2 that is not there", ["No such file"], "--bmv2", str(folder / "nothing"))
    refused("a program that is no bmv2", ["unknown option --no-p4"], "--bmv2", script("odd", b"#!/bin/sh\necho unknown option $1 >&2; exit 1\n"))
    with System(ZSR, ONE, "--switch", "bmv2") as s:
        s.env = {k: v for k, v in s.env.items() if k != "ZSR_BMV2"} | {"PATH": str(folder)}
        said = s.up(code=1)
        if "no `simple_switch_grpc` on PATH" not in said or s.left():
            raise Failed(f"without bmv2 on PATH: {said}")
        ok("no bmv2 on PATH is said")
    # A program that bmv2 refuses: its JSON has a header type that is not there.
    artifacts = folder / "artifacts"
    shutil.copytree(ROOT / "p4/artifacts", artifacts)
    program = artifacts / "zsr-v1model.json"
    manifest = artifacts / "zsr-v1model.manifest.json"
    old = hashlib.sha256(program.read_bytes()).hexdigest()
    text = json.loads(program.read_text())
    text["headers"][0]["header_type"] = "no_such_type"
    program.write_text(json.dumps(text))
    manifest.write_text(manifest.read_text().replace(old, hashlib.sha256(program.read_bytes()).hexdigest()))
    refused("a JSON that bmv2 refuses", ["bmv2 does not take this program"], "--bmv2", BMV2, "--artifacts", str(artifacts))


def deaths():
    with System(ZSR, ONE, "--bmv2", BMV2) as s:
        s.up()
        [bmv2] = children(s.pids()["switch"])
        os.kill(bmv2, signal.SIGKILL)
        while s.pids()["switch"]:
            pass
        log = (Path(s.folder) / "zsr/one-to-one/switch.log").read_text()
        if "signal: 9" not in log:
            raise Failed(f"a bmv2 that dies ends its process with a reason: {log}")
        s.down()
        ok("a bmv2 that dies is said, and nothing is left")
        s.up()
        [bmv2] = children(s.pids()["switch"])
        os.kill(s.pids()["switch"], signal.SIGKILL)
        while alive(bmv2):
            pass
        s.down()
        ok("a process that is killed takes its bmv2 with it")
        s.up()
        [bmv2] = children(s.pids()["switch"])
        s.down()
        if alive(bmv2):
            raise Failed("bmv2 has outlived zsr down")
        ok("down leaves no process")


def restarts():
    """bmv2 dies under load and is started anew, twice in each flow: every line comes, once and in order."""
    for name in ["shuffle-2x2", "load-balance", "replicate"]:
        with System(ZSR, ROOT / f"topologies/{name}.yaml", "--bmv2", BMV2) as s:
            s.up()
            [flow] = [f["name"] for f in s.json("flow", "list")]
            killed = []

            def kill(came):
                for _ in range(2):
                    before, until = came(), time.monotonic() + PATIENCE
                    while came() < before + 1000:
                        if time.monotonic() > until:
                            raise Failed(f"{name}: nothing comes any more after {len(killed)} kills: {s.json('events')}")
                        time.sleep(0.005)
                    [bmv2] = children(s.pids()["switch"])
                    os.kill(bmv2, signal.SIGKILL)
                    s.run("restart", "switch")
                    killed.append(came())

            came = s.drive(flow, 100 * LINES, kill)
            s.down()
            # Otherwise there was no load.
            if sum(b > a for a, b in zip(killed, killed[1:])) != 1:
                raise Failed(f"{name}: nothing moved between two kills: {killed}")
        ok(f"{name}: a bmv2 that dies twice under load: {came} lines checked")


def main():
    try:
        if sys.argv[4:] == ["interfaces"]:
            interfaces()
            return
        if sys.argv[4:] == ["restarts"]:
            restarts()
            return
        restarts()
        in_a_namespace()
        for topology in sorted((ROOT / "topologies").glob("*.yaml")):
            drive(f"{topology.stem} on bmv2", topology, "--bmv2", BMV2)
        running()
        deaths()
        with tempfile.TemporaryDirectory(prefix="zsr-bmv2-") as folder:
            bad_programs(Path(folder))
    except (Failed, OSError, subprocess.SubprocessError) as e:
        print(f"FAILED bmv2: {e}")
        sys.exit(1)


main()
