// A port that leads nowhere: the packet goes round again. Behind it, that of each further pipe of a switch with several.
const port_t PORT_RECIRCULATE = 501;

// Arithmetic that each architecture spells its own way.
#define MIN32(a, b) ((b) < (a) ? (b) : (a))

// A control word of a big- or a little-endian PU, as one number: the counter, and CLOSED in its lowest bit.
control BigWord(in bit<32> count, in bit<32> flags, out bytes_t word) {
    apply { word = count[31:2] ++ 1w0 ++ flags[0:0]; }
}
control LittleWord(in bit<32> count, in bit<32> flags, out bytes_t word) {
    apply { word = count[7:0] ++ count[15:8] ++ count[23:16] ++ count[31:26] ++ 1w0 ++ flags[24:24]; }
}
// The other byte order.
control Swap(inout bit<32> value) {
    apply { value = value[7:0] ++ value[15:8] ++ value[23:16] ++ value[31:24]; }
}
// A timer packet's number says whose ticks it makes: most are for the workers that look often, every eighth is for
// one of many groups in turn, whose workers look once in 2^8, 2^12 or 2^16 timer packets. Group 0: nobody's.
control TickGroup(in bit<16> number, out bit<16> group) {
    apply {
        if (number[2:0] != 7) { group = TICKS_OFTEN; }
        else if (number[4:3] == 0) { group = TICKS_8 ++ number[7:5]; }
        else if (number[4:3] == 1) { group = TICKS_12 ++ number[11:5]; }
        else if (number[4:3] == 2) { group = TICKS_16 ++ number[15:5]; }
        else { group = 0; }
    }
}
// One of 16, at random.
control Dice(out bit<8> value) {
    apply { random(value, 8w0, 8w15); }
}
// A copy, where a target must be told that it is one.
control Carry(in bit<32> value, out bit<32> copy) {
    apply { copy = value; }
}
