"""zsr_consumer: what the switch commits is what is streamed out, once and in order."""

import cocotb
from cocotb.triggers import ClockCycles
from cocotbext.axi import AxiRamRead, AxiReadBus, AxiStreamBus, AxiStreamSink

from ring_model import (ABORT, ABORTED, ATTACHED, CLOSED, MASK, RUN, S_ABORTED, S_BUS, S_CLOSED, S_CONFIG, S_CORRUPT, S_PEER,
                        Rig, refuse, width)


class Consumer(Rig):
    def __init__(self, dut, seed, **shape):
        super().__init__(dut, seed, **shape)
        dut.abort_in.value = 0
        self.ram = AxiRamRead(AxiReadBus.from_prefix(dut, "m_axi"), dut.clk, size=1 << 48, mem=self.memory)
        self.models.append(self.ram)
        self.paused += [self.ram.ar_channel, self.ram.r_channel]
        if hasattr(dut, "m_axis_tdata"):
            self.sink = AxiStreamSink(AxiStreamBus.from_prefix(dut, "m_axis"), dut.clk)
            self.paused.append(self.sink)
        self.committed, self.head = [], self.start

    async def switch(self, items, flags=CLOSED, most=100):
        """Commits items as the switch does: never more than there is room for, data first, record last."""
        while items:
            tail, own = self.word(64)
            assert own & ~ABORTED == self.epoch
            fill = (self.head - tail) & MASK
            assert fill <= self.size, "tail is beyond head"
            n = min(self.rng.randrange(0, most), len(items), (self.size - fill) // self.item)
            for item in items[:n]:
                self.put_item(self.head, item)
                self.head = (self.head + self.item) & MASK
            # What is free may be written at any time: here it is, with nonsense.
            for at in range(0, self.size - ((self.head - tail) & MASK), self.item):
                self.put_item(self.head + at, b"\xEE" * self.item)
            items = items[n:]
            self.set_word(0, self.head, self.epoch | (0 if items else flags))
            await ClockCycles(self.dut.clk, self.rng.randrange(1, 80))


async def stream(dut, seed, count=None, **shape):
    rig = Consumer(dut, seed, **shape)
    rig.stall(0.5)
    await rig.reset()
    await rig.attach()
    items = [rig.random_item() for _ in range(count or rig.rng.randrange(100, 200))]
    await rig.switch(items)
    await rig.until(S_CLOSED)
    got = [bytes(rig.sink.recv_nowait().tdata) for _ in range(rig.sink.count())]
    assert got == items
    assert rig.word(64) == (rig.head, rig.epoch)
    assert await rig.read64(0x30) == len(items) * rig.item
    assert await rig.read(0x0C) & (S_ABORTED | S_BUS | S_CORRUPT | S_PEER) == 0


@cocotb.test(timeout_time=40, timeout_unit="us")
async def an_abort_before_the_attach(dut):
    """ABORT that comes while the control words are still read is not lost, and does not last."""
    rig = Consumer(dut, 13)
    for gap in [0, 1, 2, 3, 5, 8, 13]:
        await rig.reset()
        rig.set_word(64, rig.start, rig.epoch)
        await rig.attach()
        await ClockCycles(dut.clk, gap)
        await rig.write(0x08, RUN | ABORT)
        await rig.until(S_ABORTED)
        assert rig.word(64) == (rig.start, rig.epoch | ABORTED)
        await rig.write(0x08, 0)
        rig.set_word(64, rig.start, rig.epoch)
        await ClockCycles(dut.clk, 20)
        await rig.write(0x08, RUN)
        await rig.until(ATTACHED)
        await ClockCycles(dut.clk, 200)
        assert rig.word(64) == (rig.start, rig.epoch)


@cocotb.test(timeout_time=40, timeout_unit="us")
async def items_become_frames(dut):
    await stream(dut, 1)


@cocotb.test(timeout_time=40, timeout_unit="us")
async def items_become_frames_big_endian(dut):
    await stream(dut, 2, big=True)


@cocotb.test(timeout_time=40, timeout_unit="us")
async def a_ring_of_two_items(dut):
    beat = width(dut)
    await stream(dut, 3, size_log2=beat.bit_length() + 1, item_log2=beat.bit_length())


@cocotb.test(timeout_time=40, timeout_unit="us")
async def items_of_one_beat(dut):
    await stream(dut, 4, item_log2=width(dut).bit_length() - 1)


@cocotb.test(timeout_time=40, timeout_unit="us")
async def items_larger_than_a_page(dut):
    await stream(dut, 5, count=5, size_log2=14, item_log2=13)


@cocotb.test(timeout_time=40, timeout_unit="us")
async def reset_at_any_time(dut):
    """After a reset the consumer goes on from the tail in memory: items given back do not come again, others do."""
    rig = Consumer(dut, 6)
    items = [rig.random_item() for _ in range(200)]
    await rig.reset()
    feeder = cocotb.start_soon(rig.switch(items, most=8))
    got = []
    for round in range(12):
        rig.stall(0.4)
        await rig.attach()
        if round == 11:
            await rig.until(S_CLOSED)
        else:
            await ClockCycles(dut.clk, rig.rng.randrange(1, 400))
        frames = [bytes(rig.sink.recv_nowait().tdata) for _ in range(rig.sink.count())]
        before = len(got)
        got += frames
        given_back = ((rig.word(64)[0] - rig.start) & MASK) // rig.item
        assert before <= given_back <= len(got), "slots were given back that the user had not taken"
        await rig.reset()
        await ClockCycles(dut.clk, 80)
        got = got[:((rig.word(64)[0] - rig.start) & MASK) // rig.item]
        rig.sink.clear()
    await feeder
    assert got == items


@cocotb.test(timeout_time=40, timeout_unit="us")
async def one_beat_per_cycle(dut):
    rig = Consumer(dut, 7, size_log2=16)
    await rig.reset()
    items = [rig.random_item() for _ in range(1024 * rig.beat // rig.item)]
    rig.set_word(0, rig.start, rig.epoch)
    for item in items:
        rig.put_item(rig.head, item)
        rig.head = (rig.head + rig.item) & MASK
    rig.set_word(0, rig.head, rig.epoch | CLOSED)
    await rig.attach()
    await rig.until(S_CLOSED)
    times = [frame for frame in (rig.sink.recv_nowait() for _ in range(rig.sink.count()))]
    cycles = (times[-1].sim_time_end - times[0].sim_time_start) / 4000
    assert cycles < 1024 + 16, f"1024 beats took {cycles} cycles"
    assert [bytes(frame.tdata) for frame in times] == items


@cocotb.test(timeout_time=40, timeout_unit="us")
async def abort_is_told(dut):
    rig = Consumer(dut, 8)
    await rig.reset()
    await rig.attach()
    await rig.until(ATTACHED)
    await rig.write(0x08, RUN | ABORT)
    await rig.until(S_ABORTED)
    assert rig.word(64) == (rig.start, rig.epoch | ABORTED)


@cocotb.test(timeout_time=40, timeout_unit="us")
async def what_was_committed_before_an_abort_is_delivered(dut):
    rig = Consumer(dut, 9)
    await rig.reset()
    items = [rig.random_item() for _ in range(5)]
    await rig.switch(list(items), flags=ABORTED)
    await rig.attach()
    await rig.until(S_PEER)
    assert [bytes(rig.sink.recv_nowait().tdata) for _ in range(rig.sink.count())] == items


@cocotb.test(timeout_time=40, timeout_unit="us")
async def a_head_that_cannot_be(dut):
    for head in (-1, 1, 2):
        rig = Consumer(dut, 10) if head == -1 else rig
        await rig.reset()
        rig.set_word(64, rig.start, rig.epoch)
        off = {-1: -rig.item, 1: 4, 2: rig.size + rig.item}[head]
        rig.set_word(0, rig.start + off, rig.epoch)
        await rig.attach()
        await rig.until(S_CORRUPT)
        await rig.until(S_ABORTED)
        assert rig.word(64) == (rig.start, rig.epoch | ABORTED) and rig.sink.empty()


@cocotb.test(timeout_time=40, timeout_unit="us")
async def a_head_that_goes_back(dut):
    rig = Consumer(dut, 12)
    await rig.reset()
    rig.sink.pause = True
    await rig.attach()
    for items in (4, 2):
        rig.set_word(0, rig.start + items * rig.item, rig.epoch)
        if items == 4:
            while await rig.read(0x28) != (rig.start + 4 * rig.item) & MASK:
                pass
    await rig.until(S_CORRUPT)
    await rig.until(S_ABORTED)
    assert rig.word(64) == (rig.start, rig.epoch | ABORTED)


@cocotb.test(timeout_time=40, timeout_unit="us")
async def a_memory_that_refuses(dut):
    """Nothing from the refused beat on is delivered, and the flow is given up."""
    rig = Consumer(dut, 13)
    await rig.reset()
    items = [rig.random_item() for _ in range(8)]
    refuse(rig.ram.r_channel, "rresp", 3 * rig.item // rig.beat + 1)
    await rig.switch(list(items))
    await rig.attach()
    await rig.until(S_BUS)
    await rig.until(S_ABORTED)
    assert [bytes(rig.sink.recv_nowait().tdata) for _ in range(rig.sink.count())] == items[:3]
    tail, flags = rig.word(64)
    assert flags == rig.epoch | ABORTED and (tail - rig.start) & MASK in range(0, 3 * rig.item + 1, rig.item)


@cocotb.test(timeout_time=40, timeout_unit="us")
async def sizes_that_are_not_allowed(dut):
    rig = Consumer(dut, 11)
    for geometry in (31 | 6 << 8, 12 | 13 << 8, 12 | 2 << 8):
        await rig.reset()
        rig.geometry = geometry
        await rig.attach()
        assert await rig.until(S_CONFIG) & ATTACHED == 0
