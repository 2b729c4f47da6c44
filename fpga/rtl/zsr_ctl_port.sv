// Reads and writes one control word (counter and flags, 8 bytes) at offset 0 or 64 of a ring: an AXI4-Lite master of 64
// data bits with one access under way at a time. The words' byte order is dealt with here and nowhere else.
module zsr_ctl_port #(
    parameter int unsigned ADDR_W = 64
) (
    input  logic              clk,
    input  logic              rst_n,
    input  logic [ADDR_W-1:12] page,       // of the control words
    input  logic              big_endian,

    input  logic              req_valid,   // held until `rsp_valid`, with all that is beside it
    input  logic              req_write,
    input  logic              req_at_64,   // the word at offset 64, else at 0
    input  logic [31:0]       req_counter,
    input  logic [31:0]       req_flags,
    output logic              rsp_valid,   // one cycle: the access is done
    output logic              rsp_error,
    output logic [31:0]       rsp_counter,
    output logic [31:0]       rsp_flags,

    output logic [ADDR_W-1:0] m_ctl_awaddr,
    output logic [2:0]        m_ctl_awprot,
    output logic              m_ctl_awvalid,
    input  logic              m_ctl_awready,
    output logic [63:0]       m_ctl_wdata,
    output logic [7:0]        m_ctl_wstrb,
    output logic              m_ctl_wvalid,
    input  logic              m_ctl_wready,
    input  logic [1:0]        m_ctl_bresp,
    input  logic              m_ctl_bvalid,
    output logic              m_ctl_bready,
    output logic [ADDR_W-1:0] m_ctl_araddr,
    output logic [2:0]        m_ctl_arprot,
    output logic              m_ctl_arvalid,
    input  logic              m_ctl_arready,
    input  logic [63:0]       m_ctl_rdata,
    input  logic [1:0]        m_ctl_rresp,
    input  logic              m_ctl_rvalid,
    output logic              m_ctl_rready
);
  logic busy;
  logic [ADDR_W-1:0] address;

  assign address = {page, 5'b0, req_at_64, 6'b0};
  assign m_ctl_awprot = 3'b000;
  assign m_ctl_arprot = 3'b000;
  assign m_ctl_wstrb = 8'hff;
  assign m_ctl_bready = busy;
  assign m_ctl_rready = busy;

  always_ff @(posedge clk) begin
    if (!rst_n) begin
      busy <= 1'b0;
      rsp_valid <= 1'b0;
      m_ctl_awvalid <= 1'b0;
      m_ctl_wvalid <= 1'b0;
      m_ctl_arvalid <= 1'b0;
    end else begin
      rsp_valid <= 1'b0;
      if (m_ctl_awready) m_ctl_awvalid <= 1'b0;
      if (m_ctl_wready) m_ctl_wvalid <= 1'b0;
      if (m_ctl_arready) m_ctl_arvalid <= 1'b0;
      if (!busy && req_valid && !rsp_valid) begin
        busy <= 1'b1;
        m_ctl_awvalid <= req_write;
        m_ctl_wvalid <= req_write;
        m_ctl_arvalid <= !req_write;
      end else if (busy && (m_ctl_bvalid || m_ctl_rvalid)) begin
        busy <= 1'b0;
        rsp_valid <= 1'b1;
      end
    end
  end

  always_ff @(posedge clk) begin
    if (!busy) begin
      m_ctl_awaddr <= address;
      m_ctl_araddr <= address;
      m_ctl_wdata <= big_endian ? {zsr_pkg::swap_bytes(req_flags), zsr_pkg::swap_bytes(req_counter)} : {req_flags, req_counter};
    end
    rsp_error <= m_ctl_bvalid ? m_ctl_bresp[1] : m_ctl_rresp[1];
    rsp_counter <= big_endian ? zsr_pkg::swap_bytes(m_ctl_rdata[31:0]) : m_ctl_rdata[31:0];
    rsp_flags <= big_endian ? zsr_pkg::swap_bytes(m_ctl_rdata[63:32]) : m_ctl_rdata[63:32];
  end

  logic unused;
  assign unused = &{1'b0, m_ctl_bresp[0], m_ctl_rresp[0]};
endmodule
