"""A system of processes (`zsr up`) whose flows are driven with `zsr produce` and `zsr consume`, and checked line by line."""
import json, os, shutil, subprocess, tempfile, threading, time

PATIENCE = 300  # seconds for one flow


class Failed(Exception):
    pass


class System:
    """`zsr up TOPOLOGY ARGS`, in a folder of its own; ends with the `with` block, however that ends."""

    def __init__(self, zsr, topology, *args, flows=True):
        self.zsr, self.topology = zsr, str(topology)
        self.args = list(args) + ([] if flows else ["--no-flows"])
        # Sockets have short paths.
        self.folder = tempfile.mkdtemp(prefix="zsr-", dir="/tmp")
        self.env = {k: v for k, v in os.environ.items() if k != "ZSR_SYSTEM"} | {"XDG_RUNTIME_DIR": self.folder}

    def run(self, *args, code=0):
        """What a command says, which has to end with `code`: its results, or if it is to fail its errors."""
        done = subprocess.run([self.zsr, *args], env=self.env, capture_output=True, text=True, timeout=PATIENCE)
        if done.returncode != code:
            raise Failed(f"zsr {' '.join(args)}: exit code {done.returncode}, not {code}: {done.stdout}{done.stderr}")
        return done.stderr if code or args[0] == "up" else done.stdout

    def json(self, *args):
        return [json.loads(line) for line in self.run(*args, "--json").splitlines()]

    def up(self, code=0):
        """Brings it up; returns what it says on the way."""
        return self.run("up", self.topology, *self.args, code=code)

    def start(self, *args, **more):
        return subprocess.Popen([self.zsr, *args], env=self.env, **more)

    def event(self, **wanted):
        """Waits for an event with these fields (`text`: words in it; `after`: a number), among those that were and those to come."""
        words, after = wanted.pop("text", ""), wanted.pop("after", 0)
        with self.start("events", "--follow", "--json", stdout=subprocess.PIPE, text=True) as watching:
            clock = threading.Timer(PATIENCE, watching.kill)
            clock.start()
            try:
                for event in map(json.loads, watching.stdout):
                    if event["number"] > after and words in event["text"] and wanted.items() <= event.items():
                        return event
            finally:
                clock.cancel()
                watching.kill()
        raise Failed(f"no event {wanted} {words!r} came: {self.json('events')}")

    def pids(self):
        done = subprocess.run([self.zsr, "status", "--json"], env=self.env, capture_output=True, text=True, timeout=PATIENCE)
        return {p["name"]: p["pid"] for p in json.loads(done.stdout)["processes"]}

    def left(self):
        """What is left of it in its folder."""
        root = os.path.join(self.folder, "zsr")
        return os.listdir(root) if os.path.exists(root) else []

    def down(self):
        self.run("down")
        if self.left():
            raise Failed(f"left behind: {self.left()}")

    def logs(self):
        texts = []
        for folder, _, names in os.walk(self.folder):
            for name in (n for n in names if n.endswith(".log")):
                with open(os.path.join(folder, name), errors="replace") as f:
                    texts.append(f"--- {name}\n{f.read()[-1500:]}")
        return "\n".join(texts)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            if kind:
                print(self.logs())
        finally:
            if self.left():
                subprocess.run([self.zsr, "down"], env=self.env, capture_output=True)
            shutil.rmtree(self.folder, ignore_errors=True)

    def drive(self, flow, lines, meanwhile=lambda came: None):
        """Every producer of `flow` pushes `lines` numbered lines; every consumer's are checked. Returns how many came.
        `meanwhile` is called while they do so, with what says how many bytes have come so far."""
        shown = self.json("flow", "show", flow)[0]
        names = {side: [m["name"] for m in shown[side]] for side in ("producers", "consumers")}
        work = os.path.join(self.folder, "lines")
        os.makedirs(work, exist_ok=True)
        path = lambda name: os.path.join(work, name)
        programs = []
        try:
            for c in names["consumers"]:
                with open(path("to-" + c), "wb") as out:
                    programs.append((f"consume {c}", self.start("consume", flow, "--member", c, stdout=out)))
            for p in names["producers"]:
                with open(path("from-" + p), "w") as f:
                    f.writelines(f"{n * 7919 % 1009},{p},{n},{'x' * (n % 11)}\n" for n in range(lines))
                with open(path("from-" + p), "rb") as source:
                    key = ["--key", "1"] if shown["kind"] == "shuffle" else []
                    programs.append((f"produce {p}", self.start("produce", flow, "--member", p, *key, stdin=source)))
            meanwhile(lambda: sum(os.path.getsize(path("to-" + c)) for c in names["consumers"]))
            until = time.monotonic() + PATIENCE
            # Consumers wait for ever for a producer that has failed, so producers are asked first.
            for what, program in sorted(programs, key=lambda p: p[0].startswith("consume")):
                if program.wait(max(until - time.monotonic(), 0)) != 0:
                    raise Failed(f"zsr {what}: exit code {program.returncode}")
        except subprocess.TimeoutExpired as e:
            raise Failed(f"flow {flow}: not done after {PATIENCE} s: {e.cmd}") from e
        finally:
            for _, program in programs:
                if program.poll() is None:
                    program.kill()
                    program.wait()
        read = lambda name: open(path(name)).read().splitlines()
        sent = {p: read("from-" + p) for p in names["producers"]}
        got = {c: read("to-" + c) for c in names["consumers"]}
        check(shown["kind"], sent, got)
        return sum(len(lines) for lines in got.values())


def check(kind, sent, got):
    """Everything once (with replicate: at every consumer, in one order), and in order per producer."""
    everything = sorted(line for lines in sent.values() for line in lines)
    outputs = list(got.values()) if kind == "replicate" else [[line for lines in got.values() for line in lines]]
    for output in outputs:
        if sorted(output) != everything:
            raise Failed(f"{len(output)} lines came of {len(everything)}: some are lost, doubled or damaged")
    if kind == "replicate" and any(output != outputs[0] for output in outputs):
        raise Failed("consumers have seen different orders")
    for consumer, lines in got.items():
        last, keys = {}, {}
        for line in lines:
            key, producer, number, _ = line.split(",")
            if int(number) <= last.get(producer, -1):
                raise Failed(f"{consumer}: line {number} of {producer} after line {last[producer]}")
            last[producer] = int(number)
    if kind == "shuffle":
        keys = [{line.split(",")[0] for line in lines} for lines in got.values()]
        if sum(len(k) for k in keys) != len(set().union(*keys)):
            raise Failed("lines of one key went to several consumers")
