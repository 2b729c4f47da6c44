"""Hands blocks of a KV cache from a prefill host to a decode host. Blocks lie scattered on both sides, as block tables of vLLM have them.
The prefill side copies nothing: for each layer it names its block table, and the NIC gathers the blocks.

    zsr up topologies/shuffle-2x2.yaml --no-flows
    zsr flow create kv -p h1 -c h3 --item-size 1MiB --ring-size 8MiB --memory h1=layouts
    python blocks.py kv
"""
import multiprocessing, sys, time

import numpy as np
import zsr

# A block has a page for the keys, and one for the values, of each layer.
LAYERS, PAGE, BLOCKS = 8, 16 << 10, 256
REQUESTS = 12
WORDS = PAGE // 8


def table_of(request):
    """The blocks of a request, which lie anywhere. At most as many as an item holds."""
    some = np.random.default_rng(request)
    return some.permutation(BLOCKS)[: some.integers(20, 60)].astype("u4")


def word(request, layer, positions):
    """What the pages of these blocks of a request are full of."""
    return np.uint64(request << 40) + np.uint64(layer << 20) + positions.astype("u8")


def prefill(flow):
    """Another process; on the machine of the flow's producer."""
    cache_memory, table_memory = zsr.Registered(2 * LAYERS * BLOCKS * PAGE), zsr.Registered(4 * BLOCKS)
    cache = np.frombuffer(cache_memory, "u8").reshape(2 * LAYERS, BLOCKS, WORDS)
    tables = np.frombuffer(table_memory, "u4")
    with zsr.Producer(flow, registered=[cache_memory, table_memory]) as producer:
        for request in range(REQUESTS):
            own = table_of(request)
            table = tables[: len(own)]
            table[:] = own
            for layer in range(2 * LAYERS):
                cache[layer, own] = word(request, layer, np.arange(len(own)))[:, None]
            # How many blocks come, and then all layers of them, each as one item.
            producer.push(np.array([request, len(own)], "u4").tobytes(), to=0)
            tickets = [producer.lay_out([cache[layer]], rows=table, to=0) for layer in range(2 * LAYERS)]
            # A server goes on with other blocks meanwhile. Here the next request has the same ones.
            while not producer.was_taken(tickets[-1]):
                time.sleep(0.0005)


def decode(flow):
    """Checks all requests. Says how many pages came."""
    cache = np.zeros((2 * LAYERS, BLOCKS, WORDS), "u8")
    free = list(range(BLOCKS))
    pages = 0
    with zsr.Consumer(flow) as consumer:
        for head in consumer:
            request, count = np.frombuffer(bytes(next(iter(head))), "u4")
            # The ring has its items back in their order.
            head.release()
            own, free = free[:count], free[count:]
            for layer in range(2 * LAYERS):
                # Each page goes from the ring to a block that is free.
                cache[layer, own] = consumer.pop().numpy(f"({WORDS},)u8")
                pages += count
            for layer in range(2 * LAYERS):
                expected = word(int(request), layer, np.arange(count))
                assert (cache[layer, own] == expected[:, None]).all(), f"request {request}, layer {layer}"
            free += own
    return pages


def main(flow):
    # Not by fork(), after which a ring would have two programs.
    sending = multiprocessing.get_context("spawn").Process(target=prefill, args=(flow,))
    sending.start()
    pages = decode(flow)
    sending.join()
    print(f"{pages} pages of {PAGE} bytes by {REQUESTS * 2 * LAYERS} layouts, all as they were")


if __name__ == "__main__":
    main(*sys.argv[1:])
