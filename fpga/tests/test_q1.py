"""zsr_q1: what its registers say is what SQL says of the same rows, computed here with decimals."""

import struct
from collections import defaultdict
from datetime import date, timedelta
from decimal import Decimal

import cocotb
from cocotb.triggers import ClockCycles
from cocotbext.axi import AxiLiteBus, AxiLiteMaster

from ring_model import MASK, S_CLOSED
from test_consumer import Consumer

EPOCH, LAST = date(1970, 1, 1), date(1998, 9, 2)
ROW = struct.Struct("<QIIIIi1s1sH")
GROUPS = [(b"A", b"F"), (b"N", b"F"), (b"N", b"O"), (b"R", b"F")]
SUMS = ("quantity", "price", "disc_price", "charge", "discount")
SCALES = (2, 2, 4, 6, 2)


class Query(Consumer):
    def __init__(self, dut, seed, item_log2=8, **shape):
        super().__init__(dut, seed, item_log2=item_log2, **shape)
        self.query = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_q1"), dut.clk)
        half = (self.query.write_if, self.query.read_if)
        self.models += [*half, *(getattr(half[0], n + "_channel") for n in ("aw", "w", "b")),
                        *(getattr(half[1], n + "_channel") for n in ("ar", "r"))]
        self.number = 0

    def row(self):
        """Quantity, price, discount, tax as decimals; day; flag and status."""
        dice = self.rng
        cents = lambda most: Decimal(dice.randrange(most)) / 100
        day = LAST + timedelta(days=dice.choice([-2000, -1, 0, 1, 2, 90, dice.randrange(-2500, 91)]))
        return (Decimal(dice.randrange(1, 51)), cents(10_500_000), cents(11), cents(9), day, *dice.choice(GROUPS))

    def tuple(self, row):
        self.number += 1
        quantity, price, discount, tax, day, flag, status = row
        return ROW.pack(self.rng.getrandbits(64), int(quantity * 100), int(price * 100), int(discount * 100), int(tax * 100),
                        (day - EPOCH).days if isinstance(day, date) else day, flag, status, self.number & 0xFFFF)

    def segment(self, tuples, **wrong):
        says = {"magic": b"ZSEG", "version": 1, "flags": 2, "count": len(tuples), "used": 32 * len(tuples), "sum": 0} | wrong
        content = struct.pack("<4sBBHIIQII", says["magic"], says["version"], says["flags"], 0, 7, says["count"], self.number,
                              says["used"], says["sum"]) + b"".join(tuples)
        # What a segment leaves of its item is what was there before.
        return content + self.rng.randbytes(max(self.item - len(content), 0))

    def segments(self, rows):
        most, items = self.item // 32 - 1, []
        while rows:
            n = self.rng.choice([most, most, self.rng.randrange(0, most + 1)])
            items.append(self.segment([self.tuple(row) for row in rows[:n]]))
            rows = rows[n:]
        return items

    async def result(self):
        """By group: the count, and the sums as decimals."""
        while await self.query.read_dword(0x0C) & 1:
            pass
        groups = {}
        for g in range((await self.query.read_dword(0x04)) >> 16):
            words = [await self.query.read_dword(0x400 + 0x80 * g + 4 * n) for n in range(24)]
            if words[0] >> 31:
                big = lambda n: sum(word << 32 * i for i, word in enumerate(words[n:n + 4]))
                sums = [Decimal(big(4 + 4 * n)).scaleb(-scale) for n, scale in enumerate(SCALES)]
                groups[words[0] & 0xFF, words[0] >> 8 & 0xFF] = (words[2] | words[3] << 32, *sums)
        return groups

    async def counted(self):
        low, high, refused, bad = [await self.query.read_dword(at) for at in (0x18, 0x1C, 0x20, 0x24)]
        return low | high << 32, refused, bad

    async def take(self, items):
        await self.attach()
        await self.switch(items)
        await self.until(S_CLOSED)


def sql(rows, last=LAST):
    groups = defaultdict(lambda: (0,) + (Decimal(0),) * 5)
    for quantity, price, discount, tax, day, flag, status in rows:
        if day <= last:
            new = (1, quantity, price, price * (1 - discount), price * (1 - discount) * (1 + tax), discount)
            groups[flag[0], status[0]] = tuple(map(sum, zip(groups[flag[0], status[0]], new)))
    return dict(groups)


async def query(dut, seed, count, last=None, **shape):
    rig = Query(dut, seed, **shape)
    rig.stall(0.5)
    await rig.reset()
    if last:
        await rig.query.write_dword(0x10, (last - EPOCH).days & MASK)
    rows = [rig.row() for _ in range(count)]
    await rig.take(rig.segments(rows))
    assert await rig.result() == sql(rows, last or LAST)
    assert await rig.counted() == (count, 0, 0)
    return rig


@cocotb.test(timeout_time=80, timeout_unit="us")
async def sums_are_those_of_sql(dut):
    rig = await query(dut, 1, 600)
    await rig.query.write_dword(0x08, 1)
    assert await rig.result() == {} and await rig.counted() == (0, 0, 0)


@cocotb.test(timeout_time=80, timeout_unit="us")
async def big_endian_words_and_large_items(dut):
    await query(dut, 2, 500, big=True, size_log2=13, item_log2=12)


@cocotb.test(timeout_time=80, timeout_unit="us")
async def items_of_one_row(dut):
    await query(dut, 3, 100, item_log2=6)


@cocotb.test(timeout_time=80, timeout_unit="us")
async def another_day(dut):
    await query(dut, 4, 200, last=date(1994, 6, 17))


@cocotb.test(timeout_time=80, timeout_unit="us")
async def days_before_1970(dut):
    rig = Query(dut, 5)
    await rig.reset()
    await rig.query.write_dword(0x10, -3 & MASK)
    await rig.take(rig.segments([rig.row()[:4] + (day, b"A", b"F") for day in (-5, -4, -3, -2, 0, 5)]))
    assert (await rig.result())[ord("A"), ord("F")][0] == 3


@cocotb.test(timeout_time=80, timeout_unit="us")
async def rows_of_any_content(dut):
    """The largest numbers, and those that no row of lineitem has: these are counted and left out."""
    rig = Query(dut, 6)
    await rig.reset()
    top = Decimal(MASK) / 100
    good = [(top, top, Decimal(d) / 100, Decimal(t) / 100, LAST, b"A", b"F") for d in (0, 1, 99, 100) for t in (0, 8, 154, 155)]
    odd = [good[0][:2] + (Decimal(d) / 100, Decimal(t) / 100, LAST, b"A", b"F") for d, t in ((101, 0), (0, 156), (MASK, 0), (256, 0), (0, 1 << 30))]
    # Eight groups fit; a ninth is refused, and rows that are too late claim none.
    late = [rig.row()[:4] + (LAST + timedelta(days=1), b"L", bytes([n])) for n in range(9)]
    others = [rig.row()[:4] + (LAST, b"X", bytes([n])) for n in range(9)]
    rows = good + odd + late + others * 2
    await rig.take(rig.segments(rows))
    assert await rig.result() == sql(good + others[:7] * 2)
    assert await rig.counted() == (len(rows), len(odd) + 4, 0)


@cocotb.test(timeout_time=80, timeout_unit="us")
async def segments_that_are_none(dut):
    rig = Query(dut, 7)
    await rig.reset()
    rows = [rig.row() for _ in range(3)]
    tuples = [rig.tuple(row) for row in rows]
    wrong = [{"magic": b"ZSEH"}, {"version": 2}, {"flags": 0}, {"flags": 3, "sum": 1}, {"flags": 6}, {"used": 95}, {"used": 97},
             {"count": 2}, {"sum": 1}, {"count": 3 | 1 << 27}]
    items = [rig.segment(tuples)]
    for says in wrong:
        items += [rig.segment(tuples, **says), rig.segment([])]
    items.append(rig.segment(tuples))
    # It says that it has more rows than its item.
    full = [rig.tuple(rows[0]) for _ in range(7)]
    items += [rig.segment(full, count=8, used=256), rig.segment(tuples)]
    await rig.take(items)
    assert await rig.result() == sql(rows * 3 + [rows[0]] * 7)
    assert await rig.counted() == (16, 0, len(wrong) + 1)


@cocotb.test(timeout_time=80, timeout_unit="us")
async def items_of_one_beat(dut):
    """Items that are smaller than a segment's header hold none, also if they are one together."""
    beat = len(dut.m_axi_rdata) // 8
    rig = Query(dut, 8, item_log2=beat.bit_length() - 1)
    await rig.reset()
    if beat < 32:
        header = rig.segment([])
        await rig.take([header[n:n + beat] for n in range(0, 32, beat)])
    else:
        await rig.take([rig.segment([]), rig.segment([], count=beat // 32, used=beat), rig.segment([])])
    assert (await rig.counted())[2] == (32 // beat if beat < 32 else 1)


@cocotb.test(timeout_time=80, timeout_unit="us")
async def it_keeps_up(dut):
    """A row per cycle, or a beat per cycle where a beat has less than a row."""
    rig = Query(dut, 10, size_log2=15, item_log2=12)
    await rig.reset()
    rows = [rig.row() for _ in range(7 * 127)]
    items = [rig.segment([rig.tuple(row) for row in rows[n:n + 127]]) for n in range(0, len(rows), 127)]
    for item in items:
        rig.put_item(rig.head, item)
        rig.head = (rig.head + rig.item) & MASK
    rig.set_word(0, rig.head, rig.epoch | 1)
    await rig.attach()
    cycles = 0
    while await rig.read64(0x38) == 0:
        pass
    while not int(dut.status.value) & S_CLOSED:
        await ClockCycles(dut.clk, 1)
        cycles += 1
    assert cycles < len(items) * 4096 // min(rig.beat, 32) + 100, f"{len(rows)} rows took {cycles} cycles"
    assert await rig.result() == sql(rows)
