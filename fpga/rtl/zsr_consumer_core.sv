// A consumer ring without its registers: reader with its queue, and who touches which control word when.
module zsr_consumer_core #(
    parameter int unsigned DATA_W = 64,
    parameter int unsigned ADDR_W = 64,
    parameter int unsigned MAX_BURST = 16,
    parameter int unsigned QUEUE_LOG2 = 6
) (
    input  logic                clk,
    input  logic                rst_n,
    input  logic                run,
    input  logic                abort,
    input  logic [ADDR_W-1:12]  page,           // of the ring's control words
    input  logic [31:0]         size_mask,
    input  logic [31:0]         item_mask,
    input  logic                big_endian,
    input  logic                bad_config,
    input  logic [15:0]         poll_gap,
    output logic [31:0]         head,
    output logic [31:0]         tail,
    output logic [zsr_pkg::STATUS_W-1:0] status,
    output logic                publish,
    output logic                poll,

    output logic [DATA_W-1:0]   m_axis_tdata,
    output logic                m_axis_tlast,
    output logic                m_axis_tvalid,
    input  logic                m_axis_tready,

    output logic [ADDR_W-1:0]   m_axi_araddr,
    output logic [7:0]          m_axi_arlen,
    output logic                m_axi_arvalid,
    input  logic                m_axi_arready,
    input  logic [DATA_W-1:0]   m_axi_rdata,
    input  logic [1:0]          m_axi_rresp,
    input  logic                m_axi_rvalid,
    output logic                m_axi_rready,

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
  logic start, read_enable, read_error, read_idle;
  logic [31:0] planned, delivered;
  logic req_valid, req_write, req_at_64, rsp_valid, rsp_error;
  logic [31:0] req_counter, req_flags, rsp_counter, rsp_flags;

  assign publish = rsp_valid && req_write;
  assign poll = rsp_valid && !req_write;

  zsr_reader #(.DATA_W(DATA_W), .ADDR_W(ADDR_W), .MAX_BURST(MAX_BURST), .QUEUE_LOG2(QUEUE_LOG2)) u_reader (
      .clk, .rst_n, .start, .start_counter(tail), .page, .size_mask, .item_mask, .enable(read_enable), .head,
      .m_tdata(m_axis_tdata), .m_tlast(m_axis_tlast), .m_tvalid(m_axis_tvalid), .m_tready(m_axis_tready),
      .planned, .delivered, .error(read_error), .idle(read_idle),
      .m_araddr(m_axi_araddr), .m_arlen(m_axi_arlen), .m_arvalid(m_axi_arvalid), .m_arready(m_axi_arready),
      .m_rdata(m_axi_rdata), .m_rresp(m_axi_rresp), .m_rvalid(m_axi_rvalid), .m_rready(m_axi_rready));

  zsr_consumer_ctl u_ctl (
      .clk, .rst_n, .run, .bad_config, .abort, .poll_gap, .size_mask, .item_mask,
      .start, .read_enable, .planned, .delivered, .read_error, .read_idle,
      .req_valid, .req_write, .req_at_64, .req_counter, .req_flags, .rsp_valid, .rsp_error, .rsp_counter, .rsp_flags,
      .head, .tail, .status);

  zsr_ctl_port #(.ADDR_W(ADDR_W)) u_port (
      .clk, .rst_n, .page, .big_endian,
      .req_valid, .req_write, .req_at_64, .req_counter, .req_flags, .rsp_valid, .rsp_error, .rsp_counter, .rsp_flags,
      .m_ctl_awaddr, .m_ctl_awprot, .m_ctl_awvalid, .m_ctl_awready, .m_ctl_wdata, .m_ctl_wstrb, .m_ctl_wvalid,
      .m_ctl_wready, .m_ctl_bresp, .m_ctl_bvalid, .m_ctl_bready, .m_ctl_araddr, .m_ctl_arprot, .m_ctl_arvalid,
      .m_ctl_arready, .m_ctl_rdata, .m_ctl_rresp, .m_ctl_rvalid, .m_ctl_rready);
endmodule
