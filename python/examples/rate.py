"""Pushes a numpy table, pops it elsewhere, and plots the rate.

    zsr up topologies/shuffle-2x2.yaml --no-flows
    zsr flow create prices -p h1 -c h3 --schema 'id: u64, price: f64'
    pip install matplotlib                  # without it, the rate is printed
    python rate.py prices rate.png
"""
import multiprocessing, sys, time

import numpy as np
import zsr

ROWS = 1_000_000


def push(flow):
    """Another process; on the machine of the flow's producer."""
    with zsr.Producer(flow) as producer:
        table = np.zeros(ROWS, producer.dtype)
        table["id"] = np.arange(ROWS)
        table["price"] = 0.5
        producer.push_rows(table)


def pop(flow):
    """Times and bytes of each batch, and the sum of all prices."""
    times, counts, total = [], [], 0.0
    with zsr.Consumer(flow) as consumer:
        for batch in consumer:
            rows = batch.numpy()  # in the ring
            total += rows["price"].sum()
            times.append(time.monotonic())
            counts.append(rows.nbytes)
    return np.array(times), np.array(counts), total


def main(flow, picture):
    # Not by fork(), after which a ring would have two programs.
    pushing = multiprocessing.get_context("spawn").Process(target=push, args=(flow,))
    pushing.start()
    times, counts, total = pop(flow)
    pushing.join()
    seconds = times[-1] - times[0]
    print(f"{counts.sum()} bytes in {len(counts)} batches, {counts.sum() / seconds / 1e6:.0f} MB/s; the prices' sum is {total}")
    # MB/s in each of a hundred parts of the time.
    rate, edges = np.histogram(times - times[0], bins=100, weights=counts / 1e6)
    rate /= edges[1] - edges[0]
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        print("MB/s over time:", " ".join(f"{r:.0f}" for r in rate[::10]))
        return
    plt.plot(edges[:-1], rate)
    plt.xlabel("s")
    plt.ylabel("MB/s")
    plt.savefig(picture)


if __name__ == "__main__":
    main(*(sys.argv[1:] + ["prices", "rate.png"][len(sys.argv) - 1:]))
