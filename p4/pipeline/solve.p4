// (ident, sport) = M^-1 * delta over GF(2): one table of 256 entries for each byte of delta and each header layout,
// filled by the controller, and their XOR.
control Solve(inout headers_t hdr, inout meta_t m) {
    action set_0(bit<16> ident, bit<16> sport) { m.ident_0 = ident; m.sport_0 = sport; }
    action set_1(bit<16> ident, bit<16> sport) { m.ident_1 = ident; m.sport_1 = sport; }
    action set_2(bit<16> ident, bit<16> sport) { m.ident_2 = ident; m.sport_2 = sport; }
    action set_3(bit<16> ident, bit<16> sport) { m.ident_3 = ident; m.sport_3 = sport; }

    action halves() {
        m.ident_0 = m.ident_0 ^ m.ident_1;
        m.ident_2 = m.ident_2 ^ m.ident_3;
        m.sport_0 = m.sport_0 ^ m.sport_1;
        m.sport_2 = m.sport_2 ^ m.sport_3;
    }
    action sums() {
        hdr.ipv4.ident = m.ident_0 ^ m.ident_2;
        hdr.udp.src_port = m.sport_0 ^ m.sport_2;
    }

    table solve_reth_0 { key = { m.delta[7:0]   : exact @name("delta"); } actions = { set_0; } size = 256; }
    table solve_reth_1 { key = { m.delta[15:8]  : exact @name("delta"); } actions = { set_1; } size = 256; }
    table solve_reth_2 { key = { m.delta[23:16] : exact @name("delta"); } actions = { set_2; } size = 256; }
    table solve_reth_3 { key = { m.delta[31:24] : exact @name("delta"); } actions = { set_3; } size = 256; }
    table solve_bare_0 { key = { m.delta[7:0]   : exact @name("delta"); } actions = { set_0; } size = 256; }
    table solve_bare_1 { key = { m.delta[15:8]  : exact @name("delta"); } actions = { set_1; } size = 256; }
    table solve_bare_2 { key = { m.delta[23:16] : exact @name("delta"); } actions = { set_2; } size = 256; }
    table solve_bare_3 { key = { m.delta[31:24] : exact @name("delta"); } actions = { set_3; } size = 256; }

    apply {
        if (m.b.first == 1) {
            solve_reth_0.apply();
            solve_reth_1.apply();
            solve_reth_2.apply();
            solve_reth_3.apply();
        } else {
            solve_bare_0.apply();
            solve_bare_1.apply();
            solve_bare_2.apply();
            solve_bare_3.apply();
        }
        halves();
        sums();
    }
}
