"""The Python package on a running system, which tests/python/run has brought up. Each test has a flow of its own."""
import os, re, signal, subprocess, sys, threading

import numpy as np
import pyarrow as pa
import pytest
import zsr


def sh(*args):
    done = subprocess.run([os.environ["ZSR"], *args], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def flow(request):
    """Makes a flow named as the test, from `source` to `sink`; takes more arguments of `zsr flow create`."""
    name = re.sub(r"\W", "-", request.node.name).strip("-")

    def create(*args):
        sh("flow", "create", name, "-p", create.source, "-c", create.sink, *args)
        return name

    create.source, create.sink = "h1", "h2"
    yield create
    subprocess.run([os.environ["ZSR"], "flow", "delete", name, "--force"], capture_output=True)


TABLE = np.array([(n, n / 2, str(n).encode()) for n in range(10_000)], dtype=[("id", "<u8"), ("price", "<f8"), ("note", "S6")])
SCHEMA = "id: u64, price: f64, note: bytes(6)"


def test_a_table_goes_through_as_it_is(flow):
    name = flow("--schema", SCHEMA, "--item-size", "4KiB")
    came = []
    with zsr.Consumer(name, schema=TABLE.dtype) as consumer:
        assert consumer.dtype == TABLE.dtype and consumer.schema == SCHEMA and consumer.member == "h2"

        def push():
            with zsr.Producer(name, schema=SCHEMA) as producer:
                assert producer.push_rows(TABLE) == len(TABLE)
                assert producer.push_rows(TABLE[:0]) == 0
                assert producer.push_rows(TABLE[::2][:10].tobytes()) == 10

        pushing = threading.Thread(target=push)
        pushing.start()
        for batch in consumer:
            rows = batch.numpy()
            assert not rows.flags.writeable and not rows.flags.owndata
            came.append(rows.copy())
        pushing.join()
    np.testing.assert_array_equal(np.concatenate(came), np.concatenate([TABLE, TABLE[::2][:10]]))


def test_rows_lie_in_the_ring_until_they_are_let_go(flow):
    name = flow("--schema", "n: u64", "--item-size", "64", "--ring-size", "128")
    producer, consumer = zsr.Producer(name), zsr.Consumer(name)
    one = lambda n: np.array([(n,)], producer.dtype)
    kept = []
    for n in range(2):
        producer.push_rows(one(n))
        producer.flush()
        batch = consumer.pop()
        kept.append(batch.numpy())
        # The array is at the ring's own address.
        assert kept[-1].ctypes.data == batch._held.address
        with pytest.raises(BufferError, match="still there"):
            batch.release()
    del batch
    with pytest.raises(zsr.Misuse, match="the whole ring of 2 items is held"):
        consumer.pop()
    assert [int(rows["n"][0]) for rows in kept] == [0, 1]
    kept.clear()
    producer.push_rows(one(2))
    producer.close()
    with consumer.pop() as batch:
        assert batch.numpy()["n"].tolist() == [2]
    with pytest.raises(BufferError, match="was released"):
        batch.numpy()
    assert consumer.pop() is None and consumer.ended and list(consumer) == []
    consumer.leave()
    with pytest.raises(zsr.Misuse, match="closed"):
        consumer.pop()


def test_arrays_outlive_their_consumer(flow):
    name = flow("--schema", "n: u64")
    with zsr.Producer(name) as producer:
        producer.push_rows(np.arange(3, dtype="<u8").view(producer.dtype))
    with zsr.Consumer(name) as consumer:
        for batch in consumer:
            rows = batch.numpy()
    del batch, consumer
    assert rows["n"].tolist() == [0, 1, 2]
    with pytest.raises(zsr.RingError, match="has its consumer already"):
        zsr.Consumer(name)
    del rows
    zsr.Consumer(name).leave()


def test_records_of_any_length(flow):
    name = flow()
    with zsr.Producer(name) as producer, zsr.Consumer(name) as consumer:
        producer.push("text")
        producer.push(b"", to=0)
        assert producer.try_push(memoryview(b"view"))
        with producer.in_place(100) as room:
            room.view()[:4] = b"here"
            room.used = 4
        with pytest.raises(RuntimeError, match="not this one"):
            with producer.in_place(100):
                raise RuntimeError("not this one")
        with pytest.raises(BufferError, match="still there"):
            with producer.in_place(100) as room:
                array = room.numpy()
        # Whoever holds room keeps others from it.
        with pytest.raises(BufferError, match="is reserved"):
            producer.push(b"x")
        del array, room
        with pytest.raises(zsr.RouteError, match="consumer 1 was chosen"):
            producer.push(b"x", to=1)
        with pytest.raises(zsr.SchemaError, match="does not say how many bytes"):
            producer.push_rows(b"1234")
        producer.flush()
        assert producer.settle() == 0
        batch = consumer.pop(timeout=60)
        assert [bytes(record) for record in batch] == [b"text", b"", b"view", b"here"]
        assert len(batch) == 4 and batch.record_size is None
        with pytest.raises(zsr.SchemaError):
            batch.numpy()


def test_arrow_batches_are_read_in_the_ring(flow):
    name = flow("--item-size", "64KiB")
    sent = pa.RecordBatch.from_pydict({"id": list(range(1000)), "word": [None if n % 3 else f"w{n}" for n in range(1000)]})
    with zsr.Consumer(name) as consumer:
        with zsr.Producer(name) as producer:
            producer.push_arrow(sent)
            producer.push_arrow(sent.slice(10, 5))
        batch = consumer.pop()
        first, second = batch.arrow_batches()
        assert first.equals(sent) and second.equals(sent.slice(10, 5))
        begin, end = batch._held.address, batch._held.address + len(memoryview(batch._held))
        for buffer in first.column("id").buffers()[1:] + first.column("word").buffers():
            assert begin <= buffer.address < end and buffer.address % 8 == 0
        del batch
        # Arrow keeps the batch.
        assert first.column("id")[999].as_py() == 999


def test_rows_become_arrow_columns(flow):
    name = flow("--schema", SCHEMA, "--item-size", "4KiB")
    with zsr.Consumer(name) as consumer:
        with zsr.Producer(name) as producer:
            producer.push_rows(TABLE[:50])
        batch = consumer.pop()
        assert batch.arrow().to_pydict() == {
            "id": list(range(50)), "price": [n / 2 for n in range(50)], "note": [str(n).encode() for n in range(50)]}
        rows = batch.arrow_rows()
        assert rows.buffers()[1].address == batch._held.address
        assert [row.as_py() for row in rows] == [row.tobytes() for row in TABLE[:50]]


def test_the_newest_rows_come_first_and_the_others_not_at_all(flow):
    name = flow("--schema", "n: u64", "--item-size", "64")
    with zsr.Consumer(name) as consumer:
        with pytest.raises(zsr.TimedOut):
            consumer.pop_newest(0.01)
        with zsr.Producer(name) as producer:
            producer.push_rows(np.arange(100, dtype="<u8").view(producer.dtype))
            producer.flush()
            assert producer.settle() == 0
            with consumer.pop_newest() as batch:
                assert batch.numpy()["n"][-1] == 99
            producer.push_rows(np.arange(100, 102, dtype="<u8").view(producer.dtype))
        last = consumer.pop_newest()
        assert last.numpy()["n"].tolist() == [100, 101]
        del last
        assert consumer.pop_newest() is None and consumer.ended


def test_rows_are_combined_as_arrow_groups_them(flow):
    rows = np.array([(n * 7 % 13, n, -n / 4) for n in range(10_000)], dtype=[("shop", "<u2"), ("id", "<i8"), ("price", "<f8")])
    table = pa.table({name: np.ascontiguousarray(rows[name]) for name in rows.dtype.names})
    functions = [("id", "count"), ("id", "sum"), ("price", "min"), ("price", "max"), ("price", "mean")]
    expected = table.group_by("shop").aggregate(functions).sort_by("shop")
    name, wanted = flow("--schema", "shop: u16, id: i64, price: f64"), "count, sum(id), min(price), max(price), avg(price)"
    with zsr.Consumer(name) as consumer:
        with zsr.Producer(name) as producer:
            producer.push_rows(rows)
        groups = consumer.combine(wanted, group_by="shop")
    assert groups.dtype.names == ("shop", "count", "sum_id", "min_price", "max_price", "avg_price")
    for mine, of_arrow in zip(groups.dtype.names, ["shop", "id_count", "id_sum", "price_min", "price_max", "price_mean"]):
        np.testing.assert_allclose(groups[mine], expected[of_arrow].to_numpy(), rtol=1e-12)
    # Pieces, and no group.
    combiner = zsr.Combiner(rows.dtype, "sum(id)")
    combiner.add(rows[:1])
    combiner.add(rows[1:].tobytes())
    assert len(combiner) == 1 and combiner.numpy()["sum_id"][0] == rows["id"].sum()
    for wrong, kind, words in [
        (lambda: zsr.Combiner("n: u64", "median(n)"), zsr.SchemaError, "sum"),
        (lambda: zsr.Combiner("n: u64", "sum(m)"), zsr.SchemaError, "`m`"),
        (lambda: combiner.add(bytes(19)), zsr.SizeError, "19"),
        (lambda: combiner.add(rows[:2].tobytes()[:5]), zsr.SizeError, "5"),
    ]:
        with pytest.raises(kind, match=words):
            wrong()
    full = zsr.Combiner("n: u64", "sum(n)")
    full.add(np.full(2, 2**64 - 1, "<u8"))
    with pytest.raises(zsr.SumError, match="column `n`"):
        full.numpy()


def test_arrays_leave_from_where_they_lie(flow):
    flow.source = "h3"
    name = flow("--item-size", "16KiB")
    memory = zsr.Registered(100_000)
    table = np.frombuffer(memory, TABLE.dtype, 1000)
    table[:] = TABLE[:1000]
    flat = np.frombuffer(memory, "<u8", 4000, 40_000).reshape(1000, 4)
    flat[:] = np.arange(4000).reshape(1000, 4)
    numbers = np.frombuffer(memory, "<u4", 3, 80_000)
    numbers[:] = [999, 5, 5]
    bits = np.frombuffer(memory, "u1", 125, 90_000)
    bits[:] = np.packbits(np.arange(1000) % 7 == 0, bitorder="little")
    with zsr.Consumer(name) as consumer, zsr.Producer(name, registered=[memory]) as producer:
        def came():
            producer.flush()
            return b"".join(bytes(record) for record in consumer.pop(timeout=60))

        both = [table["id"][1::3], flat[1::3, 2:]]
        ticket = producer.lay_out(both)
        assert came() == b"".join(a.tobytes() + b.tobytes() for a, b in zip(*both))
        while not producer.was_taken(ticket):
            pass
        producer.lay_out([table["note"], flat], rows=numbers)
        assert came() == b"".join(table["note"][n].tobytes().ljust(6, b"\0") + flat[n].tobytes() for n in (999, 5, 5))
        producer.lay_out([table], chosen=bits)
        assert came() == table[::7].tobytes()
        for columns, more, words in [
            ([TABLE["id"]], {}, "column 0 is not in memory that the program has registered"),
            ([table["id"], table["id"][1:]], {}, "columns of \\[999, 1000\\] rows"),
            ([table["id"][::-1]], {}, "runs backwards"),
            ([flat[:, ::2]], {}, "side by side"),
            ([flat], {"rows": numbers.astype("f4")}, "uint32 or uint64"),
            ([flat], {"chosen": bits[:124]}, "125 bytes of uint8"),
            ([flat], {"rows": numbers, "chosen": bits}, "one of them"),
        ]:
            with pytest.raises(ValueError, match=words):
                producer.lay_out(columns, **more)
        with pytest.raises(zsr.Misuse, match="don't fit an item"):
            producer.lay_out([flat])
        with pytest.raises(zsr.TimedOut):
            while True:
                producer.lay_out([flat[:400]], timeout=0)


def test_records_come_to_arrays_that_were_placed(flow):
    flow.sink = "h3"
    name = flow("--item-size", "4KiB", "--ring-size", "16KiB")
    memory = zsr.Registered(60_000)
    table = np.frombuffer(memory, TABLE.dtype, 1000)
    numbers = np.frombuffer(memory, "<u4", 16, 40_000).reshape(4, 4)
    size = TABLE.dtype.itemsize
    with zsr.LayoutConsumer(name, [memory]) as consumer, zsr.Producer(name, record_size=size) as producer:
        assert consumer.placed == (0, 4) and not consumer.ended
        with pytest.raises(zsr.TimedOut):
            consumer.pop(timeout=0)
        for n in range(40):
            rows = numbers[n % 4]
            rows[:] = (np.arange(4) * 300 + n * 7) % 1000
            assert consumer.place([table], rows=rows)
            producer.push_rows(TABLE[n: n + 3])
            producer.flush()
            came = consumer.pop(timeout=60)
            assert came == (came.producer, 3, 3 * size, b"")
            assert (table[rows[:3]] == TABLE[n: n + 3]).all()
        # Columns of their own, and more than there is room for.
        assert consumer.place([table["id"][900:902], table["note"][902:904]])
        producer.push_rows(TABLE[:3])
        producer.flush()
        came = consumer.pop(timeout=60)
        assert came.records == 3 and len(came.rest) == 3 * size - 2 * (8 + TABLE.dtype["note"].itemsize)
        for columns, more, words in [
            ([TABLE["id"]], {}, "column 0 is not in memory that the program has registered"),
            ([table["id"], table["id"][1:]], {}, "columns of"),
        ]:
            with pytest.raises(ValueError, match=words):
                consumer.place(columns, **more)
        with pytest.raises(zsr.Misuse, match="don't fit an item"):
            consumer.place([table])
        producer.push_rows(TABLE[:1])
        producer.flush()
        with pytest.raises(zsr.Misuse, match="no layout is placed"):
            consumer.pop()
        while consumer.place([table[:10]]):
            pass
        assert consumer.pop().records == 1
        producer.close()
        assert consumer.pop() is None and consumer.ended


def test_layouts_are_refused_in_plain_memory(flow):
    with pytest.raises(zsr.Misuse, match="memory: layouts"):
        zsr.LayoutConsumer(flow("--item-size", "4KiB"), [])


def test_what_is_wrong_is_said(flow):
    name = flow("--schema", "id: u64, at: f32", "--routing", "hash(id)")
    for wrong, kind, words in [
        (lambda: zsr.Producer("no-such"), zsr.NotFound, "no-such"),
        (lambda: zsr.Consumer(name, system="nowhere"), zsr.NotFound, "no system `nowhere` is up"),
        (lambda: zsr.Consumer(name, member="h9"), zsr.NotFound, "no such member `h9`"),
        (lambda: zsr.Producer(name, schema="id: u64"), zsr.SchemaError, r"the program expects tuples \(id: u64\)"),
        (lambda: zsr.Producer(name, schema=np.dtype([("id", ">u8")])), zsr.SchemaError, "little-endian"),
        (lambda: zsr.Producer(name, schema=np.dtype([("a", "u1"), ("b", "u4")], align=True)), zsr.SchemaError, "gaps"),
        (lambda: zsr.Producer(name, record_size=5), zsr.SchemaError, "not records of 5 B"),
        (lambda: zsr.barrier("b", 2, timeout=0.001), zsr.TimedOut, "not all 2 participants came"),
    ]:
        with pytest.raises(kind, match=words) as raised:
            wrong()
        assert isinstance(raised.value, zsr.Error)
    with zsr.Producer(name) as producer:
        with pytest.raises(zsr.RingError, match="has its producer already"):
            zsr.Producer(name)
        with pytest.raises(zsr.SchemaError, match="rows of"):
            producer.push_rows(np.zeros(3, [("id", "<u8"), ("at", "<f8")]))
        with pytest.raises(zsr.SizeError, match="11 B"):
            producer.push(bytes(11))
        with pytest.raises(ValueError, match="-1"):
            producer.push(bytes(12), timeout=-1)
        with pytest.raises((BufferError, TypeError)):
            producer.push(12)
    with pytest.raises(zsr.Misuse, match="closed"):
        producer.push(bytes(12))
    producer.close()


def test_threads_run_while_one_waits(flow):
    name = flow("--item-size", "64", "--ring-size", "128")
    consumer, producer = zsr.Consumer(name), zsr.Producer(name)
    waiting, came = threading.Event(), []

    def pop():
        waiting.set()
        came.append(consumer.pop())

    thread = threading.Thread(target=pop)
    thread.start()
    waiting.wait()
    # It waits, and this one goes on; a second call at the same object is refused.
    while True:
        try:
            assert consumer.try_pop() is None
        except zsr.Misuse as e:
            assert "another thread" in str(e)
            break
    with pytest.raises(zsr.TimedOut):
        while True:
            producer.push(bytes(28), timeout=0.01)
    thread.join()
    assert len(came[0]) == 1
    producer.leave()
    came.clear()
    consumer.leave()


@pytest.mark.parametrize("what", ["pop", "push"])
def test_ctrl_c_ends_a_call_that_waits(flow, what):
    name = flow("--item-size", "64", "--ring-size", "128")
    script = {
        "pop": f"c = zsr.Consumer({name!r})\nprint('waiting', flush=True)\nc.pop()",
        "push": f"p = zsr.Producer({name!r})\nwhile p.try_push(bytes(28)): pass\nprint('waiting', flush=True)\nwhile True: p.push(bytes(28))",
    }[what]
    # In the background, shells have programs ignore it.
    obey = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)
    program = subprocess.Popen(
        [sys.executable, "-c", "import zsr\n" + script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=obey
    )
    assert program.stdout.readline() == "waiting\n"
    program.send_signal(signal.SIGINT)
    _, said = program.communicate(timeout=60)
    assert program.returncode == -signal.SIGINT and "KeyboardInterrupt" in said, said
    # It has left in good order: another one can go on.
    (zsr.Consumer if what == "pop" else zsr.Producer)(name).leave()


def test_the_example_counts_all(flow):
    name = flow("--schema", "id: u64, price: f64")
    example = os.path.join(os.environ["EXAMPLES"], "rate.py")
    said = subprocess.run([sys.executable, example, name, "rate.png"], capture_output=True, text=True, timeout=300)
    assert said.returncode == 0 and "16000000 bytes" in said.stdout and "the prices' sum is 500000.0" in said.stdout, said.stdout + said.stderr


def test_the_example_hands_over_all_blocks(flow):
    flow.source, flow.sink = "h4", "h3"
    name = flow("--item-size", "1MiB", "--ring-size", "8MiB")
    example = os.path.join(os.environ["EXAMPLES"], "blocks.py")
    said = subprocess.run([sys.executable, example, name], capture_output=True, text=True, timeout=300)
    assert said.returncode == 0 and "7056 pages of 16384 bytes by 192 layouts" in said.stdout, said.stdout + said.stderr


def test_a_controller_at_an_address_wants_a_certificate(flow):
    name = flow("--item-size", "64")
    runtime = os.environ["XDG_RUNTIME_DIR"]
    with open(os.path.join(runtime, "zsr", "s", "controller-address")) as f:
        address = f.read().strip()
    certificate = lambda of: os.path.join(runtime, "certs", of + ".pem")
    with zsr.Consumer(name, controller=address, certificate=certificate("pusher")) as consumer:
        zsr.Producer(name, controller=address, certificate=certificate("pusher")).close()
        assert consumer.pop() is None
    with pytest.raises(zsr.ControllerError, match="TLS"):
        zsr.Producer(name, controller=address)
    # Confined to flows whose names begin with `test_`.
    with pytest.raises(zsr.ControllerError, match="other"):
        zsr.Producer("other", controller=address, certificate=certificate("pusher"))
    with pytest.raises(zsr.Error, match="nobody.pem"):
        zsr.Producer(name, controller=address, certificate=certificate("nobody"))


def test_the_most_urgent_of_several_flows_comes_first(flow):
    urgent = flow()
    bulk = urgent + "-bulk"
    sh("flow", "create", bulk, "-p", "h1", "-c", "h2")
    consumers = [zsr.Consumer(urgent), zsr.Consumer(bulk)]
    producers = [zsr.Producer(urgent), zsr.Producer(bulk)]
    with pytest.raises(zsr.TimedOut):
        zsr.Consumer.most_urgent(consumers, 0.01)
    with pytest.raises(zsr.Misuse, match="one call at a time"):
        zsr.Consumer.most_urgent([consumers[0], consumers[0]], 0)
    for at, text in [(1, "b1"), (1, "b2"), (0, "u1")]:
        producers[at].push(text)
        assert producers[at].settle() == 0
    came = []
    while len(came) < 3:
        consumer = zsr.Consumer.most_urgent(consumers)
        with consumer.pop(0) as batch:
            came += [bytes(record) for record in batch]
        if len(came) == 2:
            # The stream of the most urgent one ends.
            producers[0].close()
    assert came == [b"u1", b"b1", b"b2"]
    producers[1].close()
    assert zsr.Consumer.most_urgent(consumers) is None
    for consumer in consumers:
        consumer.leave()
    with pytest.raises(zsr.Misuse, match="closed"):
        zsr.Consumer.most_urgent(consumers)
    sh("flow", "delete", bulk)


@pytest.fixture
def both(flow, request):
    """A flow of streams, and one of answers."""
    name = flow("--item-size", "4KiB")
    back = f"{name}-back"[-60:].lstrip("-_0123456789")
    sh("flow", "create", back, "-p", "h2", "-c", "h1", "--item-size", "512")
    yield name, back
    subprocess.run([os.environ["ZSR"], "flow", "delete", back, "--force"], capture_output=True)


def test_streams_arrive_whole_in_order_and_end(both):
    records = [os.urandom(n % 5 * 3000) for n in range(60)]

    def send():
        with zsr.OutStreams(*both) as out:
            assert out.consumers == 1
            threads = []
            for number in range(3):
                stream = out.open(f"stream {number}")
                threads.append(threading.Thread(target=lambda s=stream, n=number: ([s.push(r) for r in records[n:]], s.end())))
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]

    sending = threading.Thread(target=send)
    sending.start()
    names = []
    with zsr.InStreams(*both, window=1 << 16) as streams:
        for stream in streams:
            names.append(stream.name)
            assert list(stream) == records[int(stream.name.split()[1]):]
            assert stream.pop() is None
        assert streams.accept() is None
    sending.join()
    assert sorted(names) == [b"stream 0", b"stream 1", b"stream 2"]


def test_streams_are_cancelled_and_given_up_with_a_reason(both):
    with zsr.InStreams(*both) as streams:
        out = zsr.OutStreams(*both)
        with pytest.raises(zsr.TimedOut):
            streams.accept(timeout=0)
        with pytest.raises(zsr.RouteError):
            out.open("to nobody", to=1)
        much = out.open(b"much")
        much.push("one")
        much.flush()
        with streams.accept() as stream:
            assert stream.pop() == b"one"
            with pytest.raises(zsr.TimedOut):
                stream.pop(timeout=0.001)
            stream.cancel("one is enough")
        with pytest.raises(zsr.StreamError, match="cancelled by its receiver: one is enough"):
            while True:
                much.push(bytes(1000))
        with pytest.raises(ValueError), out.open("half") as half:
            half.push("one")
            raise ValueError("out of paper")
        stream = streams.accept()
        assert stream.pop() == b"one"
        with pytest.raises(zsr.StreamError, match="out of paper"):
            stream.pop()
        closing = threading.Thread(target=out.close)
        closing.start()
        assert streams.accept() is None
        closing.join()
    with pytest.raises(zsr.Misuse):
        streams.accept()
    with pytest.raises(zsr.StreamError, match="one is enough"):
        much.end()
    with pytest.raises(zsr.Misuse):
        much.push("after the end")
