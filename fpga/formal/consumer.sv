// A consumer at any memory and any switch: every answer comes at any time and may be an error, the switch commits items, closes and
// aborts, the user takes beats, aborts and withdraws RUN at any time. Small: a ring of four items of two beats, bursts and a queue of half of it.
//
// Promises are what is seen from outside. Lemmas are what makes them inductive; they speak of the design's registers, which `prove`
// connects to the wires dut__ here. Covers show that a run from reset gets there; responses, that none waits forever.
`ifdef RESPONSE
`define LEMMA assume
`else
`define LEMMA assert
`endif
module consumer (
    input logic clk,
    input logic run, abort, tready, arready, any_rvalid, c_awready, c_wready, any_c_bvalid, c_arready, any_c_rvalid, put, put_close, put_abort, lose, refuse, any_c_refuse,
    input logic [63:0] rdata,
    // Looked at in reset only.
    input logic any_poll_gap,
    input logic [31:4] any_begin,
    input logic [31:3] any_watched,
    input logic [1:0] any_fill, any_flags, any_tail_flags
);
  localparam logic [31:0] SIZE = 64, ITEM = 16;
  localparam logic [3:0] OFF = 0, CHECK = 1, ATTACH = 2, BEGIN = 3, RUN = 4, WRITE_TAIL = 5, WRITE_ABORTED = 6, READ_HEAD = 7,
      ENDED = 8, LEAVING = 9;

  logic rvalid, c_bvalid, c_rvalid, c_refuse;
  logic poll_gap;
  logic [31:0] begin_at, begin_fill, watched;

  logic [5:0] fills;
  assign fills = {any_fill == 3 ? 2'd0 : any_fill, 4'd0};
  always_ff @(posedge clk)
    if (!rst_n) begin
      poll_gap <= any_poll_gap;
      begin_at <= {any_begin, 4'd0};
      begin_fill <= {26'd0, fills};
      watched <= {any_watched, 3'd0};
    end

  logic rst_n = 1'b0;
  always_ff @(posedge clk) rst_n <= 1'b1;

  logic [31:12] araddr_page;
  logic [11:0] araddr_low;
  logic [7:0] arlen;
  logic tvalid, tlast, arvalid, rready, c_awvalid, c_wvalid, c_bready, c_arvalid, c_rready;
  logic [63:0] tdata, c_wdata;
  logic [31:0] c_awaddr, c_araddr;
  logic [8:0] status;

  // What memory, switch and user know.
  logic [31:0] env_head, env_tail;         // as they are in the memory
  logic [1:0] env_flags, env_tail_flags;   // beside them: aborted, closed
  logic [31:0] asked, got, handed;         // counters behind the last beat asked for, answered, taken by the user
  logic [31:0] bad_at;                     // the first beat that the memory refused
  logic bad = 0, begun = 0;
  logic c_aw = 0, c_w = 0, c_ar = 0, at_64 = 0, lost = 0;
  logic [63:0] seen;

  // Registers of the design.
  logic [3:0] dut__u_ctl__state;
  logic dut__u_ctl__attached, dut__u_ctl__closed, dut__u_ctl__peer_aborted, dut__u_ctl__head_closed, dut__u_ctl__head_aborted,
      dut__u_ctl__abort_wanted;
  logic [15:0] dut__u_ctl__wait_left;
  logic [31:0] dut__u_ctl__head, dut__u_ctl__tail, dut__u_ctl__target, dut__u_ctl__flags;
  logic [31:0] dut__u_reader__planned, dut__u_reader__received, dut__u_reader__delivered;
  logic dut__u_reader__sized, dut__u_reader__measured, dut__u_reader__error, dut__u_reader__u_queue__out_valid;
  logic [12:0] dut__u_reader__length, dut__u_reader__reach;
  logic [31:0] dut__u_reader__available, dut__u_reader__free;
  logic [31:12] dut__u_reader__items;
  logic [2:0] dut__u_reader__u_queue__wr, dut__u_reader__u_queue__rd;
  logic [63:0] dut__u_reader__u_queue__out_data, dut__u_reader__u_queue__mem0, dut__u_reader__u_queue__mem1,
      dut__u_reader__u_queue__mem2, dut__u_reader__u_queue__mem3;
  logic dut__u_port__busy, dut__u_port__rsp_valid, dut__u_port__rsp_error;
  logic [31:0] dut__u_port__rsp_counter, dut__u_port__rsp_flags;

  zsr_consumer_core #(.DATA_W(64), .ADDR_W(32), .MAX_BURST(2), .QUEUE_LOG2(2)) dut (
      .clk, .rst_n, .run, .abort, .page(20'd1), .size_mask(SIZE - 1), .item_mask(ITEM - 1), .big_endian(1'b0), .bad_config(1'b0),
      .poll_gap({15'd0, poll_gap}), .status,
      .m_axis_tdata(tdata), .m_axis_tlast(tlast), .m_axis_tvalid(tvalid), .m_axis_tready(tready),
      .m_axi_araddr({araddr_page, araddr_low}), .m_axi_arlen(arlen), .m_axi_arvalid(arvalid), .m_axi_arready(arready),
      .m_axi_rdata(rdata), .m_axi_rresp({refuse, 1'b0}), .m_axi_rvalid(rvalid), .m_axi_rready(rready),
      .m_ctl_awaddr(c_awaddr), .m_ctl_awvalid(c_awvalid), .m_ctl_awready(c_awready),
      .m_ctl_wdata(c_wdata), .m_ctl_wvalid(c_wvalid), .m_ctl_wready(c_wready),
      .m_ctl_bresp({c_refuse, 1'b0}), .m_ctl_bvalid(c_bvalid), .m_ctl_bready(c_bready),
      .m_ctl_araddr(c_araddr), .m_ctl_arvalid(c_arvalid), .m_ctl_arready(c_arready),
      .m_ctl_rdata(at_64 ? {30'd0, env_tail_flags, env_tail} : {30'd0, env_flags, env_head}),
      .m_ctl_rresp({c_refuse, 1'b0}), .m_ctl_rvalid(c_rvalid), .m_ctl_rready(c_rready));

  assign rvalid = any_rvalid && asked != got;
  assign c_bvalid = any_c_bvalid && c_aw && c_w;
  assign c_rvalid = any_c_rvalid && c_ar;
  assign c_refuse = any_c_refuse || (lost && c_w);

  always_ff @(posedge clk) begin
    if (!rst_n) begin
      env_head <= {any_begin, 4'd0} + {26'd0, fills};
      env_tail <= {any_begin, 4'd0};
      env_flags <= any_flags;
      env_tail_flags <= any_tail_flags;
      {asked, got} <= '0;
    end else begin
      if (put && env_head - env_tail <= SIZE - ITEM && env_flags == 0) env_head <= env_head + ITEM;
      env_flags <= env_flags | {put_abort, put_close};
      // Items.
      if (arvalid && arready) asked <= asked + 8 * (arlen + 1);
      if (rvalid && rready) begin
        got <= got + 8;
        if (got == watched && !refuse) seen <= rdata;
        if (refuse && !bad) begin
          bad <= 1;
          bad_at <= got;
        end
      end
      if (tvalid && tready) handed <= handed + 8;
      // Control words.
      if (c_awvalid && c_awready) c_aw <= 1;
      if (c_wvalid && c_wready) begin
        c_w <= 1;
        lost <= lose;
        if (!lose) {env_tail_flags, env_tail} <= c_wdata[33:0];
      end
      if (c_bvalid && c_bready) {c_aw, c_w} <= 0;
      if (c_arvalid && c_arready) begin
        c_ar <= 1;
        at_64 <= c_araddr[6];
      end
      if (c_rvalid && c_rready) c_ar <= 0;
      // An attachment begins.
      if (dut__u_ctl__state == BEGIN) begin
        {asked, got, handed} <= {3{env_tail}};
        {begun, bad} <= 2'b10;
      end
    end
  end

  // Promises.
  logic [31:0] freed, at;
  assign freed = c_wdata[31:0] - env_tail;
  assign at = asked - env_tail;            // where a burst begins
`ifndef RESPONSE
  always_comb
    if (rst_n) begin
      if (arvalid) stays_in_the_ring: assert (araddr_page == 20'd2 && araddr_low + 8 * (arlen + 1) <= SIZE);
      if (arvalid) leaves_no_gap: assert (araddr_low == (asked & (SIZE - 1)));
      if (arvalid) reads_published_only: assert (at + 8 * (arlen + 1) <= env_head - env_tail);
      if (rvalid) room_for_answers: assert (rready);
      if (tvalid) hands_out_published_only: assert (handed - env_tail < env_head - env_tail && handed - env_tail < got - env_tail);
      if (tvalid && handed == watched) in_order: assert (tdata == seen);
      if (tvalid && bad) nothing_behind_an_error: assert (handed - env_tail < bad_at - env_tail);
      if (tvalid) last_ends_an_item: assert (tlast == (((handed + 8) & (ITEM - 1)) == 0));
      if (c_wvalid) frees_handed_only: assert (freed <= handed - env_tail && freed <= SIZE && (c_wdata & (ITEM - 1)) == 0);
      if (c_wvalid) flags_stay: assert ((env_tail_flags & ~c_wdata[33:32]) == 0);
      if (c_awvalid) writes_tail_only: assert (c_awaddr == 32'h1040);
      if (c_arvalid) reads_words_only: assert ((c_araddr & ~32'h40) == 32'h1000);
      if (status[1]) ends_behind_all: assert (env_flags[0] && env_tail == env_head && handed == env_head);
      if (status[3]) fails_behind_all: assert (env_flags[1] && env_tail == env_head && handed == env_head);
      no_false_alarm: assert (!status[4]);
    end
`endif

  // Lemmas. Short names first.
  logic [3:0] state;
  logic [31:0] head, tail, target, flags, planned, rsp, good_end;
  logic attached, sized, rsp_valid, busy, off, reading, writes;
  assign {state, attached} = {dut__u_ctl__state, dut__u_ctl__attached};
  assign {head, tail, target, flags} = {dut__u_ctl__head, dut__u_ctl__tail, dut__u_ctl__target, dut__u_ctl__flags};
  assign {planned, sized} = {dut__u_reader__planned, dut__u_reader__sized};
  assign {busy, rsp_valid, rsp} = {dut__u_port__busy, dut__u_port__rsp_valid, dut__u_port__rsp_counter};
  assign writes = state == WRITE_TAIL || state == WRITE_ABORTED;
  assign reading = state == ATTACH || state == READ_HEAD;
  assign off = state == OFF || state == CHECK || state == ATTACH || state == BEGIN;
  assign good_end = bad ? bad_at : got;

  logic [2:0] fill;
  logic [255:0] q;
  logic [3:0] differs;
  assign fill = dut__u_reader__u_queue__wr - dut__u_reader__u_queue__rd;
  for (genvar i = 0; i < 4; i++) begin : g_q
    logic [1:0] place;
    assign place = dut__u_reader__u_queue__rd[1:0] + i;
    assign q[64*i+:64] = place == 0 ? dut__u_reader__u_queue__mem0 : place == 1 ? dut__u_reader__u_queue__mem1 :
        place == 2 ? dut__u_reader__u_queue__mem2 : dut__u_reader__u_queue__mem3;
    assign differs[i] = i < fill && handed + 8 * i == watched && q[64*i+:64] != seen;
  end

`ifndef PROMISES
  always_comb
    if (!rst_n) lemma_start: `LEMMA ({begun, c_aw, c_w, c_ar} == 0);
    else begin
      lemma_queue: `LEMMA (fill <= 4 && (!dut__u_reader__u_queue__out_valid || (fill != 0 && dut__u_reader__u_queue__out_data == q[63:0])));
      lemma_states: `LEMMA (state <= LEAVING && (attached ? !off : off || state == ENDED || state == LEAVING));
      lemma_begun: `LEMMA (begun || (!attached && fill == 0 && !arvalid));
      lemma_idle: `LEMMA (attached || (!sized && !arvalid && planned == dut__u_reader__received && asked == got));

      // The control port.
      lemma_port: `LEMMA (!(busy && rsp_valid) && (!(busy || rsp_valid) || writes || reading) &&
          (!(c_awvalid || c_wvalid || c_aw || c_w) || (busy && writes)) && (!(c_arvalid || c_ar) || (busy && reading)));
      if (busy && writes) lemma_writing: `LEMMA (c_awvalid != c_aw && c_wvalid != c_w && c_awaddr == 32'h1040);
      if (busy && writes) lemma_word: `LEMMA (c_wdata == {flags | (state == WRITE_ABORTED ? 2 : 0), state == WRITE_TAIL ? target : tail});
      if (busy && reading) lemma_reading: `LEMMA (c_arvalid != c_ar && c_araddr == (state == READ_HEAD ? 32'h1000 : 32'h1040) &&
          (!c_ar || at_64 == (state != READ_HEAD)));

      lemma_items: `LEMMA (dut__u_reader__items == 20'd2);

      // The counters, in their order: env_tail, handed, got, asked, planned, head, env_head.
      lemma_watched: `LEMMA ((watched & 7) == 0);
      lemma_wait: `LEMMA (dut__u_ctl__wait_left <= {15'd0, poll_gap});
      lemma_words: `LEMMA ((env_head & 15) == 0 && (env_tail & 15) == 0 && env_head - env_tail <= SIZE);
      if (rsp_valid && state == ATTACH && !dut__u_port__rsp_error) lemma_attach: `LEMMA (rsp == env_tail && dut__u_port__rsp_flags == {30'd0, env_tail_flags});
      if (state == BEGIN) lemma_begin: `LEMMA (tail == env_tail && head == env_tail && flags == {30'd0, env_tail_flags});
      if (state == CHECK || state == ATTACH || state == BEGIN) lemma_clear: `LEMMA ({dut__u_ctl__head_closed, dut__u_ctl__head_aborted} == 0);
      if (begun) begin
        lemma_order: `LEMMA (handed - env_tail <= good_end - env_tail && good_end - env_tail <= got - env_tail &&
            got - env_tail <= asked - env_tail && asked - env_tail <= env_head - env_tail);
        lemma_same: `LEMMA (handed == dut__u_reader__delivered && got == dut__u_reader__received && bad == dut__u_reader__error);
        lemma_beats: `LEMMA ((handed & 7) == 0 && (got & 7) == 0 && (planned & 15) == 0 && good_end - handed == 8 * fill);
        lemma_seen: `LEMMA (!differs);
        lemma_asked: `LEMMA (planned - asked == (arvalid ? 8 * (arlen + 1) : 0) && (!arvalid || arlen == 1));
      end
      if (arvalid) lemma_address: `LEMMA ({araddr_page, araddr_low} == 32'h2000 + (asked & (SIZE - 1)));
      if (attached) begin
        lemma_head: `LEMMA ((head & 15) == 0 && (tail & 15) == 0 && planned - env_tail <= head - env_tail && head - env_tail <= env_head - env_tail &&
            head - tail <= SIZE && env_tail - tail <= head - tail);
        lemma_held: `LEMMA (planned - handed <= 32);
        if (dut__u_reader__measured) lemma_measured: `LEMMA ((dut__u_reader__available & 15) == 0 && dut__u_reader__available <= head - planned &&
            dut__u_reader__free <= 32 - (planned - handed) && dut__u_reader__reach == 16);
        if (sized) lemma_sized: `LEMMA (dut__u_reader__length == 16 && planned + 16 - handed <= 32 && head - planned >= 16);
        lemma_known: `LEMMA (state == ENDED || state == LEAVING || (writes && (c_w || rsp_valid)) || (tail == env_tail && flags == {30'd0, env_tail_flags}));
        if (writes && (c_w || rsp_valid)) lemma_written: `LEMMA ((lost || (env_tail == (state == WRITE_TAIL ? target : tail) &&
            {30'd0, env_tail_flags} == (flags | (state == WRITE_ABORTED ? 2 : 0)))) && (!rsp_valid || dut__u_port__rsp_error || !lost));
        if (state == WRITE_TAIL) lemma_target: `LEMMA ((target & 15) == 0 && target - tail <= handed - tail && target != tail);
        if (state == READ_HEAD && rsp_valid && !dut__u_port__rsp_error) lemma_looked: `LEMMA ((rsp & 15) == 0 && rsp - tail <= env_head - tail &&
            head - tail <= rsp - tail && (dut__u_port__rsp_flags == 0 || rsp == env_head) && (dut__u_port__rsp_flags & ~{30'd0, env_flags}) == 0);
        if (dut__u_ctl__head_closed || dut__u_ctl__head_aborted) lemma_end: `LEMMA (head == env_head);
        lemma_end_flags: `LEMMA ({dut__u_ctl__head_aborted, dut__u_ctl__head_closed} == ({dut__u_ctl__head_aborted, dut__u_ctl__head_closed} & env_flags));
      end
      if (dut__u_ctl__closed || dut__u_ctl__peer_aborted) lemma_ended: `LEMMA (begun && env_head == env_tail && handed == env_head &&
          (!dut__u_ctl__closed || env_flags[0]) && (!dut__u_ctl__peer_aborted || env_flags[1]) && (state == ENDED || state == LEAVING || state == OFF));
    end
`endif

`ifdef COVER
  logic [2:0] items = 0;                   // given back since reset
  logic again = 0;
  always_ff @(posedge clk) if (rst_n) begin
    if (c_wvalid && c_wready && !lose && freed != 0) items <= items + freed[6:4];
    if (state == OFF && items != 0) again <= 1;
  end
  always_comb
    if (rst_n) begin
      all_read: cover (begin_fill == 0 && items == 4 && env_head - env_tail == SIZE);
      past_the_end: cover (begin_at == -ITEM && begin_fill == 0 && env_tail == ITEM);
      closed_behind_items: cover (status[1] && items == 2 );
      failed_behind_items: cover (status[3] && items == 1 );
      attached_again: cover (again && attached && items == 2);
      refused: cover (status[5] && items == 1 && status[2]);
    end
`endif

`ifdef RESPONSE
  // The memory answers within a cycle or two, and the user always takes. Then what is published is given back, and the end is seen.
  logic [3:0] waits;                       // who has waited for a cycle
  logic [5:0] no_tail = 0, no_end = 0;
  logic well;
  assign well = attached && state != ENDED && state != LEAVING && !dut__u_ctl__abort_wanted && !bad;
  always_ff @(posedge clk) begin
    waits <= {c_ar && !c_rvalid, c_aw && c_w && !c_bvalid, asked != got && !rvalid, 1'b0};
    no_tail <= well && env_head != env_tail && !(c_wvalid && c_wready) ? no_tail + 1 : 0;
    no_end <= well && env_head == env_tail && env_flags != 0 ? no_end + 1 : 0;
  end
  always_comb begin
    assume (rst_n && run && !abort && !lose && !refuse && !any_c_refuse && tready);
    assume (arready && c_awready && c_wready && c_arready);
    if (waits[3] && c_ar) assume (any_c_rvalid);
    if (waits[2] && c_aw && c_w) assume (any_c_bvalid);
    if (waits[1] && asked != got) assume (any_rvalid);
    gives_back: assert (no_tail < `RESPONSE);
    ends: assert (no_end < `RESPONSE);
  end
`endif
endmodule
