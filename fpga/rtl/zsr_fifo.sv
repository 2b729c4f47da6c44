// A first-in first-out queue whose memory is read synchronously, so that it fits block RAM. A word that is put in can be
// taken two cycles later; one word per cycle goes in and out.
module zsr_fifo #(
    parameter int unsigned WIDTH = 64,
    parameter int unsigned DEPTH_LOG2 = 6
) (
    input  logic             clk,
    input  logic             rst_n,
    input  logic             in_valid,
    output logic             in_ready,
    input  logic [WIDTH-1:0] in_data,
    output logic             out_valid,
    input  logic             out_ready,
    output logic [WIDTH-1:0] out_data
);
  logic [WIDTH-1:0] memory [1 << DEPTH_LOG2];
  logic [DEPTH_LOG2:0] wr, rd, rd_next;

  assign in_ready = (wr ^ rd) != {1'b1, {DEPTH_LOG2{1'b0}}};
  assign rd_next = rd + (DEPTH_LOG2 + 1)'(out_valid && out_ready);

  always_ff @(posedge clk) begin
    if (in_valid && in_ready) memory[wr[DEPTH_LOG2-1:0]] <= in_data;
    out_data <= memory[rd_next[DEPTH_LOG2-1:0]];
  end

  always_ff @(posedge clk) begin
    if (!rst_n) begin
      wr <= '0;
      rd <= '0;
      out_valid <= 1'b0;
    end else begin
      wr <= wr + (DEPTH_LOG2 + 1)'(in_valid && in_ready);
      rd <= rd_next;
      // Compared with `wr` before this cycle's write: what is written now is not in `out_data` yet.
      out_valid <= rd_next != wr;
    end
  end
endmodule
