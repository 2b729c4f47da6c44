"""What happens to NICs, agents and hosts while a flow moves: every item is checked all the same."""
import os, signal, time
from guests import AGENT, PATIENCE
from peers import AT, Failed, give, live, patiently, peers

ROUND = 400  # items


class Flow:
    """The flow of a system of two guests, with a program at each end."""

    def __init__(self, system, guests, name="f"):
        self.system, self.name, self.pushed = system, name, 0
        flow = system.json("flow", "show", name)[0]
        (self.p, producer), (self.c, consumer) = ((flow[side][0]["host"], flow[side][0]["rings"][0]["name"])
                                                  for side in ("producers", "consumers"))
        number = {name: n for n, name in enumerate(guests)}
        line = lambda h, ring: f"zsr-lab program --socket /run/zsr/peers/programs-{number[h]} --ring {ring} --item-size 1024"
        self.consumer = guests[self.c].popen(line(self.c, consumer) + " --pop 0")
        self.producer = guests[self.p].popen(f"{line(self.p, producer)} --push {ROUND} --number 0 --rounds", ends=False)

    def push(self):
        self.producer.send(b"\n")
        self.pushed += ROUND

    def moved(self):
        """Waits until all that was pushed has moved."""
        def have():
            flows = self.system.json("top", "-n", "1")[-1]["flows"]
            return any(f["name"] == self.name and f["items"] >= self.pushed for f in flows), flows
        self.wait(f"{self.pushed} items were pushed, and do not come", have)

    def becomes_impaired(self, *words):
        """Waits until it is, for a reason with these words; events of what was before may still be on their way."""
        def is_so():
            flow = self.system.json("flow", "show", self.name)[0]
            return flow["state"] == "impaired" and all(w in flow["reason"] for w in words), (flow["state"], flow["reason"])
        self.wait(f"it does not become impaired with {words}", is_so)

    def wait(self, what, look):
        until = time.monotonic() + PATIENCE
        while True:
            done, seen = look()
            if done:
                return
            if time.monotonic() > until:
                raise Failed(f"flow {self.name}: {what}: {seen} {self.system.json('events')}")
            time.sleep(0.2)

    def end(self):
        """Ends the stream; the consumer's program checks each item on its way."""
        self.producer.end_input()
        said = [program.wait() for program in (self.producer, self.consumer)]
        if any(status for status, _ in said) or f": {self.pushed} items, each as it should be" not in said[1][1]:
            raise Failed(f"{self.pushed} items were pushed: {said} {self.system.json('events')}")


def faults(zsr, guests, folder, cuda):
    path, text = folder + "/peers.yaml", peers(guests, "shuffle", 1024)
    open(path, "w").write(text)
    give(guests, text)
    agent = lambda h: guests[h].popen(f"{AT} zsr agent /tmp/peers.yaml {h} --listen 0.0.0.0:{AGENT}")
    agents = {h: agent(h) for h in guests}
    with live.System(zsr, path) as s:
        patiently(s.up)
        flow = Flow(s, guests)
        a_gpus_memory(s, guests, flow, cuda)
        addresses(s, guests, flow)
        pauses(s, guests, flow)
        flow.end()
        s.run("flow", "delete", "f")
        for fault in (kill, unload):
            create(s, "f")
            fault(s, guests, Flow(s, guests), agents, agent)
        s.down()
    for h, g in guests.items():
        g.run("killall zsr")
        agents[h].wait()


def create(s, name, *more, code=0):
    return patiently(lambda: s.run("flow", "create", name, "-p", "h1", "-c", "h3", "--item-size", "1KiB", "--ring-size", "64KiB",
                                   "--max-batch", "16KiB", "--rto", "40ms", "--poll-timeout", "40ms", *more, code=code))


def a_gpus_memory(s, guests, flow, cuda):
    """The kernel's NIC takes no dma-buf: a ring in a GPU's memory is refused with the reason, and nothing of its flow is left."""
    guests["h1"].run("cat > /usr/lib/x86_64-linux-gnu/libcuda.so.1", open(cuda, "rb").read())
    said = create(s, "gpu", "--memory", "h1=gpu:0", code=2)
    left = s.json("flow", "list")
    if not all(w in said for w in ("`h1`", "rxe0", "GPU 0 (stand-in 0", "takes no dma-buf", "memory: gpu:0:host")) or len(left) != 1:
        raise Failed(f"a ring in a GPU's memory: {said} {left}")
    flow.push()
    flow.moved()
    print(f"OK rxe: a ring in a GPU's memory: {said.strip().removeprefix('error: ')}", flush=True)


def addresses(s, guests, flow):
    """The NIC's address goes and comes back; with a place in the NIC's table that a queue pair still names, it gets another."""
    last = lambda: s.json("events")[-1]["number"]

    def run(h, line):
        status, said = guests[h].run(line)
        if status != 0:
            raise Failed(f"{h}: {line}: {said}")

    def goes_on(what):
        flow.moved()
        print(f"OK rxe: {what}: the flow goes on", flush=True)

    for h in guests:
        address, side = f"{guests[h].ip}/16 dev eth0", "producer" if h == flow.p else "consumer"
        flow.push()
        run(h, f"for i in 1 2 3; do ip addr del {address}; ip addr add {address}; done")
        goes_on(f"the {side}'s address is taken away and given again three times")

        flow.push()
        before = last()
        run(h, f"ip addr del {address}")
        s.event(kind="link-down", host=h, text=guests[h].ip, after=before)
        flow.push()
        flow.becomes_impaired(guests[h].ip, "ip addr add")
        run(h, f"ip addr add {address}")
        s.event(kind="link-up", host=h, after=before)
        goes_on(f"the {side} has no address for a while")

        flow.push()
        before = last()
        run(h, "ip link set eth0 down")
        s.event(kind="link-down", host=h, text="ip link set", after=before)
        run(h, "ip link set eth0 up")
        s.event(kind="link-up", host=h, after=before)
        goes_on(f"the {side}'s interface goes down and up")

        flow.push()
        run(h, f"ip link set eth0 down; ip addr flush dev eth0; ip link set eth0 up; ip addr add {address}")
        goes_on(f"the {side}'s network service is started anew")

        flow.push()
        run(h, f"/usr/bin/ip addr change {address} valid_lft 60 preferred_lft 60; /usr/bin/ip addr change {address} valid_lft forever preferred_lft forever")
        goes_on(f"the {side}'s lease is renewed")
    create(s, "fresh")
    fresh = Flow(s, guests, "fresh")
    fresh.push()
    fresh.end()
    s.run("flow", "delete", "fresh")
    print("OK rxe: a flow that is created after that moves its items", flush=True)


def pauses(s, guests, flow):
    """Machines and an agent stand still for a while."""
    for h, g in guests.items():
        flow.push()
        os.kill(g.process.pid, signal.SIGSTOP)
        time.sleep(3)  # the pause is what is tried
        os.kill(g.process.pid, signal.SIGCONT)
        flow.moved()
    print("OK rxe: each machine stands still for 3 s: the flow goes on", flush=True)
    before = s.json("events")[-1]["number"]
    guests["h1"].run("killall -STOP zsr")
    s.event(kind="agent-lost", host="h1", after=before)
    flow.push()
    flow.moved()
    flow.becomes_impaired("h1", "agent is away")
    guests["h1"].run("killall -CONT zsr")
    s.event(kind="agent-found", host="h1", after=before)
    print("OK rxe: an agent stands still: its rings go on, and the flow is impaired until it is back", flush=True)


def anew(s, guests, flow, agents, agent, after):
    """A host whose queue pairs are gone: its agent and its flow are made anew, as the reason says."""
    s.run("flow", "delete", "f", "--force")
    flow.producer.end_input()
    for program in (flow.producer, flow.consumer):
        program.wait()
    guests["h1"].run("killall zsr")
    agents["h1"].wait()
    agents["h1"] = agent("h1")
    s.event(kind="agent-found", host="h1", after=after)
    create(s, "f")
    flow = Flow(s, guests)
    flow.push()
    flow.end()
    s.run("flow", "delete", "f")


def kill(s, guests, flow, agents, agent):
    flow.push()
    flow.moved()
    before = s.json("events")[-1]["number"]
    guests["h1"].run("killall -KILL zsr")
    s.event(kind="agent-lost", host="h1", after=before)
    flow.becomes_impaired("h1")
    left = guests["h1"].run("rdma resource show qp | grep -c 'type RC'")[1].split()[0]
    if left != "0":
        raise Failed(f"an agent that was killed has left {left} queue pairs")
    anew(s, guests, flow, agents, agent, before)
    print("OK rxe: an agent is killed: the flow is impaired, and moves when both are made anew", flush=True)


def unload(s, guests, flow, agents, agent):
    flow.push()
    flow.moved()
    before = s.json("events")[-1]["number"]
    # While an agent has a device open, its driver stays.
    status, said = guests["h1"].run("rmmod rdma_rxe")
    if status == 0:
        raise Failed("a driver was unloaded whose device is open")
    flow.push()
    flow.moved()
    # Waits until nobody has the device open.
    status, said = guests["h1"].run("rdma link del rxe0 && rmmod rdma_rxe && insmod /modules/rdma_rxe.ko && rdma link add rxe0 type rxe netdev eth0")
    if status != 0:
        raise Failed(f"the driver is not unloaded and loaded: {said}")
    s.event(kind="link-down", host="h1", text="was taken away", after=before)
    flow.becomes_impaired("rxe0", "start the agent anew")
    anew(s, guests, flow, agents, agent, before)
    print("OK rxe: the device's driver is unloaded and loaded: the agent lets go of it and says so; made anew, the flow moves", flush=True)
