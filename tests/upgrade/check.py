"""check.py OLD NEW: a system of the programs OLD becomes one of NEW while its flows run, and the other way round."""
import os, sys, tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from live import Failed, System

TOPOLOGY = """name: s
hosts: [h1, h2, h3, h4]
flows:
  - {name: split, kind: shuffle, producers: [h1, h2], consumers: [h1, h2], item_size: 256, ring_size: 64KiB}
  - {name: copies, kind: replicate, producers: [h1, h2], consumers: [h1, h2], item_size: 256, ring_size: 64KiB}
"""
LINES = 60_000


def upgrade(topology, before, after, what):
    with System(before, topology) as system:
        system.up()

        def restarted(*names):
            system.zsr = after
            for name in names:
                system.run("restart", name)
            system.zsr = before

        def meanwhile(flow, *names):
            """Restarts processes once all producers of the flow are there and some of it has come, and it goes on."""
            def restart(came):
                for member in ("h1", "h2"):
                    system.event(kind="program-attached", flow=flow, member=member)
                while came() == 0:
                    pass
                restarted(*names)
            return restart

        # An agent whose host has no rings; then flows between agents of both versions, made by the old controller.
        restarted("agent.h3")
        system.run("flow", "create", "first", "-p", "h3", "-c", "h4", "--item-size", "256")
        system.drive("first", 1000)
        system.run("flow", "delete", "first")
        system.drive("split", LINES, meanwhile("split", "controller"))
        system.drive("copies", LINES, meanwhile("copies", "switch"))
        # By the new controller, with an old agent and a new one, and with programs of both versions.
        for zsr in (before, after):
            system.zsr = zsr
            system.run("flow", "create", "second", "-p", "h1", "-p", "h3", "-c", "h2", "-c", "h4", "--item-size", "256")
            system.drive("second", 1000)
            system.run("flow", "delete", "second")
        restarted("agent.h4")
        # The events of this controller, which began in the middle of a flow.
        kinds = {event["kind"] for event in system.json("events")}
        if "flow-failed" in kinds:
            raise Failed(f"a flow has failed: {system.json('events')}")
        system.down()
    print(f"OK upgrade: {what}", flush=True)


def main(old, new):
    with tempfile.TemporaryDirectory() as work:
        topology = os.path.join(work, "s.yaml")
        with open(topology, "w") as f:
            f.write(TOPOLOGY)
        try:
            upgrade(topology, old, new, "agents, controller and switch, while flows run")
            upgrade(topology, new, old, "and back")
        except Failed as e:
            print(f"FAILED upgrade: {e}")
            return 1
    return 0


sys.exit(main(*sys.argv[1:3]))
