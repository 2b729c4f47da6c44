"""check.py DIST BUILD [SCALE]: TPC-H Q1 over lineitem at three unlike consumers of a flow, against DuckDB on the same rows. DIST: an installed
tree (cargo xtask dist); BUILD: where cpu, zsr-fpga-q1 and zsr-fpga-push are."""
import collections, decimal, glob, json, os, struct, subprocess, sys, tempfile

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


def table(zsr, work, scale):
    """Rows of lineitem, which `zsr run` makes, in DuckDB; gives them as two files of tuples."""
    files = os.path.join(work, "rows")
    done = subprocess.run([zsr, "run", TOPOLOGY, "--scale", str(scale), "-o", files], capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode:
        raise Failed(f"zsr run: {done.stdout}{done.stderr}")
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
        db, paths, count = table(system.zsr, work, scale)
        system.up()
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
