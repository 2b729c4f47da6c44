// A producer on any memory: every answer comes at any time, the switch takes items at any time. Small, so that a solver can
// look at all of it: a ring of four beats, items of two, bursts of at most two.
module producer (
    input logic clk
);
  localparam logic [31:0] SIZE = 32, ITEM = 16;
  (* anyconst *) logic [31:0] begin_at;
  (* anyseq *) logic close, abort, flush, tvalid, tlast, awready, wready, bvalid, c_awready, c_wready, c_bvalid, c_arready,
      c_rvalid, take;
  (* anyseq *) logic [63:0] tdata;
  (* anyseq *) logic [7:0] tkeep;

  logic rst_n = 1'b0;
  always_ff @(posedge clk) rst_n <= 1'b1;

  logic [31:12] awaddr_page;
  logic [11:0] awaddr_low;
  logic [7:0] awlen;
  logic awvalid, wlast, wvalid, bready, c_awvalid, c_wvalid, c_bready, c_arvalid, c_rready;
  logic [63:0] wdata, c_wdata;
  logic [31:0] c_awaddr, c_araddr;

  // What the memory and the switch know.
  logic [31:0] env_head, env_tail, written, acked;
  logic [7:0] len[4];
  logic [1:0] aw_at = 0, b_at = 0;
  logic [2:0] w_done = 0;           // bursts whose last beat has come and that are not acknowledged
  logic [2:0] aw_open = 0;
  logic c_aw = 0, c_w = 0, c_ar = 0, reading_tail = 0;

  zsr_producer_core #(.DATA_W(64), .ADDR_W(32), .MAX_BURST(2), .QUEUE_LOG2(2), .OUTSTANDING_LOG2(1)) dut (
      .clk, .rst_n, .run(1'b1), .close, .abort, .flush, .page(20'd1), .size_mask(SIZE - 1), .item_mask(ITEM - 1),
      .big_endian(1'b0), .bad_config(1'b0), .poll_gap(16'd0), .use_bell(1'b0),
      .s_axis_tdata(tdata), .s_axis_tkeep(tkeep), .s_axis_tlast(tlast), .s_axis_tvalid(tvalid),
      .m_axi_awaddr({awaddr_page, awaddr_low}), .m_axi_awlen(awlen), .m_axi_awvalid(awvalid), .m_axi_awready(awready),
      .m_axi_wdata(wdata), .m_axi_wlast(wlast), .m_axi_wvalid(wvalid), .m_axi_wready(wready),
      .m_axi_bresp(2'b00), .m_axi_bvalid(bvalid), .m_axi_bready(bready),
      .m_ctl_awaddr(c_awaddr), .m_ctl_awvalid(c_awvalid), .m_ctl_awready(c_awready),
      .m_ctl_wdata(c_wdata), .m_ctl_wvalid(c_wvalid), .m_ctl_wready(c_wready),
      .m_ctl_bresp(2'b00), .m_ctl_bvalid(c_bvalid), .m_ctl_bready(c_bready),
      .m_ctl_araddr(c_araddr), .m_ctl_arvalid(c_arvalid), .m_ctl_arready(c_arready),
      .m_ctl_rdata({32'd0, reading_tail ? env_tail : env_head}), .m_ctl_rresp(2'b00), .m_ctl_rvalid(c_rvalid),
      .m_ctl_rready(c_rready));

  always_comb begin
    assume (begin_at == 0 || begin_at == -ITEM);
    if (!(w_done != 0 && aw_open != 0)) assume (!bvalid);
    if (!(c_aw && c_w)) assume (!c_bvalid);
    if (!c_ar) assume (!c_rvalid);
  end

  always_ff @(posedge clk) begin
    if (!rst_n) begin
      {env_head, env_tail, written, acked} <= {4{begin_at}};
    end else begin
      if (take && env_tail != env_head) env_tail <= env_tail + ITEM;
      if (awvalid && awready) begin
        len[aw_at] <= awlen;
        aw_at <= aw_at + 1;
      end
      if (wvalid && wready) written <= written + 8;
      w_done <= w_done + (wvalid && wready && wlast) - (bvalid && bready);
      aw_open <= aw_open + (awvalid && awready) - (bvalid && bready);
      if (bvalid && bready) begin
        acked <= acked + 8 * (len[b_at] + 1);
        b_at <= b_at + 1;
      end
      if (c_awvalid && c_awready) c_aw <= 1;
      if (c_wvalid && c_wready) begin
        c_w <= 1;
        env_head <= c_wdata[31:0];
      end
      if (c_bvalid && c_bready) {c_aw, c_w} <= 0;
      if (c_arvalid && c_arready) begin
        c_ar <= 1;
        reading_tail <= c_araddr[6];
      end
      if (c_rvalid && c_rready) c_ar <= 0;
    end
  end

  always_ff @(posedge clk)
    if (rst_n) begin
      if (wvalid) never_overwrites: assert (written + 8 - env_tail <= SIZE);
      if (awvalid) stays_in_the_ring: assert (awaddr_page == 20'd2 && awaddr_low + 8 * (awlen + 1) <= SIZE);
      if (c_wvalid) never_publishes_unwritten: assert (c_wdata[31:0] - env_head <= acked - env_head);
      if (c_wvalid) whole_items: assert (c_wdata[3:0] == 0);
    end
endmodule
