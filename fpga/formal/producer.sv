// A producer at any memory and any switch: every answer comes at any time and may be an error, the user streams, closes, aborts
// and withdraws RUN at any time, the switch takes what it finds. Small: a ring of two items of two beats, bursts of at most two.
//
// Promises are what is seen from outside. Lemmas are what makes them inductive; they speak of the design's registers, which `prove`
// connects to the wires dut__ here. Covers show that a run from reset gets there; responses, that none waits forever.
`ifdef RESPONSE
`define LEMMA assume
`else
`define LEMMA assert
`endif
module producer (
    input logic clk,
    input logic run, close, abort, flush, tvalid, tlast, awready, wready, any_bvalid, c_awready, c_wready, any_c_bvalid, c_arready, any_c_rvalid, take, take_abort, lose, refuse, any_c_refuse,
    input logic [63:0] tdata,
    input logic [7:0] tkeep,
    // Looked at in reset only.
    input logic any_poll_gap, any_use_bell,
    input logic [31:4] any_begin,
    input logic [31:3] any_watched,
    input logic [1:0] any_fill, any_flags
);
  localparam logic [31:0] SIZE = 32, ITEM = 16;
  localparam logic [3:0] OFF = 0, CHECK = 1, ATTACH_HEAD = 2, ATTACH_TAIL = 3, BEGIN = 4, RUN = 5, WRITE_HEAD = 6, WRITE_CLOSED = 7,
      WRITE_ABORTED = 8, READ_TAIL = 9, ENDED = 10, LEAVING = 11;

  logic bvalid, c_bvalid, c_rvalid, c_refuse;
  logic poll_gap, use_bell;
  logic [31:0] begin_at, begin_fill, watched;

  logic [5:0] fills;
  assign fills = {any_fill == 3 ? 2'd0 : any_fill, 4'd0};
  always_ff @(posedge clk)
    if (!rst_n) begin
      poll_gap <= any_poll_gap;
      use_bell <= any_use_bell;
      begin_at <= {any_begin, 4'd0};
      begin_fill <= {26'd0, fills};
      watched <= {any_watched, 3'd0};
    end

  logic rst_n = 1'b0;
  always_ff @(posedge clk) rst_n <= 1'b1;

  logic [31:12] awaddr_page;
  logic [11:0] awaddr_low;
  logic [7:0] awlen;
  logic tready, awvalid, wlast, wvalid, bready, c_awvalid, c_wvalid, c_bready, c_arvalid, c_rready;
  logic [63:0] wdata, c_wdata;
  logic [31:0] c_awaddr, c_araddr;
  logic [8:0] status;

  // What memory and switch know.
  logic [31:0] env_head, env_tail;         // as they are in the memory
  logic [31:0] sent;                       // counter behind the last beat of data that the memory has got
  logic [31:0] answered;                   // counter behind the last burst that it has answered
  logic [1:0] env_flags;                   // of `head`: aborted, closed
  logic env_abort = 0;                     // of `tail`
  logic [3:0] fresh = 0;                   // by beat of the ring: acknowledged since it was last free
  logic [1:0] next_at;                     // where the next burst has to begin, in beats
  logic len0, len1;                        // beats, less 1, of the bursts that have an address and no answer; the oldest first
  logic [1:0] aw_open = 0, w_done = 0;     // how many these are; how many bursts have their last beat and no answer
  logic [31:0] end0, end1;                 // counters behind the latter, the oldest first
  logic c_aw = 0, c_w = 0, c_ar = 0, at_64 = 0, lost = 0;
  logic after_last = 0;
  logic [63:0] seen;

  // Registers of the design.
  logic [3:0] dut__u_ctl__state;
  logic dut__u_ctl__attached, dut__u_ctl__closed, dut__u_ctl__close_wanted, dut__u_ctl__abort_wanted, dut__u_ctl__peer_aborted;
  logic [15:0] dut__u_ctl__wait_left;
  logic [31:0] dut__u_ctl__head, dut__u_ctl__tail, dut__u_ctl__target, dut__u_ctl__flags;
  logic [31:0] dut__u_framer__taken, dut__u_writer__planned, dut__u_writer__acked;
  logic dut__u_framer__padding, dut__u_framer__go;
  logic [2:0] dut__u_queue__wr, dut__u_queue__rd;
  logic dut__u_queue__out_valid;
  logic [63:0] dut__u_queue__out_data, dut__u_queue__mem0, dut__u_queue__mem1, dut__u_queue__mem2, dut__u_queue__mem3;
  logic dut__u_writer__sized, dut__u_writer__measured, dut__u_writer__writing, dut__u_writer__error;
  logic [12:0] dut__u_writer__length, dut__u_writer__reach;
  logic [31:0] dut__u_writer__available, dut__u_writer__space, dut__u_ctl__limit;
  logic [31:12] dut__u_writer__items;
  logic [7:0] dut__u_writer__w_left;
  logic [1:0] dut__u_writer__u_w_queue__wr, dut__u_writer__u_w_queue__rd, dut__u_writer__u_b_queue__wr, dut__u_writer__u_b_queue__rd;
  logic dut__u_writer__u_w_queue__out_valid, dut__u_writer__u_b_queue__out_valid;
  logic [7:0] dut__u_writer__u_w_queue__out_data, dut__u_writer__u_w_queue__mem0, dut__u_writer__u_w_queue__mem1;
  logic [7:0] dut__u_writer__u_b_queue__out_data, dut__u_writer__u_b_queue__mem0, dut__u_writer__u_b_queue__mem1;
  logic dut__u_port__busy, dut__u_port__rsp_valid, dut__u_port__rsp_error;
  logic [31:0] dut__u_port__rsp_counter, dut__u_port__rsp_flags;

  zsr_producer_core #(.DATA_W(64), .ADDR_W(32), .MAX_BURST(2), .QUEUE_LOG2(2), .OUTSTANDING_LOG2(1)) dut (
      .clk, .rst_n, .run, .close, .abort, .flush, .page(20'd1), .size_mask(SIZE - 1), .item_mask(ITEM - 1),
      .big_endian(1'b0), .bad_config(1'b0), .poll_gap({15'd0, poll_gap}), .use_bell, .status,
      .s_axis_tdata(tdata), .s_axis_tkeep(tkeep), .s_axis_tlast(tlast), .s_axis_tvalid(tvalid), .s_axis_tready(tready),
      .m_axi_awaddr({awaddr_page, awaddr_low}), .m_axi_awlen(awlen), .m_axi_awvalid(awvalid), .m_axi_awready(awready),
      .m_axi_wdata(wdata), .m_axi_wlast(wlast), .m_axi_wvalid(wvalid), .m_axi_wready(wready),
      .m_axi_bresp({refuse, 1'b0}), .m_axi_bvalid(bvalid), .m_axi_bready(bready),
      .m_ctl_awaddr(c_awaddr), .m_ctl_awvalid(c_awvalid), .m_ctl_awready(c_awready),
      .m_ctl_wdata(c_wdata), .m_ctl_wvalid(c_wvalid), .m_ctl_wready(c_wready),
      .m_ctl_bresp({c_refuse, 1'b0}), .m_ctl_bvalid(c_bvalid), .m_ctl_bready(c_bready),
      .m_ctl_araddr(c_araddr), .m_ctl_arvalid(c_arvalid), .m_ctl_arready(c_arready),
      .m_ctl_rdata(at_64 ? {30'd0, env_abort, 1'b0, env_tail} : {30'd0, env_flags, env_head}),
      .m_ctl_rresp({c_refuse, 1'b0}), .m_ctl_rvalid(c_rvalid), .m_ctl_rready(c_rready));

  assign bvalid = any_bvalid && w_done != 0 && aw_open != 0;
  assign c_bvalid = any_c_bvalid && c_aw && c_w;
  assign c_rvalid = any_c_rvalid && c_ar;
  assign c_refuse = any_c_refuse || (lost && c_w);

  logic takes, w_ends, b_comes;
  assign takes = take && env_tail != env_head;
  assign w_ends = wvalid && wready && wlast;
  assign b_comes = bvalid && bready;

  function automatic logic [3:0] beats(input logic [1:0] from, input logic len);
    beats = (4'd1 << from) | (len ? 4'd1 << (from + 2'd1) : 4'd0);
  endfunction

  always_ff @(posedge clk) begin
    if (!rst_n) begin
      env_head <= {any_begin, 4'd0} + {26'd0, fills};
      env_tail <= {any_begin, 4'd0};
      env_flags <= any_flags;
    end else begin
      if (takes) env_tail <= env_tail + ITEM;
      if (take_abort) env_abort <= 1;
      // Addresses, data, answers. A burst that begins makes its beats unsound until the memory has them.
      if (awvalid && awready) next_at <= awaddr_low[4:3] + awlen[0] + 2'd1;
      if (b_comes) len0 <= len1;
      if (awvalid && awready)
        if (aw_open == {1'b0, b_comes}) len0 <= awlen[0];
        else len1 <= awlen[0];
      aw_open <= aw_open + (awvalid && awready) - b_comes;
      w_done <= w_done + w_ends - b_comes;
      if (b_comes) end0 <= end1;
      if (w_ends)
        if (w_done == {1'b0, b_comes}) end0 <= sent + 8;
        else end1 <= sent + 8;
      if (wvalid && wready) sent <= sent + 8;
      if (b_comes) answered <= answered + (len0 ? 16 : 8);
      fresh <= (fresh | (b_comes && !refuse ? beats(answered[4:3], len0) : 4'd0)) &
          ~(awvalid && awready ? beats(awaddr_low[4:3], awlen[0]) : 4'd0);
      // Control words.
      if (c_awvalid && c_awready) c_aw <= 1;
      if (c_wvalid && c_wready) begin
        c_w <= 1;
        lost <= lose;
        if (!lose) {env_flags, env_head} <= c_wdata[33:0];
      end
      if (c_bvalid && c_bready) {c_aw, c_w} <= 0;
      if (c_arvalid && c_arready) begin
        c_ar <= 1;
        at_64 <= c_araddr[6];
      end
      if (c_rvalid && c_rready) c_ar <= 0;
      // An attachment begins.
      if (dut__u_ctl__state == BEGIN) begin
        {sent, answered} <= {2{env_head}};
        next_at <= env_head[4:3];
      end
      if (dut__u_ctl__state == BEGIN) after_last <= 0;
      else if (tvalid && tready) after_last <= tlast;
      if (dut__u_framer__go && dut__u_framer__taken == watched)
        for (int i = 0; i < 8; i++) seen[8*i+:8] <= dut__u_framer__padding || !tkeep[i] ? 8'd0 : tdata[8*i+:8];
    end
  end

  // Promises.
  logic [3:0] unread;
  logic [31:0] grows;
  logic [3:0] published;
  assign grows = c_wdata[31:0] - env_head;
  for (genvar s = 0; s < 4; s++) begin : g_beat
    assign unread[s] = ((8 * s - env_tail) & (SIZE - 1)) < env_head - env_tail;
    assign published[s] = ((8 * s - env_head) & (SIZE - 1)) < grows;
  end
`ifndef RESPONSE
  always_comb
    if (rst_n) begin
      if (awvalid) stays_in_the_ring: assert (awaddr_page == 20'd2 && awaddr_low[2:0] == 0 && awlen < 2 && awaddr_low + 8 * (awlen + 1) <= SIZE);
      if (awvalid) never_overwrites: assert ((unread & beats(awaddr_low[4:3], awlen[0])) == 0);
      if (awvalid) leaves_no_gap: assert (awaddr_low[4:3] == next_at);
      if (w_done != 0 && aw_open != 0) as_long_as_said: assert (end0 == answered + (len0 ? 16 : 8));
      if (wvalid && sent == watched) in_order: assert (wdata == seen);
      if (c_wvalid) never_publishes_unwritten: assert ((published & ~fresh) == 0 && grows <= SIZE);
      if (c_wvalid) never_past_the_ring: assert (c_wdata[31:0] - env_tail <= SIZE);
      if (c_wvalid) whole_items: assert (c_wdata[3:0] == 0);
      if (c_wvalid) flags_stay: assert ((env_flags & ~c_wdata[33:32]) == 0);
      if (c_wvalid && c_wdata[32]) closes_behind_all: assert (grows == 0 && (env_flags[0] || env_head == dut__u_framer__taken));
      if (c_awvalid) writes_head_only: assert (c_awaddr == 32'h1000);
      if (tvalid && tready && after_last) last_ends_an_item: assert (dut__u_framer__taken[3:0] == 0);
      if (c_arvalid) reads_words_only: assert ((c_araddr & ~32'h40) == 32'h1000);
      no_false_alarm: assert (!status[4]);
    end
`endif


  // Lemmas. Short names first.
  logic [3:0] state;
  logic [31:0] head, tail, target, flags, taken, planned, acked, rsp;
  logic attached, sized, writing, rsp_valid, busy, off, reading, writes;
  assign {state, attached} = {dut__u_ctl__state, dut__u_ctl__attached};
  assign {head, tail, target, flags} = {dut__u_ctl__head, dut__u_ctl__tail, dut__u_ctl__target, dut__u_ctl__flags};
  assign {taken, planned, acked} = {dut__u_framer__taken, dut__u_writer__planned, dut__u_writer__acked};
  assign {sized, writing} = {dut__u_writer__sized, dut__u_writer__writing};
  assign {busy, rsp_valid, rsp} = {dut__u_port__busy, dut__u_port__rsp_valid, dut__u_port__rsp_counter};
  assign writes = state == WRITE_HEAD || state == WRITE_CLOSED || state == WRITE_ABORTED;
  assign reading = state == ATTACH_HEAD || state == ATTACH_TAIL || state == READ_TAIL;
  assign off = state == OFF || state == CHECK || state == ATTACH_HEAD || state == ATTACH_TAIL || state == BEGIN;

  // The queues' contents: how many, and the oldest first.
  logic [2:0] fill;
  logic [255:0] q;
  logic [1:0] w_fill, b_fill;
  logic [7:0] w0, w1, b0, b1;
  assign fill = dut__u_queue__wr - dut__u_queue__rd;
  assign w_fill = dut__u_writer__u_w_queue__wr - dut__u_writer__u_w_queue__rd;
  assign b_fill = dut__u_writer__u_b_queue__wr - dut__u_writer__u_b_queue__rd;
  assign {w0, w1} = dut__u_writer__u_w_queue__rd[0] ? {dut__u_writer__u_w_queue__mem1, dut__u_writer__u_w_queue__mem0}
                                                    : {dut__u_writer__u_w_queue__mem0, dut__u_writer__u_w_queue__mem1};
  assign {b0, b1} = dut__u_writer__u_b_queue__rd[0] ? {dut__u_writer__u_b_queue__mem1, dut__u_writer__u_b_queue__mem0}
                                                    : {dut__u_writer__u_b_queue__mem0, dut__u_writer__u_b_queue__mem1};
  for (genvar i = 0; i < 4; i++) begin : g_q
    logic [1:0] at;
    assign at = dut__u_queue__rd[1:0] + i;
    assign q[64*i+:64] = at == 0 ? dut__u_queue__mem0 : at == 1 ? dut__u_queue__mem1 : at == 2 ? dut__u_queue__mem2 : dut__u_queue__mem3;
  end
  // Beats that have an address and are not sent; that are not answered.
  logic [31:0] to_send, to_answer;
  assign to_send = (writing ? dut__u_writer__w_left + 1 : 0) + (w_fill > 0 ? w0 + 1 : 0) + (w_fill > 1 ? w1 + 1 : 0);
  assign to_answer = (b_fill > 0 ? b0 + 1 : 0) + (b_fill > 1 ? b1 + 1 : 0);

  // Beats of the ring that wait to be published; places of the queue whose content is not what was put in.
  logic [3:0] behind, differs;
  for (genvar s = 0; s < 4; s++) begin : g_behind
    assign behind[s] = ((8 * s - env_head) & (SIZE - 1)) < acked - env_head;
    assign differs[s] = s < fill && sent + 8 * s == watched && q[64*s+:64] != seen;
  end

`ifndef PROMISES
  always_comb
    if (!rst_n) lemma_start: `LEMMA ({aw_open, w_done, c_aw, c_w, c_ar} == 0);
    else begin
      lemma_queue: `LEMMA (fill <= 4 && (!dut__u_queue__out_valid || (fill != 0 && dut__u_queue__out_data == q[63:0])));
      lemma_w_queue: `LEMMA (w_fill <= 2 && (!dut__u_writer__u_w_queue__out_valid || (w_fill != 0 && dut__u_writer__u_w_queue__out_data == w0)) &&
          (w_fill == 0 || dut__u_writer__u_w_queue__out_valid || awvalid));
      lemma_b_queue: `LEMMA (b_fill <= 2 && (!dut__u_writer__u_b_queue__out_valid || (b_fill != 0 && dut__u_writer__u_b_queue__out_data == b0)) &&
          (b_fill == 0 || dut__u_writer__u_b_queue__out_valid || awvalid));
      lemma_lengths: `LEMMA ((w_fill == 0 || w0 <= 1) && (w_fill <= 1 || w1 <= 1) && (b_fill == 0 || b0 <= 1) && (b_fill <= 1 || b1 <= 1) &&
          (!writing || dut__u_writer__w_left <= 1));
      lemma_states: `LEMMA (state <= LEAVING && (attached ? !off : off || state == ENDED || state == LEAVING));
      lemma_idle: `LEMMA (attached || (!sized && !awvalid && !writing && w_fill == 0 && b_fill == 0));

      // The control port.
      lemma_port: `LEMMA (!(busy && rsp_valid) && (!(busy || rsp_valid) || writes || reading) &&
          (!(c_awvalid || c_wvalid || c_aw || c_w) || (busy && writes)) && (!(c_arvalid || c_ar) || (busy && reading)));
      if (busy && writes) lemma_writing: `LEMMA (c_awvalid != c_aw && c_wvalid != c_w && c_awaddr == 32'h1000);
      if (busy && writes) lemma_word: `LEMMA (c_wdata == {flags | (state == WRITE_CLOSED ? 1 : 0) | (state == WRITE_ABORTED ? 2 : 0),
          state == WRITE_HEAD ? target : head});
      if (busy && reading) lemma_reading: `LEMMA (c_arvalid != c_ar && c_araddr == (state == ATTACH_HEAD ? 32'h1000 : 32'h1040) &&
          (!c_ar || at_64 == (state != ATTACH_HEAD)));
      lemma_lost: `LEMMA (!c_w || !lost || busy);
      lemma_items: `LEMMA (dut__u_writer__items == 20'd2);

      // The counters, in their order: tail, env_tail, env_head, acked, answered, planned, tail + SIZE.
      lemma_watched: `LEMMA ((watched & 7) == 0);
      lemma_wait: `LEMMA (dut__u_ctl__wait_left <= {15'd0, poll_gap});
      lemma_words: `LEMMA ((env_head & 15) == 0 && (env_tail & 15) == 0 && env_head - env_tail <= SIZE);
      if (rsp_valid && state == ATTACH_HEAD && !dut__u_port__rsp_error) lemma_read_head: `LEMMA (rsp == env_head && dut__u_port__rsp_flags == {30'd0, env_flags});
      if (state == ATTACH_TAIL || state == BEGIN) lemma_head: `LEMMA (head == env_head && flags == {30'd0, env_flags} && dut__u_ctl__closed == flags[0]);
      if (rsp_valid && state == ATTACH_TAIL && !dut__u_port__rsp_error)
        lemma_read_tail: `LEMMA ((rsp & 15) == 0 && env_tail - rsp <= SIZE && env_head - rsp <= SIZE && env_tail - rsp <= env_head - rsp);
      if (state == BEGIN || attached) lemma_tail: `LEMMA ((tail & 15) == 0 && env_head - tail <= SIZE && env_tail - tail <= env_head - tail && head - tail <= env_head - tail && (head & 15) == 0);
      if (attached) begin
        lemma_flag: `LEMMA (dut__u_ctl__closed == flags[0]);
        lemma_order: `LEMMA (planned - tail <= SIZE && answered - tail <= planned - tail && acked - tail <= answered - tail && env_head - tail <= acked - tail);
        lemma_beats: `LEMMA ((planned & 7) == 0 && (answered & 7) == 0 && (acked & 7) == 0 && (taken & 7) == 0);
        lemma_known: `LEMMA (state == ENDED || state == LEAVING || ((writes && (c_w || rsp_valid)) ? 1 : head == env_head && flags == {30'd0, env_flags}));
        if (writes && (c_w || rsp_valid)) lemma_written: `LEMMA ((lost || (env_head == (state == WRITE_HEAD ? target : head) && {30'd0, env_flags} == (flags | (state == WRITE_CLOSED ? 1 : 0) | (state == WRITE_ABORTED ? 2 : 0)))) && (!rsp_valid || dut__u_port__rsp_error || !lost));
        if (state == WRITE_HEAD) lemma_target: `LEMMA ((target & 15) == 0 && target != head && target - head <= acked - head);
        if (state == WRITE_CLOSED) lemma_closing: `LEMMA (head == taken && !flags[0] && dut__u_ctl__close_wanted && !dut__u_framer__padding);
        if (flags[0]) lemma_closed: `LEMMA (head == taken && (dut__u_ctl__close_wanted || state == LEAVING) && !dut__u_framer__padding);
        if (state == READ_TAIL && rsp_valid && !dut__u_port__rsp_error) lemma_looked: `LEMMA ((rsp & 15) == 0 && rsp - tail <= env_tail - tail);
        lemma_sent: `LEMMA (planned - sent == 8 * to_send);
        lemma_answered: `LEMMA (planned - answered == 8 * to_answer && (dut__u_writer__error || acked == answered));
        lemma_queued: `LEMMA (taken - sent == 8 * fill && taken - planned <= 32);
        lemma_limit: `LEMMA ((dut__u_ctl__limit & 15) == 0 && dut__u_ctl__limit - planned <= tail + SIZE - planned);
        if (dut__u_writer__measured) lemma_measured: `LEMMA (dut__u_writer__available <= taken - planned && (dut__u_writer__available & 7) == 0 &&
            dut__u_writer__space <= tail + SIZE - planned && (dut__u_writer__space & 7) == 0 &&
            dut__u_writer__reach == ((planned & 31) == 24 ? 8 : 16));
        if (sized) lemma_sized: `LEMMA (dut__u_writer__length != 0 && (dut__u_writer__length & 7) == 0 && dut__u_writer__length <= 16 &&
            dut__u_writer__length <= taken - planned && dut__u_writer__length <= tail + SIZE - planned && (planned & 31) + dut__u_writer__length <= SIZE);
        lemma_opened: `LEMMA ((aw_open == 0 || b0 == len0) && (aw_open <= 1 || b1 == len1) &&
            (!awvalid || awlen == (aw_open == 0 ? b0 : b1)));
        if (awvalid) lemma_address: `LEMMA ({awaddr_page, awaddr_low} == 32'h2000 + ((planned - 8 * (awlen + 1)) & 31));
        lemma_next: `LEMMA (next_at == planned[4:3] - (awvalid ? awlen[1:0] + 2'd1 : 2'd0));
        lemma_same: `LEMMA ((w_fill == 0 || w0 == (b_fill == w_fill ? b0 : b1)) && (w_fill <= 1 || w1 == b1));
        lemma_ends: `LEMMA ((w_done == 0 || end0 == answered + 8 * (b0 + 1)) && (w_done <= 1 || end1 == end0 + 8 * (b1 + 1)));
        lemma_padding: `LEMMA (dut__u_framer__padding ? taken[3:0] != 0 : !after_last || taken[3:0] == 0);
        lemma_fresh: `LEMMA ((behind & ~fresh) == 0);
        lemma_seen: `LEMMA (!differs);
      end
      lemma_open: `LEMMA (b_fill == 32'd0 + aw_open + awvalid);
      lemma_done: `LEMMA (32'd0 + w_fill + writing + w_done == b_fill);
    end
`endif

`ifdef COVER
  // Items published since reset.
  logic [2:0] items = 0;
  logic again = 0, padded = 0;
  always_ff @(posedge clk) if (rst_n) begin
    if (c_wvalid && c_wready && !lose && grows != 0) items <= items + grows[6:4];
    if (state == OFF && items != 0) again <= 1;
    if (dut__u_framer__padding) padded <= 1;
  end
  always_comb
    if (rst_n) begin
      full: cover (begin_fill == 0 && env_head - env_tail == SIZE && attached);
      full_again: cover (begin_fill == 0 && items == 3 && env_head - env_tail == SIZE);
      past_the_end: cover (begin_at == -ITEM && begin_fill == 0 && env_tail == ITEM);
      closed_part_filled: cover (status[1] && padded && items != 0 && begin_fill == 0);
      attached_again: cover (again && attached && items == 2);
      refused: cover (status[5] && items == 1 && status[2]);
    end
`endif

`ifdef RESPONSE
  // The memory and the switch answer within a cycle or two, and the user always has a beat and keeps to it that a flush lasts one
  // cycle. Then whole items get published, a close gets done, and the user gets rid of beats.
  logic [4:0] waits;                       // who has waited for a cycle
  logic flushed;
  logic [5:0] no_head = 0, no_close = 0, no_beat = 0;
  logic well;
  assign well = attached && state != ENDED && state != LEAVING && !dut__u_ctl__abort_wanted && !dut__u_writer__error && !env_abort &&
      !dut__u_ctl__peer_aborted;
  always_ff @(posedge clk) begin
    flushed <= flush;
    waits <= {env_head != env_tail && !take, c_ar && !c_rvalid, c_aw && c_w && !c_bvalid, w_done != 0 && aw_open != 0 && !bvalid, 1'b0};
    no_head <= well && taken - env_head >= ITEM && !(c_wvalid && c_wready) ? no_head + 1 : 0;
    no_close <= well && dut__u_ctl__close_wanted && !flags[0] && !(c_wvalid && c_wready) ? no_close + 1 : 0;
    no_beat <= well && !dut__u_ctl__close_wanted && !dut__u_framer__go ? no_beat + 1 : 0;
  end
  always_comb begin
    assume (rst_n && run && !abort && !take_abort && !lose && !refuse && !any_c_refuse && tvalid);
    assume (awready && wready && c_awready && c_wready && c_arready);
    assume (!flush || !flushed);
    if (waits[4] && env_head != env_tail) assume (take);
    if (waits[3] && c_ar) assume (any_c_rvalid);
    if (waits[2] && c_aw && c_w) assume (any_c_bvalid);
    if (waits[1] && w_done != 0 && aw_open != 0) assume (any_bvalid);
    publishes: assert (no_head < `RESPONSE);
    closes: assert (no_close < `RESPONSE);
    accepts: assert (no_beat < `RESPONSE);
  end
`endif
endmodule
