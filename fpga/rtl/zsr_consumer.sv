// A consumer ring: committed items are read out of the ring's memory and streamed to the user, `tlast` at the end of each.
// `m_axi` reads items, `m_ctl` (AXI4-Lite) reads and writes control words; both reach the same memory.
module zsr_consumer #(
    parameter int unsigned DATA_W = 64,           // 64, 128, 256 or 512
    parameter int unsigned ADDR_W = 64,
    parameter int unsigned MAX_BURST = 16,        // beats; MAX_BURST * DATA_W / 8 is at most 4096
    parameter int unsigned QUEUE_LOG2 = 6         // beats of the queue: at least 2 * MAX_BURST, and the memory's latency
) (
    input  logic                clk,
    input  logic                rst_n,            // synchronous

    input  logic [7:0]          s_axil_awaddr,
    input  logic [2:0]          s_axil_awprot,
    input  logic                s_axil_awvalid,
    output logic                s_axil_awready,
    input  logic [31:0]         s_axil_wdata,
    input  logic [3:0]          s_axil_wstrb,
    input  logic                s_axil_wvalid,
    output logic                s_axil_wready,
    output logic [1:0]          s_axil_bresp,
    output logic                s_axil_bvalid,
    input  logic                s_axil_bready,
    input  logic [7:0]          s_axil_araddr,
    input  logic [2:0]          s_axil_arprot,
    input  logic                s_axil_arvalid,
    output logic                s_axil_arready,
    output logic [31:0]         s_axil_rdata,
    output logic [1:0]          s_axil_rresp,
    output logic                s_axil_rvalid,
    input  logic                s_axil_rready,

    input  logic                abort_in,         // one cycle, as the bit of CONTROL
    output logic [zsr_pkg::STATUS_W-1:0] status,           // as the register STATUS

    output logic [DATA_W-1:0]   m_axis_tdata,
    output logic                m_axis_tlast,
    output logic                m_axis_tvalid,
    input  logic                m_axis_tready,

    output logic [ADDR_W-1:0]   m_axi_araddr,
    output logic [7:0]          m_axi_arlen,
    output logic [0:0]          m_axi_arid,
    output logic [2:0]          m_axi_arsize,
    output logic [1:0]          m_axi_arburst,
    output logic                m_axi_arlock,
    output logic [3:0]          m_axi_arcache,
    output logic [2:0]          m_axi_arprot,
    output logic                m_axi_arvalid,
    input  logic                m_axi_arready,
    input  logic [0:0]          m_axi_rid,
    input  logic [DATA_W-1:0]   m_axi_rdata,
    input  logic [1:0]          m_axi_rresp,
    input  logic                m_axi_rlast,
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
  logic run, close, abort, flush, big_endian, bad_config, use_bell, publish, poll;
  logic [ADDR_W-1:12] page;
  logic [31:0] size_mask, item_mask, secret, head, tail;
  logic [15:0] poll_gap;

  zsr_regs #(.KIND(32'h5a53_5243), .DATA_W(DATA_W), .ADDR_W(ADDR_W)) u_regs (
      .clk, .rst_n,
      .s_axil_awaddr, .s_axil_awprot, .s_axil_awvalid, .s_axil_awready, .s_axil_wdata, .s_axil_wstrb, .s_axil_wvalid,
      .s_axil_wready, .s_axil_bresp, .s_axil_bvalid, .s_axil_bready, .s_axil_araddr, .s_axil_arprot, .s_axil_arvalid,
      .s_axil_arready, .s_axil_rdata, .s_axil_rresp, .s_axil_rvalid, .s_axil_rready,
      .run, .close, .abort, .flush, .page, .size_mask, .item_mask, .big_endian, .bad_config, .poll_gap, .use_bell, .secret,
      .status, .head, .tail, .own(tail), .publish, .poll,
      .beat(m_axis_tvalid && m_axis_tready), .stall(m_axis_tready && !m_axis_tvalid));

  zsr_consumer_core #(.DATA_W(DATA_W), .ADDR_W(ADDR_W), .MAX_BURST(MAX_BURST), .QUEUE_LOG2(QUEUE_LOG2)) u_core (
      .clk, .rst_n, .run, .abort(abort || abort_in),
      .page, .size_mask, .item_mask, .big_endian, .bad_config, .poll_gap, .head, .tail, .status, .publish, .poll,
      .m_axis_tdata, .m_axis_tlast, .m_axis_tvalid, .m_axis_tready,
      .m_axi_araddr, .m_axi_arlen, .m_axi_arvalid, .m_axi_arready, .m_axi_rdata, .m_axi_rresp, .m_axi_rvalid,
      .m_axi_rready,
      .m_ctl_awaddr, .m_ctl_awprot, .m_ctl_awvalid, .m_ctl_awready, .m_ctl_wdata, .m_ctl_wstrb, .m_ctl_wvalid,
      .m_ctl_wready, .m_ctl_bresp, .m_ctl_bvalid, .m_ctl_bready, .m_ctl_araddr, .m_ctl_arprot, .m_ctl_arvalid,
      .m_ctl_arready, .m_ctl_rdata, .m_ctl_rresp, .m_ctl_rvalid, .m_ctl_rready);

  // Full-width incrementing bursts. Neither modifiable in secret nor bufferable on the way: a response comes from the
  // memory itself, so what it acknowledges is visible to everyone.
  assign m_axi_arid = 1'b0;
  assign m_axi_arsize = 3'($clog2(DATA_W / 8));
  assign m_axi_arburst = 2'b01;
  assign m_axi_arlock = 1'b0;
  assign m_axi_arcache = 4'b0010;
  assign m_axi_arprot = 3'b000;

  logic unused;
  assign unused = &{1'b0, close, flush, use_bell, secret, m_axi_rid, m_axi_rlast};
endmodule
