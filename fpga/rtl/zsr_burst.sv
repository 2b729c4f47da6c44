// How far the next AXI4 burst may go: to the next 4 KiB boundary, which no burst may cross, to the end of a ring that is
// smaller, or MAX_BURST beats.
module zsr_burst #(
    parameter int unsigned DATA_W = 64,
    parameter int unsigned MAX_BURST = 16
) (
    input  logic [11:0] counter,     // lowest bits of the counter
    input  logic [11:0] size_mask,   // lowest bits of the ring's bytes, less 1
    output logic [12:0] bytes
);
  localparam logic [12:0] MAX_BYTES = 13'(MAX_BURST * DATA_W / 8);
  logic [12:0] to_boundary;

  assign to_boundary = {1'b0, ~counter & size_mask} + 13'd1;
  assign bytes = to_boundary < MAX_BYTES ? to_boundary : MAX_BYTES;
endmodule
