// Takes items that hold segments of tuples (crates/ring/src/segment) apart into rows of 32 bytes, at most one per cycle. Beats of 512
// bits hold two rows and take two cycles. What stands behind the last row of a segment is passed over.
module q1_rows #(
    parameter int unsigned DATA_W = 64
) (
    input  logic              clk,
    input  logic              rst_n,
    input  logic [DATA_W-1:0] s_tdata,
    input  logic              s_tlast,       // ends an item
    input  logic              s_tvalid,
    output logic              s_tready,
    output logic [255:0]      row,
    output logic              row_valid,
    output logic              bad,           // one cycle: an item holds no segment of such rows, or fewer than it says
    output logic              busy
);
  // The bytes of a segment's header that must be as they are: magic, version 1, tuples, no checksum.
  localparam logic [63:0] HEADER = {32'h0000_0201, 32'h4745_535a};

  logic [255:0] chunk;
  logic chunk_valid, chunk_last, chunk_short;

  if (DATA_W < 256) begin : g_gather
    localparam int unsigned BEATS = 256 / DATA_W;
    logic [$clog2(BEATS)-1:0] place;
    logic full;
    assign full = place == '1;
    assign s_tready = 1'b1;
    always_ff @(posedge clk) begin
      if (!rst_n) place <= '0;
      else if (s_tvalid) place <= s_tlast ? '0 : place + 1'b1;
      chunk_valid <= rst_n && s_tvalid && (full || s_tlast);
      chunk_last <= s_tlast;
      chunk_short <= !full;
      if (s_tvalid) chunk <= {s_tdata, chunk[255:DATA_W]};
    end
  end else begin : g_divide
    localparam int unsigned CHUNKS = DATA_W / 256;
    localparam int unsigned PLACE_W = CHUNKS == 1 ? 1 : $clog2(CHUNKS);
    logic [PLACE_W-1:0] place;
    assign s_tready = place == PLACE_W'(CHUNKS - 1);
    always_ff @(posedge clk) begin
      if (!rst_n) place <= '0;
      else if (s_tvalid) place <= s_tready ? '0 : place + 1'b1;
      chunk_valid <= rst_n && s_tvalid;
      chunk_last <= s_tlast && s_tready;
      chunk_short <= 1'b0;
      chunk <= s_tdata[256*place+:256];
    end
  end

  logic in_rows, sound;
  logic [31:0] left, count, used;
  assign count = chunk[127:96];
  assign used = chunk[223:192];
  assign sound = !chunk_short && chunk[63:0] == HEADER && chunk[255:224] == 0 && count[31:27] == 0 && used == count << 5;

  always_ff @(posedge clk) begin
    row <= chunk;
    row_valid <= 1'b0;
    bad <= 1'b0;
    if (!rst_n) begin
      in_rows <= 1'b0;
      left <= '0;
    end else if (chunk_valid) begin
      in_rows <= !chunk_last;
      if (!in_rows) begin
        left <= sound ? count : 32'd0;
        bad <= !sound || (chunk_last && count != 0);
      end else if (left != 0) begin
        left <= left - 32'd1;
        row_valid <= !chunk_short;
        bad <= chunk_short || (chunk_last && left != 32'd1);
      end
    end
  end
  assign busy = chunk_valid || row_valid || bad;
endmodule
