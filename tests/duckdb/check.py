"""check.py ZSR: what `zsr consume --aggregate` prints, against DuckDB on the same rows."""
import csv, io, math, os, random, sys, tempfile

import duckdb

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from live import Failed, System

TOPOLOGY = "name: s\nhosts: [h1, h2, h3, h4]\nflows: []\n"
SCHEMA = "shop: i16, day: bytes(10), id: u64, amount: i64, price: f64, weight: f32"
TABLE = "shop SMALLINT, day VARCHAR, id UBIGINT, amount BIGINT, price DOUBLE, weight FLOAT"
FUNCTIONS = "count, sum(amount), avg(amount), min(amount), max(amount), sum(id), sum(price), avg(price), min(price), max(weight), min(day)"
ROWS = 20_000  # per producer


def rows(dice):
    for _ in range(ROWS):
        yield (dice.randint(-300, 300), f"2026-{dice.randint(1, 12):02}-{dice.randint(1, 28):02}", dice.getrandbits(40),
               dice.randint(-10**12, 10**12), round(dice.uniform(-1e6, 1e6), 2), dice.randint(-1000, 1000) / 8)


def same(one, other):
    if isinstance(other, float):
        return math.isclose(float(one), other, rel_tol=1e-9, abs_tol=1e-6)
    return one == str(other)


def main(zsr):
    dice = random.Random(17)
    db = duckdb.connect()
    with tempfile.TemporaryDirectory() as work:
        topology = os.path.join(work, "s.yaml")
        with open(topology, "w") as f:
            f.write(TOPOLOGY)
        inputs = []
        for producer in ("h1", "h2", "h3"):
            inputs.append(os.path.join(work, producer + ".csv"))
            with open(inputs[-1], "w", newline="") as f:
                csv.writer(f, lineterminator="\n").writerows(rows(dice))
        db.execute(f"CREATE TABLE sales AS SELECT * FROM read_csv({inputs}, header=false, columns={{{', '.join(repr(c.split()[0]) + ': ' + repr(c.split()[1]) for c in TABLE.split(', '))}}})")
        with System(zsr, topology, flows=False) as system:
            system.up()
            for group in ([], ["shop"], ["day", "shop"]):
                want = combined(system, db, group, inputs)
                print(f"OK duckdb: {3 * ROWS} rows of 3 producers by ({', '.join(group)}): {want} groups are DuckDB's")
            system.down()


def combined(system, db, group, inputs):
    system.run("flow", "create", "sales", "-p", "h1", "h2", "h3", "-c", "h4", "--schema", SCHEMA)
    by = ["--group-by", ", ".join(group)] if group else []
    with tempfile.TemporaryFile("w+") as out:
        consumer = system.start("consume", "sales", "--header", "--aggregate", FUNCTIONS, *by, stdout=out)
        producers = []
        for path in inputs:
            with open(path, "rb") as source:
                producers.append(system.start("produce", "sales", stdin=source))
        for program in [*producers, consumer]:
            if program.wait(300):
                raise Failed(f"{program.args}: exit code {program.returncode}")
        out.seek(0)
        names, *got = csv.reader(io.StringIO(out.read()))
    system.run("flow", "delete", "sales")
    functions = FUNCTIONS.replace("count,", "count(*),")
    if names != group + [f.replace("(", "_").rstrip(")") for f in FUNCTIONS.split(", ")]:
        raise Failed(f"columns {names}")
    order = f"GROUP BY {', '.join(group)} ORDER BY {', '.join(group)}" if group else ""
    want = db.execute(f"SELECT {', '.join([*group, functions])} FROM sales {order}").fetchall()
    if len(got) != len(want):
        raise Failed(f"{len(got)} groups, DuckDB has {len(want)}")
    for ours, theirs in zip(got, want):
        if not all(map(same, ours, theirs)):
            raise Failed(f"{ours}, DuckDB has {theirs}")
    return len(want)


try:
    main(sys.argv[1])
except Failed as wrong:
    sys.exit(f"FAILED duckdb: {wrong}")
