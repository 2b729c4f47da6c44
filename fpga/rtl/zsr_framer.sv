// Makes whole items of what the user streams in. An item that ends early (`tlast`, a flush, a close) is filled up with
// zeros, one beat per cycle; bytes without `tkeep` are zeros, too.
module zsr_framer #(
    parameter int unsigned DATA_W = 64
) (
    input  logic                clk,
    input  logic                rst_n,
    input  logic                start,          // one cycle: begin at `start_counter`
    input  logic [31:0]         start_counter,
    input  logic [31:0]         item_mask,      // bytes of an item, less 1
    input  logic                accept,         // beats are taken
    input  logic                flush,          // one cycle: end the item that is part-filled, if there is one
    input  logic                closing,        // ends it, too, as long as no beat is taken

    input  logic [DATA_W-1:0]   s_tdata,
    input  logic [DATA_W/8-1:0] s_tkeep,
    input  logic                s_tlast,
    input  logic                s_tvalid,
    output logic                s_tready,

    output logic [DATA_W-1:0]   out_data,
    output logic                out_valid,
    input  logic                out_ready,
    output logic [31:0]         taken,          // counter behind the last beat that went out
    output logic                partial         // `taken` is inside an item
);
  localparam int unsigned BEAT = DATA_W / 8;
  logic padding, flush_wanted, ends_item, go;

  assign partial = (taken & item_mask) != 0;
  assign ends_item = ((taken + BEAT) & item_mask) == 0;
  assign s_tready = accept && !padding && !flush_wanted && out_ready;
  assign out_valid = padding || (accept && !flush_wanted && s_tvalid);
  assign go = out_valid && out_ready;

  for (genvar i = 0; i < BEAT; i++) begin : g_keep
    assign out_data[8*i+:8] = (padding || !s_tkeep[i]) ? 8'h00 : s_tdata[8*i+:8];
  end

  always_ff @(posedge clk) begin
    if (!rst_n) begin
      taken <= '0;
      padding <= 1'b0;
      flush_wanted <= 1'b0;
    end else if (start) begin
      taken <= start_counter;
      padding <= 1'b0;
      flush_wanted <= 1'b0;
    end else begin
      if (go) taken <= taken + BEAT;
      if (padding) padding <= !(go && ends_item);
      else if (go) padding <= s_tlast && !ends_item;
      else padding <= partial && (flush_wanted || (closing && !accept));
      // A flush waits for the beat of its own cycle, and then stands in the way of the next.
      if (flush && !padding) flush_wanted <= 1'b1;
      else if (!go) flush_wanted <= 1'b0;
    end
  end
endmodule
