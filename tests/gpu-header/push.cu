// The loops whose machine code is counted: zsr's push, of the same items by the same groups as in put.cu.
#include "zsr.cuh"

namespace zg = zsr::gpu;

template <class Group> __device__ void push_all(zg::ring r, const unsigned char *items, unsigned count) {
    Group g;
    zg::producer out(r, g);
    for (unsigned i = 0; i < count; ++i, items += r.item) {
        if (out.push(g, items) != zg::status::ok) return;
    }
}

extern "C" __global__ void push_thread(zg::ring r, const unsigned char *items, unsigned count) { push_all<zg::thread>(r, items, count); }
extern "C" __global__ void push_warp(zg::ring r, const unsigned char *items, unsigned count) { push_all<zg::warp>(r, items, count); }
extern "C" __global__ void push_block(zg::ring r, const unsigned char *items, unsigned count) { push_all<zg::block>(r, items, count); }
