// A producer ring without its registers: framer, queue, writer, and who touches which control word when.
module zsr_producer_core #(
    parameter int unsigned DATA_W = 64,
    parameter int unsigned ADDR_W = 64,
    parameter int unsigned MAX_BURST = 16,
    parameter int unsigned QUEUE_LOG2 = 6,
    parameter int unsigned OUTSTANDING_LOG2 = 3
) (
    input  logic                clk,
    input  logic                rst_n,
    input  logic                run,
    input  logic                close,
    input  logic                abort,
    input  logic                flush,
    input  logic [ADDR_W-1:12]  page,           // of the ring's control words
    input  logic [31:0]         size_mask,
    input  logic [31:0]         item_mask,
    input  logic                big_endian,
    input  logic                bad_config,
    input  logic [15:0]         poll_gap,
    input  logic                use_bell,
    output logic                bell,
    output logic [31:0]         head,
    output logic [31:0]         flags,
    output logic [31:0]         tail,
    output logic [zsr_pkg::STATUS_W-1:0] status,
    output logic                publish,
    output logic                poll,

    input  logic [DATA_W-1:0]   s_axis_tdata,
    input  logic [DATA_W/8-1:0] s_axis_tkeep,
    input  logic                s_axis_tlast,
    input  logic                s_axis_tvalid,
    output logic                s_axis_tready,

    output logic [ADDR_W-1:0]   m_axi_awaddr,
    output logic [7:0]          m_axi_awlen,
    output logic                m_axi_awvalid,
    input  logic                m_axi_awready,
    output logic [DATA_W-1:0]   m_axi_wdata,
    output logic                m_axi_wlast,
    output logic                m_axi_wvalid,
    input  logic                m_axi_wready,
    input  logic [1:0]          m_axi_bresp,
    input  logic                m_axi_bvalid,
    output logic                m_axi_bready,

    output logic [ADDR_W-1:0]   m_ctl_awaddr,
    output logic [2:0]          m_ctl_awprot,
    output logic                m_ctl_awvalid,
    input  logic                m_ctl_awready,
    output logic [63:0]         m_ctl_wdata,
    output logic [7:0]          m_ctl_wstrb,
    output logic                m_ctl_wvalid,
    input  logic                m_ctl_wready,
    input  logic [1:0]          m_ctl_bresp,
    input  logic                m_ctl_bvalid,
    output logic                m_ctl_bready,
    output logic [ADDR_W-1:0]   m_ctl_araddr,
    output logic [2:0]          m_ctl_arprot,
    output logic                m_ctl_arvalid,
    input  logic                m_ctl_arready,
    input  logic [63:0]         m_ctl_rdata,
    input  logic [1:0]          m_ctl_rresp,
    input  logic                m_ctl_rvalid,
    output logic                m_ctl_rready
);
  logic start, accept, closing, write_enable, partial, write_error, write_idle;
  logic [31:0] limit, taken, planned, acked;
  logic req_valid, req_write, req_at_64, rsp_valid, rsp_error;
  logic [31:0] req_counter, req_flags, rsp_counter, rsp_flags;
  logic [DATA_W-1:0] framed, queued;
  logic framed_valid, framed_ready, queued_valid, queued_ready;

  assign publish = rsp_valid && req_write;
  assign poll = rsp_valid && !req_write;

  zsr_framer #(.DATA_W(DATA_W)) u_framer (
      .clk, .rst_n, .start, .start_counter(head), .item_mask, .accept, .flush, .closing,
      .s_tdata(s_axis_tdata), .s_tkeep(s_axis_tkeep), .s_tlast(s_axis_tlast), .s_tvalid(s_axis_tvalid),
      .s_tready(s_axis_tready), .out_data(framed), .out_valid(framed_valid), .out_ready(framed_ready), .taken, .partial);

  zsr_fifo #(.WIDTH(DATA_W), .DEPTH_LOG2(QUEUE_LOG2)) u_queue (
      .clk, .rst_n(rst_n && !start), .in_valid(framed_valid), .in_ready(framed_ready), .in_data(framed),
      .out_valid(queued_valid), .out_ready(queued_ready), .out_data(queued));

  zsr_writer #(.DATA_W(DATA_W), .ADDR_W(ADDR_W), .MAX_BURST(MAX_BURST), .OUTSTANDING_LOG2(OUTSTANDING_LOG2)) u_writer (
      .clk, .rst_n, .start, .start_counter(head), .page, .size_mask, .item_mask, .enable(write_enable), .taken, .limit,
      .in_data(queued), .in_valid(queued_valid), .in_ready(queued_ready),
      .planned, .acked, .error(write_error), .idle(write_idle),
      .m_awaddr(m_axi_awaddr), .m_awlen(m_axi_awlen), .m_awvalid(m_axi_awvalid), .m_awready(m_axi_awready),
      .m_wdata(m_axi_wdata), .m_wlast(m_axi_wlast), .m_wvalid(m_axi_wvalid), .m_wready(m_axi_wready),
      .m_bresp(m_axi_bresp), .m_bvalid(m_axi_bvalid), .m_bready(m_axi_bready));

  zsr_producer_ctl u_ctl (
      .clk, .rst_n, .run, .bad_config, .close, .abort, .use_bell, .poll_gap, .size_mask, .item_mask,
      .start, .accept, .closing, .write_enable, .limit, .taken, .partial, .planned, .acked, .write_error, .write_idle,
      .req_valid, .req_write, .req_at_64, .req_counter, .req_flags, .rsp_valid, .rsp_error, .rsp_counter, .rsp_flags,
      .bell, .head, .flags, .tail, .status);

  zsr_ctl_port #(.ADDR_W(ADDR_W)) u_port (
      .clk, .rst_n, .page, .big_endian,
      .req_valid, .req_write, .req_at_64, .req_counter, .req_flags, .rsp_valid, .rsp_error, .rsp_counter, .rsp_flags,
      .m_ctl_awaddr, .m_ctl_awprot, .m_ctl_awvalid, .m_ctl_awready, .m_ctl_wdata, .m_ctl_wstrb, .m_ctl_wvalid,
      .m_ctl_wready, .m_ctl_bresp, .m_ctl_bvalid, .m_ctl_bready, .m_ctl_araddr, .m_ctl_arprot, .m_ctl_arvalid,
      .m_ctl_arready, .m_ctl_rdata, .m_ctl_rresp, .m_ctl_rvalid, .m_ctl_rready);
endmodule
