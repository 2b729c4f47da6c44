"""check.py DIST BUILD [SCALE]: TPC-H Q1 over lineitem at three unlike consumers of a flow, against DuckDB on the same rows. DIST: an installed
tree (cargo xtask dist); BUILD: where cpu, zsr-fpga-q1 and zsr-fpga-push are."""
import collections, contextlib, decimal, glob, json, os, signal, struct, subprocess, sys, tempfile, time

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
# Rows per second, so few that the switch is not the limit, also on a busy machine. The GPU is a CPU that keeps to this, as there may be
# none; the FPGA's clock makes this of its 64 bits per cycle.
SPEEDS = {"cpu": 10_000, "gpu": 40_000, "fpga": 20_000}
CLOCK = SPEEDS["fpga"] * (ITEM // 8) / ((ITEM - 32) // ROW.size)
COLUMNS = ["l_orderkey BIGINT", "l_partkey BIGINT", "l_suppkey BIGINT", "l_linenumber INTEGER", "l_quantity DECIMAL(15,2)",
           "l_extendedprice DECIMAL(15,2)", "l_discount DECIMAL(15,2)", "l_tax DECIMAL(15,2)", "l_returnflag VARCHAR",
           "l_linestatus VARCHAR", "l_shipdate DATE", "l_commitdate DATE", "l_receiptdate DATE", "l_shipinstruct VARCHAR",
           "l_shipmode VARCHAR", "l_comment VARCHAR", "nothing VARCHAR"]
Q1 = """SELECT l_returnflag || l_linestatus, count(*), sum(l_quantity), sum(l_extendedprice), sum(l_extendedprice * (1 - l_discount)),
        sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)), sum(l_discount), avg(l_quantity), avg(l_extendedprice), avg(l_discount)
    FROM lineitem WHERE l_shipdate <= DATE '1998-12-01' - INTERVAL 90 DAY GROUP BY 1 ORDER BY 1"""
SCALES = (0, 2, 2, 4, 6, 2)


class Run:
    """`zsr run TOPOLOGY ARGS`, with the design of `build` on PATH."""

    def __init__(self, zsr, build, *args):
        env = os.environ | {"PATH": f"{build}:{os.environ['PATH']}"}
        self.process = subprocess.Popen([zsr, "run", TOPOLOGY, *args], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        start_new_session=True)
        self.said = ""

    def until(self, words):
        """Waits for a line of progress."""
        for line in self.process.stderr:
            self.said += line
            if words in line:
                return
        raise Failed(f"zsr run said nothing of {words!r}: {self.said}")

    def design(self):
        """The process of the design."""
        self.until("consumer `fpga`: a verilated zsr_consumer of 64 bits")
        children = subprocess.run(["ps", "-o", "pid=,comm=", "--ppid", str(self.process.pid)], capture_output=True, text=True).stdout
        designs = [int(line.split()[0]) for line in children.splitlines() if "zsr-fpga-pop" in line]
        if len(designs) != 1:
            raise Failed(f"zsr run has these children: {children}")
        return designs[0]

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


def through_verilog(zsr, build):
    """A run whose consumer `fpga` is the verilated design, however it ends."""
    run = Run(zsr, build, "--items", "20000", "--json")
    run.until("consumer `fpga`: a verilated zsr_consumer of 64 bits")
    report = json.loads(run.ends(0, "delivered"))
    items = {r["name"]: r["items"] for r in report["flows"][0]["rings"]}
    if not items["lineitem.fpga"]:
        raise Failed(f"nothing came through the FPGA: {items}")
    Run(zsr, build, "--items", "10", "--item-size", "4").ends(1, "consumer `fpga`: ")
    # A Ctrl-C goes to all processes of the terminal's group.
    for end, code, words in ((lambda run, design: os.killpg(run, signal.SIGINT), 1, "INTERRUPTED"),
                             (lambda run, design: os.kill(design, signal.SIGKILL), 1, "ended with signal: 9"),
                             (lambda run, design: os.kill(run, signal.SIGKILL), -9, "")):
        run = Run(zsr, build, "--items", "1000000000")
        design = run.design()
        run.until("delivered ")
        end(run.process.pid, design)
        run.ends(code, words)
        ended(design)
    print(f"OK q1: zsr run: {items['lineitem.fpga']} items went through Verilog; nothing is left of a run that is interrupted or dies", flush=True)


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
    run.until("consumer `fpga`: a verilated zsr_consumer of 64 bits")
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


def aggregate(system, build, paths, kind, pushers):
    """Runs Q1 over a flow of this kind. Gives what each consumer says, and the seconds from the first row to the last end."""
    more = ["--routing", "round-robin"] if kind == "shuffle" else []
    system.run("flow", "create", "lineitem", "--kind", kind, *more, "-p", "scan1", "scan2", "-c", *SPEEDS, "--item-size", "4KiB",
               "--ring-size", "16KiB", "--max-batch", "8KiB", "--schema", SCHEMA)
    tool = lambda name: os.path.join(build, name)
    start = lambda args, **more: subprocess.Popen([str(a) for a in args], env=system.env, **more)
    consumers = [start([tool("cpu"), "lineitem", name, SPEEDS[name]], stdout=subprocess.PIPE, text=True) for name in ("cpu", "gpu")]
    consumers.append(start([tool("zsr-fpga-q1"), "lineitem", "--member", "fpga", "--clock", CLOCK], stdout=subprocess.PIPE, text=True))
    programs = []
    try:
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
    with tempfile.TemporaryDirectory(prefix="zsr-q1-") as work, System(os.path.join(dist, "bin", "zsr"), TOPOLOGY, flows=False) as system:
        through_verilog(system.zsr, build)
        db, paths, count = table(system.zsr, build, work, scale)
        system.up()
        pushed_by_two(system, build, work)
        print(f"{count} rows; rows per second: {SPEEDS}, the FPGA by its clock of {CLOCK / 1000:.0f} kHz", flush=True)
        seconds = {}
        for what, kind, pushers in (("static", "shuffle", ["cpu", "cpu"]), ("balanced", "load-balance", ["cpu", "cpu"]),
                                    ("scan2 is an FPGA, too", "load-balance", ["cpu", "fpga"])):
            said, seconds[what] = aggregate(system, build, paths, kind, pushers)
            groups = equal(said, db, count)
            shares = ", ".join(f"{s['member']} {s['rows']}" for s in said)
            print(f"OK q1: {what}: {seconds[what]:.2f} s ({shares} rows); {len(groups)} groups are DuckDB's, to the cent", flush=True)
        ratio, most = seconds["static"] / seconds["balanced"], sum(SPEEDS.values()) / (len(SPEEDS) * min(SPEEDS.values()))
        print(f"load balance is {ratio:.2f} times as fast as equal shares, of {most:.2f} that the speeds allow: {ratio / most:.2f} of it")
        system.down()


try:
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]) if len(sys.argv) > 3 else 0.05)
except Failed as wrong:
    sys.exit(f"FAILED q1: {wrong}")
