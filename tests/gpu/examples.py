"""Flows of all kinds, and the examples of host-agent/cuda, on a running system: examples.py DIST PROGRAMS, an installed tree (cargo xtask dist)
and a folder with join, moe, flow (for a GPU) and flow-cpu."""
import concurrent.futures, json, os, subprocess, sys, tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from live import PATIENCE, Failed, System

PARTS = 4
TOPOLOGY = "name: s\nhosts: [h1, h2]\nflows: []\n"
OPTIONS = ["--ring-size", "64KiB", "--doorbell", "false"]
PRODUCERS, CONSUMERS = "ab", "xyz"
# Members with a device's kernels, by who has them; the size of an item.
DIRECTIONS = [("GPU", "CPU", "64"), ("CPU", "GPU", "1KiB"), ("GPU", "GPU", "4KiB")]
WAYS = {"shuffle": "pop", "load-balance": "pop-some", "replicate": "pop"}


def mix(x):
    """As in device.hpp."""
    low = (1 << 64) - 1
    x = x + 0x9E3779B97F4A7C15 & low
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & low
    x = (x ^ x >> 27) * 0x94D049BB133111EB & low
    return x ^ x >> 31


def delivered(kind, got, items):
    """Whether consumers have what `items` items in each ring of each producer make."""
    by_producer = [sum(counts) for counts in zip(*(c["counts"] for c in got))]
    copies = {"shuffle": len(CONSUMERS), "load-balance": 1, "replicate": len(CONSUMERS)}[kind]
    wanted = [items * copies] * len(PRODUCERS)
    total = sum(mix(p << 32 | n) for p in range(len(PRODUCERS)) for n in range(items)) * copies
    if [n for n in by_producer if n] != wanted or (sum(int(c["sum"], 16) for c in got) - total) % (1 << 64):
        raise Failed(f"{kind}: {got}, and {wanted} items were pushed")
    if kind == "replicate" and len({c["order"] for c in got}) != 1:
        raise Failed(f"{kind}: consumers have seen different orders: {got}")


def flows(system, start, ends, programs, memory, items=3000):
    """Every kind of flow from and to kernels, persistent ones and one per batch; every item is checked where it is popped."""
    names = {"GPU": "GPU" if memory.startswith("gpu") else "threads for kernels", "CPU": "CPU"}
    for number, (kind, way) in enumerate(WAYS.items()):
        for source, target, size in DIRECTIONS:
            on = [f"--memory={m}={memory}" for side, members in ((source, PRODUCERS), (target, CONSUMERS)) if side == "GPU" for m in members]
            system.run("flow", "create", "rows", "--kind", kind, "-p", *(f"{p}@h1" for p in PRODUCERS), "-c", *(f"{c}@h2" for c in CONSUMERS),
                       "--item-size", size, *OPTIONS, *on)
            kernels = 1 if number % 2 else 5
            pushes = [f"push:rows:{p}:{i}" for i, p in enumerate(PRODUCERS)]
            pops = [f"{way}:rows:{c}:{i if kind == 'shuffle' else 0}" for i, c in enumerate(CONSUMERS)]
            # Kernels of one GPU are in one process, or they would take turns.
            members = [(source, pushes + pops)] if source == target else [(source, pushes), (target, pops)]
            running = [start(programs[side], str(kernels), str(items), *who) for side, who in members]
            with concurrent.futures.ThreadPoolExecutor() as waiting:
                said = [waiting.submit(ends, program) for program in running]
                try:
                    lines = "".join(done.result() for done in concurrent.futures.as_completed(said)).splitlines()
                finally:
                    # If one has failed, the others wait for it.
                    for program in running:
                        program.kill()
            got = [json.loads(line) for line in lines]
            delivered(kind, got, items)
            system.run("flow", "delete", "rows")
            print(f"OK gpu flows: {kind}, {names[source]} to {names[target]}, items of {size}, {kernels} kernels a member, rings in {memory}, "
                  f"{max(c['seconds'] for c in got):.2f} s", flush=True)


def examples(system, start, ends, join, moe, memory):
    at = lambda *hosts: [f"--memory={host}={memory}" for host in hosts]
    partitions = [f"p{i}@h2" for i in range(PARTS)]
    experts = [f"e{i}@h2" for i in range(PARTS)]
    rows = ["--schema", "key: u64, value: u64", "--item-size", "4KiB", *OPTIONS, *at("h2")]
    system.run("flow", "create", "build", "-p", "h1", "-c", *partitions, *rows)
    probe = start(join, "probe", "100000", "50000", str(PARTS))
    ends(start(join, "build", "100000"))
    print("OK gpu examples:", ends(probe).strip())
    system.run("flow", "delete", "build")

    # More rows than the kernel was told: it says so, and holds up nobody.
    system.run("flow", "create", "build", "-p", "h1", "-c", *partitions, *rows)
    probe = start(join, "probe", "1000", "1000", str(PARTS))
    ends(start(join, "build", "100000"))
    said = ends(probe, 1)
    if "hash table of a partition is full" not in said:
        raise Failed(f"a full table: {said}")
    system.run("flow", "delete", "build")

    items = ["--item-size", "1KiB", *OPTIONS, *at("h1", "h2")]
    system.run("flow", "create", "tokens", "-p", "h1", "-c", *experts, *items)
    system.run("flow", "create", "answers", "-p", *experts, "-c", "h1", *items)
    print("OK gpu examples:", ends(start(moe, str(PARTS), "2000")).strip())
    system.run("flow", "delete", "tokens")
    system.run("flow", "delete", "answers")


def main(dist, programs, memories=("gpu:0:host", "gpu:0")):
    join, moe, gpu, cpu = (os.path.join(programs, name) for name in ("join", "moe", "flow", "flow-cpu"))
    env = {"LD_LIBRARY_PATH": os.path.join(dist, "lib")}
    with tempfile.TemporaryDirectory(prefix="zsr-gpu-") as work:
        topology = os.path.join(work, "s.yaml")
        with open(topology, "w") as f:
            f.write(TOPOLOGY)
        with System(os.path.join(dist, "bin", "zsr"), topology) as system:

            def start(*args):
                return subprocess.Popen(args, env=system.env | env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

            def ends(program, code=0):
                said, _ = program.communicate(timeout=PATIENCE)
                if program.returncode != code:
                    raise Failed(f"{' '.join(program.args)}: exit code {program.returncode}, not {code}: {said}")
                return said

            system.up()
            # Rings that kernels reach over the bus, and rings in the GPU's own memory.
            for memory in memories:
                flows(system, start, ends, {"GPU": gpu, "CPU": cpu}, memory)
                examples(system, start, ends, join, moe, memory)
                print(f"OK gpu examples: rings in {memory}")
            system.down()


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Failed as e:
        sys.exit(f"FAILED gpu examples: {e}")
