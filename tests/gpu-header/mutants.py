"""Breaks zsr.cuh in one place at a time, and says which of these breaks the tests notice: python3 mutants.py CUDA_FOLDER WORK_FOLDER CXX."""

import pathlib
import shutil
import subprocess
import sys

# File, what is there, what stands there instead, which occurrence of it.
MUTANTS = [
    ("zsr_groups.cuh", "__ATOMIC_RELEASE", "__ATOMIC_RELAXED", 0),
    ("zsr_groups.cuh", "__ATOMIC_ACQUIRE", "__ATOMIC_RELAXED", 0),
    ("zsr.cuh", "        copy_in(g, to, from, bytes);\n        g.sync();", "        copy_in(g, to, from, bytes);", 0),
    ("zsr.cuh", "        g.sync();\n        store(g, items * r_.item);", "        store(g, items * r_.item);", 0),
    ("zsr.cuh", "        g.sync();\n        store(g, items * r_.item);", "        store(g, items * r_.item);", 1),
    ("zsr.cuh", "limit_ = tail.counter + r_.size", "limit_ = tail.counter + 2 * r_.size", 0),
    ("zsr.cuh", "if (bytes > wrap) bytes = wrap;", "", 0),
    ("zsr.cuh", "if (bytes > wrap) bytes = wrap;", "", 1),
    ("zsr.cuh", "if (tail.flags & flag_aborted) return status::aborted;", "", 0),
    ("zsr.cuh", "if (head.flags & flag_closed) return status::closed;", "", 0),
    ("zsr.cuh", "flags_ = own.flags;", "flags_ = 0;", 0),
    ("zsr_segments.cuh", "crc_behind(crc, used - from - bytes)", "crc", 0),
    ("zsr_segments.cuh", "if (count_ == most) flush(out, g);", "", 0),
]


def main():
    cuda, work, cxx = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
    here = pathlib.Path(__file__).parent
    unnoticed = []
    for number, (name, there, instead, which) in enumerate(MUTANTS):
        folder = work / "mutant"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(cuda, folder)
        parts = (folder / name).read_text().split(there)
        if len(parts) < which + 2:
            sys.exit(f"mutant {number} no longer fits {name}: {there}")
        text = there.join(parts[: which + 1]) + instead + there.join(parts[which + 1 :])
        (folder / name).write_text(text)
        build = [cxx, "-std=c++17", "-O1", "-fsanitize=thread", f"-I{folder}", here / "pair.cpp", "-o", work / "pair-mutant", "-pthread"]
        subprocess.run(build, check=True)
        try:
            done = subprocess.run([work / "pair-mutant", "1", "40"], capture_output=True, timeout=30)
            noticed = done.returncode != 0
        except subprocess.TimeoutExpired:
            noticed = True
        print(f"{'noticed' if noticed else 'UNNOTICED'}: {name}: {there.splitlines()[0].strip()} -> {instead.strip().splitlines()[0] if instead.strip() else 'nothing'}", flush=True)
        if not noticed:
            unnoticed.append(number)
    sys.exit(bool(unnoticed))


main()
