#!/usr/bin/env python3
"""check.py ZSR FOLDER: what tests/disk/run shows. FOLDER is a small file system of its own."""
import os, signal, subprocess, sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from live import Failed, System

ZSR, DISK = sys.argv[1], Path(sys.argv[2])
TOPOLOGY = ROOT / "topologies" / "one-to-one.yaml"
BALLAST = DISK / "ballast"


def expect(what, good, seen=""):
    if not good:
        raise Failed(f"{what}: {seen}")
    print(f"OK disk: {what}", flush=True)


def fill():
    """Leaves no byte free."""
    with open(BALLAST, "ab", buffering=0) as file:
        for size in (4096, 1):
            try:
                while file.write(b"x" * size):
                    pass
            except OSError:
                pass


class OnDisk(System):
    """A system whose folder is on the small file system, and topology beside it."""

    def __init__(self):
        super().__init__(ZSR, TOPOLOGY, "--system", "s", flows=False)
        os.rmdir(self.folder)
        self.folder = str(DISK)
        self.env["XDG_RUNTIME_DIR"] = self.folder

    def try_to(self, *args):
        return subprocess.run([ZSR, *args], env=self.env, capture_output=True, text=True, timeout=60)

    def fails(self, *args):
        """What a command says that ends with exit code 1."""
        done = self.try_to(*args)
        if done.returncode != 1:
            raise Failed(f"zsr {' '.join(args)}: exit code {done.returncode}: {done.stdout}{done.stderr}")
        return done.stderr

    def carries(self, lines):
        """Lines through flow f, by a producer that leaves the stream open."""
        text = "".join(f"{line}\n" for line in lines)
        fed = subprocess.run([ZSR, "produce", "f", "--keep-open"], env=self.env, input=text, capture_output=True, text=True, timeout=60)
        if fed.returncode:
            raise Failed(f"produce: {fed.stderr}")
        return self.run("consume", "f", "-n", str(len(lines))) == text


with OnDisk() as system:
    fill()
    said = system.up(code=1)
    expect("a system that finds no room says so", "is full" in said, said)
    expect("and leaves nothing behind", system.left() == [], system.left())
    BALLAST.unlink()
    system.up()
    system.run("flow", "create", "f", "-p", "h1", "-c", "h2")
    fill()
    # The journal's last page has room for some more.
    taken = 0
    while taken < 1000 and system.try_to("flow", "set", "f", "--weight", str(taken + 1)).returncode == 0:
        taken += 1
    said = system.fails("flow", "create", "g", "-p", "h1", "-c", "h2")
    expect("a flow that can't be written is refused", "journal" in said and "No space left" in said, said)
    said = system.fails("flow", "set", "f", "--weight", "999")
    expect("so is a change of another", "No space left" in said, said)
    expect("the system says that changes are refused", "changes are refused" in system.run("status"))
    expect("data moves all the same", system.carries(range(1000)))
    os.kill(system.pids()["controller"], signal.SIGKILL)
    said = system.fails("restart", "controller")
    expect("a controller that finds no room says so", "is full" in said or "No space left" in said, said)
    BALLAST.unlink()
    system.run("restart", "controller")
    flows = system.json("flow", "list")
    expect("the flow outlives the controller", [f["name"] for f in flows] == ["f"], flows)
    expect("with what was taken, and no more", flows[0]["settings"]["weight"] == taken, (taken, flows))
    expect("and carries data", system.carries(range(1000)))
    system.run("flow", "create", "g", "-p", "h1", "-c", "h2")
    expect("where there is room again, changes are taken", len(system.json("flow", "list")) == 2)
    fill()
    system.run("down")
    expect("a system on a full disk goes down, and leaves nothing", system.left() == [], system.left())
