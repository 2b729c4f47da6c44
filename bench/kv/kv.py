"""One side of bench/kv/run: hands all requests over once, and prints what it took."""
import collections, glob, multiprocessing, multiprocessing.connection, os, resource, sys, time

import numpy as np

PAGE, BLOCKS, REQUESTS = (int(os.environ.get(name, default)) for name, default in [("PAGE", 32768), ("BLOCKS", 62), ("REQUESTS", 20)])
# Keys and values of each layer, as servers of models keep them: an array per layer and kind, a page per block.
PARTS, CACHE = 64, 4 * BLOCKS
# Requests that are under way at a time.
DEPTH = 2


def table_of(request, side):
    """The blocks of a request, which lie anywhere. Requests that are under way have blocks of their own."""
    half = np.random.default_rng([request, side]).permutation(CACHE // DEPTH)[:BLOCKS]
    return (half + request % DEPTH * (CACHE // DEPTH)).astype("u4")


def word(request, part, position):
    return np.uint64(request << 40 | part << 20) + np.asarray(position, "u8")


def fill(pages, request):
    """Marks the pages of a request, by their first and last words."""
    table = table_of(request, 0)
    for part in range(PARTS):
        pages[part, table, 0] = pages[part, table, -1] = word(request, part, np.arange(BLOCKS))


def check(pages, request):
    table = table_of(request, 1)
    for part in range(PARTS):
        for at in 0, -1:
            assert (pages[part, table, at] == word(request, part, np.arange(BLOCKS))).all(), f"request {request}, part {part}"


def used():
    """Seconds of the processor that this process has used."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def system():
    """Seconds that the processes of zsr's switch, agents and controller have used."""
    runtime, ticks = os.environ["XDG_RUNTIME_DIR"], 0
    for path in glob.glob("/proc/[0-9]*/environ"):
        folder = os.path.dirname(path)
        try:
            if runtime.encode() in open(path, "rb").read() and b"zsr\0" in open(f"{folder}/cmdline", "rb").read():
                ticks += sum(map(int, open(f"{folder}/stat").read().rsplit(")", 1)[1].split()[11:13]))
        except OSError:
            pass
    return ticks / os.sysconf("SC_CLK_TCK")


def prefill_zsr(ready, pipe):
    import zsr

    memory, lists = zsr.Registered(PARTS * CACHE * PAGE), zsr.Registered(4 * DEPTH * BLOCKS)
    pages = np.frombuffer(memory, "u8").reshape(PARTS, CACHE, PAGE // 8)
    tables = np.frombuffer(lists, "u4").reshape(DEPTH, BLOCKS)
    most = ((1 << 20) - 32) // PAGE
    with zsr.Producer("kv", registered=[memory, lists]) as producer:
        ready.wait()
        begin, laid, posting, tickets = used(), 0, 0.0, collections.deque()
        for request in range(REQUESTS):
            while len(tickets) >= DEPTH:
                ticket = tickets.popleft()
                while not producer.was_taken(ticket):
                    time.sleep(0.0002)
            fill(pages, request)
            table = tables[request % DEPTH]
            table[:] = table_of(request, 0)
            for part in range(PARTS):
                for at in range(0, BLOCKS, most):
                    # What it takes beside the wait for room.
                    start = time.thread_time()
                    ticket = producer.lay_out([pages[part]], rows=table[at:at + most], to=0)
                    posting += time.thread_time() - start
                    laid += 1
            tickets.append(ticket)
        producer.settle()
        pipe.send((used() - begin, laid, posting))
        pipe.recv()
        producer.leave()


def decode_zsr(ready, pipe):
    import zsr

    memory, lists = zsr.Registered(PARTS * CACHE * PAGE), zsr.Registered(4 * DEPTH * BLOCKS)
    pages = np.frombuffer(memory, "u8").reshape(PARTS, CACHE, PAGE // 8)
    tables = np.frombuffer(lists, "u4").reshape(DEPTH, BLOCKS)
    most = ((1 << 20) - 32) // PAGE
    with zsr.LayoutConsumer("kv", [memory, lists]) as consumer:
        to_place, prepared = collections.deque(), 0
        ready.wait()
        begin, start = used(), time.monotonic()
        for request in range(REQUESTS):
            while prepared < min(request + DEPTH, REQUESTS):
                table = tables[prepared % DEPTH]
                table[:] = table_of(prepared, 1)
                to_place.extend((part, table[at:at + most]) for part in range(PARTS) for at in range(0, BLOCKS, most))
                prepared += 1
            items = 0
            while items < PARTS * -(-BLOCKS // most):
                while to_place and consumer.place([pages[to_place[0][0]]], rows=to_place[0][1]):
                    to_place.popleft()
                consumer.pop()
                items += 1
            check(pages, request)
        took = time.monotonic() - start
        pipe.send((used() - begin, took))
        # Its layouts are used up: what comes next is the next program's.
        pipe.recv()


def agent_of(name, memory):
    from nixl._api import nixl_agent, nixl_agent_config

    agent = nixl_agent(name, nixl_agent_config(backends=["UCX"]))
    agent.register_memory([(memory.ctypes.data, memory.nbytes, 0, "cache")], "DRAM")
    # All pages, as servers do it once.
    every = [(memory.ctypes.data + page * PAGE, PAGE, 0) for page in range(PARTS * CACHE)]
    return agent, every


def numbers(request, side):
    """The numbers of the pages of a request among all pages."""
    table = table_of(request, side)
    return np.concatenate([part * CACHE + table for part in range(PARTS)]).astype("i4")


def prefill_nixl(ready, pipe):
    memory = np.zeros(PARTS * CACHE * PAGE // 8, "u8")
    pages = memory.reshape(PARTS, CACHE, PAGE // 8)
    agent, every = agent_of("prefill", memory)
    peer = agent.add_remote_agent(pipe.recv())
    theirs = agent.deserialize_descs(pipe.recv())
    own = agent.prep_xfer_dlist("", agent.get_xfer_descs(every, "DRAM"))
    remote = agent.prep_xfer_dlist(peer, theirs)
    ready.wait()
    begin, posting, posted, handles = used(), 0.0, 0, collections.deque()

    def finish(handle):
        while (state := agent.check_xfer_state(handle)) != "DONE":
            assert state != "ERR"
            time.sleep(0.0002)
        agent.release_xfer_handle(handle)

    for request in range(REQUESTS):
        if len(handles) >= DEPTH:
            finish(handles.popleft())
        # Decode has taken the request before out of the same blocks.
        if request >= DEPTH:
            pipe.recv()
        fill(pages, request)
        start = time.monotonic()
        local, there = numbers(request, 0), numbers(request, 1)
        handle = agent.make_prepped_xfer("WRITE", own, local, remote, there, b"%d" % request)
        assert agent.transfer(handle) != "ERR"
        posting += time.monotonic() - start
        posted += len(local)
        handles.append(handle)
    while handles:
        finish(handles.popleft())
    pipe.send((used() - begin, posted, posting))
    pipe.recv()


def decode_nixl(ready, pipe):
    memory = np.zeros(PARTS * CACHE * PAGE // 8, "u8")
    pages = memory.reshape(PARTS, CACHE, PAGE // 8)
    agent, every = agent_of("decode", memory)
    pipe.send(agent.get_agent_metadata())
    pipe.send(agent.get_serialized_descs(agent.get_xfer_descs(every, "DRAM")))
    ready.wait()
    begin, start, done = used(), time.monotonic(), set()
    for request in range(REQUESTS):
        while request not in done:
            for messages in agent.get_new_notifs().values():
                done.update(map(int, messages))
            time.sleep(0.0002)
        check(pages, request)
        pipe.send(request)
    took = time.monotonic() - start
    pipe.send((used() - begin, took))
    pipe.recv()


def side(work, ready, pipe):
    work(ready, pipe)
    # Without destructors, one of which fails in NIXL 1.5.1.
    os._exit(0)


def main(kind, name="zsr, layouts at both ends"):
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(3)
    here, there = {"zsr": (prefill_zsr, decode_zsr), "nixl": (prefill_nixl, decode_nixl)}[kind]
    prefill, prefill_end = context.Pipe()
    decode, decode_end = context.Pipe()
    if kind == "nixl":
        # What decode says goes to prefill directly, but for its figures.
        prefill_end, decode_end = relay(context)
        ends = [prefill_end[0], decode_end[0]]
    else:
        ends = [prefill_end, decode_end]
    sides = [context.Process(target=side, args=(work, ready, end)) for work, end in zip((here, there), ends)]
    for process in sides:
        process.start()
    if kind == "nixl":
        prefill, decode = prefill_end[1], decode_end[1]
    ready.wait()
    before = system() if kind == "zsr" else 0
    (decode_cpu, took), (prefill_cpu, posted, posting) = decode.recv(), prefill.recv()
    others = system() - before if kind == "zsr" else 0
    for pipe in prefill, decode:
        pipe.send(None)
    for process in sides:
        process.join()
    gigabytes = REQUESTS * PARTS * BLOCKS * PAGE / 1e9
    print(f"{name:28} {gigabytes / took:6.2f} GB/s  CPU seconds per GB: prefill {prefill_cpu / gigabytes:6.3f}  decode {decode_cpu / gigabytes:6.3f}"
          f"  switch and agents {others / gigabytes:6.3f}  {'layouts' if kind == 'zsr' else 'descriptors'} per request {posted // REQUESTS:5}"
          f"  posting {posting / took:5.1%} of the time",
          flush=True)


class Relayed:
    """A pipe to the other side, and one to whoever prints: figures are tuples."""

    def __init__(self, peer, figures):
        self.peer, self.figures = peer, figures

    def send(self, what):
        (self.figures if isinstance(what, tuple) else self.peer).send(what)

    def recv(self):
        ready = multiprocessing.connection.wait([self.peer, self.figures])
        return ready[0].recv()


def relay(context):
    one, two = context.Pipe()
    mine, its = context.Pipe()
    other, others = context.Pipe()
    return (Relayed(one, its), mine), (Relayed(two, others), other)


if __name__ == "__main__":
    main(*sys.argv[1:])
