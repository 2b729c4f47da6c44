// The recirculation port of pipe 0, the controller's, and the recirculation port of pipe 1 (folded.p4).
#if __TARGET_TOFINO__ == 1
const port_t PORT_RECIRCULATE = 68;
const port_t PORT_CPU = 64;
const port_t PORT_FOLD = 196;
#define PIPE_FOLD 0x080 &&& 0x180
// Of a chip with four pipes, the same of pipes 2 and 3.
const port_t OTHER_PORT_RECIRCULATE = 324;
const port_t OTHER_PORT_FOLD = 452;
#else
const port_t PORT_RECIRCULATE = 6;
const port_t PORT_CPU = 0;
#endif

// What the packet generator makes, to tell it from what goes round: it has so many bytes behind the bridge header, as a Tofino 2's
// driver takes no packet of fewer than 59 bytes for the generator (control-plane/switch/src/bfrt/chip.rs).
const bit<16> ETHERTYPE_GENERATED = 0x88B6;
const bit<32> GENERATED_FILL = 6;

// Arithmetic that each architecture spells its own way.
#define MIN32(a, b) min(b, a)

// A control word of a big- or a little-endian PU, as one number: the counter, and CLOSED in its lowest bit. A hash
// unit that computes nothing moves the bits.
control BigWord(in bit<32> count, in bit<32> flags, out bytes_t word) {
    Hash<bit<32>>(HashAlgorithm_t.IDENTITY) wires;
    apply { word = wires.get({ count[31:2], 1w0, flags[0:0] }); }
}
control LittleWord(in bit<32> count, in bit<32> flags, out bytes_t word) {
    Hash<bit<32>>(HashAlgorithm_t.IDENTITY) wires;
    apply { word = wires.get({ count[7:0], count[15:8], count[23:16], count[31:26], 1w0, flags[24:24] }); }
}
// The other byte order. A table of its own, since one table brings 32 bits of hashes to its actions.
control Swap(inout bit<32> value) {
    Hash<bit<32>>(HashAlgorithm_t.IDENTITY) wires;
    action swap() { value = wires.get({ value[7:0], value[15:8], value[23:16], value[31:24] }); }
    table swaps {
        actions = { swap; }
        const default_action = swap();
    }
    apply { swaps.apply(); }
}
// Timer packets of the packet generator carry the group itself: each of its applications has a packet and a period of
// its own.
control TickGroup(in bit<16> number, out bit<16> group) {
    apply { group = number; }
}
// One of 16, at random.
control Dice(out bit<8> value) {
    Random<bit<4>>() dice;
    apply { value = (bit<8>)dice.get(); }
}
// A copy in another group of containers: arithmetic keeps all that it connects in one group of 16, a hash unit does
// not.
control Carry(in bit<32> value, out bit<32> copy) {
    Hash<bit<32>>(HashAlgorithm_t.IDENTITY) wires;
    apply { copy = wires.get({ value }); }
}
