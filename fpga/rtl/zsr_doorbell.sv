// Makes the 18-byte payload of a doorbell (crates/ring/src/doorbell.rs) as a stream of bytes: secret, head, flags in
// network byte order, their CRC-32 with the least significant byte first, two zeros. The user's UDP core adds the headers.
// A ring while one is sent is kept; of several, the newest.
module zsr_doorbell (
    input  logic        clk,
    input  logic        rst_n,
    input  logic        ring,
    input  logic [31:0] secret,
    input  logic [31:0] head,
    input  logic [31:0] flags,
    output logic [7:0]  m_bell_tdata,
    output logic        m_bell_tlast,
    output logic        m_bell_tvalid,
    input  logic        m_bell_tready
);
  logic pending, sending;
  logic [63:0] newest;
  logic [95:0] said;
  logic [4:0] index;
  logic [31:0] crc;

  function automatic logic [31:0] crc_byte(input logic [31:0] c, input logic [7:0] b);
    integer i;
    crc_byte = c ^ {24'b0, b};
    for (i = 0; i < 8; i = i + 1)
      crc_byte = {1'b0, crc_byte[31:1]} ^ (crc_byte[0] ? 32'hedb8_8320 : 32'h0);
  endfunction

  assign m_bell_tvalid = sending;
  assign m_bell_tlast = index == 5'd17;
  always_comb
    if (index < 5'd12) m_bell_tdata = said[95:88];
    else if (index < 5'd16) m_bell_tdata = ~crc[7:0];
    else m_bell_tdata = 8'h00;

  always_ff @(posedge clk) begin
    if (!rst_n) {pending, sending} <= '0;
    else begin
      if (ring) pending <= 1'b1;
      else if (!sending) pending <= 1'b0;
      if (!sending) sending <= pending;
      else if (m_bell_tready && m_bell_tlast) sending <= 1'b0;
    end
    if (ring) newest <= {head, flags};
    if (!sending) begin
      said <= {secret, newest};
      index <= '0;
      crc <= '1;
    end else if (m_bell_tready) begin
      index <= index + 5'd1;
      said <= {said[87:0], 8'h00};
      crc <= index < 5'd12 ? crc_byte(crc, said[95:88]) : {8'h00, crc[31:8]};
    end
  end
endmodule
