"""Hands blocks of a KV cache from a prefill host to a decode host. Blocks lie scattered on both sides, as block tables of vLLM have them.
Neither side copies a page: prefill names its block table for each layer, and its NIC gathers the pages; decode names free blocks, and its
NIC puts the pages there.

    zsr up topologies/shuffle-2x2.yaml --no-flows
    zsr flow create kv -p h1 -c h3 --item-size 1MiB --ring-size 8MiB --memory h1=layouts --memory h3=layouts
    python blocks.py kv
"""
import collections, multiprocessing, sys, time

import numpy as np
import zsr

# A block has a page for the keys, and one for the values, of each layer. An item takes 63 pages.
LAYERS, PAGE, BLOCKS = 8, 16 << 10, 256
MOST, REQUESTS = 60, 12
WORDS = PAGE // 8


class Cache:
    """Pages by layer and block, in memory that a NIC reaches; and room for lists of blocks."""

    def __init__(self):
        self.registered = [zsr.Registered(2 * LAYERS * BLOCKS * PAGE), zsr.Registered(4 * 64 * MOST)]
        pages, lists = self.registered
        self.pages = np.frombuffer(pages, "u8").reshape(2 * LAYERS, BLOCKS, WORDS)
        self.lists = np.frombuffer(lists, "u4").reshape(64, MOST)


def table_of(request):
    """The blocks of a request, which lie anywhere."""
    some = np.random.default_rng(request)
    return some.permutation(BLOCKS)[: some.integers(20, MOST)].astype("u4")


def word(request, layer, positions):
    """What the pages of these blocks of a request are full of."""
    return np.uint64(request << 40) + np.uint64(layer << 20) + positions.astype("u8")


def prefill(flow):
    """Another process; on the machine of the flow's producer."""
    cache = Cache()
    with zsr.Producer(flow, registered=cache.registered) as producer:
        for request in range(REQUESTS):
            own = table_of(request)
            table = cache.lists[request % 64, : len(own)]
            table[:] = own
            for layer in range(2 * LAYERS):
                cache.pages[layer, own] = word(request, layer, np.arange(len(own)))[:, None]
            # One item per layer, of all blocks.
            tickets = [producer.lay_out([cache.pages[layer]], rows=table, to=0) for layer in range(2 * LAYERS)]
            # A server goes on with other blocks meanwhile. Here the next request has the same ones.
            while not producer.was_taken(tickets[-1]):
                time.sleep(0.0005)
        # The stream does not end, so that the next run can follow this one.
        producer.settle()
        producer.leave()


def decode(flow):
    """Checks all requests. Says how many pages came."""
    cache, pages, asked = Cache(), 0, 0
    free = list(np.random.default_rng(99).permutation(BLOCKS))
    # Blocks of requests that are still to come, for each as many as it has at most; and what of them is to be placed.
    waiting, to_place = collections.deque(), collections.deque()
    with zsr.LayoutConsumer(flow, cache.registered) as consumer:
        for request in range(REQUESTS):
            for layer in range(2 * LAYERS):
                while len(free) >= MOST:
                    blocks = cache.lists[asked % 64]
                    blocks[:], free, asked = free[:MOST], free[MOST:], asked + 1
                    waiting.append(blocks)
                    to_place.extend((cache.pages[layer], blocks) for layer in range(2 * LAYERS))
                # As many as the ring has items.
                while to_place and consumer.place([to_place[0][0]], rows=to_place[0][1]):
                    to_place.popleft()
                count = consumer.pop().records
                pages += count
            own = waiting.popleft()
            for layer in range(2 * LAYERS):
                expected = word(request, layer, np.arange(count))
                assert (cache.pages[layer, own[:count]] == expected[:, None]).all(), f"request {request}, layer {layer}"
            free += list(own)
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
