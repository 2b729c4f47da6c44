"""check.py DIST BUILD [SCALE]: TPC-H Q1 over lineitem at three unlike consumers of a flow, against DuckDB on the same rows. DIST: an installed
tree (cargo xtask dist); BUILD: where cpu, gpu and the programs of fpga/cosim are. It needs nothing that compiles, so DIST and BUILD can be carried to
a machine with a GPU; `gpu` says itself whether one is there for it."""
import collections, contextlib, decimal, glob, json, mmap, os, signal, struct, subprocess, sys, tempfile, time

import duckdb

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, ".."))
from live import Failed, PATIENCE, System

TOPOLOGY = os.path.join(here, "../../topologies/cpu-gpu-fpga.yaml")
# As docs/fpga.md has it.
SCHEMA = ("l_orderkey: u64, l_quantity: u32, l_extendedprice: u32, l_discount: u32, l_tax: u32, l_shipdate: i32, "
          "l_returnflag: bytes(1), l_linestatus: bytes(1), l_linenumber: u16")
ROW = struct.Struct("<QIIIIi1s1sH")
ITEM = 4096
# Rows per second, so few that the switch is not the limit, also on a busy machine. CPU and GPU keep to theirs by waiting; the FPGA's clock
# makes this of its 64 bits per cycle. They are this test's choice, and what load balance gains over equal shares follows from them.
SPEEDS = {"cpu": 10_000, "gpu": 40_000, "fpga": 20_000}
# Load balance: a consumer's part of the rows, against that of its speed.
LEAST, MOST = 0.8, 1.25
COLUMNS = ["l_orderkey BIGINT", "l_partkey BIGINT", "l_suppkey BIGINT", "l_linenumber INTEGER", "l_quantity DECIMAL(15,2)",
           "l_extendedprice DECIMAL(15,2)", "l_discount DECIMAL(15,2)", "l_tax DECIMAL(15,2)", "l_returnflag VARCHAR",
           "l_linestatus VARCHAR", "l_shipdate DATE", "l_commitdate DATE", "l_receiptdate DATE", "l_shipinstruct VARCHAR",
           "l_shipmode VARCHAR", "l_comment VARCHAR", "nothing VARCHAR"]
Q1 = """SELECT l_returnflag || l_linestatus, count(*), sum(l_quantity), sum(l_extendedprice), sum(l_extendedprice * (1 - l_discount)),
        sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)), sum(l_discount), avg(l_quantity), avg(l_extendedprice), avg(l_discount)
    FROM lineitem WHERE l_shipdate <= DATE '1998-12-01' - INTERVAL 90 DAY GROUP BY 1 ORDER BY 1"""
# Programs for the topology's designs, and what `zsr run` says of those that it has started.
DESIGNS = {"zsr-fpga-feed": "producer `scan2`", "zsr-fpga-pop": "consumer `fpga`"}
PRODUCER, CONSUMER = (f"{member}: a verilated zsr_{member.split()[0]} of 64 bits" for member in DESIGNS.values())
SCALES = (0, 2, 2, 4, 6, 2)


class Run:
    """`zsr run ARGS`, with the designs of the folder `build` on PATH."""

    def __init__(self, zsr, build, *args, topology=TOPOLOGY):
        env = os.environ | {"PATH": f"{build}:{os.environ['PATH']}"}
        self.process = subprocess.Popen([zsr, "run", topology, *args], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        start_new_session=True)
        self.said = ""

    def until(self, words):
        """Waits for a line of progress."""
        for line in self.process.stderr:
            self.said += line
            if words in line:
                return
        raise Failed(f"zsr run said nothing of {words!r}: {self.said}")

    def designs(self):
        """The processes of the two designs, by the program's name."""
        self.until(PRODUCER)
        self.until(CONSUMER)
        designs = {}
        for path in glob.glob("/proc/[0-9]*/stat"):
            # Some end meanwhile.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(path) as f:
                pid, _, rest = f.read().partition(" (")
                name, _, rest = rest.rpartition(") ")
                if int(rest.split()[1]) == self.process.pid:
                    designs[name] = int(pid)
        if set(designs) != set(DESIGNS):
            raise Failed(f"zsr run has these children: {designs}")
        return designs

    def ends(self, code, words):
        out, err = self.process.communicate(timeout=PATIENCE)
        self.said += err
        if self.process.returncode != code or words not in out + self.said:
            raise Failed(f"zsr run: exit code {self.process.returncode}, not {code}, or no {words!r}: {out}{self.said}")
        return out


def ended(pid):
    """Waits until a process has ended, which nobody may be told."""
    with contextlib.suppress(FileNotFoundError):
        until = time.monotonic() + PATIENCE
        while open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] != "Z":
            if time.monotonic() > until:
                os.kill(pid, signal.SIGKILL)
                raise Failed(f"the design, process {pid}, did not end with its run")
            time.sleep(0.01)


def through_verilog(zsr, build, work):
    """Runs whose producer `scan2` and consumer `fpga` are verilated designs, however they end."""
    run = Run(zsr, build, "--items", "20000", "--json")
    run.until(PRODUCER)
    run.until(CONSUMER)
    report = json.loads(run.ends(0, "delivered"))
    items = {r["name"]: r["items"] for r in report["flows"][0]["rings"]}
    if not (items["lineitem.scan2"] and items["lineitem.fpga"]):
        raise Failed(f"nothing went through the FPGAs: {items}")
    for name, member in DESIGNS.items():
        alone = os.path.join(work, name)
        os.mkdir(alone)
        os.symlink(os.path.abspath(os.path.join(build, name)), os.path.join(alone, name))
        reason = "ring given: the ring's sizes do not fit the design"
        Run(zsr, alone, "--items", "10", "--item-size", "4").ends(1, f"{member}: {name} ended with exit status: 1: {name}: {reason}")
    # A Ctrl-C goes to all processes of the terminal's group.
    interrupt = lambda run, _: os.killpg(run.process.pid, signal.SIGINT)

    def interrupt_twice(run, designs):
        interrupt(run, designs)
        run.until("stopping")
        interrupt(run, designs)

    ends = [(interrupt, 1, ", 0 not"), (interrupt_twice, 1, "INTERRUPTED"), (lambda run, _: run.process.kill(), -9, "")]
    ends += [(lambda _, designs, name=name: os.kill(designs[name], signal.SIGKILL), 1, f"{member}: {name} ended with signal: 9")
             for name, member in DESIGNS.items()]
    for end, code, words in ends:
        run = Run(zsr, build, "--items", "1000000000")
        designs = run.designs()
        run.until("delivered ")
        end(run, designs)
        run.ends(code, words)
        for design in designs.values():
            ended(design)
    print(f"OK q1: zsr run: {items['lineitem.scan2']} items went into Verilog and {items['lineitem.fpga']} came out of it; nothing is left of a "
          "run that is interrupted or dies", flush=True)


def from_fpga_to_fpga(zsr, build, work):
    """A run without a CPU at any ring: a design at each of several rings of a producer, and words of both byte orders."""
    topology = os.path.join(work, "fpgas.yaml")
    with open(topology, "w") as f:
        f.write("""hosts: [{name: a, memory: fpga-sim}, {name: b, memory: fpga-sim, byte_order: big},
  {name: c, memory: fpga-sim}, {name: d, memory: fpga-sim, byte_order: big}]
flows: [{name: rows, producers: [a, b], consumers: [c, d], item_size: 4KiB, ring_size: 16KiB, max_batch: 8KiB}]
workload: {kind: tpch, table: lineitem, scale: 0.01}
""")
    run = Run(zsr, build, topology=topology)
    for member, design in (("producer `a`", "producer"), ("producer `b`", "producer"), ("consumer `c`", "consumer"), ("consumer `d`", "consumer")):
        run.until(f"{member}: a verilated zsr_{design} of 64 bits")
    run.ends(0, "OK: every item arrived exactly once, at the right consumer")
    print("OK q1: zsr run: a shuffle from two FPGAs to two FPGAs, of both byte orders", flush=True)


def in_pieces(build):
    """An item is in the ring when all of it has come, though more may follow; the end of the input closes the ring."""
    fd = os.memfd_create("ring")
    os.ftruncate(fd, 4096 + 4 * ITEM)
    feed = subprocess.Popen([os.path.join(build, "zsr-fpga-feed"), "--memory", str(fd), "--ring-size", str(4 * ITEM), "--item-size", str(ITEM)],
                            pass_fds=[fd], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    item = os.urandom(ITEM)
    with mmap.mmap(fd, 4096 + 4 * ITEM) as ring, feed:
        word = lambda: struct.unpack("<II", ring[:8])
        try:
            until = time.monotonic() + PATIENCE
            for at in range(0, ITEM, 1000):
                feed.stdin.write(item[at:at + 1000])
                feed.stdin.flush()
            while word() != (ITEM, 0) and time.monotonic() < until and feed.poll() is None:
                time.sleep(0.01)
            if word() != (ITEM, 0) or ring[4096:4096 + ITEM] != item:
                raise Failed(f"an item was fed, and the ring has {word()}")
            feed.stdin.close()
            if feed.wait(PATIENCE) or word() != (ITEM, 1):
                raise Failed(f"all was fed, and the ring has {word()}; exit code {feed.returncode}")
        finally:
            feed.kill()
    os.close(fd)


def pushed_by_two(system, build, work):
    """A push that is stopped while there is no room says how many records are pushed; the next one goes on behind them."""
    # Two rings of four items, and a row that only the design has room for: it waits to close the ring.
    pushed = 8 * ((ITEM - 32) // ROW.size)
    rows = b"".join(ROW.pack(n, 0, 0, 0, 0, 0, b"R", b"F", 0) for n in range(pushed + 1))
    paths = [os.path.join(work, name) for name in ("first", "second")]
    push = [os.path.join(build, "zsr-fpga-push"), "--record-size", str(ROW.size), "rows", "--member", "scan2"]
    system.run("flow", "create", "rows", "-p", "scan2", "-c", "cpu", "--item-size", "4KiB", "--ring-size", "16KiB", "--schema", SCHEMA)
    with open(paths[0], "wb") as f:
        f.write(rows)
    with open(paths[0], "rb") as f:
        first = subprocess.Popen(push, env=system.env, stdin=f, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + PATIENCE
    try:
        while [ring["fill"] for look in system.json("top", "-n", "1", "-i", "10ms") for ring in look["flows"][0]["rings"]] != [1, 1]:
            if time.monotonic() > until:
                raise Failed("eight items do not fill two rings of four")
        first.send_signal(signal.SIGTERM)
        said = first.communicate(timeout=PATIENCE)[1]
    finally:
        first.kill()
    if first.returncode != 1 or f"stopped; {pushed} records are pushed" not in said:
        raise Failed(f"a push that was stopped: exit code {first.returncode}, {said}")
    with open(paths[1], "wb") as f:
        f.write(rows[pushed * ROW.size:])
    with open(paths[1], "rb") as f:
        second = subprocess.Popen(push, env=system.env, stdin=f, stderr=subprocess.DEVNULL)
    out = subprocess.run([system.zsr, "consume", "rows", "--record-size", str(ROW.size)], env=system.env, capture_output=True, timeout=PATIENCE)
    if second.wait(PATIENCE) or out.returncode or out.stdout != rows:
        raise Failed(f"{len(out.stdout)} bytes of {len(rows)} came from two pushes, or others; exit codes {second.returncode}, {out.returncode}")
    system.run("flow", "delete", "rows")
    print("OK q1: a push that was stopped, and one that went on behind it", flush=True)


def table(zsr, build, work, scale):
    """Rows of lineitem, which `zsr run` makes and sends through three consumers, in DuckDB; gives them as two files of tuples."""
    files = os.path.join(work, "rows")
    run = Run(zsr, build, "--scale", str(scale), "-o", files)
    run.until(PRODUCER)
    run.until(CONSUMER)
    run.ends(0, "OK: every item arrived exactly once")
    db = duckdb.connect()
    columns = ", ".join("'{}': '{}'".format(*c.split()) for c in COLUMNS)
    db.execute(f"CREATE TABLE lineitem AS SELECT * FROM read_csv({sorted(glob.glob(files + '/*'))}, delim='|', header=false, columns={{{columns}}})")
    rows = db.execute("""SELECT l_orderkey, (l_quantity * 100)::INTEGER, (l_extendedprice * 100)::INTEGER, (l_discount * 100)::INTEGER,
        (l_tax * 100)::INTEGER, l_shipdate - DATE '1970-01-01', encode(l_returnflag), encode(l_linestatus), l_linenumber FROM lineitem""").fetchall()
    paths = [os.path.join(work, name) for name in ("scan1", "scan2")]
    for part, path in enumerate(paths):
        with open(path, "wb") as f:
            f.writelines(ROW.pack(*row) for row in rows[part::2])
    return db, paths, len(rows)


def gpu_of(build):
    """Which GPU the program `gpu` runs on; nothing if a CPU stands in."""
    asked = subprocess.run([os.path.join(build, "gpu"), "--device"], capture_output=True, text=True, timeout=PATIENCE)
    said = asked.stdout.strip()
    if asked.returncode == 77 and said == "host build":
        print("no GPU: its program is compiled for a CPU, which stands in at the GPU's speed", flush=True)
        return None
    if asked.returncode:
        raise Failed(f"gpu --device: exit code {asked.returncode}: {said}{asked.stderr}; compiled by a C++ compiler it needs no GPU")
    print(f"the GPU is {said}; its ring is in its own memory", flush=True)
    return said


def attached(system, consumers):
    """Waits until each consumer is at its ring: a GPU takes seconds to begin, in which others would take its rows."""
    until = time.monotonic() + PATIENCE
    while not all(ring["attached"] for look in system.json("top", "-n", "1", "-i", "10ms") for ring in look["flows"][0]["rings"]
                  if ring["role"] == "consumer"):
        for program in consumers:
            if program.poll() is not None:
                raise Failed(f"{program.args}: exit code {program.returncode}, before there was a row")
        if time.monotonic() > until:
            raise Failed("not all consumers came to their rings")


def aggregate(system, build, paths, kind, pushers, gpu, speeds=SPEEDS):
    """Runs Q1 over a flow of this kind, at the consumers that have speeds. Gives what each consumer says, and the seconds from the first row to the last end."""
    more = ["--routing", "round-robin"] if kind == "shuffle" else []
    if gpu:
        more += ["--memory", "gpu=gpu:0"]
    system.run("flow", "create", "lineitem", "--kind", kind, *more, "-p", "scan1", "scan2", "-c", *speeds, "--item-size", "4KiB",
               "--ring-size", "16KiB", "--max-batch", "8KiB", "--schema", SCHEMA)
    tool = lambda name: os.path.join(build, name)
    start = lambda args, **more: subprocess.Popen([str(a) for a in args], env=system.env, **more)
    consumers = [start([tool(name), "lineitem", name, speeds[name]], stdout=subprocess.PIPE, text=True) for name in speeds if name != "fpga"]
    if "fpga" in speeds:
        consumers.append(start([tool("zsr-fpga-q1"), "lineitem", "--member", "fpga", "--clock", clock(speeds["fpga"])], stdout=subprocess.PIPE, text=True))
    programs = []
    try:
        attached(system, consumers)
        for member, path, push in zip(("scan1", "scan2"), paths, pushers):
            with open(path, "rb") as rows:
                command = [system.zsr, "produce", "--record-size", ROW.size] if push == "cpu" else [tool("zsr-fpga-push"), "--record-size", ROW.size]
                programs.append(start([*command, "lineitem", "--member", member], stdin=rows, stderr=subprocess.DEVNULL))
        for program in programs:
            if program.wait(PATIENCE):
                raise Failed(f"{program.args}: exit code {program.returncode}")
        said = []
        for program in consumers:
            out, _ = program.communicate(timeout=PATIENCE)
            if program.returncode:
                raise Failed(f"{program.args}: exit code {program.returncode}")
            said.append(json.loads(out))
    finally:
        for program in programs + consumers:
            if program.poll() is None:
                program.kill()
                program.wait()
    system.run("flow", "delete", "lineitem")
    return said, max(s["end"] for s in said) - min(s["first"] for s in said)


def clock(speed):
    """Cycles per second of an FPGA that takes so many rows per second."""
    return speed * (ITEM // 8) / ((ITEM - 32) // ROW.size)


def parts(said, speeds):
    """What each consumer took of the rows, against what its speed is of all speeds."""
    rows, speed = sum(s["rows"] for s in said), sum(speeds.values())
    return {s["member"]: s["rows"] / rows / (speeds[s["member"]] / speed) for s in said}


def balanced(said, again):
    """With load balance each consumer takes rows as its speed is. A machine that has no time to move rows as fast as all consumers take them
    gives them equal parts; so there the flow runs `again`, with half of the speeds, and with a quarter."""
    for slower in (1, 2, 4):
        speeds = {name: speed // slower for name, speed in SPEEDS.items()}
        got = parts(said if slower == 1 else again(speeds), speeds)
        text = ", ".join(f"{name} {part:.2f}" for name, part in got.items())
        print(f"q1: each consumer's part of the rows, against that of its speed ({speeds}): {text}", flush=True)
        if all(LEAST <= part <= MOST for part in got.values()):
            return
    raise Failed(f"load balance gave consumers of {speeds} rows/s these parts of what their speeds say: {text}; {LEAST} to {MOST} is right")


def beyond_64_bits(system, build, work, gpu):
    """The GPU has numbers of 64 bits only, and puts two of them together."""
    price, tax, count = 2**32 - 1, 155, 200_000
    path = os.path.join(work, "large")
    with open(path, "wb") as f:
        f.write(ROW.pack(0, price, price, 0, tax, 0, b"R", b"F", 0) * (count // 2))
    said, _ = aggregate(system, build, [path, path], "load-balance", ["cpu", "cpu"], gpu, {"gpu": 0})
    wanted = {"RF": [count * n for n in (1, price, price, price * 100, price * 100 * (100 + tax), 0)]}
    if said[0]["groups"] != wanted or wanted["RF"][4] < 2**64:
        raise Failed(f"large sums: {said[0]['groups']}, not {wanted}")
    print("OK q1: a sum that 64 bits can't hold, at the consumer `gpu`", flush=True)


def equal(said, db, count):
    """The sum of the partial results is DuckDB's result."""
    if sum(s["rows"] for s in said) != count:
        raise Failed(f"{[s['rows'] for s in said]} rows came, of {count}")
    sums = collections.defaultdict(lambda: [0] * 6)
    for part in said:
        for key, values in part["groups"].items():
            sums[key] = [a + b for a, b in zip(sums[key], values)]
    ours = {key: [decimal.Decimal(v).scaleb(-s) for v, s in zip(values, SCALES)] for key, values in sums.items()}
    theirs = {row[0]: row[1:] for row in db.execute(Q1).fetchall()}
    if set(ours) != set(theirs):
        raise Failed(f"groups {sorted(ours)}, DuckDB has {sorted(theirs)}")
    for key, values in ours.items():
        n, quantity, price, *_, discount = values
        means = [float(v / n) for v in (quantity, price, discount)]
        if values != list(theirs[key][:6]) or any(abs(a - b) > 1e-9 * abs(b) for a, b in zip(means, theirs[key][6:])):
            raise Failed(f"{key}: {values} {means}, DuckDB has {theirs[key]}")
    return ours


def main(dist, build, scale):
    # Programs that were carried here look for libzsr where they were built.
    os.environ["LD_LIBRARY_PATH"] = ":".join([os.path.abspath(os.path.join(dist, "lib")), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])
    with tempfile.TemporaryDirectory(prefix="zsr-q1-") as work, System(os.path.join(dist, "bin", "zsr"), TOPOLOGY, flows=False) as system:
        gpu = gpu_of(build)
        through_verilog(system.zsr, build, work)
        from_fpga_to_fpga(system.zsr, build, work)
        in_pieces(build)
        db, paths, count = table(system.zsr, build, work, scale)
        system.up()
        pushed_by_two(system, build, work)
        beyond_64_bits(system, build, work, gpu)
        print(f"{count} rows; rows per second: {SPEEDS}, the FPGA by its clock of {clock(SPEEDS['fpga']) / 1000:.0f} kHz", flush=True)
        seconds = {}
        for what, kind, pushers, speeds in (("static", "shuffle", ["cpu", "cpu"], SPEEDS), ("balanced", "load-balance", ["cpu", "cpu"], SPEEDS),
                                            ("scan2 is an FPGA, too", "load-balance", ["cpu", "fpga"], SPEEDS),
                                            ("gpu as fast as it can", "load-balance", ["cpu", "cpu"], SPEEDS | {"gpu": 0})):
            said, seconds[what] = aggregate(system, build, paths, kind, pushers, gpu, speeds)
            groups = equal(said, db, count)
            shares = ", ".join(f"{s['member']} {s['rows']}" for s in said)
            print(f"OK q1: {what}: {seconds[what]:.2f} s ({shares} rows); {len(groups)} groups are DuckDB's, to the cent", flush=True)
            if what == "balanced":
                balanced(said, lambda slower: aggregate(system, build, paths, kind, pushers, gpu, slower)[0])
        ratio, most = seconds["static"] / seconds["balanced"], sum(SPEEDS.values()) / (len(SPEEDS) * min(SPEEDS.values()))
        print(f"load balance is {ratio:.2f} times as fast as equal shares, of {most:.2f} that follow from the speeds which this test sets")
        system.down()


try:
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]) if len(sys.argv) > 3 else 0.05)
except Failed as wrong:
    sys.exit(f"FAILED q1: {wrong}")
