"""Figures of bench/sql. `instructions`: lines `QUERY TRANSPORT rows=N bytes=N COUNT` on standard input; `bytes RUNS FILE...`: captures of links."""
import re, struct, sys


def instructions():
    runs = {}
    for line in sys.stdin:
        query, transport, rows, size, count = re.fullmatch(r"(\S+) (\S+) rows=(\d+) bytes=(\d+) (\d+)\s*", line).groups()
        runs.setdefault(query, {"rows": int(rows), "bytes": int(size)})[transport] = int(count)
    print("| query | rows that went to another host | B per row | transport | M instructions | beyond memory | per row | per byte |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    sums = {}
    for query, run in sorted(runs.items()):
        rows, size = run.pop("rows"), run.pop("bytes")
        for transport, count in run.items():
            more = count - run["memory"]
            total = sums.setdefault(transport, [0, 0, 0, 0])
            for at, what in enumerate((rows, size, count, more)):
                total[at] += what
            show(query, rows, size, transport, count, more)
    for transport, (rows, size, count, more) in sums.items():
        show("all of these", rows, size, transport, count, more)


def show(query, rows, size, transport, count, more):
    each = f"{more / rows:.0f} | {more / size:.2f}" if rows else "- | -"
    print(f"| {query} | {rows} | {size / max(rows, 1):.0f} | {transport} | {count / 1e6:.1f} | {more / 1e6:.1f} | {each} |")


def packets(path):
    """Lengths of the frames in a pcapng file of this machine's byte order."""
    with open(path, "rb") as file:
        while head := file.read(8):
            kind, length = struct.unpack("=II", head)
            body = file.read(length - 8)
            if kind == 6:
                yield struct.unpack_from("=I", body, 16)[0]


def captured(runs, *paths):
    together = 0
    for path in paths:
        lengths = list(packets(path))
        together += sum(lengths)
        print(f"{path.rsplit('/', 1)[-1]}: {sum(lengths) / runs / 1e6:.2f} MB in {len(lengths) / runs:.0f} frames, both directions")
    print(f"together: {together / runs / 1e6:.2f} MB")


if sys.argv[1] == "instructions":
    instructions()
else:
    captured(int(sys.argv[2]), *sys.argv[3:])
