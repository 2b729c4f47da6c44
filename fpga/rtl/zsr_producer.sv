// A producer ring: what the user streams in is written as items into the ring's memory, and `head` behind it.
// `m_axi` writes items, `m_ctl` (AXI4-Lite) reads and writes control words; both reach the same memory.
module zsr_producer #(
    parameter int unsigned DATA_W = 64,           // 64, 128, 256 or 512
    parameter int unsigned ADDR_W = 64,
    parameter int unsigned MAX_BURST = 16,        // beats; MAX_BURST * DATA_W / 8 is at most 4096
    parameter int unsigned QUEUE_LOG2 = 6,        // beats of the queue, at least 2 * MAX_BURST
    parameter int unsigned OUTSTANDING_LOG2 = 3   // bursts under way
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

    input  logic                close_in,         // one cycle each, as the bits of CONTROL
    input  logic                abort_in,
    input  logic                flush_in,
    output logic [zsr_pkg::STATUS_W-1:0] status,           // as the register STATUS

    input  logic [DATA_W-1:0]   s_axis_tdata,
    input  logic [DATA_W/8-1:0] s_axis_tkeep,
    input  logic                s_axis_tlast,
    input  logic                s_axis_tvalid,
    output logic                s_axis_tready,

    output logic [7:0]          m_bell_tdata,     // payloads of doorbells; tie tready high if they are not used
    output logic                m_bell_tlast,
    output logic                m_bell_tvalid,
    input  logic                m_bell_tready,

    output logic [ADDR_W-1:0]   m_axi_awaddr,
    output logic [7:0]          m_axi_awlen,
    output logic [0:0]          m_axi_awid,
    output logic [2:0]          m_axi_awsize,
    output logic [1:0]          m_axi_awburst,
    output logic                m_axi_awlock,
    output logic [3:0]          m_axi_awcache,
    output logic [2:0]          m_axi_awprot,
    output logic                m_axi_awvalid,
    input  logic                m_axi_awready,
    output logic [DATA_W-1:0]   m_axi_wdata,
    output logic [DATA_W/8-1:0] m_axi_wstrb,
    output logic                m_axi_wlast,
    output logic                m_axi_wvalid,
    input  logic                m_axi_wready,
    input  logic [0:0]          m_axi_bid,
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
  logic run, close, abort, flush, big_endian, bad_config, use_bell, bell, publish, poll;
  logic [ADDR_W-1:12] page;
  logic [31:0] size_mask, item_mask, secret, head, flags, tail;
  logic [15:0] poll_gap;

  zsr_regs #(.KIND(32'h5a53_5250), .DATA_W(DATA_W), .ADDR_W(ADDR_W)) u_regs (
      .clk, .rst_n,
      .s_axil_awaddr, .s_axil_awprot, .s_axil_awvalid, .s_axil_awready, .s_axil_wdata, .s_axil_wstrb, .s_axil_wvalid,
      .s_axil_wready, .s_axil_bresp, .s_axil_bvalid, .s_axil_bready, .s_axil_araddr, .s_axil_arprot, .s_axil_arvalid,
      .s_axil_arready, .s_axil_rdata, .s_axil_rresp, .s_axil_rvalid, .s_axil_rready,
      .run, .close, .abort, .flush, .page, .size_mask, .item_mask, .big_endian, .bad_config, .poll_gap, .use_bell, .secret,
      .status, .head, .tail, .own(head), .publish, .poll,
      .beat(s_axis_tvalid && s_axis_tready), .stall(s_axis_tvalid && !s_axis_tready));

  zsr_producer_core #(.DATA_W(DATA_W), .ADDR_W(ADDR_W), .MAX_BURST(MAX_BURST), .QUEUE_LOG2(QUEUE_LOG2),
                      .OUTSTANDING_LOG2(OUTSTANDING_LOG2)) u_core (
      .clk, .rst_n, .run, .close(close || close_in), .abort(abort || abort_in), .flush(flush || flush_in),
      .page, .size_mask, .item_mask, .big_endian, .bad_config, .poll_gap, .use_bell, .bell, .head, .flags, .tail, .status,
      .publish, .poll,
      .s_axis_tdata, .s_axis_tkeep, .s_axis_tlast, .s_axis_tvalid, .s_axis_tready,
      .m_axi_awaddr, .m_axi_awlen, .m_axi_awvalid, .m_axi_awready, .m_axi_wdata, .m_axi_wlast, .m_axi_wvalid,
      .m_axi_wready, .m_axi_bresp, .m_axi_bvalid, .m_axi_bready,
      .m_ctl_awaddr, .m_ctl_awprot, .m_ctl_awvalid, .m_ctl_awready, .m_ctl_wdata, .m_ctl_wstrb, .m_ctl_wvalid,
      .m_ctl_wready, .m_ctl_bresp, .m_ctl_bvalid, .m_ctl_bready, .m_ctl_araddr, .m_ctl_arprot, .m_ctl_arvalid,
      .m_ctl_arready, .m_ctl_rdata, .m_ctl_rresp, .m_ctl_rvalid, .m_ctl_rready);

  zsr_doorbell u_doorbell (
      .clk, .rst_n, .ring(bell), .secret, .head, .flags, .m_bell_tdata, .m_bell_tlast, .m_bell_tvalid, .m_bell_tready);

  // Full-width incrementing bursts. Neither modifiable in secret nor bufferable on the way: a response comes from the
  // memory itself, so what it acknowledges is visible to everyone.
  assign m_axi_awid = 1'b0;
  assign m_axi_awsize = 3'($clog2(DATA_W / 8));
  assign m_axi_awburst = 2'b01;
  assign m_axi_awlock = 1'b0;
  assign m_axi_awcache = 4'b0010;
  assign m_axi_awprot = 3'b000;
  assign m_axi_wstrb = '1;

  logic unused;
  assign unused = &{1'b0, m_axi_bid};
endmodule
