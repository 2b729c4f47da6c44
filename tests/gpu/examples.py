"""The examples of host-agent/cuda on a running system: examples.py DIST JOIN MOE, an installed tree (cargo xtask dist) and two programs."""
import os, subprocess, sys, tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from live import PATIENCE, Failed, System

PARTS = 4
TOPOLOGY = "name: s\nhosts: [h1, h2]\nflows: []\n"
OPTIONS = ["--ring-size", "64KiB", "--doorbell", "false"]


def examples(system, start, ends, join, moe, memory):
    partitions = [f"p{i}@h2" for i in range(PARTS)]
    experts = [f"e{i}@h2" for i in range(PARTS)]
    rows = ["--schema", "key: u64, value: u64", "--item-size", "4KiB", *OPTIONS, *memory]
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

    items = ["--item-size", "1KiB", *OPTIONS, *memory]
    system.run("flow", "create", "tokens", "-p", "h1", "-c", *experts, *items)
    system.run("flow", "create", "answers", "-p", *experts, "-c", "h1", *items)
    print("OK gpu examples:", ends(start(moe, str(PARTS), "2000")).strip())
    system.run("flow", "delete", "tokens")
    system.run("flow", "delete", "answers")


def main(dist, join, moe, memories=("gpu:0:host", "gpu:0")):
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
                examples(system, start, ends, join, moe, ["--memory", f"h1={memory}", "--memory", f"h2={memory}"])
                print(f"OK gpu examples: rings in {memory}")
            system.down()


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Failed as e:
        sys.exit(f"FAILED gpu examples: {e}")
