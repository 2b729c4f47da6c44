"""What a push costs in machine code, beside NVSHMEM's put with signal: python3 count.py BIN ARCH PUSH.cubin PUT.cubin.

Nothing runs here. Of each loop the cheapest turn is counted that does what it is for: zsr's stores an item and then `head`; NVSHMEM's
waits for room, puts, and on its way writes an entry of a work queue, as where GPUs give work to a NIC themselves. With more items per
entry, errors, or a proxy, it takes more. Fails if zsr's takes more than a third, or calls anything."""

import re
import subprocess
import sys

import sass

# Kernel, item, and how many 16-byte stores of a thread that is.
LOOPS = [("thread", "64 B", 4), ("warp", "512 B", 1), ("block", "4 KiB, 256 threads", 1)]


def is_item(op, _):
    return op.startswith("STG.E.128")


def is_head(op, _):
    return op.startswith(("ST.E.64.STRONG.SYS", "STG.E.64.STRONG.SYS"))


def is_put(op, operands):
    return op.startswith("CALL") and "put_signal_dispatch" in operands


def is_entry(op, _):
    return op.startswith("ST.E.EF.128")


def is_barrier(op):
    return op.startswith(("BAR.", "WARPSYNC"))


def registers(tools, cubin):
    """By function."""
    text = subprocess.run([f"{tools}/cuobjdump", "-elf", cubin], check=True, capture_output=True, text=True).stdout
    return {name: int(count) for name, count in re.findall(r"function: ([\w$]+)\(0x\w+\)\s+register count: (\d+)", text)}


def row(tools, cubin, kernel, passes, through_kind=None):
    functions = sass.read(f"{tools}/nvdisasm", cubin)
    reached = sass.closure(functions, kernel)
    through = {name: [through_kind] for name in reached if "dispatch" in name}
    turn = sass.iteration(functions, kernel, passes, through)
    if turn is None:
        sys.exit(f"{kernel}: no turn of the loop does what it is for; has the code another form?")
    barriers = sum(is_barrier(op) for op, _, _ in functions[kernel].code)
    held = registers(tools, cubin)
    calls = sorted(call for name in reached for call in functions[name].calls())
    return turn, sum(len(functions[name].code) for name in reached), max(held.get(name, 0) for name in reached), barriers, calls


def main():
    tools, arch, push, put = sys.argv[1:]
    print(f"{arch}                          instructions per item   in the code   registers   barriers in the loop's function   calls")
    failed = False
    for group, item, stores in LOOPS:
        ours = row(tools, push, f"push_{group}", [is_item] * stores + [is_head])
        theirs = row(tools, put, f"put_{group}", [is_put], is_entry)
        for name, (turn, size, regs, barriers, calls) in ((f"zsr push, {group}, {item}", ours), (f"NVSHMEM put with signal, {group}", theirs)):
            print(f"{name:42} {turn:9} {size:14} {regs:10} {barriers:16} {len(calls):22}")
        if ours[0] * 3 > theirs[0]:
            print(f"FAILED: a push takes {ours[0]} instructions, more than a third of {theirs[0]}")
            failed = True
        if ours[4]:
            print(f"FAILED: a push calls {ours[4]}")
            failed = True
    sys.exit(failed)


main()
