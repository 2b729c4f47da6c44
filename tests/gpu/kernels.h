// What tests/gpu's host side asks of its device side.
#pragma once
#include <cstddef>

// Items `first` to `first + count` of the stream that `seed` makes. `in_place`: written and read in the ring, otherwise by shared memory.
struct stream {
    unsigned long long seed, first, count;
    bool in_place, stalls, ends;
};
// `status` as zsr::gpu::status; 98: the kernel did not say, 99: an item is another. `items`: how far it came. `cycles`: of its calls.
struct outcome {
    unsigned status;
    unsigned long long items;
    long long cycles;
};

// How many devices there are, and what the first one is.
int device_count(char *name, int length);
// Host memory that the device maps.
void *pinned(size_t bytes);

// Gets ready for kernels whose items have at most `longest` bytes.
void begin(unsigned longest);

// One kernel that pushes or pops a stream, or does both by two blocks; two run at once, at most. `group`: 0 a thread, 1 a warp, 2 a block.
enum work { pushes, pops, both };
class job {
public:
    job(work w, int group, unsigned char *base, unsigned size, unsigned item, bool big, stream s);
    outcome wait();

private:
    int slot_;
};
