// Writes beats into a ring's items as AXI4 bursts and counts what the memory has acknowledged. All bursts carry the same
// ID, so their responses come in order.
module zsr_writer #(
    parameter int unsigned DATA_W = 64,
    parameter int unsigned ADDR_W = 64,
    parameter int unsigned MAX_BURST = 16,
    parameter int unsigned OUTSTANDING_LOG2 = 3
) (
    input  logic              clk,
    input  logic              rst_n,
    input  logic              start,         // one cycle: begin at `start_counter`
    input  logic [31:0]       start_counter,
    input  logic [ADDR_W-1:12] page,         // of the ring's control words; the items begin with the next
    input  logic [31:0]       size_mask,
    input  logic [31:0]       item_mask,
    input  logic              enable,        // new bursts may be issued
    input  logic [31:0]       taken,         // counter behind the last beat that is in the queue
    input  logic [31:0]       limit,         // counter behind the last byte that is free

    input  logic [DATA_W-1:0] in_data,
    input  logic              in_valid,
    output logic              in_ready,

    output logic [31:0]       planned,       // counter behind the last beat that has an address
    output logic [31:0]       acked,         // counter behind the last beat that the memory has acknowledged
    output logic              error,         // the memory has refused a burst; `acked` stays where it is
    output logic              idle,          // no burst is under way

    output logic [ADDR_W-1:0] m_awaddr,
    output logic [7:0]        m_awlen,
    output logic              m_awvalid,
    input  logic              m_awready,
    output logic [DATA_W-1:0] m_wdata,
    output logic              m_wlast,
    output logic              m_wvalid,
    input  logic              m_wready,
    input  logic [1:0]        m_bresp,
    input  logic              m_bvalid,
    output logic              m_bready
);
  localparam int unsigned BEAT = DATA_W / 8;
  localparam int unsigned BEAT_LOG2 = $clog2(BEAT);

  // Plan: one cycle measures, the next chooses, the third issues, so that no path has two long adders. What was measured is
  // too small at worst: it grows until a burst is issued.
  logic [12:0] reach_now, reach, most, length;
  logic [31:0] offset, available, space;
  logic [ADDR_W-1:12] items;
  logic measured, whole, ends_item, sized, issue, room, writing;
  logic w_queue_ready, w_queue_valid, w_take, b_queue_ready, b_queue_valid, b_take;
  logic [7:0] w_queue_len, b_queue_len, planned_len;
  logic [7:0] w_left;

  zsr_burst #(.DATA_W(DATA_W), .MAX_BURST(MAX_BURST)) u_burst (.counter(planned[11:0]), .size_mask(size_mask[11:0]), .bytes(reach_now));

  assign offset = planned & size_mask;
  always_ff @(posedge clk) begin
    items <= page + (ADDR_W - 12)'(1);
    reach <= reach_now;
    available <= taken - planned;
    space <= limit - planned;
    measured <= rst_n && !start && !issue;
  end
  assign most = space < {19'b0, reach} ? space[12:0] : reach;
  assign whole = available >= {19'b0, reach} || available >= space;
  assign ends_item = available > (~planned & item_mask);
  assign room = w_queue_ready && b_queue_ready && (!m_awvalid || m_awready);
  assign issue = sized && room;
  assign planned_len = 8'((length >> BEAT_LOG2) - 13'd1);

  always_ff @(posedge clk) begin
    if (!rst_n || start) sized <= 1'b0;
    else if (sized) sized <= !room;
    // A short burst goes out only to end an item while nothing else is on its way.
    else sized <= measured && enable && !error && (whole ? space != 0 : ends_item && !writing && !w_queue_valid);
    if (!sized) length <= whole ? most : available[12:0];
  end

  always_ff @(posedge clk) begin
    if (!rst_n) begin
      m_awvalid <= 1'b0;
      planned <= '0;
    end else begin
      if (m_awready) m_awvalid <= 1'b0;
      if (start) planned <= start_counter;
      else if (issue) begin
        m_awvalid <= 1'b1;
        planned <= planned + {19'b0, length};
      end
    end
    if (issue) begin
      m_awaddr <= {items, 12'b0} + ADDR_W'(offset);
      m_awlen <= planned_len;
    end
  end

  zsr_fifo #(.WIDTH(8), .DEPTH_LOG2(OUTSTANDING_LOG2)) u_w_queue (
      .clk, .rst_n, .in_valid(issue), .in_ready(w_queue_ready), .in_data(planned_len),
      .out_valid(w_queue_valid), .out_ready(w_take), .out_data(w_queue_len));
  zsr_fifo #(.WIDTH(8), .DEPTH_LOG2(OUTSTANDING_LOG2)) u_b_queue (
      .clk, .rst_n, .in_valid(issue), .in_ready(b_queue_ready), .in_data(planned_len),
      .out_valid(b_queue_valid), .out_ready(b_take), .out_data(b_queue_len));

  // Data.
  assign m_wdata = in_data;
  assign m_wvalid = writing && in_valid;
  assign m_wlast = w_left == 0;
  assign in_ready = writing && m_wready;
  assign w_take = w_queue_valid && (!writing || (m_wvalid && m_wready && m_wlast));
  always_ff @(posedge clk) begin
    if (!rst_n) writing <= 1'b0;
    else if (w_take) writing <= 1'b1;
    else if (m_wvalid && m_wready && m_wlast) writing <= 1'b0;
    if (w_take) w_left <= w_queue_len;
    else if (m_wvalid && m_wready) w_left <= w_left - 8'd1;
  end

  assign idle = !sized && !m_awvalid && !writing && !w_queue_valid && !b_queue_valid;

  // Acknowledgements.
  assign m_bready = b_queue_valid;
  assign b_take = m_bvalid && m_bready;
  always_ff @(posedge clk) begin
    if (!rst_n) begin
      acked <= '0;
      error <= 1'b0;
    end else if (start) begin
      acked <= start_counter;
      error <= 1'b0;
    end else if (b_take) begin
      if (m_bresp[1]) error <= 1'b1;
      if (!m_bresp[1] && !error) acked <= acked + ((32'(b_queue_len) + 32'd1) << BEAT_LOG2);
    end
  end

  logic unused;
  assign unused = &{1'b0, m_bresp[0]};
endmodule
