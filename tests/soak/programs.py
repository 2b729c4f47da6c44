"""Programs of the soak: `zsr produce` that is fed without end, and `zsr consume` whose lines are kept."""
import os, re, signal, subprocess, threading, time

ENDS = 120  # seconds that a program may take to end


class Wrong(Exception):
    """What may not be."""


def line(flow, producer, number):
    return f"{number * 7919 % 1009},{flow}.{producer},{number},{'x' * (number % 11)}"


def attached(system, flow, member, program):
    """Waits until a program has its rings: before, it needs the controller."""
    until = time.monotonic() + ENDS
    rings = {r["name"] for r in system.json("ring", "list", flow) if r["member"] == member}
    while program.poll() is None and time.monotonic() < until:
        seen = [r for f in system.json("top", "-n", "1", "-i", "1ms")[0]["flows"] for r in f["rings"] if r["name"] in rings]
        if seen and all(r["attached"] for r in seen):
            return
    if program.poll() is None:
        raise Wrong(f"{flow} {member}: a program does not get its rings")


class Producer:
    """A member of a flow that pushes numbered lines, and what is known of them."""

    def __init__(self, system, flow, name, rate):
        self.system, self.flow, self.name, self.rate = system, flow, name, rate
        self.fed = self.from_line = 0  # lines that were given to programs; where the program that runs began
        self.killed = None  # how many lines there were when it was killed: some first ones of them come
        self.start()

    def start(self):
        self.log = open(os.path.join(self.system.folder, f"{self.flow}-{self.name}.err"), "w+b")
        self.program = self.system.start("produce", self.flow, "--member", self.name, "--key", "1", stdin=subprocess.PIPE, stderr=self.log)
        self.stop = threading.Event()
        self.feeder = threading.Thread(target=self.feed, args=(self.program, self.stop), daemon=True)
        self.feeder.start()
        attached(self.system, self.flow, self.name, self.program)

    def feed(self, program, stop):
        try:
            while not stop.wait(0.02):
                burst = max(int(self.rate * 0.02), 1)
                text = "".join(line(self.flow, self.name, self.fed + i) + "\n" for i in range(burst))
                # Counted first: what is under way when a program dies may have been taken.
                self.fed += burst
                program.stdin.write(text.encode())
                program.stdin.flush()
        except (BrokenPipeError, ValueError):
            pass

    def said(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def ends(self, code=0):
        try:
            got = self.program.wait(ENDS)
        except subprocess.TimeoutExpired:
            raise Wrong(f"produce {self.flow} {self.name} does not end: {self.said()}") from None
        if got != code:
            raise Wrong(f"produce {self.flow} {self.name}: exit code {got}, not {code}: {self.said()}")

    def finish(self):
        """The end of its input: all that it was given is pushed."""
        if self.program is None:
            return
        self.stop.set()
        self.feeder.join()
        self.program.stdin.close()
        self.ends()
        self.program = None

    def hand_over(self):
        """Asked to end by a signal: it says where a successor goes on."""
        self.stop.set()
        self.program.send_signal(signal.SIGTERM)
        try:
            code = self.program.wait(ENDS)
        except subprocess.TimeoutExpired:
            raise Wrong(f"produce {self.flow} {self.name} ignores SIGTERM: {self.said()}") from None
        self.feeder.join()
        told = re.search(r"--skip (\d+)", self.said())
        if not told:
            raise Wrong(f"produce {self.flow} {self.name}: exit code {code} after SIGTERM, and no --skip: {self.said()}")
        self.from_line += int(told[1])
        if self.from_line > self.fed:
            raise Wrong(f"produce {self.flow} {self.name} has pushed {self.from_line} of {self.fed} lines")
        self.fed = self.from_line
        self.start()

    def kill(self):
        """Dies without a word; a successor ends the stream."""
        self.stop.set()
        self.program.kill()
        self.program.wait()
        self.feeder.join()
        self.killed = self.fed
        done = subprocess.run([self.system.zsr, "produce", self.flow, "--member", self.name, "--key", "1"], env=self.system.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=ENDS)
        if done.returncode:
            raise Wrong(f"the successor of {self.name}, killed: exit code {done.returncode}: {done.stderr}")
        self.program = None


class Consumer:
    """A member of a flow that pops, and the lines of all programs that were it."""

    def __init__(self, system, flow, name):
        self.system, self.flow, self.name, self.parts = system, flow, name, []
        self.start()

    def start(self):
        path = os.path.join(self.system.folder, f"{self.flow}-{self.name}-{len(self.parts)}")
        self.parts.append(path)
        self.log = open(path + ".err", "w+b")
        with open(path, "wb") as out:
            self.program = self.system.start("consume", self.flow, "--member", self.name, "-q", stdout=out, stderr=self.log)
        attached(self.system, self.flow, self.name, self.program)

    def kill(self):
        self.program.kill()
        self.program.wait()
        self.start()

    def finish(self):
        if self.program is None:
            return
        try:
            code = self.program.wait(ENDS)
        except subprocess.TimeoutExpired:
            raise Wrong(f"consume {self.flow} {self.name} does not see the end of the stream") from None
        if code:
            self.log.seek(0)
            raise Wrong(f"consume {self.flow} {self.name}: exit code {code}: {self.log.read().decode(errors='replace')}")
        self.program = None

    def came(self):
        """How many bytes of lines have come."""
        return sum(os.path.getsize(path) for path in self.parts)

    def lines(self):
        """All lines once. What a program wrote of an item before it was killed, the next one writes again."""
        lines = []
        for path in self.parts:
            with open(path) as file:
                text = file.read()
            # A program that is killed may have written half a line.
            part = text[: text.rfind("\n") + 1].splitlines()
            again = 0
            if lines and part and part[0] in (tail := lines[-REPEATED:]):
                again = len(tail) - tail.index(part[0])
                if part[:again] != tail[-again:]:
                    raise Wrong(f"{self.flow}: behind {self.name}, killed, comes {part[:again]} after {tail[-again:]}")
            lines += part[again:]
        return lines


ITEM = 1024
REPEATED = ITEM // 8  # lines of one item, at most


def check(kind, producers, steady, others):
    """Every line once, in order per producer; those of a producer that was killed up to some line, at each consumer."""
    steady_lines = steady.lines()
    all_lines = [(steady, steady_lines)] + [(consumer, consumer.lines()) for consumer in others]
    counted = [(steady, steady_lines)] if kind == "replicate" else all_lines
    came = {}
    for consumer, lines in all_lines:
        last = {}
        for text in lines:
            _, who, number, _ = text.split(",")
            if int(number) <= last.get(who, -1):
                raise Wrong(f"{consumer.flow} {consumer.name}: line {number} of {who} after line {last[who]}")
            last[who] = int(number)
    for consumer, lines in counted:
        for text in lines:
            _, who, number, _ = text.split(",")
            numbers = came.setdefault(who, set())
            if int(number) in numbers:
                raise Wrong(f"{consumer.flow}: line {number} of {who} came twice")
            numbers.add(int(number))
            flow, name = who.split(".")
            if text != line(flow, name, int(number)):
                raise Wrong(f"{consumer.flow}: a damaged line: {text}")
    for p in producers:
        numbers = came.pop(f"{p.flow}.{p.name}", set())
        wanted = set(range(p.fed))
        if p.killed is None and numbers != wanted:
            lost, strange = sorted(wanted - numbers), sorted(numbers - wanted)
            raise Wrong(f"{p.flow} {p.name}: of {p.fed} lines {len(lost)} are lost (from {lost[:5]}), {len(strange)} were never sent")
        if p.killed is not None and not numbers <= wanted:
            raise Wrong(f"{p.flow} {p.name}: lines that were never sent")
        if p.killed is not None and len([c for c in all_lines if kind != "shuffle"]) and kind == "replicate" and numbers != set(range(len(numbers))):
            raise Wrong(f"{p.flow} {p.name}, killed: a gap among its lines")
    if came:
        raise Wrong(f"lines of strangers: {list(came)}")
    if kind == "replicate":
        place = {text: at for at, text in enumerate(steady_lines)}
        for consumer in others:
            lines = consumer.lines()
            if lines and [place.get(text) for text in lines] != list(range(place.get(lines[0], 0), place.get(lines[0], 0) + len(lines))):
                raise Wrong(f"{consumer.flow} {consumer.name}: another order, or a gap")
    return sum(len(lines) for _, lines in all_lines)
