"""Hosts on VLANs: the kernel tags what queue pairs send whose GID is that of a VLAN interface."""
from faults import Flow
from guests import AGENT
from peers import AT, Failed, give, live, patiently, peers

VLANS = {"h1": 100, "h3": 200}


def address(g, vlan, up):
    """Puts the guest's address on a VLAN interface, or back."""
    with_ip, name = f"{g.ip}/16 dev", f"eth0.{vlan}"
    line = (f"ip addr del {with_ip} eth0; ip link add link eth0 name {name} type vlan id {vlan} && ip addr add {with_ip} {name} && ip link set {name} up"
            if up else f"ip link del {name}; ip addr add {with_ip} eth0")
    status, said = g.run(line)
    if status != 0:
        raise Failed(f"{g.name}: {line}: {said}")


def vlans(zsr, guests, folder):
    for name, g in guests.items():
        address(g, VLANS[name], True)
    path, text = folder + "/vlans.yaml", peers(guests, "shuffle", 1024, vlans=VLANS)
    open(path, "w").write(text)
    h1 = guests["h1"]
    for edit, words in (("vlan: 300", ("100", "300")), ("", ("100",))):
        give({"h1": h1}, text.replace("vlan: 100, ", edit + ", " if edit else ""))
        status, said = h1.run(f"{AT} timeout -s KILL 300 zsr agent /tmp/peers.yaml h1 --listen 0.0.0.0:{AGENT}")
        if status != 1 or not all(w in said for w in ("eth0.100", *words)):
            raise Failed(f"an agent on VLAN 100 is told `{edit}`: {status}: {said}")
        print(f"OK rxe: zsr agent: a GID on another VLAN: {said.strip().removeprefix('error: ')}", flush=True)
    give(guests, text)
    agents = [g.popen(f"{AT} zsr agent /tmp/peers.yaml {name} --listen 0.0.0.0:{AGENT}") for name, g in guests.items()]
    with live.System(zsr, path) as s:
        patiently(s.up)
        flow = Flow(s, guests)
        flow.push()
        flow.moved()
        for name, g in guests.items():
            flow.push()
            again = f"{g.ip}/16 dev eth0.{VLANS[name]}"
            status, said = g.run(f"for i in 1 2 3; do ip addr del {again} && ip addr add {again} || exit 1; done")
            if status != 0:
                raise Failed(f"{name}: {said}")
            flow.moved()
            flow.push()
            address(g, VLANS[name], False)
            address(g, VLANS[name], True)
            flow.moved()
        flow.end()
        wrong = [e for e in s.json("events") if e["kind"] == "wrong-vlan"]
        if wrong:
            raise Failed(f"tags are not what they should be: {wrong}")
        s.down()
    for name, g in guests.items():
        g.run("killall zsr")
    for agent in agents:
        agent.wait()
    for name, g in guests.items():
        address(g, VLANS[name], False)
    print("OK rxe: from VLAN 100 to VLAN 200, each a VLAN interface of its kernel, whose address and then itself go and come back: all items checked", flush=True)
