// The device's side of tests/gpu: streams of items whose every word is known, pushed, popped and checked on the device.
#include <atomic>
#include <cstdio>

#include "kernels.h"
#include "zsr.cuh"

namespace zg = zsr::gpu;

// As in tests/gpu-header/host.hpp.
__device__ unsigned long long mix(unsigned long long x) {
    x += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}
__device__ unsigned word_of(unsigned long long seed, unsigned long long i, unsigned long long w) {
    return static_cast<unsigned>(mix(seed ^ i << 20 ^ w));
}

// Now and then, at no regular times.
template <class Group> __device__ void stall(const Group &g, unsigned long long &state, bool stalls) {
    if (!stalls) return;
    state = mix(state);
    if (state % 64 == 0) __nanosleep(state >> 8 & 0xffff);
    (void)g;
}

template <class Group> __device__ void push_all(zg::ring r, stream s, outcome *out) {
    extern __shared__ __align__(16) unsigned char shared[];
    Group g;
    zg::producer to(r, g);
    unsigned long long state = s.seed + g.rank() + 1;
    long long cycles = 0;
    for (unsigned long long i = s.first; i < s.first + s.count; ++i) {
        stall(g, state, s.stalls);
        zg::status got;
        if (s.in_place) {
            zg::u8 *place;
            unsigned room;
            got = to.reserve(g, 1, place, room);
            if (got == zg::status::ok) {
                for (unsigned w = g.rank(); w < r.item / 4; w += g.size()) zg::ring_memory::store4(place + w * 4, word_of(s.seed, i, w));
                to.publish(g, 1);
            }
        } else {
            for (unsigned w = g.rank(); w < r.item / 4; w += g.size()) reinterpret_cast<unsigned *>(shared)[w] = word_of(s.seed, i, w);
            g.sync();
            long long begun = clock64();
            got = to.push(g, shared);
            cycles += clock64() - begun;
        }
        if (got != zg::status::ok) {
            if (g.rank() == 0) *out = {static_cast<unsigned>(got), i, cycles};
            return;
        }
    }
    if (s.ends) to.close(g);
    if (g.rank() == 0) *out = {0, s.first + s.count, cycles};
}

template <class Group> __device__ void pop_all(zg::ring r, stream s, outcome *out) {
    extern __shared__ __align__(16) unsigned char shared[];
    __shared__ zg::u64 barrier;
    Group g;
    zg::bulk copies(g, &barrier);
    zg::consumer from(r, g);
    unsigned long long state = ~s.seed + g.rank(), i = s.first;
    long long cycles = 0;
    zg::status got = zg::status::ok;
    for (; i < s.first + s.count; ++i) {
        stall(g, state, s.stalls);
        const zg::u8 *place = shared;
        unsigned shown;
        long long begun = clock64();
        got = s.in_place ? from.peek(g, 1, place, shown) : from.pop(g, shared, copies);
        cycles += clock64() - begun;
        if (got != zg::status::ok) break;
        if (!s.in_place) g.sync();
        for (unsigned w = g.rank(); w < r.item / 4; w += g.size()) {
            unsigned is = s.in_place ? zg::ring_memory::load4(place + w * 4) : reinterpret_cast<const unsigned *>(place)[w];
            if (is != word_of(s.seed, i, w)) *out = {99, i, w};
        }
        if (s.in_place) from.release(g, 1);
        g.sync();
    }
    if (g.rank() == 0 && out->status != 99) *out = {static_cast<unsigned>(got), i, cycles};
}

#define KERNELS(group)                                                                                              \
    static __global__ void push_##group(zg::ring r, stream s, outcome *out) { push_all<zg::group>(r, s, out); }     \
    static __global__ void pop_##group(zg::ring r, stream s, outcome *out) { pop_all<zg::group>(r, s, out); }       \
    static __global__ void both_##group(zg::ring r, stream s, outcome *out) {                                       \
        if (blockIdx.x == 0) push_all<zg::group>(r, s, out);                                                        \
        else pop_all<zg::group>(r, s, out + 1);                                                                     \
    }
KERNELS(thread)
KERNELS(warp)
KERNELS(block)

static void must(cudaError_t error, const char *what) {
    if (error == cudaSuccess) return;
    std::fprintf(stderr, "FAILED: %s: %s\n", what, cudaGetErrorString(error));
    std::exit(1);
}

int device_count(char *name, int length) {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) return 0;
    cudaDeviceProp about;
    must(cudaGetDeviceProperties(&about, 0), "cudaGetDeviceProperties");
    std::snprintf(name, static_cast<size_t>(length), "%s, sm_%d%d", about.name, about.major, about.minor);
    return count;
}

void *pinned(size_t bytes) {
    void *at = nullptr;
    must(cudaHostAlloc(&at, bytes, cudaHostAllocMapped), "cudaHostAlloc");
    return at;
}

// All that may wait for kernels to end is done before the first one: one that runs may wait for one that is to be started.
constexpr int jobs_at_once = 2;
static struct {
    cudaStream_t stream;
    outcome *out;  // of both blocks
    std::atomic<bool> busy;
} slots[jobs_at_once];

void begin(unsigned longest) {
    for (auto &slot : slots) {
        must(cudaStreamCreateWithFlags(&slot.stream, cudaStreamNonBlocking), "cudaStreamCreate");
        slot.out = static_cast<outcome *>(pinned(2 * sizeof(outcome)));
    }
    for (auto kernel : {push_thread, pop_thread, both_thread, push_warp, pop_warp, both_warp, push_block, pop_block, both_block}) {
        cudaFuncAttributes loaded;
        must(cudaFuncGetAttributes(&loaded, kernel), "a kernel's code");
        must(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(longest)), "shared memory");
    }
}

job::job(work w, int group, unsigned char *base, unsigned size, unsigned item, bool big, stream s) {
    slot_ = 0;
    while (slots[slot_].busy.exchange(true)) slot_ = (slot_ + 1) % jobs_at_once;
    auto &slot = slots[slot_];
    slot.out[0] = slot.out[1] = {98, 0, 0};
    void *at = nullptr;
    must(cudaHostGetDevicePointer(&at, base, 0), "cudaHostGetDevicePointer");
    zg::ring r{static_cast<unsigned char *>(at), size, item, big};
    unsigned threads = group == 0 ? 1 : group == 1 ? 32 : 160;
    constexpr void (*kernels[3][3])(zg::ring, stream, outcome *) = {
        {push_thread, pop_thread, both_thread}, {push_warp, pop_warp, both_warp}, {push_block, pop_block, both_block}};
    kernels[group][w]<<<w == both ? 2 : 1, threads, item, slot.stream>>>(r, s, slot.out);
    must(cudaGetLastError(), "a kernel's start");
}

outcome job::wait() {
    auto &slot = slots[slot_];
    must(cudaStreamSynchronize(slot.stream), "a kernel");
    outcome got = slot.out[0];
    // What the block that pops says comes first, if all was pushed.
    if (slot.out[1].status != 98 && got.status == 0) got = slot.out[1];
    slot.busy = false;
    return got;
}
