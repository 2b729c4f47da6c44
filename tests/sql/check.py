"""check.py FOLDER: `zsr sql` (FOLDER/zsr, FOLDER/zsr-sql) over a running system: the rows of TPC-H's 22 queries are DuckDB's, and nothing is left of
queries that end otherwise."""
import csv, decimal, json, os, pathlib, signal, subprocess, sys, tempfile, threading, time

import duckdb

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from live import Failed, PATIENCE, System

(BUILT,) = sys.argv[1:]
ZSR = f"{BUILT}/zsr"
SCALE = os.environ.get("ZSR_SQL_SCALE", "0.1")
# For what takes longer with larger tables.
PATIENCE_AT_SCALE = PATIENCE * max(1, 10 * float(SCALE))
TOPOLOGY = HERE / "../../topologies/tpch.yaml"
# Does not end before somebody ends it: after a broadcast of lineitem, 36 million groups go from worker to worker.
LONG = ("select a.l_orderkey, a.l_linenumber, b.l_orderkey, b.l_linenumber, count(*) from lineitem a join lineitem b on a.l_suppkey = b.l_suppkey "
        "group by 1, 2, 3, 4")
SHORT = "select count(*) as n, max(n_name) as last from nation"


def value(text):
    """Numbers compare as numbers: engines differ in how many digits a quotient has."""
    try:
        return decimal.Decimal(text)
    except decimal.InvalidOperation:
        return text


def same(a, b):
    if isinstance(a, decimal.Decimal) and isinstance(b, decimal.Decimal):
        return abs(a - b) <= max(abs(a), abs(b)) * decimal.Decimal("1e-6") + decimal.Decimal("1e-6")
    return a == b


def compare(name, ours, theirs):
    """Two tables of texts without their first line, in whatever order where a query leaves it open."""
    ours, theirs = (sorted(([value(v) for v in row] for row in rows), key=lambda row: [str(round(v, 2)) if isinstance(v, decimal.Decimal) else v for v in row])
                    for rows in (ours, theirs))
    if len(ours) != len(theirs):
        raise Failed(f"{name}: {len(ours)} rows, DuckDB has {len(theirs)}")
    for a, b in zip(ours, theirs):
        if len(a) != len(b) or not all(map(same, a, b)):
            raise Failed(f"{name}: {a}, DuckDB has {b}")


class Sql:
    """`zsr sql` that gets one query after the other."""

    def __init__(self, system, scale="0.01", patience=PATIENCE):
        command = [ZSR, "sql", str(TOPOLOGY), "--scale", scale, "--format", "csv"]
        self.system = system
        self.program = subprocess.Popen(command, env=system.env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.clock = threading.Timer(patience, self.program.kill)
        self.clock.start()

    def ask(self, query):
        self.program.stdin.write(query + ";\n")
        self.program.stdin.flush()

    def rows(self, query):
        """The rows of a query, as texts."""
        self.ask(query)
        self.ask("select 'of it' as end")
        lines = []
        while lines[-2:] != ["end\n", "of it\n"]:
            lines += self.lines(1)
        if len(lines) == 2:
            self.program.stdin.close()
            raise Failed(f"a query has no table: {self.program.stderr.read()}")
        return list(csv.reader(lines[1:-2]))

    def is_under_way(self, query):
        """Asks, and waits until the query fills or reads a flow that no query before it had."""
        last = max((event["number"] for event in self.system.json("events")), default=0)
        self.ask(query)
        self.system.event(kind="program-attached", after=last)
        if not self.system.json("flow", "list"):
            raise Failed("the query has no flow")

    def workers(self):
        """Processes of the workers."""
        return pathlib.Path(f"/proc/{self.program.pid}/task/{self.program.pid}/children").read_text().split()

    def worker(self, host):
        """The process of a worker."""
        for pid in self.workers():
            if host.encode() in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                return int(pid)
        raise Failed(f"no worker of {host}")

    def memory(self):
        """The most that who asks and its workers have had resident, MiB."""
        peak = lambda pid: next(int(line.split()[1]) for line in open(f"/proc/{pid}/status") if line.startswith("VmHWM:"))
        return sum(map(peak, [self.program.pid, *self.workers()])) >> 10

    def lines(self, count):
        lines = [self.program.stdout.readline() for _ in range(count)]
        if not all(lines):
            raise Failed(f"only {lines} came: {self.program.stderr.read()}")
        return lines

    def flows(self):
        """Names of the flows that there are: all are kept for the next query of this program."""
        names = {flow["name"] for flow in self.system.json("flow", "list")}
        if strangers := [name for name in names if not name.startswith(f"sql{self.program.pid}-")]:
            raise Failed(f"left behind: {strangers}")
        return names

    def works(self):
        self.ask(SHORT)
        if self.lines(2) != ["n,last\n", "25,VIETNAM\n"]:
            raise Failed("a query has other rows than before")

    def end(self, code):
        """What it had to say until its end."""
        self.program.stdin.close()
        said = self.program.stderr.read()
        found = self.program.wait(PATIENCE)
        self.clock.cancel()
        if found != code:
            raise Failed(f"zsr sql: exit code {found}, not {code}: {said}")
        return said


def nothing_is_left(system):
    for what in ("flow", "ring"):
        if left := system.json(what, "list"):
            raise Failed(f"left behind: {left}")


def answers(system):
    """All queries of TPC-H."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([f"{BUILT}/zsr-sql", "--tables", folder, "--scale", SCALE], check=True, timeout=PATIENCE_AT_SCALE)
        database = duckdb.connect()
        for table in sorted(pathlib.Path(folder).iterdir()):
            database.execute(f"create table {table.stem} as from read_csv('{table}', header = true)")
    sql, rows, seconds = Sql(system, SCALE, PATIENCE_AT_SCALE), 0, 0
    for path in sorted(HERE.glob("queries/*.sql")):
        query = path.read_text().strip().rstrip(";")
        begun = time.monotonic()
        ours = sql.rows(query)
        seconds += time.monotonic() - begun
        theirs = [["" if v is None else str(v) for v in row] for row in database.execute(query).fetchall()]
        compare(path.stem, ours, theirs)
        rows += len(ours)
    memory = sql.memory()
    sql.end(0)
    nothing_is_left(system)
    if rows < 100:
        raise Failed(f"only {rows} rows in all: the queries have found nothing")
    return f"{rows} rows as DuckDB has them, {seconds:.1f} s with making the tables, {memory} MiB"


def flows_are_kept(system):
    """A query that is asked again uses the flows that it had, and has the same rows."""
    sql = Sql(system)
    query = "select l_suppkey, count(*) from lineitem group by l_suppkey order by l_suppkey"
    rows, flows = sql.rows(query), sql.flows()
    # h1 and h2 to each other, and each to the head.
    if len(flows) != 4:
        raise Failed(f"one shuffle and one coalesce left {flows}")
    for _ in range(20):
        if sql.rows(query) != rows:
            raise Failed("a query that was asked again has other rows")
    if sql.flows() != flows:
        raise Failed(f"flows were {flows}, and are {sql.flows()} after the same query")
    # Somebody deletes one.
    system.run("flow", "delete", "--force", min(flows))
    if sql.rows(query) != rows:
        raise Failed("a query has other rows after a flow was deleted")
    sql.end(0)
    nothing_is_left(system)


def own_tables(system):
    """Files of every kind, a folder of them, and tables of TPC-H in one query; files that are not there, or not what they should be."""
    with tempfile.TemporaryDirectory() as folder:
        database, folder = duckdb.connect(), pathlib.Path(folder)
        (folder / "parts").mkdir()
        database.execute("create table sales as select range as id, range % 97 as shop, (range * 7919) % 1000 / 10 as price, "
                         "case when range % 11 = 0 then null else 'n' || range % 13 end as note from range(200000)")
        database.execute("create table shops as select range as shop, 'shop ' || range as name, range % 25 as nation from range(97)")
        database.execute(f"copy sales to '{folder}/sales.parquet' (format parquet)")
        for part in range(3):
            database.execute(f"copy (select * from sales where id % 3 = {part}) to '{folder}/parts/{part}.parquet' (format parquet, compression zstd)")
        for end, form in (("csv", "format csv, header"), ("json", "format json")):
            database.execute(f"copy shops to '{folder}/shops.{end}' ({form})")
        database.execute("create table nation as select range as n_nationkey from range(25)")
        query = ("select name, nation, count(*) as n, sum(price) as s, max(note) as m, count(note) as c from sales join shops using (shop) "
                 "join nation on nation = n_nationkey group by name, nation")
        theirs = [["" if v is None else str(v) for v in row] for row in database.execute(query).fetchall()]
        for sales, shops in (("sales.parquet", "shops.csv"), ("parts", "shops.json")):
            arguments = ["--table", f"Sales={folder}/{sales}", "--table", f"shops={folder}/{shops}"]
            (folder / "queries.sql").write_text(f"{query};\nselect count(*) as shops from shops;\n")
            said = system.run("sql", str(TOPOLOGY), *arguments, "--format", "csv", "--file", str(folder / "queries.sql"))
            ours = list(csv.reader(said.splitlines()))
            if ours[-2:] != [["shops"], ["97"]]:
                raise Failed(f"the second query of a file: {ours[-2:]}")
            compare(sales, ours[1:-2], theirs)
            flows = system.run("sql", str(TOPOLOGY), *arguments, f"explain {query}")
            if "shuffle of stage" not in flows:
                raise Failed(f"rows of {sales} go through no flow: {flows}")
        line = system.run("sql", str(TOPOLOGY), *arguments, "--format", "json", "select name, shop from shops where shop = 5")
        if json.loads(line) != {"name": "shop 5", "shop": 5}:
            raise Failed(f"JSON: {line}")
        (folder / "bad.parquet").write_text("shop,name\n")
        for table, code, words in (
            ("shops", 2, "expected NAME=PATH"),
            ("5=x.csv", 2, "expected a letter"),
            (f"shops={folder}/none.csv", 1, "No such file"),
            (f"shops={folder}/queries.sql", 1, "expected a name that ends in .parquet"),
            (f"shops={folder}/bad.parquet", 1, "bad.parquet: "),
            (f"shops={folder}", 1, "it has files that end in"),
        ):
            done = subprocess.run([ZSR, "sql", str(TOPOLOGY), "--table", table, "select 1"], env=system.env, capture_output=True, text=True, timeout=PATIENCE)
            if done.returncode != code or words not in done.stderr or "panicked" in done.stderr:
                raise Failed(f"--table {table}: exit code {done.returncode}, {done.stderr}")
    nothing_is_left(system)


def explained(system):
    said = system.run("sql", str(TOPOLOGY), "explain select l_suppkey, count(*) from lineitem group by l_suppkey")
    for line in ("  shuffle of stage 1: h1 -> h2, h2 -> h1", "  coalesce of stage 2: h1 -> head, h2 -> head"):
        if line not in said.splitlines():
            raise Failed(f"`{line}` is not in {said}")


def long_rows(system):
    """Rows that no item holds, on their way to another worker."""
    sql = Sql(system)
    for times in (3000, 10_000_000):
        rows = sql.rows(f"select r_regionkey, length(m) from (select r_regionkey, max(repeat(r_name, {times})) as m from region group by 1) order by 1")
        if rows != [[str(key), str(times * len(name))] for key, name in enumerate(("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"))]:
            raise Failed(f"rows of {times} times a name: {rows}")
    sql.end(0)
    nothing_is_left(system)


def fails(system):
    """A query that fails at a worker, in the middle of it; one that can't be planned. The workers go on."""
    sql = Sql(system)
    sql.works()
    workers = sql.workers()
    sql.ask("select sum(l_quantity / (l_linenumber - 3)) from lineitem join supplier on l_suppkey = s_suppkey")
    # One that fails while it has read nothing of one side.
    side = "(select {0} as k, sum(l_quantity / (l_linenumber - 3)) as n from lineitem group by 1)"
    sql.ask(f"select sum(x.n + y.n) from {side.format('l_suppkey')} x join {side.format('l_partkey')} y on x.k = y.k")
    sql.ask("select * from nowhere")
    sql.works()
    sql.flows()
    if sql.workers() != workers:
        raise Failed("a query that failed did not end at a worker, which was started anew")
    said = sql.end(1)
    nothing_is_left(system)
    errors = [line for line in said.splitlines() if line.startswith("error: ")]
    wanted = ("Divide by zero", "Divide by zero", "nowhere")
    if len(errors) != len(wanted) or not all(words in error for words, error in zip(wanted, errors)):
        raise Failed(f"{len(wanted)} errors were to come: {said}")


def dies(system, host):
    """A worker that is killed in the middle of a query."""
    sql = Sql(system)
    sql.works()
    sql.is_under_way(LONG)
    os.kill(sql.worker(host), signal.SIGKILL)
    sql.works()
    sql.flows()
    said = sql.end(1)
    nothing_is_left(system)
    if said.count("error: ") != 1 or f"the worker of host `{host}` has died" not in said:
        raise Failed(f"one error about {host} was to come: {said}")


def is_interrupted(system, how, code):
    sql = Sql(system)
    sql.is_under_way(LONG)
    os.kill(sql.program.pid, how)
    said = sql.end(code)
    if how != signal.SIGKILL:
        nothing_is_left(system)
        if said.count("error: ") != 1 or "interrupted" not in said:
            raise Failed(f"it was interrupted, and says: {said}")
    # What a killed one has left, the next one finds.
    sql = Sql(system)
    sql.works()
    sql.flows()
    sql.end(0)
    nothing_is_left(system)


def is_interrupted_between_queries(system):
    sql = Sql(system)
    sql.works()
    sql.program.send_signal(signal.SIGINT)
    # Standard input stays open.
    found = sql.program.wait(PATIENCE)
    if found != 130:
        raise Failed(f"zsr sql waited for a query and was interrupted: exit code {found}, not 130")
    sql.end(130)


class Served:
    """Workers that are started by themselves, as on machines of their own, in a system whose parts speak TLS."""

    def __init__(self, system):
        self.system = system
        self.certs = pathlib.Path(system.topology).parent / "certs"
        self.controller = (pathlib.Path(system.folder) / "zsr/tpch/controller-address").read_text().strip()
        self.workers, self.addresses = {}, {}

    def start(self, host, at="127.0.0.1:0"):
        more = ["--certificate", str(self.certs / f"worker.{host}.pem"), "--controller", self.controller]
        worker = self.system.start("sql", "--serve", host, "--listen", at, *more, stdout=subprocess.PIPE, text=True)
        name, at = worker.stdout.readline().strip().split(": worker at ")
        if name != host:
            raise Failed(f"the worker of {host} is {name}")
        self.workers[host], self.addresses[host] = worker, at

    def arguments(self, certificate="operator", **other):
        workers = [f"--worker={host}={at}" for host, at in (self.addresses | other).items()]
        shown = ["--certificate", str(self.certs / f"{certificate}.pem")] if certificate else []
        return ["sql", self.system.topology, "--controller", self.controller, *shown, *workers, "--format", "csv"]

    def ask(self, query, code=0, **how):
        return self.system.run(*self.arguments(**how), query, code=code)

    def none_is_left(self):
        """Waits until no flow is left but those that are kept: their programs are there."""
        until = time.monotonic() + PATIENCE
        while left := [flow for flow in self.system.json("flow", "list") if flow["state"] != "running"]:
            if time.monotonic() > until:
                raise Failed(f"left behind: {left}")

    def end(self):
        for worker in self.workers.values():
            worker.terminate()
            worker.communicate(timeout=PATIENCE)


def served():
    """Workers at addresses, with TLS."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "tpch.yaml"
        path.write_text("tls: certs\n" + TOPOLOGY.read_text())
        with System(ZSR, path, "--listen", "127.0.0.1:0") as system:
            system.run("ca", str(path))
            for host in ("h1", "h2"):
                system.run("ca", str(path), "--name", host, "--role", "worker")
            system.up()
            served = Served(system)
            try:
                served.start("h1"), served.start("h2")
                query = "select n_name, count(*) from customer join nation on c_nationkey = n_nationkey group by n_name order by 1"
                rows = served.ask(query)
                if len(rows.splitlines()) != 26:
                    raise Failed(f"rows of served workers: {rows}")
                # Programs at once.
                programs = [system.start(*served.arguments(), query, stdout=subprocess.PIPE, text=True) for _ in range(4)]
                for program in programs:
                    if program.communicate(timeout=PATIENCE)[0] != rows:
                        raise Failed("one of several programs at once has other rows")
                h1, h2 = (served.addresses[host] for host in ("h1", "h2"))
                for how, words in (
                    ({"certificate": "reader"}, "lacks the right `query`"),
                    ({"certificate": None}, "certificate"),
                    ({"h1": h2}, 'not valid for name "h1.worker.zsr.internal"'),
                    ({"h2": "127.0.0.1:1"}, "the worker of host `h2`: Connection refused"),
                ):
                    if words not in (said := served.ask("select 1", code=1, **how)):
                        raise Failed(f"{how}: {said}")
                for how in ({"h9": h1}, {"h1": "nowhere"}):
                    served.ask("select 1", code=2, **how)
                # One that is killed in the middle of a query.
                last = max(event["number"] for event in system.json("events"))
                asking = system.start(*served.arguments(), LONG, stderr=subprocess.PIPE, text=True)
                system.event(kind="program-attached", after=last)
                served.workers["h2"].kill()
                said = asking.communicate(timeout=PATIENCE)[1]
                if asking.returncode != 1 or "host `h2`" not in said or said.count("error: ") != 1:
                    raise Failed(f"a worker was killed: exit code {asking.returncode}, {said}")
                if "host `h2`" not in served.ask(query, code=1):
                    raise Failed("a worker that is gone is not named")
                served.workers["h2"].communicate()
                served.start("h2", h2)
                if served.ask(query) != rows:
                    raise Failed("a worker that came back has other rows")
                served.none_is_left()
            finally:
                served.end()
            nothing_is_left(system)
            system.down()


def main():
    served()
    print("workers at addresses, with TLS: nothing left")
    with System(ZSR, TOPOLOGY) as system:
        # It brings the system up by itself, and leaves none.
        if "| 5 " not in system.run("sql", str(TOPOLOGY), "select count(*) from region") or system.left():
            raise Failed(f"left behind: {system.left()}")
        print("one query: the system came up and went down")
        system.up()
        print(f"TPC-H at scale {SCALE}: 22 queries, {answers(system)}")
        flows_are_kept(system)
        print("the same query again: the same flows")
        own_tables(system)
        print("Parquet, CSV and JSON: rows as DuckDB has them")
        explained(system)
        long_rows(system)
        print("rows of 40 to 110 MB: whole")
        fails(system)
        print("queries that fail: nothing left")
        for host in ("h1", "h2"):
            dies(system, host)
        print("workers killed: nothing left")
        for how, code in ((signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -9)):
            is_interrupted(system, how, code)
        is_interrupted_between_queries(system)
        print("interrupted: nothing left")
        done = subprocess.run([f"{BUILT}/examples/query"], env=system.env, capture_output=True, text=True, timeout=PATIENCE)
        if done.returncode or done.stdout.count("|") < 25 * 3:
            raise Failed(f"examples/query: {done.stdout}{done.stderr}")
        nothing_is_left(system)
        system.down()


main()
