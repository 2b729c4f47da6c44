// Decides which control word a producer touches next: attach, publish, look at `tail`, close, abort.
// `head` is written only with what the memory has acknowledged.
module zsr_producer_ctl (
    input  logic                clk,
    input  logic                rst_n,
    input  logic                run,            // attach and stay attached
    input  logic                bad_config,
    input  logic                close,          // one cycle each
    input  logic                abort,
    input  logic                use_bell,
    input  logic [15:0]         poll_gap,       // cycles between two looks at `tail`
    input  logic [31:0]         size_mask,
    input  logic [31:0]         item_mask,

    output logic                start,          // one cycle: framer and writer begin at `head`
    output logic                accept,
    output logic                closing,
    output logic                write_enable,
    output logic [31:0]         limit,
    input  logic [31:0]         taken,
    input  logic                partial,
    input  logic [31:0]         planned,
    input  logic [31:0]         acked,
    input  logic                write_error,
    input  logic                write_idle,

    output logic                req_valid,
    output logic                req_write,
    output logic                req_at_64,
    output logic [31:0]         req_counter,
    output logic [31:0]         req_flags,
    input  logic                rsp_valid,
    input  logic                rsp_error,
    input  logic [31:0]         rsp_counter,
    input  logic [31:0]         rsp_flags,

    output logic                bell,           // one cycle: tell the switch of `head`
    output logic [31:0]         head,           // as last written and acknowledged
    output logic [31:0]         flags,
    output logic [31:0]         tail,           // as last read
    output logic [zsr_pkg::STATUS_W-1:0] status
);
  typedef enum logic [3:0] {
    OFF, CHECK, ATTACH_HEAD, ATTACH_TAIL, BEGIN, RUN, WRITE_HEAD, WRITE_CLOSED, WRITE_ABORTED, READ_TAIL, ENDED, LEAVING
  } state_t;
  state_t state;

  logic attached, closed, aborted, peer_aborted, corrupt, bus_error, config_error;
  logic close_wanted, abort_wanted, look_for_bell;
  logic [31:0] target, head_before, fill, peer_fill;
  logic [15:0] wait_left;
  logic tail_believable, low, poll, staying;

  assign fill = head - tail;
  // `tail` only moves forward, by whole items, and never beyond `head`.
  assign peer_fill = head - rsp_counter;
  assign tail_believable = peer_fill <= fill && (peer_fill & item_mask) == 0;
  // A cycle late, for the clock rate: `tail` and so `limit` only grow.
  always_ff @(posedge clk) begin
    limit <= tail + size_mask + 32'd1;
    low <= limit - planned <= size_mask >> 1;
  end
  assign poll = look_for_bell || ((low || closed) && wait_left == 0 && head != tail);

  // One that leaves begins nothing new, also when RUN is back already.
  assign staying = attached && run && state != LEAVING;
  assign accept = staying && !close_wanted && !abort_wanted && !peer_aborted && !corrupt && !write_error;
  assign closing = attached && close_wanted;
  assign write_enable = staying && !abort_wanted && !peer_aborted && !corrupt;
  assign start = state == BEGIN;

  assign req_valid = state == ATTACH_HEAD || state == ATTACH_TAIL || state == WRITE_HEAD || state == WRITE_CLOSED ||
                     state == WRITE_ABORTED || state == READ_TAIL;
  assign req_write = state == WRITE_HEAD || state == WRITE_CLOSED || state == WRITE_ABORTED;
  assign req_at_64 = state == ATTACH_TAIL || state == READ_TAIL;
  assign req_counter = state == WRITE_HEAD ? target : head;
  always_comb begin
    req_flags = flags;
    if (state == WRITE_CLOSED) req_flags[zsr_pkg::FLAG_CLOSED] = 1'b1;
    if (state == WRITE_ABORTED) req_flags[zsr_pkg::FLAG_ABORTED] = 1'b1;
  end

  always_comb begin
    status = '0;
    status[zsr_pkg::STATUS_ATTACHED] = attached;
    status[zsr_pkg::STATUS_CLOSED] = closed;
    status[zsr_pkg::STATUS_ABORTED] = aborted;
    status[zsr_pkg::STATUS_PEER_ABORTED] = peer_aborted;
    status[zsr_pkg::STATUS_CORRUPT] = corrupt;
    status[zsr_pkg::STATUS_BUS_ERROR] = bus_error || write_error;
    status[zsr_pkg::STATUS_BAD_CONFIG] = config_error;
    status[zsr_pkg::STATUS_DRAINED] = attached && head == tail && taken == head;
    status[zsr_pkg::STATUS_PARTIAL] = partial;
  end

  always_ff @(posedge clk) begin
    bell <= 1'b0;
    if (wait_left != 0) wait_left <= wait_left - 16'd1;
    if (!rst_n) begin
      state <= OFF;
      {attached, closed, aborted, peer_aborted, corrupt, bus_error, config_error} <= '0;
      {close_wanted, abort_wanted, look_for_bell} <= '0;
      {head, flags, tail, target, head_before} <= '0;
      wait_left <= '0;
    end else begin
      // Also before it is attached; until it leaves.
      if (run && close) close_wanted <= 1'b1;
      if (run && abort) abort_wanted <= 1'b1;
      case (state)
        OFF: if (run) begin
          {closed, aborted, peer_aborted, corrupt, bus_error, config_error} <= '0;
          look_for_bell <= 1'b0;
          state <= CHECK;
        end
        CHECK: begin
          config_error <= bad_config;
          state <= bad_config ? ENDED : ATTACH_HEAD;
        end
        ATTACH_HEAD: if (rsp_valid) begin
          {head, flags} <= {rsp_counter, rsp_flags};
          bus_error <= rsp_error;
          if (!rsp_error) begin
            closed <= rsp_flags[zsr_pkg::FLAG_CLOSED];
            aborted <= rsp_flags[zsr_pkg::FLAG_ABORTED];
            corrupt <= (rsp_counter & item_mask) != 0;
          end
          state <= rsp_error ? ENDED : ATTACH_TAIL;
        end
        ATTACH_TAIL: if (rsp_valid) begin
          tail <= rsp_counter;
          bus_error <= rsp_error;
          peer_aborted <= !rsp_error && rsp_flags[zsr_pkg::FLAG_ABORTED];
          if (peer_fill > size_mask + 32'd1 || (peer_fill & item_mask) != 0) corrupt <= !rsp_error;
          state <= rsp_error ? ENDED : BEGIN;
        end
        BEGIN: begin
          attached <= !(closed || aborted || peer_aborted || corrupt);
          state <= closed || aborted || peer_aborted || corrupt ? ENDED : RUN;
        end
        RUN:
          if (abort_wanted || corrupt || write_error) state <= WRITE_ABORTED;
          else if (peer_aborted || (closed && head == tail && !look_for_bell)) state <= ENDED;
          else if (!run) begin
            {close_wanted, abort_wanted} <= '0;
            state <= LEAVING;
          end
          else if ((acked & ~item_mask) != head) begin
            target <= acked & ~item_mask;
            head_before <= head;
            state <= WRITE_HEAD;
          end else if (close_wanted && !closed && !partial && taken == acked) begin
            head_before <= head;
            state <= WRITE_CLOSED;
          end else if (poll) state <= READ_TAIL;
        WRITE_HEAD, WRITE_CLOSED: if (rsp_valid) begin
          bus_error <= rsp_error;
          if (!rsp_error) begin
            head <= req_counter;
            flags <= req_flags;
            closed <= state == WRITE_CLOSED;
            look_for_bell <= use_bell;
          end
          state <= rsp_error ? ENDED : RUN;
        end
        WRITE_ABORTED: if (rsp_valid) begin
          bus_error <= rsp_error;
          aborted <= !rsp_error;
          state <= ENDED;
        end
        READ_TAIL: if (rsp_valid) begin
          bus_error <= rsp_error;
          wait_left <= poll_gap;
          look_for_bell <= 1'b0;
          if (!rsp_error) begin
            corrupt <= !tail_believable;
            peer_aborted <= rsp_flags[zsr_pkg::FLAG_ABORTED];
            if (tail_believable) tail <= rsp_counter;
            // The switch had taken all that there was before the last publication, so it may be asleep.
            bell <= look_for_bell && rsp_counter == head_before;
          end
          state <= rsp_error ? ENDED : RUN;
        end
        ENDED: if (!run) begin
          {close_wanted, abort_wanted} <= '0;
          state <= LEAVING;
        end
        default: if (write_idle) begin
          attached <= 1'b0;
          state <= OFF;
        end
      endcase
    end
  end
endmodule
