// One group of Q1: its key and its sums. A sum has 80 bits, which 2^33 rows of any content cannot fill.
module q1_group (
    input  logic        clk,
    input  logic        rst_n,
    input  logic [15:0] key,           // of the row that looks for its group
    output logic        match,
    input  logic        claim,         // the group is `key`'s from now on
    output logic        used,

    input  logic        add,
    input  logic [31:0] quantity,      // 1/100
    input  logic [31:0] price,         // 1/100
    input  logic [38:0] disc_price,    // 1/10^4
    input  logic [46:0] charge,        // 1/10^6
    input  logic [6:0]  discount,      // 1/100

    input  logic [4:0]  word,          // which 32 bits are read
    output logic [31:0] value
);
  localparam int unsigned SUM_W = 80;
  logic [15:0] own;
  logic [63:0] count;
  logic [SUM_W-1:0] sum_quantity, sum_price, sum_disc_price, sum_charge, sum_discount;

  assign match = used && own == key;

  always_ff @(posedge clk) begin
    if (!rst_n) begin
      {used, own, count} <= '0;
      {sum_quantity, sum_price, sum_disc_price, sum_charge, sum_discount} <= '0;
    end else begin
      if (claim) {used, own} <= {1'b1, key};
      if (add) begin
        count <= count + 64'd1;
        sum_quantity <= sum_quantity + SUM_W'(quantity);
        sum_price <= sum_price + SUM_W'(price);
        sum_disc_price <= sum_disc_price + SUM_W'(disc_price);
        sum_charge <= sum_charge + SUM_W'(charge);
        sum_discount <= sum_discount + SUM_W'(discount);
      end
    end
  end

  // Words 0 to 3 are key and count, then each sum has four.
  logic [127:0] wide;
  always_comb
    case (word[4:2])
      3'd0: wide = {count, 32'b0, used, 15'b0, own};
      3'd1: wide = 128'(sum_quantity);
      3'd2: wide = 128'(sum_price);
      3'd3: wide = 128'(sum_disc_price);
      3'd4: wide = 128'(sum_charge);
      3'd5: wide = 128'(sum_discount);
      default: wide = '0;
    endcase
  assign value = wide[{word[1:0], 5'b0}+:32];
endmodule
