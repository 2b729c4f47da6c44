"""Breaks the SystemVerilog in one place at a time, and says which breaks the simulations notice: mutants.py BUILD_FOLDER [WORD ...].
With words, only mutants whose file or text has one of them."""

import contextlib
import io
import shutil
import sys
from pathlib import Path

from simulate import FPGA, simulate

# Which simulation is to notice it, the file, what is there (once), what stands there instead.
MUTANTS = [
    ("producer:64", "rtl/zsr_writer.sv", "space < {19'b0, reach} ? space[12:0] : reach", "reach"),
    ("producer:64", "rtl/zsr_writer.sv", "acked + ((32'(b_queue_len) + 32'd1) << BEAT_LOG2)", "planned"),
    ("producer:64", "rtl/zsr_writer.sv", "if (m_bresp[1]) error <= 1'b1;", ""),
    ("producer:64", "rtl/zsr_writer.sv", "(ADDR_W - 12)'(1)", "(ADDR_W - 12)'(0)"),
    ("producer:64", "rtl/zsr_writer.sv", "!start && !issue;", "!start;"),
    ("producer:64", "rtl/zsr_producer_ctl.sv", "target <= acked & ~item_mask;", "target <= taken & ~item_mask;"),
    ("producer:64", "rtl/zsr_producer_ctl.sv", "target <= acked & ~item_mask;", "target <= acked;"),
    ("producer:64", "rtl/zsr_producer_ctl.sv", "!closed && !partial && taken == acked", "!closed"),
    ("producer:64", "rtl/zsr_producer_ctl.sv", "if (run && close)", "if (attached && close)"),
    ("producer:64", "rtl/zsr_producer_ctl.sv", "if (run && abort)", "if (attached && abort)"),
    ("producer:64", "rtl/zsr_producer_ctl.sv", "ENDED: if (!run) begin\n          {close_wanted, abort_wanted} <= '0;", "ENDED: if (!run) begin"),
    ("producer:64", "rtl/zsr_producer_ctl.sv", "peer_fill <= fill && ", ""),
    ("producer:64", "rtl/zsr_producer_ctl.sv", "bell <= look_for_bell && rsp_counter == head_before;", ""),
    ("producer:64", "rtl/zsr_producer_ctl.sv", "limit <= tail + size_mask + 32'd1", "limit <= head + size_mask + 32'd1"),
    ("producer:64", "rtl/zsr_framer.sv", "(padding || !s_tkeep[i])", "!s_tkeep[i]"),
    ("producer:64", "rtl/zsr_framer.sv", "if (flush && !padding) flush_wanted", "if (1'b0) flush_wanted"),
    ("producer:64", "rtl/zsr_burst.sv", "to_boundary < MAX_BYTES ? to_boundary : MAX_BYTES", "MAX_BYTES"),
    ("producer:64", "rtl/zsr_doorbell.sv", "~crc[7:0]", "crc[7:0]"),
    ("producer:64", "rtl/zsr_fifo.sv", "rd_next != wr;", "rd_next != wr + (DEPTH_LOG2 + 1)'(in_valid);"),
    ("producer:64", "rtl/zsr_regs.sv", "own - own_before", "32'd0"),
    ("producer:64", "rtl/zsr_ctl_port.sv", "{zsr_pkg::swap_bytes(req_flags), zsr_pkg::swap_bytes(req_counter)}", "{req_flags, req_counter}"),
    ("consumer:64", "rtl/zsr_reader.sv", "available < {19'b0, reach} ? available[12:0] : reach", "reach"),
    ("consumer:64", "rtl/zsr_reader.sv", "!start && !issue;", "!start;"),
    ("consumer:64", "rtl/zsr_reader.sv", "((delivered + BEAT) & item_mask)", "(delivered & item_mask)"),
    ("consumer:64", "rtl/zsr_reader.sv", "m_rvalid && !error && !m_rresp[1]", "m_rvalid"),
    ("consumer:64", "rtl/zsr_consumer_ctl.sv", "released = delivered & ~item_mask", "released = planned & ~item_mask"),
    ("consumer:64", "rtl/zsr_consumer_ctl.sv", "(head_closed || head_aborted) && head == tail", "(head_closed || head_aborted)"),
    ("consumer:64", "rtl/zsr_consumer_ctl.sv", "if (run && abort)", "if (attached && abort)"),
    ("consumer:64", "rtl/zsr_consumer_ctl.sv", "peer_fill <= size_mask + 32'd1 && ", ""),
    ("consumer:64", "rtl/zsr_consumer_ctl.sv", "peer_fill >= head - tail && ", ""),
    ("consumer:64", "rtl/zsr_consumer_ctl.sv", " && (peer_fill & item_mask) == 0", ""),
    ("consumer:64", "rtl/zsr_consumer_ctl.sv", "peer_aborted <= head_aborted && !head_closed;", ""),
    ("consumer:64", "rtl/zsr_consumer_ctl.sv", "req_flags = flags;", "req_flags = '0;"),
    ("q1:64", "examples/q1/q1_aggregate.sv", "$signed(day) <= $signed(last_day)", "$signed(day) < $signed(last_day)"),
    ("q1:64", "examples/q1/q1_aggregate.sv", "$signed(day) <= $signed(last_day)", "day <= last_day"),
    ("q1:64", "examples/q1/q1_aggregate.sv", "~used & (used + 1'b1)", "GROUPS'(1)"),
    ("q1:64", "examples/q1/q1_aggregate.sv", "b_valid ? match | claim : '0", "b_valid ? match : '0"),
    ("q1:64", "examples/q1/q1_aggregate.sv", "d_hit <= rst_n ? c_hit : '0", "d_hit <= rst_n ? hit : '0"),
    ("q1:64", "examples/q1/q1_aggregate.sv", "8'd100 + tax[7:0]", "8'd100"),
    ("q1:64", "examples/q1/q1_aggregate.sv", "discount > 32'd100", "discount[7:0] > 8'd100"),
    ("q1:64", "examples/q1/q1_group.sv", "SUM_W = 80", "SUM_W = 48"),
    ("q1:64", "examples/q1/q1_rows.sv", "left <= sound ? count : 32'd0", "left <= count"),
    ("q1:64", "examples/q1/q1_rows.sv", "chunk_short || (chunk_last && left != 32'd1)", "chunk_short"),
    ("q1:64", "examples/q1/q1_rows.sv", "s_tlast ? '0 : place + 1'b1", "place + 1'b1"),
    ("q1:64", "examples/q1/q1_rows.sv", "chunk[255:224] == 0 && ", ""),
    ("q1:512", "examples/q1/q1_rows.sv", "s_tready = place == PLACE_W'(CHUNKS - 1)", "s_tready = 1'b1"),
]


def notices(job, build, fpga):
    """The tests that fail, or why nothing ran."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        return simulate(job, build, fpga)[1]


def main():
    build, words = Path(sys.argv[1]).resolve(), sys.argv[2:]
    unnoticed = 0
    for job, name, there, instead in MUTANTS:
        if words and not any(word in name + there for word in words):
            continue
        mutant = build / "mutant"
        shutil.rmtree(mutant, ignore_errors=True)
        for folder in ("rtl", "examples"):
            shutil.copytree(FPGA / folder, mutant / folder)
        text = (mutant / name).read_text()
        if text.count(there) != 1:
            sys.exit(f"a mutant no longer fits {name}: {there}")
        (mutant / name).write_text(text.replace(there, instead))
        failed = notices(job, build / "sim", mutant)
        print(f"{'noticed' if failed else 'UNNOTICED'}: {name}: {there} -> {instead or 'nothing'}" +
              (f" ({len(failed)} tests, {failed[0]} first)" if failed else ""), flush=True)
        unnoticed += not failed
    sys.exit(unnoticed != 0)


if __name__ == "__main__":
    main()
