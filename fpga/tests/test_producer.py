"""zsr_producer: what is streamed in is what the switch finds in the ring."""

import itertools
import struct
import zlib

import cocotb
from cocotb.triggers import ClockCycles
from cocotbext.axi import (AxiRamWrite, AxiStreamBus, AxiStreamFrame, AxiStreamSink, AxiStreamSource, AxiWriteBus)

from ring_model import (ABORT, ABORTED, CLOSE, CLOSED, FLUSH, MASK, RUN, S_ABORTED, S_BUS, S_CLOSED, S_CONFIG, S_CORRUPT,
                        S_DRAINED, S_PARTIAL, S_PEER, ATTACHED, Rig, refuse, width)


class Producer(Rig):
    def __init__(self, dut, seed, **shape):
        super().__init__(dut, seed, **shape)
        for pin in (dut.close_in, dut.abort_in, dut.flush_in):
            pin.value = 0
        self.ram = AxiRamWrite(AxiWriteBus.from_prefix(dut, "m_axi"), dut.clk, size=1 << 48, mem=self.memory)
        self.source = AxiStreamSource(AxiStreamBus.from_prefix(dut, "s_axis"), dut.clk)
        self.bell = AxiStreamSink(AxiStreamBus.from_prefix(dut, "m_bell"), dut.clk)
        self.models.append(self.ram)
        self.paused += [self.ram.aw_channel, self.ram.w_channel, self.ram.b_channel, self.source, self.bell]
        self.seen, self.head, self.greedy = [], self.start, False
        self.task = cocotb.start_soon(self.switch())

    async def switch(self):
        """Takes items as the switch does, at any speed, and checks each publication."""
        tail = self.start
        while True:
            head, flags = self.word(0)
            grown = (head - self.head) & MASK
            assert grown % self.item == 0 and (head - tail) & MASK <= self.size, f"head went from {self.head:#x} to {head:#x}"
            assert flags & ~(CLOSED | ABORTED) == self.epoch
            for n in range(0, grown, self.item):
                self.seen.append(self.item_at(self.head + n))
            self.head = head
            # What is published must stay until the tail has passed it.
            at = len(self.seen) - ((head - tail) & MASK) // self.item
            for n in range(0, (head - tail) & MASK, self.item):
                assert self.item_at(tail + n) == self.seen[at + n // self.item], "an unread item was overwritten"
            take = self.rng.choice([0, 0, 1, 2, 100]) if not self.greedy else 1 << 20
            tail = (tail + min(take * self.item, (head - tail) & MASK)) & MASK
            if self.word(64)[0] != tail:
                self.set_word(64, tail, self.epoch)
            await ClockCycles(self.dut.clk, 1 if self.greedy else self.rng.randrange(1, 60))

    def padded(self, data):
        data = data + bytes(-len(data) % self.item)
        return [data[n:n + self.item] for n in range(0, len(data), self.item)]


async def stream(dut, seed, frames=range(10, 20), **shape):
    rig = Producer(dut, seed, **shape)
    rig.stall(0.5)
    await rig.reset()
    await rig.attach()
    expected = []
    for _ in range(rig.rng.choice(frames)):
        frame = rig.rng.randbytes(rig.rng.randrange(1, 4 * rig.item))
        expected += rig.padded(frame)
        await rig.source.send(AxiStreamFrame(frame))
    await rig.until(ATTACHED)
    await rig.source.wait()
    await rig.write(0x08, RUN | CLOSE)
    await rig.until(S_CLOSED)
    await rig.until(S_DRAINED)
    await ClockCycles(dut.clk, 100)
    assert rig.seen == expected
    assert rig.word(0) == ((rig.start + len(expected) * rig.item) & MASK, rig.epoch | CLOSED)
    assert await rig.read64(0x30) == len(expected) * rig.item
    assert await rig.read(0x28) == rig.word(0)[0]
    assert await rig.read(0x0C) & (S_ABORTED | S_BUS | S_CORRUPT | S_PEER) == 0


@cocotb.test(timeout_time=40, timeout_unit="us")
async def frames_become_items(dut):
    await stream(dut, 1)


@cocotb.test(timeout_time=40, timeout_unit="us")
async def frames_become_items_big_endian(dut):
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
    await stream(dut, 5, frames=[2], size_log2=14, item_log2=13)


@cocotb.test(timeout_time=40, timeout_unit="us")
async def reset_at_any_time(dut):
    """After a reset the producer goes on from the head in memory; the source sends again what is not behind it."""
    for seed in range(100, 112):
        rig = Producer(dut, seed) if seed == 100 else rig
        items = [rig.random_item() for _ in range(200)] if seed == 100 else items
        rig.stall(0.4)
        rig.source.clear()
        await rig.reset()
        assert int(dut.m_axi_awvalid.value) == 0 and int(dut.m_ctl_awvalid.value) == 0
        await ClockCycles(dut.clk, 80)
        sent = ((rig.word(0)[0] - rig.start) & MASK) // rig.item
        assert rig.seen == items[:sent], "the reset changed what was published"
        await rig.attach()
        for item in items[sent:]:
            rig.source.send_nowait(AxiStreamFrame(item))
        if seed != 111:
            await ClockCycles(dut.clk, rig.rng.randrange(1, 400))
    await rig.until(ATTACHED)
    await rig.source.wait()
    await rig.write(0x08, RUN | CLOSE)
    await rig.until(S_CLOSED)
    await rig.until(S_DRAINED)
    await ClockCycles(dut.clk, 100)
    assert rig.seen == items


@cocotb.test(timeout_time=40, timeout_unit="us")
async def one_beat_per_cycle(dut):
    rig = Producer(dut, 6, size_log2=16)
    rig.greedy = True
    await rig.reset()
    await rig.attach()
    beats = 1024
    rig.source.send_nowait(AxiStreamFrame(rig.rng.randbytes(beats * rig.beat)))
    while await rig.read64(0x38) < beats:
        pass
    # `stalls` counts cycles in which a beat waited: none but those before the ring was attached.
    assert await rig.read64(0x40) < 40


@cocotb.test(timeout_time=40, timeout_unit="us")
async def flush_ends_an_item(dut):
    rig = Producer(dut, 7)
    await rig.reset()
    await rig.attach()
    data = rig.rng.randbytes(rig.beat)
    # Beats without tlast: the frame is longer, but its rest never comes.
    rig.source.set_pause_generator(itertools.chain([False, False], itertools.repeat(True)))
    rig.source.send_nowait(AxiStreamFrame(data * 4))
    await rig.until(S_PARTIAL)
    await ClockCycles(dut.clk, 300)
    beats = await rig.read64(0x38)
    assert 0 < beats < 4 and rig.seen == [] and rig.word(0)[0] == rig.start
    await rig.write(0x08, RUN | FLUSH)
    await ClockCycles(dut.clk, 500)
    assert rig.seen == rig.padded(data * beats)


@cocotb.test(timeout_time=40, timeout_unit="us")
async def abort_publishes_nothing_more(dut):
    rig = Producer(dut, 8)
    await rig.reset()
    await rig.attach()
    rig.source.send_nowait(AxiStreamFrame(rig.rng.randbytes(3 * rig.item)))
    await ClockCycles(dut.clk, 60)
    await rig.write(0x08, RUN | ABORT)
    await rig.until(S_ABORTED)
    head, flags = rig.word(0)
    assert flags == rig.epoch | ABORTED
    await ClockCycles(dut.clk, 200)
    assert rig.word(0) == (head, flags)


@cocotb.test(timeout_time=40, timeout_unit="us")
async def an_end_before_the_attach(dut):
    """CLOSE and ABORT that come along with RUN, or while the control words are still read, are not lost, and do not last."""
    rig = Producer(dut, 13)
    for gap in [None, 0, 1, 2, 3, 5, 8, 13]:
        for bit, status, flag in [(CLOSE, S_CLOSED, CLOSED), (ABORT, S_ABORTED, ABORTED)]:
            await rig.reset()
            rig.set_word(0, rig.start, rig.epoch)
            if gap is None:
                rig_write = rig.write
                rig.write = lambda at, value: rig_write(at, value | bit if at == 0x08 else value)
                await rig.attach()
                rig.write = rig_write
            else:
                await rig.attach()
                await ClockCycles(dut.clk, gap)
                await rig.write(0x08, RUN | bit)
            await rig.until(status)
            assert rig.word(0) == (rig.start, rig.epoch | flag) and rig.seen == []
            # The next attach is a new one.
            await rig.write(0x08, 0)
            rig.set_word(0, rig.start, rig.epoch)
            await ClockCycles(dut.clk, 20)
            await rig.write(0x08, RUN)
            await rig.until(ATTACHED)
            await ClockCycles(dut.clk, 200)
            assert rig.word(0) == (rig.start, rig.epoch)


@cocotb.test(timeout_time=40, timeout_unit="us")
async def a_tail_that_cannot_be(dut):
    rig = Producer(dut, 9)
    await rig.reset()
    await rig.attach()
    rig.source.send_nowait(AxiStreamFrame(rig.rng.randbytes(2 * rig.size)))
    await rig.until(ATTACHED)
    rig.task.kill()
    rig.set_word(64, rig.start - rig.item, rig.epoch)
    await rig.until(S_CORRUPT)
    await rig.until(S_ABORTED)


@cocotb.test(timeout_time=40, timeout_unit="us")
async def a_memory_that_refuses(dut):
    """Nothing from the refused burst on is published, and the flow is given up."""
    rig = Producer(dut, 12)
    await rig.reset()
    refuse(rig.ram.b_channel, "bresp", 2)
    await rig.attach()
    items = [rig.random_item() for _ in range(40)]
    for item in items:
        rig.source.send_nowait(AxiStreamFrame(item))
    await rig.until(S_BUS)
    await rig.until(S_ABORTED)
    head, flags = rig.word(0)
    await ClockCycles(dut.clk, 100)
    assert flags == rig.epoch | ABORTED and rig.word(0) == (head, flags)
    assert (head - rig.start) & MASK <= 2 * 16 * rig.beat and rig.seen == items[:len(rig.seen)]


@cocotb.test(timeout_time=40, timeout_unit="us")
async def sizes_that_are_not_allowed(dut):
    beat_log2 = width(dut).bit_length() - 1
    rig = Producer(dut, 10)
    rig.task.kill()
    for geometry, base in [(31 | 6 << 8, 4096), (12 | 13 << 8, 4096), (30 | 21 << 8, 4096), (12 | (beat_log2 - 1) << 8, 4096),
                           (12 | 6 << 8, 64)]:
        await rig.reset()
        rig.geometry, rig.base = geometry, base
        await rig.attach()
        assert await rig.until(S_CONFIG) & ATTACHED == 0


@cocotb.test(timeout_time=40, timeout_unit="us")
async def the_doorbell(dut):
    rig = Producer(dut, 11, bell=True)
    rig.task.kill()
    await rig.reset()
    await rig.attach(secret=0xCAFE_1234)
    await rig.until(ATTACHED)
    rig.source.send_nowait(AxiStreamFrame(rig.random_item()))
    frame = bytes((await rig.bell.recv()).tdata)
    said = struct.pack(">III", 0xCAFE_1234, (rig.start + rig.item) & MASK, rig.epoch)
    assert frame == said + struct.pack("<I", zlib.crc32(said)) + bytes(2)
