// A producer and a consumer of zsr.cuh at one ring, each a group of threads: meant for ThreadSanitizer.
#include "host.hpp"

static zg::ring ring_in(std::vector<uint8_t> &memory, unsigned size, unsigned item, bool big, unsigned start) {
    memory.assign(4096 + size + 4096, 0);
    auto *base = reinterpret_cast<uint8_t *>((reinterpret_cast<uintptr_t>(memory.data()) + 4095) & ~uintptr_t{4095});
    zg::word first{start & ~(item - 1), 7u << 16};
    zg::store_release(base, first.raw(big));
    zg::store_release(base + zg::at_tail, first.raw(big));
    return {base, size, item, big};
}

template <class Work> static void in_group(unsigned size, Work work) {
    crew all(size);
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < size; ++i) threads.emplace_back([&, i] { work(member{&all, i}); });
    for (auto &t : threads) t.join();
}

// A stream of items, whose producer is made anew in its middle.
static void items(unsigned pushers, unsigned poppers, unsigned item, unsigned slots, bool big, uint64_t seed, uint64_t count) {
    std::vector<uint8_t> memory, from(item * 8), to(item);
    zg::ring r = ring_in(memory, item * slots, item, big, 0u - item * 3);
    std::thread push([&] {
        for (int half = 0; half < 2; ++half) {
            in_group(pushers, [&](member g) {
                zg::producer out(r, g);
                check(push_stream(g, out, seed + static_cast<unsigned>(half), count / 2, 8, from) == zg::status::ok, "a push failed");
                if (half == 1) {
                    out.close(g);
                    check(out.drain(g) == zg::status::ok, "the ring was not drained");
                }
            });
        }
    });
    in_group(poppers, [&](member g) {
        zg::consumer in(r, g);
        uint64_t came = 0, rest = 0;
        check(pop_stream(g, in, seed, count / 2, came, to) == zg::status::ok, "the first half ended early", came);
        zg::status end = pop_stream(g, in, seed + 1, ~0ull, rest, to);
        check(end == zg::status::closed && rest == count / 2, "not all came, or no end", rest, static_cast<unsigned>(end));
    });
    push.join();
    zg::word head = zg::word::of(zg::load_acquire(r.base), big);
    check(head.flags == (7u << 16 | zg::flag_closed), "the epoch is kept beside CLOSED", head.flags);
}

// A stream of tuples in segments. Threads of a group have some each.
static void segments(unsigned pushers, unsigned poppers, unsigned tuple, bool checksum, uint64_t seed, unsigned count) {
    std::vector<uint8_t> memory;
    zg::ring r = ring_in(memory, 256 * 8, 256, false, 512);
    std::atomic<uint64_t> pushed{0}, popped{0}, sum_in{0}, sum_out{0};
    std::vector<uint8_t> many(tuple * 40);
    std::thread push([&] {
        in_group(pushers, [&](member g) {
            zg::producer out(r, g);
            zg::segment_writer writer(tuple, 9, checksum);
            chance common{seed}, alone{seed + g.rank() + 1};
            std::vector<uint8_t> one(tuple);
            for (unsigned i = 0; i < count; ++i) {
                alone.stall();
                if (common.below(3) == 0) {
                    unsigned n = 1 + common.below(40);
                    g.sync();
                    for (unsigned k = g.rank(); k < n; k += g.size()) {
                        uint64_t id = alone.next();
                        fill(id, 0, &many[k * tuple], tuple);
                        std::memcpy(&many[k * tuple], &id, 8);
                        sum_in += id;
                        ++pushed;
                    }
                    g.sync();
                    check(writer.append_many(out, g, many.data(), n) == zg::status::ok, "append_many");
                } else {
                    bool have = alone.below(2) == 0;
                    uint64_t id = alone.next();
                    fill(id, 0, one.data(), tuple);
                    std::memcpy(one.data(), &id, 8);
                    if (have) sum_in += id, ++pushed;
                    check(writer.append(out, g, have, one.data()) == zg::status::ok, "append");
                }
                if (common.below(50) == 0) writer.flush(out, g);
            }
            writer.close(out, g);
        });
    });
    in_group(poppers, [&](member g) {
        zg::consumer in(r, g);
        zg::segment s;
        std::vector<uint8_t> one(tuple), want(tuple);
        for (uint64_t expected = 0;; ++expected) {
            zg::status got = zg::next_segment(in, g, s);
            if (got == zg::status::closed) break;
            check(got == zg::status::ok, "a segment is not sound", expected, static_cast<unsigned>(got));
            check(s.sequence == expected && s.producer == 9 && s.tuple == tuple, "a segment's header", expected, s.sequence);
            for (unsigned i = g.rank(); i < s.count; i += g.size()) {
                uint64_t id;
                s.get(i, one.data());
                std::memcpy(&id, one.data(), 8);
                fill(id, 0, want.data(), tuple);
                check(std::memcmp(one.data() + 8, want.data() + 8, tuple - 8) == 0, "a tuple is not the one that was pushed", expected, i);
                sum_out += id;
                ++popped;
            }
            in.release(g, 1);
        }
    });
    push.join();
    check(pushed == popped && sum_in == sum_out, "tuples are missing or came twice", pushed, popped);
}

// What a switch that has gone mad writes is told from a full or an empty ring; so is ABORTED.
static void nonsense() {
    zg::thread g;
    std::vector<uint8_t> memory;
    uint8_t item[64] = {};
    for (bool big : {false, true}) {
        zg::ring r = ring_in(memory, 256, 64, big, 64);
        auto put = [&](unsigned at, unsigned counter, unsigned flags) { zg::store_release(r.base + at, zg::word{counter, flags}.raw(big)); };
        zg::producer out(r, g);
        zg::consumer in(r, g);
        check(in.try_pop(g, item) == zg::status::empty, "it is empty");
        for (int i = 0; i < 4; ++i) check(out.try_push(g, item) == zg::status::ok, "there is room");
        check(out.try_push(g, item) == zg::status::full, "it is full");
        for (unsigned tail : {0u, 65u, 384u, 1000000u}) {
            put(zg::at_tail, tail, 0);
            check(out.try_push(g, item) == zg::status::corrupt, "no switch writes this tail", tail);
        }
        put(zg::at_tail, 64, zg::flag_aborted);
        check(out.push(g, item) == zg::status::aborted, "the ring was aborted");
        for (unsigned head : {0u, 65u, 384u, 1000000u}) {
            put(zg::at_head, head, 0);
            check(in.try_pop(g, item) == zg::status::corrupt, "no switch writes this head", head);
        }
        put(zg::at_head, 128, zg::flag_aborted);
        check(in.pop(g, item) == zg::status::ok, "what was committed before comes first");
        check(in.pop(g, item) == zg::status::aborted, "the flow was aborted");
    }
    // Any damaged bit of a segment is noticed.
    zg::ring r = ring_in(memory, 256, 64, false, 0);
    zg::producer out(r, g);
    zg::consumer in(r, g);
    zg::segment_writer writer(8, 3, true);
    uint64_t two[2] = {1, 2};
    check(writer.append_many(out, g, two, 2) == zg::status::ok, "append_many");
    writer.flush(out, g);
    for (unsigned bit = 0; bit < 64 * 8; ++bit) {
        r.base[zg::at_items + bit / 8] ^= 1 << bit % 8;
        zg::segment s;
        bool ok = zg::next_segment(in, g, s, 2) == zg::status::ok;
        check(ok == (bit >= 48 * 8), "a damaged bit of a segment", bit);
        r.base[zg::at_items + bit / 8] ^= 1 << bit % 8;
    }
}

int main(int argc, char **argv) {
    uint64_t seed = argc > 1 ? std::strtoull(argv[1], nullptr, 0) : 1;
    unsigned n = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 1000;
    nonsense();
    unsigned tests = 1;
    for (auto [pushers, poppers] : {std::pair{1u, 1u}, {4u, 1u}, {1u, 3u}, {3u, 2u}}) {
        for (unsigned item : {4u, 8u, 64u, 4096u}) {
            for (bool big : {false, true}) {
                ++seed;
                items(pushers, poppers, item, 1u << mix(seed) % 5, big, seed, n / (pushers + poppers > 2 ? 8 : 2) * 2);
                ++tests;
            }
        }
        for (unsigned tuple : {8u, 24u, 200u}) {
            for (bool checksum : {false, true}) segments(pushers, poppers, tuple, checksum, seed++, n / 4), ++tests;
        }
    }
    std::printf("%u passed, 0 failed\n", tests);
}
