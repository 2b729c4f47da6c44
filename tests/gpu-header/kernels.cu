// Every call of zsr.cuh by every group, for compilers to see.
#include "zsr.cuh"

namespace zg = zsr::gpu;

template <class Group> __device__ void all_calls(zg::ring to, zg::ring from, const unsigned char *data, unsigned char *out, unsigned n) {
    Group g;
    zg::producer p(to, g);
    unsigned char *place;
    unsigned room;
    for (unsigned i = 0; i < n; ++i) {
        if (p.try_push(g, data) == zg::status::full && p.push(g, data) != zg::status::ok) p.abort(g);
        if (p.reserve(g, 4, place, room) == zg::status::ok) p.publish(g, room);
        if (p.try_reserve(g, 4, place, room) == zg::status::ok) p.publish(g, 1);
    }
    p.push_many(g, data, n);
    zg::segment_writer writer(24, 1, true);
    writer.append_many(p, g, data, n);
    writer.append(p, g, threadIdx.x % 2 == 0, data);
    writer.close(p, g);
    p.drain(g);

    zg::consumer c(from, g);
    const unsigned char *items;
    unsigned count;
    for (unsigned i = 0; i < n; ++i) {
        if (c.try_pop(g, out) == zg::status::empty && c.pop(g, out) != zg::status::ok) c.abort(g);
        if (c.peek(g, 4, items, count) == zg::status::ok) c.release(g, count);
        if (c.try_peek(g, 4, items, count) == zg::status::ok) c.release(g, count);
    }
    zg::segment s;
    while (zg::next_segment(c, g, s, 100) == zg::status::ok) {
        for (unsigned i = g.rank(); i < s.count; i += g.size()) s.get(i, out + i * 24);
        c.release(g, 1);
    }
}

extern "C" __global__ void by_thread(zg::ring to, zg::ring from, const unsigned char *data, unsigned char *out, unsigned n) {
    all_calls<zg::thread>(to, from, data, out, n);
}
extern "C" __global__ void by_warp(zg::ring to, zg::ring from, const unsigned char *data, unsigned char *out, unsigned n) {
    all_calls<zg::warp>(to, from, data, out, n);
}
extern "C" __global__ void by_block(zg::ring to, zg::ring from, const unsigned char *data, unsigned char *out, unsigned n) {
    all_calls<zg::block>(to, from, data, out, n);
}

// From ring to ring by shared memory: bulk copies where the architecture has them.
extern "C" __global__ void forward(zg::ring to, zg::ring from) {
    __shared__ alignas(16) unsigned char item[16384];
    __shared__ zg::u64 barrier;
    zg::block g;
    zg::bulk copies(g, &barrier);
    zg::consumer in(from, g);
    zg::producer out(to, g);
    while (in.pop(g, item, copies) == zg::status::ok) {
        if (out.push(g, item) != zg::status::ok) return;
    }
    out.close(g);
}
