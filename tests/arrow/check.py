"""check.py ZSR STREAM: record batches between zsr-arrow (the program STREAM) and pyarrow, over a running system."""
import datetime, decimal, io, os, random, subprocess, sys, tempfile

import pyarrow as pa
import pyarrow.compute as pc
import zsr

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from live import Failed, PATIENCE, System

TOPOLOGY = "name: s\nhosts: [h1, h2, h3, h4]\nflows: []\n"
ROWS = 3000
DICE = random.Random(18)


def text(longest=30):
    return "".join(DICE.choice("abcß漢7 ") for _ in range(DICE.randint(0, longest)))


def some(make, null=0.2):
    return [None if DICE.random() < null else make() for _ in range(ROWS)]


def number(bits):
    return lambda: DICE.getrandbits(bits - 1)


def columns():
    """Columns of all kinds: name and array."""
    whole = lambda bits: DICE.getrandbits(bits) - (1 << bits - 1)
    for bits in (8, 16, 32, 64):
        yield f"i{bits}", pa.array(some(lambda: whole(bits)), getattr(pa, f"int{bits}")())
        yield f"u{bits}", pa.array(some(number(bits)), getattr(pa, f"uint{bits}")())
    yield "f64", pa.array(some(DICE.random), pa.float64())
    yield "f32", pa.array(some(DICE.random), pa.float32())
    yield "f16", pa.array(some(lambda: DICE.randint(-9, 9)), pa.int8()).cast(pa.float16())
    yield "bool", pa.array(some(lambda: DICE.random() < 0.5))
    yield "null", pa.nulls(ROWS)
    for kind in ("string", "large_string", "string_view"):
        yield kind, pa.array(some(text), getattr(pa, kind)())
    for kind in ("binary", "large_binary", "binary_view"):
        yield kind, pa.array(some(lambda: text().encode()), getattr(pa, kind)())
    yield "fixed", pa.array(some(lambda: DICE.randbytes(5)), pa.binary(5))
    for kind, digits in (("decimal32", 9), ("decimal64", 18), ("decimal128", 38), ("decimal256", 60)):
        cents = lambda: decimal.Decimal(DICE.randint(-10**8, 10**8)).scaleb(-2)
        yield kind, pa.array(some(cents), getattr(pa, kind)(digits, 2))
    # Python's own times have no nanoseconds.
    times = lambda: DICE.getrandbits(20) * 1000
    for unit in ("s", "ms", "us", "ns"):
        yield f"timestamp_{unit}", pa.array(some(times), pa.timestamp(unit, "Europe/Oslo"))
        yield f"duration_{unit}", pa.array(some(times), pa.duration(unit))
    yield "date32", pa.array(some(lambda: datetime.date(2000, 1, 1) + datetime.timedelta(DICE.randint(0, 9999))), pa.date32())
    yield "date64", pa.array(some(lambda: datetime.date(2000, 1, 1) + datetime.timedelta(DICE.randint(0, 9999))), pa.date64())
    yield "time32", pa.array(some(lambda: DICE.randint(0, 86399)), pa.int32()).cast(pa.time32("s"))
    yield "time64", pa.array(some(lambda: DICE.randint(0, 10**7) * 1000), pa.int64()).cast(pa.time64("ns"))
    yield "interval", pa.array(some(lambda: pa.MonthDayNano([DICE.randint(0, 9), DICE.randint(0, 9), DICE.randint(0, 10**9)])))
    numbers = lambda: [DICE.randint(0, 9) for _ in range(DICE.randint(0, 4))]
    for kind in ("list_", "large_list", "list_view", "large_list_view"):
        yield kind, pa.array(some(numbers), getattr(pa, kind)(pa.int32()))
    yield "fixed_list", pa.array(some(lambda: [1, None, DICE.randint(0, 9)]), pa.list_(pa.int16(), 3))
    yield "deep", pa.array(some(lambda: [[text(9) for _ in numbers()] for _ in numbers()]), pa.list_(pa.list_(pa.string())))
    yield "struct", pa.array(some(lambda: {"a": DICE.randint(0, 9), "b": text()}), pa.struct([("a", pa.int8()), ("b", pa.string())]))
    yield "map", pa.array(some(lambda: [(text(5), DICE.random()) for _ in numbers()]), pa.map_(pa.string(), pa.float64()))
    yield "dictionary", pa.array(some(lambda: DICE.choice(["oslo", "bonn", "rome"]))).dictionary_encode()
    yield "large_dictionary", pa.array(some(lambda: text(8))).dictionary_encode()
    yield "struct_dictionary", pa.StructArray.from_arrays([pa.array(some(lambda: text(1))).dictionary_encode()], ["d"])
    yield "runs", pc.run_end_encode(pa.array([n // 7 % 3 for n in range(ROWS)], pa.int64()), run_end_type=pa.int32())
    types = pa.array([DICE.randint(0, 1) for _ in range(ROWS)], pa.int8())
    ones, others = pa.array(some(number(20)), pa.int64()), pa.array(some(text), pa.string())
    yield "sparse", pa.UnionArray.from_sparse(types, [ones, others])
    # Of each child in order, as the format has it.
    seen = [0, 0]
    places = []
    for kind in types.to_pylist():
        places.append(seen[kind])
        seen[kind] += 1
    places = pa.array(places, pa.int32())
    yield "dense", pa.UnionArray.from_dense(types, places, [ones, others])


def stream(batches):
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batches[0].schema) as to:
        for batch in batches:
            to.write_batch(batch)
    return sink.getvalue()


class Exchange:
    def __init__(self, system, program):
        self.system, self.program = system, program

    def start(self, *args):
        return subprocess.Popen([self.program, *args], env=self.system.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def send(self, flow, data, *keys):
        done = subprocess.run([self.program, "send", flow, *keys], env=self.system.env, input=data, timeout=PATIENCE)
        if done.returncode:
            raise Failed(f"stream send {flow}: exit code {done.returncode}")

    def received(self, program):
        out, _ = program.communicate(timeout=PATIENCE)
        if program.returncode:
            raise Failed(f"stream receive: exit code {program.returncode}")
        return list(pa.ipc.open_stream(out)) if out else []

    def flow(self, name, *args, item="128KiB"):
        self.system.run("flow", "create", name, *args, "--item-size", item, "--ring-size", "8MiB")
        return name


def same(what, got, want):
    """Whether batches have the rows of `want`, in order."""
    for batch in got:
        batch.validate(full=True)
    # Values, whatever the layout of their arrays is.
    rows = [row for batch in got for row in batch.to_pylist()]
    if [batch.schema for batch in got if batch.schema != want.schema]:
        raise Failed(f"{what}: schema {got[0].schema}, not {want.schema}")
    if len(rows) != want.num_rows:
        raise Failed(f"{what}: {len(rows)} rows, not {want.num_rows}")
    for at, (one, other) in enumerate(zip(rows, want.to_pylist())):
        if repr(one) != repr(other):
            raise Failed(f"{what}: row {at} is {one}, not {other}")


def main(command, program):
    names, arrays = zip(*columns())
    table = pa.RecordBatch.from_arrays(list(arrays), list(names))
    # Parts of arrays, too.
    sent = [table.slice(0, 700), table.slice(700, 0), table.slice(700, 1300), table.slice(2000)]
    with tempfile.TemporaryDirectory() as work:
        topology = os.path.join(work, "s.yaml")
        with open(topology, "w") as f:
            f.write(TOPOLOGY)
        with System(command, topology, flows=False) as system:
            system.up()
            os.environ["XDG_RUNTIME_DIR"] = system.folder
            os.environ.pop("ZSR_SYSTEM", None)
            exchange = Exchange(system, program)
            for test in (to_pyarrow, from_pyarrow, scattered, shared, replicated, differing, example):
                test(exchange, sent, table)
            system.down()


def to_pyarrow(exchange, sent, table):
    flow = exchange.flow("to-pyarrow", "-p", "h1", "-c", "h3")
    exchange.send(flow, stream(sent))
    with zsr.Consumer(flow) as consumer:
        got = [arrow for batch in consumer for arrow in batch.arrow_batches()]
    same(flow, got, table)
    # Where there are no dictionaries, arrays lie in the ring.
    print(f"OK arrow: pyarrow reads {table.num_columns} columns of all kinds that zsr-arrow has written: {table.num_rows} rows in {len(got)} parts")


def from_pyarrow(exchange, sent, table):
    # Whole dictionaries go with every part.
    flow = exchange.flow("from-pyarrow", "-p", "h1", "-c", "h3", item="1MiB")
    receiver = exchange.start("receive", flow)
    with zsr.Producer(flow) as producer:
        for batch in sent:
            for at in range(0, max(batch.num_rows, 1), 50):
                producer.push_arrow(batch.slice(at, 50))
    same(flow, exchange.received(receiver), table)
    print(f"OK arrow: zsr-arrow reads {table.num_columns} columns of all kinds that pyarrow has written")


def keyed(batches, key):
    return sorted(((row[key], repr(row)) for batch in batches for row in batch.to_pylist()), key=repr)


def scattered(exchange, sent, table):
    flow = exchange.flow("scattered", "-p", "h1", "-c", "h3", "h4")
    receivers = [exchange.start("receive", flow) for _ in range(2)]
    exchange.send(flow, stream(sent), str(table.schema.get_field_index("dictionary")))
    got = [keyed(exchange.received(receiver), "dictionary") for receiver in receivers]
    if sorted(got[0] + got[1], key=repr) != keyed([table], "dictionary"):
        raise Failed("scattered: other rows came than went")
    keys = [{key for key, _ in rows} for rows in got]
    if keys[0] & keys[1]:
        raise Failed(f"scattered: {keys[0] & keys[1]} came to both")
    print(f"OK arrow: scattered by a dictionary column: {len(got[0])} and {len(got[1])} rows, no key at both consumers")


def shared(exchange, sent, table):
    flow = exchange.flow("shared", "--kind", "load-balance", "-p", "h1", "-c", "h3", "h4")
    receivers = [exchange.start("receive", flow) for _ in range(2)]
    exchange.send(flow, stream(sent))
    got = [batch for receiver in receivers for batch in exchange.received(receiver)]
    if keyed(got, "i64") != keyed([table], "i64"):
        raise Failed("load balance: other rows came than went")
    print("OK arrow: a load balance delivers every row once, whoever got the schema first")


def replicated(exchange, sent, table):
    flow = exchange.flow("replicated", "--kind", "replicate", "-p", "h1", "-c", "h3", "h4")
    receivers = [exchange.start("receive", flow) for _ in range(2)]
    exchange.send(flow, stream(sent))
    for receiver in receivers:
        same(flow, exchange.received(receiver), table)
    print("OK arrow: a replicate flow delivers all rows in order to both consumers")


def differing(exchange, sent, table):
    """Two senders that do not agree: the receiver is told, and which column it is."""
    flow = exchange.flow("differing", "-p", "h1", "-c", "h3")
    with zsr.Producer(flow) as producer:
        producer.push_arrow(pa.RecordBatch.from_pydict({"a": [1]}))
        producer.push_arrow(pa.RecordBatch.from_pydict({"a": ["one"]}))
    done = subprocess.run([exchange.program, "receive", flow], env=exchange.system.env, capture_output=True, text=False, timeout=PATIENCE)
    if done.returncode == 0 or b"column 0" not in done.stderr:
        raise Failed(f"differing: {done.returncode} {done.stderr}")
    print("OK arrow: another schema is an error that names the column")


def example(exchange, sent, table):
    """The crate's shortest program."""
    exchange.flow("sales", "-p", "h1", "-c", "h3")
    program = os.path.join(os.path.dirname(exchange.program), "exchange")
    done = subprocess.run([program], env=exchange.system.env, capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode or not all(word in done.stdout for word in ("oslo", "bonn", "RecordBatch")):
        raise Failed(f"example exchange: {done.returncode} {done.stdout}{done.stderr}")
    print("OK arrow: crates/arrow/examples/exchange.rs")


try:
    main(*sys.argv[1:])
except Failed as wrong:
    sys.exit(f"FAILED arrow: {wrong}")
