// The AXI4-Lite registers of a producer or consumer, 32 bits each; docs/fpga.md has the table. Reads of addresses that
// are not in it give 0, writes to them do nothing.
module zsr_regs #(
    parameter logic [31:0] KIND = 32'h5a53_5250,  // "ZSRP", or "ZSRC"
    parameter int unsigned DATA_W = 64,
    parameter int unsigned ADDR_W = 64
) (
    input  logic                clk,
    input  logic                rst_n,

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

    output logic                run,
    output logic                close,
    output logic                abort,
    output logic                flush,
    output logic [ADDR_W-1:12]  page,
    output logic [31:0]         size_mask,
    output logic [31:0]         item_mask,
    output logic                big_endian,
    output logic                bad_config,
    output logic [15:0]         poll_gap,
    output logic                use_bell,
    output logic [31:0]         secret,

    input  logic [zsr_pkg::STATUS_W-1:0] status,
    input  logic [31:0]         head,
    input  logic [31:0]         tail,
    input  logic [31:0]         own,         // of both, the one that this side moves
    input  logic                publish,     // one cycle each: counted
    input  logic                poll,
    input  logic                beat,
    input  logic                stall
);
  localparam int unsigned BEAT_LOG2 = $clog2(DATA_W / 8);

  logic [63:0] base_q;
  logic [4:0] size_log2, item_log2;
  logic [31:0] bytes_lo, bytes_hi, stalls_lo, stalls_hi, beats_lo, beats_hi, publishes, polls, own_before;
  logic write, bell_q, was_attached;

  assign page = base_q[ADDR_W-1:12];
  assign use_bell = bell_q;
  assign write = s_axil_awvalid && s_axil_wvalid && (!s_axil_bvalid || s_axil_bready);
  assign s_axil_awready = write;
  assign s_axil_wready = write;
  assign s_axil_bresp = 2'b00;
  assign s_axil_rresp = 2'b00;
  assign s_axil_arready = !s_axil_rvalid || s_axil_rready;

  always_ff @(posedge clk) begin
    size_mask <= (32'd1 << size_log2) - 32'd1;
    item_mask <= (32'd1 << item_log2) - 32'd1;
    bad_config <= size_log2 > 5'd30 || item_log2 > 5'd20 || item_log2 > size_log2 || item_log2 < 5'(BEAT_LOG2) ||
                  base_q[11:0] != 0;
    {close, abort, flush} <= '0;
    if (!rst_n) begin
      run <= 1'b0;
      s_axil_bvalid <= 1'b0;
      base_q <= '0;
      {size_log2, item_log2, big_endian, bell_q} <= '0;
      poll_gap <= 16'd64;
      secret <= '0;
    end else begin
      if (s_axil_bready) s_axil_bvalid <= 1'b0;
      if (write) begin
        s_axil_bvalid <= 1'b1;
        // Registers have no parts: a write that does not cover all four bytes is ignored.
        if (&s_axil_wstrb) case (s_axil_awaddr[7:2])
          6'h02: {abort, close, flush, run} <= {s_axil_wdata[3:1], s_axil_wdata[0]};
          6'h04: if (!run) base_q[31:0] <= s_axil_wdata;
          6'h05: if (!run) base_q[63:32] <= s_axil_wdata;
          6'h06: if (!run) {bell_q, big_endian, item_log2, size_log2} <=
                     {s_axil_wdata[17:16], s_axil_wdata[12:8], s_axil_wdata[4:0]};
          6'h07: poll_gap <= s_axil_wdata[15:0];
          6'h08: if (!run) secret <= s_axil_wdata;
          default: ;
        endcase
      end
    end
  end

  always_ff @(posedge clk) begin
    if (!rst_n) s_axil_rvalid <= 1'b0;
    else if (s_axil_arready) s_axil_rvalid <= s_axil_arvalid;
    if (s_axil_arvalid && s_axil_arready)
      case (s_axil_araddr[7:2])
        6'h00: s_axil_rdata <= KIND;
        6'h01: s_axil_rdata <= {16'(DATA_W), zsr_pkg::ABI_VERSION[15:0]};
        6'h02: s_axil_rdata <= {31'b0, run};
        6'h03: s_axil_rdata <= 32'(status);
        6'h04: s_axil_rdata <= base_q[31:0];
        6'h05: s_axil_rdata <= base_q[63:32];
        6'h06: s_axil_rdata <= {14'b0, bell_q, big_endian, 3'b0, item_log2, 3'b0, size_log2};
        6'h07: s_axil_rdata <= {16'b0, poll_gap};
        6'h0a: s_axil_rdata <= head;
        6'h0b: s_axil_rdata <= tail;
        6'h0c: s_axil_rdata <= bytes_lo;
        6'h0d: s_axil_rdata <= bytes_hi;
        6'h0e: s_axil_rdata <= beats_lo;
        6'h0f: s_axil_rdata <= beats_hi;
        6'h10: s_axil_rdata <= stalls_lo;
        6'h11: s_axil_rdata <= stalls_hi;
        6'h12: s_axil_rdata <= publishes;
        6'h13: s_axil_rdata <= polls;
        default: s_axil_rdata <= '0;
      endcase
  end

  // Counters of 64 bits in two halves; the carry takes a cycle more, so that no long adder sets the clock rate.
  logic bytes_carry, beats_carry, stalls_carry;
  always_ff @(posedge clk) begin
    was_attached <= status[zsr_pkg::STATUS_ATTACHED];
    own_before <= own;
    if (!rst_n) begin
      {bytes_lo, bytes_hi, beats_lo, beats_hi, stalls_lo, stalls_hi, publishes, polls} <= '0;
      {bytes_carry, beats_carry, stalls_carry} <= '0;
    end else begin
      {bytes_carry, bytes_lo} <= {1'b0, bytes_lo} + {1'b0, was_attached ? own - own_before : 32'd0};
      {beats_carry, beats_lo} <= {1'b0, beats_lo} + 33'(beat);
      {stalls_carry, stalls_lo} <= {1'b0, stalls_lo} + 33'(stall);
      bytes_hi <= bytes_hi + 32'(bytes_carry);
      beats_hi <= beats_hi + 32'(beats_carry);
      stalls_hi <= stalls_hi + 32'(stalls_carry);
      publishes <= publishes + 32'(publish);
      polls <= polls + 32'(poll);
    end
  end

  logic unused;
  assign unused = &{1'b0, s_axil_awprot, s_axil_arprot, s_axil_awaddr[1:0], s_axil_araddr[1:0], base_q};
endmodule
