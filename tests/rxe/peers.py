"""Topologies of guests, for `zsr up` outside of them and `zsr agent` inside."""
import sys, time
from pathlib import Path
from guests import PATIENCE

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import live

Failed = live.Failed
HOSTS = {f"h{n}": (f"10.0.1.{n}", f"02:00:00:01:00:{n:02x}") for n in (1, 2, 3, 4)}
AT = "XDG_RUNTIME_DIR=/run"

PEERS = """name: peers
switches: [{{name: s1, tick: 100us}}]
insecure: true
hosts:
{hosts}links:
{links}flows:
  - {{name: f, kind: {kind}, producers: [{producers}], consumers: [{consumers}], item_size: 1024, ring_size: 64KiB, max_batch: 16384,
     poll_interval: 500us, poll_timeout: 40ms, rto: 40ms}}
workload: {{kind: synthetic}}
"""


def peers(guests, kind, mtu, loss=0.005, vlans={}):
    """A flow from the first half of `guests` to the other; of all frames the part `loss` is lost each way. `vlans`: those of hosts."""
    hosts, links, names = "", "", list(guests)
    for n, (name, g) in enumerate(guests.items(), 1):
        vlan = f"vlan: {vlans[name]}, " if name in vlans else ""
        hosts += (f"  - {{name: {name}, ip: {g.ip}, mac: '{g.mac}', mtu: {mtu}, {vlan}nic: {{kind: verbs, device: rxe0}}, "
                  f"agent: '127.0.0.1:{g.agent_port}'}}\n")
        links += f"  - {{from: {name}, to: s1:{n}, sockets: {{switch: {g.far}, host: {g.cable}}}, faults: {{loss: {loss}}}}}\n"
    half = len(names) // 2
    return PEERS.format(hosts=hosts, links=links, kind=kind, producers=", ".join(names[:half]), consumers=", ".join(names[half:]))


def give(guests, text):
    for g in guests.values():
        g.run("cat > /tmp/peers.yaml", text.encode())


def patiently(do, *args):
    """Does what the controller gives agents ten seconds for, again if these were too few for an emulated guest."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return do(*args)
        except Failed as e:
            if "did not answer within" not in str(e) or time.monotonic() > until:
                raise

