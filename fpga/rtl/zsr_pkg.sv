// Ring memory, ABI version 1 (docs/fpga.md; crates/wire/src/ring.rs is the same in Rust).
package zsr_pkg;
  localparam logic [31:0] ABI_VERSION = 32'd1;

  // verilator lint_off UNUSEDPARAM
  // Flags beside a counter. Bits 31:16 are the ring's epoch; all bits that are not named here are carried along.
  localparam int unsigned FLAG_CLOSED = 0;
  localparam int unsigned FLAG_ABORTED = 1;

  // Bits of the register STATUS and of the port `status`.
  localparam int unsigned STATUS_ATTACHED = 0;      // the ring's words were read, items may move
  localparam int unsigned STATUS_CLOSED = 1;        // producer: CLOSED is written; consumer: end of stream, all delivered
  localparam int unsigned STATUS_ABORTED = 2;       // ABORTED is written
  localparam int unsigned STATUS_PEER_ABORTED = 3;  // the switch has set ABORTED
  localparam int unsigned STATUS_CORRUPT = 4;       // the peer's counter cannot be
  localparam int unsigned STATUS_BUS_ERROR = 5;     // the memory answered SLVERR or DECERR
  localparam int unsigned STATUS_BAD_CONFIG = 6;    // sizes or base are not allowed
  localparam int unsigned STATUS_DRAINED = 7;       // nothing is between tail and head
  localparam int unsigned STATUS_PARTIAL = 8;       // producer: an item is part-filled
  localparam int unsigned STATUS_W = 9;
  // verilator lint_on UNUSEDPARAM

  function automatic logic [31:0] swap_bytes(input logic [31:0] v);
    swap_bytes = {v[7:0], v[15:8], v[23:16], v[31:24]};
  endfunction
endpackage
