// Reads a ring's items as AXI4 bursts into a queue. A burst is asked for only when the queue has room for all of it, so
// read data never waits on the bus. All bursts carry the same ID, so data come in order.
module zsr_reader #(
    parameter int unsigned DATA_W = 64,
    parameter int unsigned ADDR_W = 64,
    parameter int unsigned MAX_BURST = 16,
    parameter int unsigned QUEUE_LOG2 = 6
) (
    input  logic              clk,
    input  logic              rst_n,
    input  logic              start,         // one cycle: begin at `start_counter`
    input  logic [31:0]       start_counter,
    input  logic [ADDR_W-1:12] page,         // of the ring's control words; the items begin with the next
    input  logic [31:0]       size_mask,
    input  logic [31:0]       item_mask,
    input  logic              enable,
    input  logic [31:0]       head,          // counter behind the last byte that is committed

    output logic [DATA_W-1:0] m_tdata,
    output logic              m_tlast,       // ends an item
    output logic              m_tvalid,
    input  logic              m_tready,

    output logic [31:0]       planned,       // counter behind the last beat that was asked for
    output logic [31:0]       delivered,     // counter behind the last beat that the user has taken
    output logic              error,         // the memory has refused a beat; nothing behind it is delivered
    output logic              idle,          // no burst is under way

    output logic [ADDR_W-1:0] m_araddr,
    output logic [7:0]        m_arlen,
    output logic              m_arvalid,
    input  logic              m_arready,
    input  logic [DATA_W-1:0] m_rdata,
    input  logic [1:0]        m_rresp,
    input  logic              m_rvalid,
    output logic              m_rready
);
  localparam int unsigned BEAT = DATA_W / 8;
  localparam int unsigned BEAT_LOG2 = $clog2(BEAT);
  localparam logic [31:0] QUEUE_BYTES = BEAT << QUEUE_LOG2;

  // As in zsr_writer: measure, choose, issue.
  logic [12:0] reach_now, reach, length;
  logic [31:0] offset, available, free;
  logic [ADDR_W-1:12] items;
  logic [31:0] received;  // counter behind the last beat that has come
  logic measured, sized, room, issue, queue_ready;

  zsr_burst #(.DATA_W(DATA_W), .MAX_BURST(MAX_BURST)) u_burst (.counter(planned[11:0]), .size_mask(size_mask[11:0]), .bytes(reach_now));

  assign offset = planned & size_mask;
  always_ff @(posedge clk) begin
    items <= page + (ADDR_W - 12)'(1);
    reach <= reach_now;
    available <= head - planned;
    free <= delivered + QUEUE_BYTES - planned;
    measured <= rst_n && !start && !issue;
  end
  assign room = !m_arvalid || m_arready;
  assign issue = sized && room;

  always_ff @(posedge clk) begin
    if (!rst_n || start) sized <= 1'b0;
    else if (sized) sized <= !room;
    else sized <= measured && enable && !error && available != 0 && (available <= free || {19'b0, reach} <= free);
    if (!sized) length <= available < {19'b0, reach} ? available[12:0] : reach;
  end

  always_ff @(posedge clk) begin
    if (!rst_n) begin
      m_arvalid <= 1'b0;
      planned <= '0;
    end else begin
      if (m_arready) m_arvalid <= 1'b0;
      if (start) planned <= start_counter;
      else if (issue) begin
        m_arvalid <= 1'b1;
        planned <= planned + {19'b0, length};
      end
    end
    if (issue) begin
      m_araddr <= {items, 12'b0} + ADDR_W'(offset);
      m_arlen <= 8'((length >> BEAT_LOG2) - 13'd1);
    end
  end

  assign idle = !sized && planned == received;
  assign m_rready = queue_ready;
  zsr_fifo #(.WIDTH(DATA_W), .DEPTH_LOG2(QUEUE_LOG2)) u_queue (
      .clk, .rst_n(rst_n && !start), .in_valid(m_rvalid && !error && !m_rresp[1]), .in_ready(queue_ready), .in_data(m_rdata),
      .out_valid(m_tvalid), .out_ready(m_tready), .out_data(m_tdata));

  assign m_tlast = ((delivered + BEAT) & item_mask) == 0;
  always_ff @(posedge clk) begin
    if (!rst_n) begin
      received <= '0;
      delivered <= '0;
      error <= 1'b0;
    end else if (start) begin
      received <= start_counter;
      delivered <= start_counter;
      error <= 1'b0;
    end else begin
      if (m_rvalid && m_rready) received <= received + BEAT;
      if (m_rvalid && m_rready && m_rresp[1]) error <= 1'b1;
      if (m_tvalid && m_tready) delivered <= delivered + BEAT;
    end
  end

  logic unused;
  assign unused = &{1'b0, m_rresp[0]};
endmodule
