"""Machine code of kernels as nvdisasm prints it: functions, what they call, how many instructions there are and how many a way through takes."""

import heapq
import re
import subprocess

LINE = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(@!?U?P\w+)?\s*([A-Z][\w.]*)\s*(.*?);")
LABEL = re.compile(r"^(\.L_\w+|\w+):")


class Function:
    def __init__(self, name):
        self.name, self.code, self.labels = name, [], {}  # code: (opcode, operands, is it under a predicate)

    def target(self, operands):
        found = re.search(r"`\((\.L_\w+)\)", operands)
        return self.labels.get(found.group(1)) if found else None

    def next(self, i):
        """Where the code can go on behind instruction `i`; nothing behind the end of the function."""
        op, operands, may_not = self.code[i]
        after = [i + 1] if i + 1 < len(self.code) else []
        base = op.split(".")[0]
        if base in ("EXIT", "RET", "KILL"):
            return after if may_not else []
        if base in ("BRA", "BSYNC", "WARPSYNC", "JMP"):
            to = self.rejoined(i) if base == "BSYNC" else self.target(operands)
            if to is None:
                return after
            conditional = may_not or re.match(r"(\.\w+)*\s*!?U?P\d", operands) or ".DIV" in op or ".CONV" in op
            return [to] + (after if conditional else [])
        if base == "BRX" and (targets := re.findall(r"\.L_\w+", operands.partition("BRANCH_TARGETS")[2])):
            return [self.labels[target] for target in targets]
        if base in ("BRX", "JMX", "BRXU"):
            raise SystemExit(f"{self.name}: a branch whose target is not in the code")
        return after

    def rejoined(self, i):
        """Where a BSYNC goes on: what the innermost BSSY around it says."""
        barrier = re.match(r"B\d+", self.code[i][1]).group(0)
        for op, operands, _ in reversed(self.code[:i]):
            if op.startswith("BSSY") and operands.startswith(barrier) and (self.target(operands) or 0) > i:
                return self.target(operands)
        return None

    def calls(self):
        found = (re.search(r"`\(([\w$.]+)\)", operands) for op, operands, _ in self.code if op.startswith("CALL"))
        return {match.group(1) for match in found if match}


def read(nvdisasm, cubin):
    """Functions of a cubin by name."""
    text = subprocess.run([nvdisasm, "-c", cubin], check=True, capture_output=True, text=True).stdout
    functions, now = {}, None
    for line in text.splitlines():
        if line.startswith(".section") or line.startswith("//---"):
            found = re.match(r"//-+ \.text\.([\w$]+)", line)
            if found:
                now = functions.setdefault(found.group(1), Function(found.group(1)))
            continue
        if now is None:
            continue
        if found := LABEL.match(line.strip()):
            now.labels[found.group(1)] = len(now.code)
        elif found := LINE.match(line):
            _, predicate, op, operands = found.groups()
            now.code.append((op, operands, predicate is not None))
    # What the linker pads with is no code.
    for f in functions.values():
        while len(f.code) > 1 and (f.code[-1][0] == "NOP" or (f.code[-1][0] == "BRA" and f.next(len(f.code) - 1) == [len(f.code) - 1])):
            f.code.pop()
    return functions


def closure(functions, name):
    """All functions that `name` can come to."""
    seen, todo = set(), [name]
    while todo:
        f = todo.pop()
        if f not in seen and f in functions:
            seen.add(f)
            todo += functions[f].calls()
    return seen


def shortest(function, cost, start, passes, ends):
    """The fewest instructions from behind `start` to one of `ends` on a way that executes one instruction of each of the kinds `passes`,
    in that order. None: there is no such way."""
    kinds = [{i for i, code in enumerate(function.code) if is_kind(*code[:2])} for is_kind in passes]
    queue, best = [(0, start, 0, True)], {}
    while queue:
        so_far, at, passed, begins = heapq.heappop(queue)
        if not begins:
            if (at, passed) in best:
                continue
            best[at, passed] = so_far
            if passed < len(kinds) and at in kinds[passed]:
                passed += 1
            if passed == len(kinds) and at in ends:
                return so_far
        for to in function.next(at):
            heapq.heappush(queue, (so_far + cost(to), to, passed, False))
    return None


def is_end(op, operands):
    return op.split(".")[0] in ("RET", "EXIT")


def find(function, is_kind):
    return {i for i, code in enumerate(function.code) if is_kind(*code[:2])}


def cost_of(functions, f, through=None):
    """What an instruction counts: 1, and a call what the shortest way through the function costs, which executes the kinds `through` of it."""
    known = {}

    def cost(i):
        op, operands, _ = f.code[i]
        if not op.startswith("CALL"):
            return 1
        if i not in known:
            found = re.search(r"`\(([\w$.]+)\)", operands)
            callee = functions.get(found.group(1)) if found else None
            known[i] = 1
            if callee is not None and callee is not f:
                passes = (through or {}).get(callee.name, [])
                known[i] += 1 + (shortest(callee, cost_of(functions, callee), 0, passes, find(callee, is_end)) or 0)
        return known[i]

    return cost


def iteration(functions, name, passes, through=None):
    """The fewest instructions of one turn of a loop of kernel `name` that executes instructions of the kinds `passes`, in that order."""
    f = functions[name]
    cost = cost_of(functions, f, through)
    ways = (shortest(f, cost, begin, passes[1:], {begin}) for begin in find(f, passes[0]))
    return min((way for way in ways if way is not None), default=None)
