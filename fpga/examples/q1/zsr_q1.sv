// A consumer ring with TPC-H Q1 behind it. `s_axil` has the registers of the ring, `s_q1` those of the query.
module zsr_q1 #(
    parameter int unsigned DATA_W = 64,
    parameter int unsigned ADDR_W = 64,
    parameter int unsigned MAX_BURST = 16,
    parameter int unsigned QUEUE_LOG2 = 6
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

    input  logic [11:0]         s_q1_awaddr,
    input  logic [2:0]          s_q1_awprot,
    input  logic                s_q1_awvalid,
    output logic                s_q1_awready,
    input  logic [31:0]         s_q1_wdata,
    input  logic [3:0]          s_q1_wstrb,
    input  logic                s_q1_wvalid,
    output logic                s_q1_wready,
    output logic [1:0]          s_q1_bresp,
    output logic                s_q1_bvalid,
    input  logic                s_q1_bready,
    input  logic [11:0]         s_q1_araddr,
    input  logic [2:0]          s_q1_arprot,
    input  logic                s_q1_arvalid,
    output logic                s_q1_arready,
    output logic [31:0]         s_q1_rdata,
    output logic [1:0]          s_q1_rresp,
    output logic                s_q1_rvalid,
    input  logic                s_q1_rready,

    input  logic                abort_in,         // one cycle, as the bit of CONTROL
    output logic [zsr_pkg::STATUS_W-1:0] status,           // as the register STATUS

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
  logic [DATA_W-1:0] tdata;
  logic tlast, tvalid, tready;

  zsr_consumer #(.DATA_W(DATA_W), .ADDR_W(ADDR_W), .MAX_BURST(MAX_BURST), .QUEUE_LOG2(QUEUE_LOG2)) u_ring (
      .clk, .rst_n, .s_axil_awaddr, .s_axil_awprot, .s_axil_awvalid, .s_axil_awready, .s_axil_wdata, .s_axil_wstrb,
      .s_axil_wvalid, .s_axil_wready, .s_axil_bresp, .s_axil_bvalid, .s_axil_bready, .s_axil_araddr, .s_axil_arprot,
      .s_axil_arvalid, .s_axil_arready, .s_axil_rdata, .s_axil_rresp, .s_axil_rvalid, .s_axil_rready, .abort_in, .status,
      .m_axis_tdata(tdata), .m_axis_tlast(tlast), .m_axis_tvalid(tvalid), .m_axis_tready(tready), .m_axi_araddr, .m_axi_arlen,
      .m_axi_arid, .m_axi_arsize, .m_axi_arburst, .m_axi_arlock, .m_axi_arcache, .m_axi_arprot, .m_axi_arvalid, .m_axi_arready,
      .m_axi_rid, .m_axi_rdata, .m_axi_rresp, .m_axi_rlast, .m_axi_rvalid, .m_axi_rready, .m_ctl_awaddr, .m_ctl_awprot,
      .m_ctl_awvalid, .m_ctl_awready, .m_ctl_wdata, .m_ctl_wstrb, .m_ctl_wvalid, .m_ctl_wready, .m_ctl_bresp, .m_ctl_bvalid,
      .m_ctl_bready, .m_ctl_araddr, .m_ctl_arprot, .m_ctl_arvalid, .m_ctl_arready, .m_ctl_rdata, .m_ctl_rresp, .m_ctl_rvalid,
      .m_ctl_rready);

  q1_aggregate #(.DATA_W(DATA_W)) u_query (
      .clk, .rst_n, .s_tdata(tdata), .s_tlast(tlast), .s_tvalid(tvalid), .s_tready(tready), .s_axil_awaddr(s_q1_awaddr),
      .s_axil_awprot(s_q1_awprot), .s_axil_awvalid(s_q1_awvalid), .s_axil_awready(s_q1_awready), .s_axil_wdata(s_q1_wdata),
      .s_axil_wstrb(s_q1_wstrb), .s_axil_wvalid(s_q1_wvalid), .s_axil_wready(s_q1_wready), .s_axil_bresp(s_q1_bresp),
      .s_axil_bvalid(s_q1_bvalid), .s_axil_bready(s_q1_bready), .s_axil_araddr(s_q1_araddr), .s_axil_arprot(s_q1_arprot),
      .s_axil_arvalid(s_q1_arvalid), .s_axil_arready(s_q1_arready), .s_axil_rdata(s_q1_rdata), .s_axil_rresp(s_q1_rresp),
      .s_axil_rvalid(s_q1_rvalid), .s_axil_rready(s_q1_rready));
endmodule
