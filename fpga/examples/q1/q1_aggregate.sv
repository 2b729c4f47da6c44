// TPC-H Q1 over rows in fixed point: those shipped by a day are summed by return flag and line status. Takes a row per cycle.
// docs/fpga.md has the row's layout and the registers.
module q1_aggregate #(
    parameter int unsigned DATA_W = 64,
    parameter int unsigned GROUPS = 8
) (
    input  logic              clk,
    input  logic              rst_n,
    input  logic [DATA_W-1:0] s_tdata,
    input  logic              s_tlast,
    input  logic              s_tvalid,
    output logic              s_tready,

    input  logic [11:0]       s_axil_awaddr,
    input  logic [2:0]        s_axil_awprot,
    input  logic              s_axil_awvalid,
    output logic              s_axil_awready,
    input  logic [31:0]       s_axil_wdata,
    input  logic [3:0]        s_axil_wstrb,
    input  logic              s_axil_wvalid,
    output logic              s_axil_wready,
    output logic [1:0]        s_axil_bresp,
    output logic              s_axil_bvalid,
    input  logic              s_axil_bready,
    input  logic [11:0]       s_axil_araddr,
    input  logic [2:0]        s_axil_arprot,
    input  logic              s_axil_arvalid,
    output logic              s_axil_arready,
    output logic [31:0]       s_axil_rdata,
    output logic [1:0]        s_axil_rresp,
    output logic              s_axil_rvalid,
    input  logic              s_axil_rready
);
  localparam logic [31:0] DAY = 32'd10471;  // 1998-09-02, in days since 1970

  logic [255:0] row;
  logic row_valid, bad, rows_busy;
  q1_rows #(.DATA_W(DATA_W)) u_rows (.clk, .rst_n, .s_tdata, .s_tlast, .s_tvalid, .s_tready, .row, .row_valid, .bad, .busy(rows_busy));

  // A: what the row says. B: its group. C: price less discount. D: with tax.
  logic [31:0] last_day, day, discount, tax, b_quantity, b_price, c_quantity, c_price, d_quantity, d_price;
  logic [6:0] b_discount, b_rest, c_discount, d_discount;
  logic [7:0] b_tax, c_tax;
  logic [15:0] b_key;
  logic [38:0] c_disc_price, d_disc_price;
  logic [46:0] d_charge;
  logic a_odd, a_refused, b_valid, c_refused;
  logic [GROUPS-1:0] match, used, claim, hit, c_hit, d_hit;
  logic clear, group_rst_n;

  assign discount = row[159:128];
  assign tax = row[191:160];
  assign day = row[223:192];
  assign a_odd = discount > 32'd100 || tax > 32'd155;
  assign claim = b_valid && match == '0 ? ~used & (used + 1'b1) : '0;
  assign hit = b_valid ? match | claim : '0;
  assign group_rst_n = rst_n && !clear;

  always_ff @(posedge clk) begin
    a_refused <= rst_n && row_valid && a_odd;
    b_valid <= rst_n && row_valid && !a_odd && $signed(day) <= $signed(last_day);
    b_quantity <= row[95:64];
    b_price <= row[127:96];
    b_discount <= discount[6:0];
    b_rest <= 7'd100 - discount[6:0];
    b_tax <= 8'd100 + tax[7:0];
    b_key <= row[239:224];

    c_refused <= rst_n && b_valid && hit == '0;
    c_hit <= rst_n ? hit : '0;
    {c_quantity, c_price, c_discount, c_tax} <= {b_quantity, b_price, b_discount, b_tax};
    c_disc_price <= 39'(b_price) * 39'(b_rest);

    d_hit <= rst_n ? c_hit : '0;
    {d_quantity, d_price, d_discount, d_disc_price} <= {c_quantity, c_price, c_discount, c_disc_price};
    d_charge <= 47'(c_disc_price) * 47'(c_tax);
  end

  logic [4:0] word;
  logic [32*GROUPS-1:0] values;
  for (genvar g = 0; g < GROUPS; g++) begin : g_group
    q1_group u_group (.clk, .rst_n(group_rst_n), .key(b_key), .match(match[g]), .claim(claim[g]), .used(used[g]), .add(d_hit[g]),
        .quantity(d_quantity), .price(d_price), .disc_price(d_disc_price), .charge(d_charge), .discount(d_discount),
        .word, .value(values[32*g+:32]));
  end

  logic [63:0] rows;
  logic [31:0] refused, bad_segments;
  logic busy;
  assign busy = rows_busy || a_refused || b_valid || c_refused || c_hit != '0 || d_hit != '0;
  always_ff @(posedge clk) begin
    if (!group_rst_n) {rows, refused, bad_segments} <= '0;
    else begin
      rows <= rows + 64'(row_valid);
      refused <= refused + 32'(a_refused) + 32'(c_refused);
      bad_segments <= bad_segments + 32'(bad);
    end
  end

  logic write;
  assign write = s_axil_awvalid && s_axil_wvalid && (!s_axil_bvalid || s_axil_bready);
  assign s_axil_awready = write;
  assign s_axil_wready = write;
  assign s_axil_bresp = 2'b00;
  assign s_axil_rresp = 2'b00;
  assign s_axil_arready = !s_axil_rvalid || s_axil_rready;
  assign word = s_axil_araddr[6:2];

  always_ff @(posedge clk) begin
    clear <= 1'b0;
    if (!rst_n) begin
      s_axil_bvalid <= 1'b0;
      s_axil_rvalid <= 1'b0;
      last_day <= DAY;
    end else begin
      if (s_axil_bready) s_axil_bvalid <= 1'b0;
      if (write) begin
        s_axil_bvalid <= 1'b1;
        if (&s_axil_wstrb && s_axil_awaddr[11:2] == 10'h002) clear <= s_axil_wdata[0];
        if (&s_axil_wstrb && s_axil_awaddr[11:2] == 10'h004) last_day <= s_axil_wdata;
      end
      if (s_axil_arready) s_axil_rvalid <= s_axil_arvalid;
    end
    if (s_axil_arvalid && s_axil_arready) begin
      case (s_axil_araddr[11:2])
        10'h000: s_axil_rdata <= 32'h5a53_5131;  // "ZSQ1"
        10'h001: s_axil_rdata <= {16'(GROUPS), 16'd1};
        10'h003: s_axil_rdata <= {31'b0, busy};
        10'h004: s_axil_rdata <= last_day;
        10'h006: s_axil_rdata <= rows[31:0];
        10'h007: s_axil_rdata <= rows[63:32];
        10'h008: s_axil_rdata <= refused;
        10'h009: s_axil_rdata <= bad_segments;
        default: s_axil_rdata <= '0;
      endcase
      // Groups are 128 bytes each, from 0x400 on.
      for (int g = 0; g < GROUPS; g++) if (s_axil_araddr[11:7] == 5'(g + 8)) s_axil_rdata <= values[32*g+:32];
    end
  end

  logic unused;
  assign unused = &{1'b0, s_axil_awprot, s_axil_arprot, s_axil_awaddr[1:0], s_axil_araddr[1:0], row};
endmodule
