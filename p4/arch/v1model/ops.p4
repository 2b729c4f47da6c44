// Arithmetic that each architecture spells its own way.
#define MIN32(a, b) ((b) < (a) ? (b) : (a))
