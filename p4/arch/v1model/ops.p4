// Arithmetic that each architecture spells its own way.
#define MIN32(a, b) if ((b) < (a)) { a = (b); }
