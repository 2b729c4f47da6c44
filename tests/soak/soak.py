#!/usr/bin/env python3
"""soak.py ZSR ENTRIES HOURS SEED: what tests/soak/run does. Ends with the first thing that is wrong."""
import collections, json, os, random, signal, subprocess, sys, tempfile, time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from live import PATIENCE, Failed, System
from programs import ITEM, Consumer, Producer, Wrong, check

ZSR, ENTRIES, HOURS, SEED = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
KINDS = ["shuffle", "load-balance", "replicate"]
# h5 has no member that has to live.
TOPOLOGY = """
name: soak
hosts: [h1, h2, h3, h4, h5]
links:
  - h1 -> s1:1
  - {from: h2, to: "s1:2", faults: {loss: 0.002, duplicate: 0.002, seed: 5}}
  - {from: h3, to: "s1:3", faults: {reorder: 0.002, corrupt: 0.001, seed: 6}}
  - h4 -> s1:4
  - h5 -> s1:5
flows: []
"""
HOSTS = ["h1", "h2", "h3", "h4"]
ROUND = 40  # seconds that flows of one round run, at most
RATE = 2000  # lines per second and producer
SLACK_KIB = 12 << 10  # memory that a process may grow by


class Quiet(System):
    """What programs beside say is shown when something is wrong."""

    def start(self, *args, **more):
        with open(os.path.join(self.folder, "beside.log"), "ab") as log:
            return super().start(*args, **({"stderr": log} | more))


def holds(pid):
    """Memory (KiB), files and threads of a process."""
    status = dict(l.split(":", 1) for l in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in l)
    return int(status["VmRSS"].split()[0]), len(os.listdir(f"/proc/{pid}/fd")), int(status["Threads"])


class Flow:
    def __init__(self, soak, name, kind):
        self.soak, self.name, self.kind, self.made = soak, name, kind, 0
        dice = soak.dice
        members = [f"-p{self.new('p')}@{dice.choice(HOSTS)}" for _ in range(2)] + [f"-c{self.new('c')}@{dice.choice(HOSTS)}" for _ in range(2)]
        soak.system.run("flow", "create", name, "--kind", kind, *members, "--item-size", str(ITEM), "--ring-size", "64KiB",
                        *([] if dice.random() < 0.5 else ["--doorbell", "false"]))
        self.producers = [Producer(soak.system, name, n, RATE) for n in ("p0", "p1")]
        self.steady, self.consumers, self.gone = Consumer(soak.system, name, "c2"), [Consumer(soak.system, name, "c3")], []

    def new(self, side):
        self.made += 1
        return f"{side}{self.made - 1}"

    def alive(self):
        return [p for p in self.producers if p.program is not None]

    def came(self):
        return sum(c.came() for c in [self.steady, *self.consumers, *self.gone])

    def end(self):
        for producer in self.producers:
            producer.finish()
        for consumer in [self.steady, *self.consumers]:
            consumer.finish()
        lines = check(self.kind, self.producers, self.steady, self.consumers + self.gone)
        self.soak.system.run("flow", "delete", self.name)
        for consumer in [self.steady, *self.consumers, *self.gone]:
            for path in consumer.parts:
                os.remove(path)
        return lines


class Soak:
    def __init__(self, system, dice):
        self.system, self.dice, self.flows = system, dice, []
        self.done, self.refused = collections.Counter(), collections.Counter()
        self.lines = self.rounds = 0
        self.first, self.last = {}, {}  # by process number: name, memory

    # What an operator does.

    def say(self, *args):
        """A change that may be refused, with a reason."""
        done = subprocess.run([ZSR, *args], env=self.system.env, capture_output=True, text=True, timeout=120)
        if done.returncode not in (0, 1) or (done.returncode and not done.stderr.splitlines()[-1].startswith("error: ")):
            raise Wrong(f"zsr {' '.join(args)}: exit code {done.returncode}: {done.stdout}{done.stderr}")
        if done.returncode:
            self.refused[" ".join(args[:2])] += 1
            self.why = done.stderr.splitlines()[-1]
        return done.returncode == 0

    def set(self, flow):
        pick = self.dice.choice
        self.say("flow", "set", flow.name, "--weight", pick(["1", "3", "1000"]), "--rate-cap", pick(["0", "0", "80Mbit"]),
                 "--poll-interval", pick(["20us", "100us", "5ms"]), "--max-batch", pick(["1KiB", "16KiB", "1MiB"]), "--hint", pick(["bandwidth", "latency"]))

    def join_producer(self, flow):
        if len(flow.alive()) < 4:
            name = flow.new("p")
            if self.say("flow", "add-producer", flow.name, f"{name}@{self.dice.choice(HOSTS)}"):
                flow.producers.append(Producer(self.system, flow.name, name, RATE))

    def join_consumer(self, flow):
        if len(flow.consumers) < 3:
            name = flow.new("c")
            if self.say("flow", "add-consumer", flow.name, f"{name}@{self.dice.choice(HOSTS)}"):
                flow.consumers.append(Consumer(self.system, flow.name, name))

    def leave_producer(self, flow):
        if len(flow.alive()) > 1:
            producer = self.dice.choice(flow.alive())
            producer.finish()
            self.say("flow", "remove-member", flow.name, producer.name)

    def leave_consumer(self, flow):
        if flow.consumers:
            consumer = self.dice.choice(flow.consumers)
            if self.say("flow", "remove-member", flow.name, consumer.name):
                flow.consumers.remove(consumer)
                consumer.finish()
                flow.gone.append(consumer)

    def hand_over(self, flow):
        if flow.alive():
            self.dice.choice(flow.alive()).hand_over()

    def beside(self, flow):
        """A flow that comes and goes."""
        kind, (one, other) = self.dice.choice(KINDS), self.dice.sample(HOSTS + ["h5"], 2)
        if self.say("flow", "create", "beside", "--kind", kind, "-p", one, "-c", other, "--item-size", "1KiB", "--ring-size", "16KiB"):
            self.lines += self.system.drive("beside", 300)
            self.system.run("flow", "delete", "beside")

    # What breaks.

    def kill_consumer(self, flow):
        self.dice.choice([flow.steady, *flow.consumers]).kill()

    def kill_producer(self, flow):
        if len(flow.alive()) > 1:
            self.dice.choice(flow.alive()).kill()

    def hang_agent(self, flow):
        pid = self.system.pids()[f"agent.{self.dice.choice(HOSTS)}"]
        os.kill(pid, signal.SIGSTOP)
        time.sleep(self.dice.uniform(0.05, 1.5))
        os.kill(pid, signal.SIGCONT)

    def kill_agent(self, flow):
        """With a flow between h5 and another host, which fails and is deleted."""
        if self.say("flow", "create", "doomed", "-p", "h5", "-c", "h4", "--policy", "abort"):
            self.kill("agent.h5")
            self.say("flow", "delete", "doomed", "--force")

    def kill_controller(self, flow):
        self.kill("controller")

    def kill_switch(self, flow):
        self.kill("switch")

    def kill(self, process):
        os.kill(self.system.pids()[process], signal.SIGKILL)
        time.sleep(self.dice.uniform(0, 0.5))
        self.system.run("restart", process)

    STEPS = [(set, 6), (join_producer, 4), (join_consumer, 4), (leave_producer, 3), (leave_consumer, 4), (hand_over, 4), (beside, 3),
             (kill_consumer, 3), (kill_producer, 1), (hang_agent, 2), (kill_agent, 1), (kill_controller, 1), (kill_switch, 1)]

    def round(self, until):
        """Flows of all kinds, and what comes over them; then everything is accounted for, and nothing is left."""
        self.flows = [Flow(self, f"f{at}", kind) for at, kind in enumerate(KINDS)]
        # The first is a short one: what processes hold then is what they may hold.
        until = min(until, time.monotonic() + (ROUND if self.rounds else min(ROUND, 3600 * HOURS / 3)))
        while True:
            step = self.dice.choices([s for s, _ in self.STEPS], [w for _, w in self.STEPS])[0]
            flow = self.dice.choice(self.flows)
            self.trace = f"{step.__name__} at {flow.kind}"
            before = [f.came() for f in self.flows]
            step(self, flow)
            self.done[step.__name__] += 1
            self.moves(before)
            if time.monotonic() > until:
                break
        self.trace = "the end of the flows"
        self.lines += sum(flow.end() for flow in self.flows)
        self.flows = []
        self.trace = "what is left"
        self.nothing_left()
        self.rounds += 1
        if self.rounds % 10 == 0:
            print(f"round {self.rounds}: {self.lines} lines so far", flush=True)

    def processes(self):
        """What the processes do, for who looks for the cause."""
        pids = [str(pid) for pid in self.system.pids().values() if pid]
        return subprocess.run(["ps", "-o", "pid,stat,etimes,time,wchan:20,args", "-p", ",".join(pids)], capture_output=True, text=True).stdout

    def moves(self, before):
        """Whatever was done, every flow with a producer moves on."""
        until = time.monotonic() + PATIENCE
        for flow, had in zip(self.flows, before):
            while flow.alive() and flow.came() <= had:
                if time.monotonic() > until:
                    raise Wrong(f"{flow.kind} stands still: {self.system.run('flow', 'list')}{self.system.run('events')[-3000:]}{self.processes()}load {os.getloadavg()}")
                time.sleep(0.05)

    def remains(self):
        done = subprocess.run([ZSR, "status", "--json"], env=self.system.env, capture_output=True, text=True, timeout=60)
        status = json.loads(done.stdout)
        numbers = tuple(status["switch"][n] for n in ("workers", "producer_rings", "queue_pairs"))
        address = Path(self.system.folder, "zsr", "soak", "p4runtime").read_text().strip()
        entries = subprocess.run([ENTRIES, address], capture_output=True, text=True, timeout=60)
        if entries.returncode:
            raise Wrong(f"zsr-entries: {entries.stderr}")
        processes = {p["pid"]: (p["name"], *holds(p["pid"])) for p in status["processes"]}
        return numbers, entries.stdout.strip(), len(self.system.run("ring", "list", "--json").splitlines()), processes

    def nothing_left(self):
        """Numbers, entries, groups and rings are as in the beginning; files and threads of each process as after its first round, memory
        nearly so. Connections of programs that have just ended may take a moment to go."""
        until = time.monotonic() + 30
        while True:
            numbers, entries, rings, processes = self.remains()
            wrong = []
            if not self.first and not hasattr(self, "empty"):
                self.empty = (numbers, entries, rings)
            if (numbers, entries, rings) != self.empty:
                wrong.append(f"{(numbers, entries, rings)}, not {self.empty}")
            for pid, (name, memory, files, threads) in processes.items():
                _, had, *kept = self.first.setdefault(pid, (name, memory, files, threads))
                if memory > had + SLACK_KIB or files > kept[0] or threads > kept[1]:
                    wrong.append(f"{name}: {memory} KiB, {files} files, {threads} threads; after its first round {had}, {kept[0]}, {kept[1]}")
            if not wrong:
                self.last = {pid: (name, self.first[pid][1], memory) for pid, (name, memory, *_) in processes.items()}
                return
            if time.monotonic() > until:
                raise Wrong("left behind: " + "; ".join(wrong))
            time.sleep(0.2)

    def report(self, begun):
        took = time.monotonic() - begun
        steps = ", ".join(f"{n} {what.replace('_', ' ')}" for what, n in sorted(self.done.items()))
        print(f"{self.rounds} rounds in {took / 60:.1f} min, {self.lines} lines, all accounted for; load {os.getloadavg()[1]:.1f}\nsteps: {steps}")
        if self.refused:
            print("refused: " + ", ".join(f"{n} {what}" for what, n in sorted(self.refused.items())) + f"; the last: {self.why}")
        for name, had, memory in sorted(self.last.values()):
            print(f"  {name}: {had} KiB after its first round, {memory} KiB now")


def main():
    begun = time.monotonic()
    until = begun + 3600 * HOURS
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as topology:
        topology.write(TOPOLOGY)
        topology.flush()
        with Quiet(ZSR, topology.name) as system:
            system.up()
            soak = Soak(system, random.Random(SEED))
            soak.nothing_left()
            soak.first.clear()
            try:
                # Two at least: the first says what there is.
                while soak.rounds < 2 or time.monotonic() < until:
                    soak.round(until)
                soak.report(begun)
            except (Wrong, Failed, subprocess.TimeoutExpired) as wrong:
                soak.report(begun)
                print(f"FAILED soak: seed {SEED}, round {soak.rounds + 1}, {soak.trace}: {wrong}")
                raise Failed("see above") from None
            finally:
                for flow in soak.flows:
                    for program in [*flow.producers, flow.steady, *flow.consumers, *flow.gone]:
                        if program.program is not None:
                            program.program.kill()
            system.down()
    print(f"OK soak: seed {SEED}")


# Asked to end: what runs is ended, too.
signal.signal(signal.SIGTERM, lambda *_: sys.exit("interrupted"))
try:
    main()
except Failed as wrong:
    sys.exit(f"FAILED soak: {wrong}")
