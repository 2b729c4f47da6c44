// Rings that a program pushes and pops at itself, with zsr.cuh as it compiles for the host: what a CUDA program does, without a GPU.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "zsr.cuh"
#include "zsr.hpp"

namespace zg = zsr::gpu;

struct row {
    std::uint64_t n;
    double x;
};
constexpr std::uint64_t rows = 20000;

static void is(bool so, const char *what) {
    if (so) return;
    std::fprintf(stderr, "rings: %s: %s\n", what, zsr_last_error());
    std::exit(1);
}

static std::vector<zsr_ring> all(zsr_rings *rings) {
    std::size_t count = 0;
    is(zsr_rings_count(rings, &count) == ZSR_OK, "count");
    std::vector<zsr_ring> got(count, zsr_ring ZSR_RING_INIT);
    for (std::size_t i = 0; i < count; ++i) is(zsr_rings_get(rings, i, &got[i]) == ZSR_OK, "get");
    zsr_ring none = ZSR_RING_INIT, wrong{};
    is(zsr_rings_get(rings, count, &none) == ZSR_ERROR_INVALID, "there are no more");
    is(zsr_rings_get(rings, 0, &wrong) == ZSR_ERROR_ABI, "its size is looked at");
    return got;
}

static zg::ring of(const zsr_ring &r) { return {r.base, r.ring_size, r.item_size, r.big_endian}; }

// Row `n` goes to consumer n % 2. The last consumer's stream is ended by close(), the other one's by zsr_rings_close().
static void produce() {
    zsr_rings *rings = nullptr;
    is(zsr_rings_produce("lent", nullptr, &rings) == ZSR_OK, "produce");
    std::vector<zsr_ring> lent = all(rings);
    is(lent.size() == 2, "one ring to each consumer");
    is(std::strcmp(lent[0].consumer, "h2") == 0 && std::strcmp(lent[1].consumer, "h3") == 0, "in the flow's order");
    zsr_rings *second = nullptr;
    is(zsr_rings_produce("lent", nullptr, &second) == ZSR_ERROR_RING && !second, "the rings are taken");
    zg::thread g;
    zg::producer out[] = {{of(lent[0]), g}, {of(lent[1]), g}};
    zg::segment_writer writer[] = {{sizeof(row), lent[0].number, false}, {sizeof(row), lent[1].number, true}};
    for (std::uint64_t n = 0; n < rows; ++n) {
        row r{n, static_cast<double>(n) / 2};
        is(writer[n % 2].append(out[n % 2], g, true, &r) == zg::status::ok, "append");
    }
    writer[0].flush(out[0], g);
    writer[1].close(out[1], g);
    is(zsr_rings_close(rings) == ZSR_OK, "close");
}

static void consume() {
    zsr_options options = ZSR_OPTIONS_INIT;
    options.member = "h2";
    zsr_rings *rings = nullptr;
    is(zsr_rings_consume("lent", &options, &rings) == ZSR_OK, "consume");
    const char *member = nullptr;
    is(zsr_rings_member(rings, &member) == ZSR_OK && std::strcmp(member, "h2") == 0, "the member");
    zg::thread g;
    zg::consumer in(of(all(rings)[0]), g);
    zg::segment s;
    std::uint64_t n = 0;
    zg::status got;
    for (; (got = zg::next_segment(in, g, s)) == zg::status::ok; in.release(g, 1)) {
        for (zg::u32 i = 0; i < s.count; ++i, n += 2) {
            row r;
            s.get(i, &r);
            is(r.n == n && r.x == static_cast<double>(n) / 2, "a row is another");
        }
    }
    is(got == zg::status::closed && n == rows, "the end of the stream");
    is(zsr_rings_leave(rings) == ZSR_OK, "leave");
}

int main() {
    std::thread producer(produce), consumer(consume);
    zsr::options options;
    options.member = "h3";
    zsr::consumer other("lent", options);
    std::uint64_t n = 1;
    while (auto batch = other.pop()) {
        for (std::size_t i = 0; i < batch.size(); ++i, n += 2) is(batch.value<row>(i).n == n, "a row is another");
    }
    is(n == rows + 1, "not all came");
    producer.join();
    consumer.join();
}
