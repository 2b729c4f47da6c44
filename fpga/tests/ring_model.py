"""The other side of a ring, in Python: memory, registers, and what has to be in both. Knows the ABI from
crates/wire/src/ring.rs and nothing of the Verilog's inside."""

import itertools
import random
import struct

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import AxiLiteBus, AxiLiteMaster, AxiLiteRam
from cocotbext.axi.sparse_memory import SparseMemory

CLOSED, ABORTED = 1, 2
ITEMS = 4096
ATTACHED, S_CLOSED, S_ABORTED, S_PEER, S_CORRUPT, S_BUS, S_CONFIG, S_DRAINED, S_PARTIAL = (1 << n for n in range(9))
RUN, FLUSH, CLOSE, ABORT = 1, 2, 4, 8
MASK = 0xFFFF_FFFF


def width(dut):
    """Bytes of a beat."""
    return len(dut.m_axi_rdata if hasattr(dut, "m_axi_rdata") else dut.m_axi_wdata) // 8


def stalls(rng, share):
    """A pause generator that stalls in runs of random length, about `share` of the time."""
    while True:
        for _ in range(rng.randrange(1, 8)):
            yield False
        for _ in range(int(rng.expovariate(1 / (4 * share / (1 - share)))) if share else 0):
            yield True


def refuse(channel, field, number):
    """The memory answers SLVERR once: in answer `number`, from 0, of a channel."""
    send, sent = channel.send, itertools.count()

    async def instead(answer):
        if next(sent) == number:
            setattr(answer, field, 2)
        await send(answer)

    channel.send = instead


class Rig:
    """A device under test with clock, registers, memory, and one ring in it."""

    def __init__(self, dut, seed, size_log2=12, item_log2=None, big=False, start=None, bell=False):
        self.dut, self.rng = dut, random.Random(seed)
        self.beat = width(dut)
        self.size, self.item = 1 << size_log2, 1 << (item_log2 or self.beat.bit_length() + 1)
        self.order = ">" if big else "<"
        self.base = self.rng.randrange(1, 1 << 20) << 12
        self.geometry = size_log2 | (self.item.bit_length() - 1) << 8 | big << 16 | bell << 17
        # Counters begin shortly before they wrap, so that every test goes through 2^32.
        self.start = (-self.rng.randrange(0, 4) * self.item if start is None else start) & MASK
        self.epoch = self.rng.randrange(1 << 16) << 16
        self.memory = SparseMemory(1 << 48)
        for at in (0, 64):
            self.set_word(at, self.start, self.epoch)
        cocotb.start_soon(Clock(dut.clk, 4, "ns").start())
        self.ctl = AxiLiteRam(AxiLiteBus.from_prefix(dut, "m_ctl"), dut.clk, size=1 << 48, mem=self.memory)
        self.regs = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk)
        self.paused = [self.ctl.write_if.aw_channel, self.ctl.write_if.w_channel, self.ctl.write_if.b_channel,
                       self.ctl.read_if.ar_channel, self.ctl.read_if.r_channel]
        regs = (self.regs.write_if, self.regs.read_if)
        self.models = [self.ctl.write_if, self.ctl.read_if, *regs, *(getattr(regs[0], n + "_channel") for n in ("aw", "w", "b")),
                       *(getattr(regs[1], n + "_channel") for n in ("ar", "r"))]

    def stall(self, share):
        for channel in self.paused:
            channel.set_pause_generator(stalls(random.Random(self.rng.random()), self.rng.choice([0, share])))

    async def reset(self):
        # The models are told by hand, so that none of them sees the reset later than the others.
        models = self.models + self.paused
        self.dut.rst_n.value = 0
        for model in models:
            model.assert_reset(True)
        await ClockCycles(self.dut.clk, self.rng.randrange(2, 6))
        self.dut.rst_n.value = 1
        for model in models:
            model.assert_reset(False)
        await ClockCycles(self.dut.clk, 2)

    async def attach(self, poll_gap=8, secret=0):
        await self.write(0x10, self.base & MASK)
        await self.write(0x14, self.base >> 32)
        await self.write(0x18, self.geometry)
        await self.write(0x1C, poll_gap)
        await self.write(0x20, secret)
        await self.write(0x08, RUN)

    async def write(self, register, value):
        await self.regs.write_dword(register, value)

    async def read(self, register):
        return await self.regs.read_dword(register)

    async def read64(self, register):
        return await self.read(register) | await self.read(register + 4) << 32

    async def until(self, bits, cycles=3000):
        """Waits until one of the status bits is set."""
        for _ in range(cycles):
            if int(self.dut.status.value) & bits:
                return int(self.dut.status.value)
            await RisingEdge(self.dut.clk)
        raise AssertionError(f"no status bit of {bits:#x} after {cycles} cycles: {int(self.dut.status.value):#x}")

    def word(self, at):
        return struct.unpack(self.order + "II", self.memory.read(self.base + at, 8))

    def set_word(self, at, counter, flags):
        self.memory.write(self.base + at, struct.pack(self.order + "II", counter & MASK, flags))

    def item_at(self, counter):
        return bytes(self.memory.read(self.base + ITEMS + (counter & (self.size - 1)), self.item))

    def put_item(self, counter, data):
        self.memory.write(self.base + ITEMS + (counter & (self.size - 1)), data)

    def random_item(self):
        return self.rng.randbytes(self.item)
