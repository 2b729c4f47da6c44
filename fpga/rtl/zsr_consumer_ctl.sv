// Decides which control word a consumer touches next: attach, look at `head`, give slots back, abort.
// A slot is given back when the user has taken the last beat of its item.
module zsr_consumer_ctl (
    input  logic                clk,
    input  logic                rst_n,
    input  logic                run,            // attach and stay attached
    input  logic                bad_config,
    input  logic                abort,          // one cycle
    input  logic [15:0]         poll_gap,       // cycles between two looks at `head`
    input  logic [31:0]         size_mask,
    input  logic [31:0]         item_mask,

    output logic                start,          // one cycle: the reader begins at `tail`
    output logic                read_enable,
    input  logic [31:0]         planned,
    input  logic [31:0]         delivered,
    input  logic                read_error,
    input  logic                read_idle,

    output logic                req_valid,
    output logic                req_write,
    output logic                req_at_64,
    output logic [31:0]         req_counter,
    output logic [31:0]         req_flags,
    input  logic                rsp_valid,
    input  logic                rsp_error,
    input  logic [31:0]         rsp_counter,
    input  logic [31:0]         rsp_flags,

    output logic [31:0]         head,           // as last read
    output logic [31:0]         tail,           // as last written and acknowledged
    output logic [zsr_pkg::STATUS_W-1:0] status
);
  typedef enum logic [3:0] {
    OFF, CHECK, ATTACH, BEGIN, RUN, WRITE_TAIL, WRITE_ABORTED, READ_HEAD, ENDED, LEAVING
  } state_t;
  state_t state;

  logic attached, closed, aborted, peer_aborted, corrupt, bus_error, config_error;
  logic head_closed, head_aborted, abort_wanted;
  logic [31:0] flags, target, released, peer_fill;
  logic [15:0] wait_left;
  logic head_believable, hungry;

  assign released = delivered & ~item_mask;
  // `head` only moves forward, by whole items, and is at most one ring ahead of `tail`.
  assign peer_fill = rsp_counter - tail;
  assign head_believable = peer_fill >= head - tail && peer_fill <= size_mask + 32'd1 && (peer_fill & item_mask) == 0;
  always_ff @(posedge clk) hungry <= head - planned <= size_mask >> 1;  // A cycle late, for the clock rate.

  // One that leaves begins nothing new, also when RUN is back already.
  assign read_enable = attached && run && state != LEAVING && !abort_wanted && !corrupt;
  assign start = state == BEGIN;

  assign req_valid = state == ATTACH || state == WRITE_TAIL || state == WRITE_ABORTED || state == READ_HEAD;
  assign req_write = state == WRITE_TAIL || state == WRITE_ABORTED;
  assign req_at_64 = state != READ_HEAD;
  assign req_counter = state == WRITE_TAIL ? target : tail;
  always_comb begin
    req_flags = flags;
    if (state == WRITE_ABORTED) req_flags[zsr_pkg::FLAG_ABORTED] = 1'b1;
  end

  always_comb begin
    status = '0;
    status[zsr_pkg::STATUS_ATTACHED] = attached;
    status[zsr_pkg::STATUS_CLOSED] = closed;
    status[zsr_pkg::STATUS_ABORTED] = aborted;
    status[zsr_pkg::STATUS_PEER_ABORTED] = peer_aborted;
    status[zsr_pkg::STATUS_CORRUPT] = corrupt;
    status[zsr_pkg::STATUS_BUS_ERROR] = bus_error || read_error;
    status[zsr_pkg::STATUS_BAD_CONFIG] = config_error;
    status[zsr_pkg::STATUS_DRAINED] = attached && head == tail;
  end

  always_ff @(posedge clk) begin
    if (wait_left != 0) wait_left <= wait_left - 16'd1;
    if (!rst_n) begin
      state <= OFF;
      {attached, closed, aborted, peer_aborted, corrupt, bus_error, config_error} <= '0;
      {head_closed, head_aborted, abort_wanted} <= '0;
      {head, tail, flags, target} <= '0;
      wait_left <= '0;
    end else begin
      // Also before it is attached; until it leaves.
      if (run && abort) abort_wanted <= 1'b1;
      case (state)
        OFF: if (run) begin
          {closed, aborted, peer_aborted, corrupt, bus_error, config_error} <= '0;
          {head_closed, head_aborted} <= '0;
          state <= CHECK;
        end
        CHECK: begin
          config_error <= bad_config;
          state <= bad_config ? ENDED : ATTACH;
        end
        ATTACH: if (rsp_valid) begin
          {tail, head, flags} <= {rsp_counter, rsp_counter, rsp_flags};
          bus_error <= rsp_error;
          if (!rsp_error) begin
            aborted <= rsp_flags[zsr_pkg::FLAG_ABORTED];
            corrupt <= (rsp_counter & item_mask) != 0;
          end
          state <= rsp_error ? ENDED : BEGIN;
        end
        BEGIN: begin
          attached <= !(aborted || corrupt);
          state <= aborted || corrupt ? ENDED : RUN;
        end
        RUN:
          if (abort_wanted || corrupt || read_error) state <= WRITE_ABORTED;
          else if (released != tail) begin
            target <= released;
            state <= WRITE_TAIL;
          end else if ((head_closed || head_aborted) && head == tail) begin
            // What was committed before the end is delivered first.
            closed <= head_closed;
            peer_aborted <= head_aborted && !head_closed;
            state <= ENDED;
          end else if (!run) begin
            abort_wanted <= 1'b0;
            state <= LEAVING;
          end
          else if (hungry && wait_left == 0 && !head_closed && !head_aborted) state <= READ_HEAD;
        WRITE_TAIL: if (rsp_valid) begin
          bus_error <= rsp_error;
          if (!rsp_error) tail <= target;
          state <= rsp_error ? ENDED : RUN;
        end
        WRITE_ABORTED: if (rsp_valid) begin
          bus_error <= rsp_error;
          aborted <= !rsp_error;
          state <= ENDED;
        end
        READ_HEAD: if (rsp_valid) begin
          bus_error <= rsp_error;
          wait_left <= poll_gap;
          if (!rsp_error) begin
            corrupt <= !head_believable;
            if (head_believable) begin
              head <= rsp_counter;
              head_closed <= rsp_flags[zsr_pkg::FLAG_CLOSED];
              head_aborted <= rsp_flags[zsr_pkg::FLAG_ABORTED];
            end
          end
          state <= rsp_error ? ENDED : RUN;
        end
        ENDED: if (!run) begin
          abort_wanted <= 1'b0;
          state <= LEAVING;
        end
        default: if (read_idle) begin
          attached <= 1'b0;
          state <= OFF;
        end
      endcase
    end
  end
endmodule
