#!/usr/bin/env python3
"""check.py IMAGE LAB ITEMS ZSR CUDA: the flows of tests/rxe/run, over guests whose NICs are the Linux kernel's soft-RoCE."""
import re, subprocess, sys, tempfile
from bars import bars
from faults import faults
from guests import AGENT, Guest
from peers import AT, HOSTS, Failed, give, live, patiently, peers
from vlans import vlans

IMAGE, LAB, ITEMS, ZSR, CUDA = sys.argv[1], sys.argv[2], int(sys.argv[3]), *sys.argv[4:]


def topology(kind, producers, consumers, mtu, more, sizes):
    hosts = "".join(f"  - {{name: {h}, ip: {HOSTS[h][0]}, mac: '{HOSTS[h][1]}', mtu: {mtu}}}\n" for h in producers + consumers)
    # Timeouts are long: an emulated guest answers in milliseconds. Packet numbers wrap on the way.
    return (f"name: rxe\ndefaults: {{first_psn: 0xffffc0}}\nhosts:\n{hosts}flows:\n"
            f"  - {{name: f, kind: {kind}, producers: [{', '.join(producers)}], consumers: [{', '.join(consumers)}], "
            f"{sizes}, poll_timeout: 40ms, rto: 40ms, {more or 'poll_interval: 500us'}}}\n"
            "workload: {kind: synthetic, items: 1}\n")


SMALL = "item_size: 1024, ring_size: 64KiB, max_batch: 16384"


def run(guests, folder, name, kind, producers, consumers, mtu, extra=(), fails=None, more="", program="zsr-lab", items=ITEMS, sizes=SMALL):
    """One flow, every item checked in the guests. `fails`: what the switch must say instead."""
    text = topology(kind, producers, consumers, mtu, more, sizes)
    path = folder + "/topology.yaml"
    open(path, "w").write(text)
    used, hosts, agents, ports = producers + consumers, [], [], []
    for h in used:
        g = guests[h]
        g.run("cat > /tmp/topology.yaml", text.encode())
        hosts.append(g.popen(f"{program} host --topology /tmp/topology.yaml --host {h} --listen 0.0.0.0:{AGENT} --items {items} --verbs rxe0"))
        agents += ["--agent", f"{h}=127.0.0.1:{g.agent_port}"]
        ports += ["--port", f"{h}=unix:{g.far},{g.cable}"]
    fabric = subprocess.run([LAB, "fabric", "--topology", path, *agents, *ports, *extra],
                            capture_output=True, text=True)
    said = fabric.stdout + fabric.stderr
    if fails or fabric.returncode != 0:
        for h in used:
            guests[h].run("killall zsr-lab")
    outcomes = {h: c.wait() for h, c in zip(used, hosts)}
    if fails:
        if fabric.returncode == 0 or not fails(said):
            raise Failed(f"{name}: it should have failed, and did not as expected:\n{said}\n{outcomes}")
        print(f"OK rxe: {name}", flush=True)
        return
    broken = {h: o for h, o in outcomes.items() if o[0] != 0}
    if fabric.returncode != 0 or broken:
        raise Failed(f"{name}:\n{said}\n" + "\n".join(f"{h}: {o[1]}" for h, o in outcomes.items()))
    # "h3: f.h3: 50 items, each as it should be, order HASH sum N"
    lines = [line.split() for h in consumers for line in outcomes[h][1].splitlines() if "items, each" in line]
    count, total = (sum(int(words[at]) for words in lines) for at in (2, -1))
    copies = 1 if kind == "load-balance" else len(consumers)
    streams = len(producers) * copies
    if (count, total) != (streams * items, streams * items * (items - 1) // 2):
        raise Failed(f"{name}: {count} items came, their numbers' sum is {total}: some are lost or doubled")
    if kind == "replicate" and len({words[-3] for words in lines}) != 1:
        raise Failed(f"{name}: consumers have seen different orders: {lines}")
    faults = sum(int(f) for f in re.findall(r"faults: (\d+)", said))
    if bool(faults) != ("--loss" in extra):
        raise Failed(f"{name}: {faults} frames were lost on purpose")
    after = next(line.split("OK ")[1] for line in said.splitlines() if line.startswith("fabric: OK"))
    print(f"OK rxe: {name}: {count} items checked, {after}" + (f", {faults} frames lost on the way" if faults else ""), flush=True)


def main():
    with tempfile.TemporaryDirectory(prefix="zsr-guests-") as folder:
        guests = {}
        try:
            for h, (ip, mac) in HOSTS.items():
                guests[h] = Guest(IMAGE, folder, h, ip, mac, 9000)
            for g in guests.values():
                g.wait_ready()
            everything(guests, folder)
        except (Failed, RuntimeError, TimeoutError, OSError) as e:
            print(f"FAILED rxe: {e}")
            for g in guests.values():
                print(f"--- console of {g.name}\n{g.log()[-800:]}")
            sys.exit(1)
        finally:
            for g in guests.values():
                g.end()


def bad_input(guests, flow):
    """What a NIC that can't do it gets: a message that says what to change."""
    h1 = guests["h1"]

    def refused(name, line, *words):
        status, said = h1.run(f"timeout -s KILL 300 {line}")
        if status == 0 or not all(w in said for w in words):
            raise Failed(f"{name}: expected an error with {words}, got {status}: {said}")
        print(f"OK rxe: {name}: {said.strip().removeprefix('zsr-lab: ')}", flush=True)

    host = f"zsr-lab host --topology /tmp/topology.yaml --host h1 --listen 0.0.0.0:{AGENT} --items 1 --verbs "
    refused("missing device", host + "mlx5_0", "no RDMA device mlx5_0", "there are: rxe0")
    h1.run("ip addr del 10.0.1.1/16 dev eth0")
    refused("no RoCEv2 GID with an IPv4 address", host + "rxe0", "no RoCEv2 GID", "ip addr add")
    h1.run("ip link set eth0 down")
    refused("port down", host + "rxe0", "ip link set")
    h1.run("ip link set eth0 up; ip addr add 10.0.1.1/16 dev eth0")

    def says(*words):
        return lambda said: all(w in said for w in words)

    h1.run("ip link set eth0 mtu 1500")
    flow("path MTU 4096 on an interface of MTU 1500 is refused", "shuffle", ["h1"], ["h3"], 4096, fails=says("path MTU", "4096 B", "1024 B"))
    h1.run("ip link set eth0 mtu 9000")
    # Root may lock what it likes, so somebody else tries.
    for h in ("h1", "h3"):
        guests[h].run("chmod 666 /dev/infiniband/*; chmod 1777 /tmp; grep -q nobody /etc/passwd || echo nobody:x:65534:65534::/tmp:/bin/sh >> /etc/passwd")
    flow("too small a memlock limit is refused", "shuffle", ["h1"], ["h3"], 1024, program="ulimit -l 16; exec su -s /usr/bin/zsr-lab -- nobody",
         fails=says("may lock 16384 bytes", "ulimit -l unlimited"))


LOSS = 0.02


def product(guests, folder, kind, mtu):
    """The product's own processes: `zsr agent` in the guests, `zsr up` outside, programs at the agents' rings."""
    text, items = peers(guests, kind, mtu, LOSS), ITEMS * mtu // 1024
    path = folder + "/peers.yaml"
    open(path, "w").write(text)
    give(guests, text)
    # A link keeps the order, so a NIC that sees a number come too early has missed a frame.
    missed = {h: -guests[h].counter("out_of_seq_request") for h in ("h3", "h4")}
    agents = {name: g.popen(f"{AT} zsr agent /tmp/peers.yaml {name} --listen 0.0.0.0:{AGENT}") for name, g in guests.items()}
    with live.System(ZSR, path) as s:
        patiently(s.up)
        flow = s.json("flow", "show", "f")[0]
        rings = [(side, m["host"], r["name"]) for side in ("producers", "consumers") for m in flow[side] for r in m["rings"]]
        numbers = {ring: n for n, (side, _, ring) in enumerate(rings) if side == "producers"}
        programs = []
        for side, host, ring in rings:
            at = f"zsr-lab program --socket /run/zsr/peers/programs-{list(HOSTS).index(host)} --ring {ring} --item-size 1024"
            if side == "producers":
                line = f"{at} --push {items} --number {numbers[ring]}"
            else:
                # A shuffle's rings end with the consumer that they feed.
                feed = [n for r, n in numbers.items() if kind != "shuffle" or r.endswith("." + host)]
                line = f"{at} --pop {','.join(map(str, feed))}" + (" --shared" if kind == "load-balance" else "")
            programs.append((side, line, guests[host].popen(line)))
        said = []
        for side, line, program in programs:
            status, text = program.wait()
            if status != 0:
                raise Failed(f"{kind} by zsr agent: {line}: {text}\n{s.json('events')}")
            if side == "consumers":
                said.append(text.split("items, each")[0].split()[-1:] + text.split())
        count, total = (sum(int(words[at]) for words in said) for at in (0, -1))
        copies = 2 if kind == "replicate" else 1
        pushed = len(numbers) * items * copies
        if (count, total) != (pushed, len(numbers) * copies * (items * (items - 1) // 2)):
            raise Failed(f"{kind} by zsr agent: {count} items came of {pushed}, their numbers' sum is {total}")
        if kind == "replicate" and len({words[-3] for words in said}) != 1:
            raise Failed(f"consumers have seen different orders: {said}")
        s.down()
    missed = {h: n + guests[h].counter("out_of_seq_request") for h, n in missed.items()}
    if not any(missed.values()):
        raise Failed(f"{kind} by zsr agent: no frame was lost: {missed}")
    for name, g in guests.items():
        g.run("killall zsr")
        status, text = agents[name].wait()
        left = g.run("rdma resource show qp 2>/dev/null | grep -c 'type RC'; ls /run/zsr/peers")[1].split()
        if status != 0 or left[0] != "0" or any(f.startswith(("agent-", "programs-")) for f in left):
            raise Failed(f"the agent of {name} ended with {status}, left {left}: {text}")
    print(f"OK rxe: {kind} by zsr up and zsr agent, {LOSS:.0%} of frames lost each way, path MTU {mtu}: {count} items checked, {sum(missed.values())} gaps "
          "seen by the consumers' NICs, no queue pair left", flush=True)


def product_refuses(guests):
    """What `zsr agent` says of a NIC that can't do it."""
    h1, text = guests["h1"], peers(guests, "shuffle", 1024)

    def refused(name, edit, *words):
        give({"h1": h1}, edit(text))
        status, said = h1.run(f"{AT} timeout -s KILL 300 zsr agent /tmp/peers.yaml h1 --listen 0.0.0.0:{AGENT}")
        left = h1.run("ls /run/zsr/peers | grep -vE '(pid|recipe)$'")[1].split()
        if status != 1 or left or not all(w in said for w in words):
            raise Failed(f"{name}: expected an error with {words}, got {status}: {said} {left}")
        print(f"OK rxe: zsr agent: {name}: {said.strip().removeprefix('error: ')}", flush=True)

    refused("missing device", lambda t: t.replace("device: rxe0", "device: mlx5_0"), "no RDMA device mlx5_0", "there are: rxe0")
    refused("another address than the topology's", lambda t: t.replace(":01'", ":77'"), "02:00:00:01:00:01", "put mac")
    refused("a GID index without one", lambda t: t.replace("device: rxe0", "device: rxe0, gid_index: 200"), "at index 200")
    refused("an address that no GID has", lambda t: t.replace("10.0.1.1,", "10.0.9.9,"), "10.0.9.9", "ip addr add")


def everything(guests, folder):
    for kind, mtu in (("shuffle", 1024), ("load-balance", 4096), ("replicate", 4096)):
        product(guests, folder, kind, mtu)
    product_refuses(guests)
    vlans(ZSR, {h: guests[h] for h in ("h1", "h3")}, folder)
    faults(ZSR, {h: guests[h] for h in ("h1", "h3")}, folder, CUDA)
    bars(IMAGE, folder)

    def flow(name, *args, **more):
        run(guests, folder, name, *args, **more)

    one, two = ["h1"], ["h1", "h2"]
    to_one, to_two = ["h3"], ["h3", "h4"]
    flow("1:1, path MTU 1024", "shuffle", one, to_one, 1024)
    flow("1:1, path MTU 4096", "shuffle", one, to_one, 4096)
    flow("2:2 shuffle, path MTU 1024", "shuffle", two, to_two, 1024)
    flow("2:2 load balance, path MTU 4096", "load-balance", two, to_two, 4096)
    flow("2:2 replicate, path MTU 4096", "replicate", two, to_two, 4096)
    for mtu in (256, 512, 2048):
        flow(f"1:1 with 1 % of frames lost each way, path MTU {mtu}", "shuffle", one, to_one, mtu, extra=["--loss", "0.01"],
             items=ITEMS * max(mtu // 512, 1))
    flow("1:1, 100 MB, path MTU 4096", "shuffle", one, to_one, 4096, items=3200, sizes="item_size: 32KiB, ring_size: 1MiB, max_batch: 256KiB")
    for mtu in (1024, 4096):
        flow(f"2:2 shuffle with 1 % of frames lost each way, path MTU {mtu}", "shuffle", two, to_two, mtu, extra=["--loss", "0.01"])
    flow("1:1, path MTU 1024, polled once a second, doorbell on", "shuffle", one, to_one, 1024,
         more="poll_interval: 1s, doorbell: true")
    bad_input(guests, flow)
    # The kernel drops what has a wrong ICRC without a word, so nothing arrives; that it did above is the other half.
    flow("a switch that breaks the ICRC gets nothing across", "shuffle", one, to_one, 1024,
         extra=["--spoil-icrc", "--patience", "10"], fails=lambda said: "nothing has moved" in said and "('f.h3', 0, 0, " in said.replace('"', "'"))


main()
