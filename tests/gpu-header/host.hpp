// zsr.cuh on the host: a group of threads as a block is, and streams of items that anybody can check.
#pragma once
#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "zsr.cuh"

namespace zg = zsr::gpu;

[[noreturn]] inline void fail(const char *what, unsigned long long at = 0, unsigned long long is = 0) {
    std::fprintf(stderr, "FAILED: %s (at %llu: %llu)\n", what, at, is);
    std::_Exit(1);
}
inline void check(bool is_so, const char *what, unsigned long long at = 0, unsigned long long is = 0) {
    if (!is_so) fail(what, at, is);
}

// What `size` threads of a group share.
struct crew {
    explicit crew(unsigned size) : size(size), have(size) { pthread_barrier_init(&barrier, nullptr, size); }
    ~crew() { pthread_barrier_destroy(&barrier); }
    unsigned size;
    pthread_barrier_t barrier;
    zg::u64 shared = 0;
    std::vector<unsigned> have;
};

// One thread of it: what zsr.cuh asks of a group.
struct member {
    crew *all;
    unsigned number;
    unsigned rank() const { return number; }
    unsigned size() const { return all->size; }
    void sync() const { pthread_barrier_wait(&all->barrier); }
    zg::u64 share(zg::u64 v) const {
        if (number == 0) all->shared = v;
        sync();
        v = all->shared;
        sync();
        return v;
    }
    unsigned before(bool have, unsigned &total) const {
        unsigned mine = 0;
        all->have[number] = have;
        sync();
        total = 0;
        for (unsigned i = 0; i < all->size; ++i) {
            if (i == number) mine = total;
            total += all->have[i];
        }
        sync();
        return mine;
    }
    unsigned all_xor(unsigned v) const {
        all->have[number] = v;
        sync();
        unsigned sum = 0;
        for (unsigned part : all->have) sum ^= part;
        sync();
        return sum;
    }
};

// splitmix64: also in main.rs.
inline uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}
// 32-bit word `w` of item `i` of a stream.
inline uint32_t word_of(uint64_t seed, uint64_t i, uint64_t w) { return static_cast<uint32_t>(mix(seed ^ i << 20 ^ w)); }

inline void fill(uint64_t seed, uint64_t i, void *item, size_t bytes) {
    for (size_t w = 0; w < bytes / 4; ++w) {
        uint32_t v = word_of(seed, i, w);
        std::memcpy(static_cast<char *>(item) + w * 4, &v, 4);
    }
}
inline void verify(uint64_t seed, uint64_t i, const void *item, size_t bytes) {
    for (size_t w = 0; w < bytes / 4; ++w) {
        uint32_t v;
        std::memcpy(&v, static_cast<const char *>(item) + w * 4, 4);
        check(v == word_of(seed, i, w), "an item is not the one that was pushed", i, w);
    }
}

// Numbers for one thread, and pauses at any place.
struct chance {
    uint64_t state;
    uint64_t next() { return state = mix(state); }
    unsigned below(unsigned n) { return static_cast<unsigned>(next() % n); }
    void stall() {
        unsigned n = below(64);
        if (n == 0) std::this_thread::yield();
        if (n == 1) std::this_thread::sleep_for(std::chrono::microseconds(below(100)));
    }
};

// A producer's stream of `count` items, by any of its calls. Every thread of the group makes it.
template <class Group>
zg::status push_stream(const Group &g, zg::producer &out, uint64_t seed, uint64_t count, unsigned most, std::vector<uint8_t> &own) {
    // The same for all threads of the group; and their own.
    chance common{seed}, alone{seed + g.rank() + 1};
    for (uint64_t i = 0; i < count;) {
        unsigned way = common.below(4), n = 1 + common.below(most);
        if (n > count - i) n = static_cast<unsigned>(count - i);
        alone.stall();
        zg::status s;
        if (way == 3) {
            zg::u8 *place;
            unsigned room;
            s = out.reserve(g, n, place, room);
            if (s != zg::status::ok) return s;
            for (unsigned k = g.rank(); k < room; k += g.size()) fill(seed, i + k, place + k * out.item(), out.item());
            out.publish(g, room);
            i += room;
            continue;
        }
        // `own` is the group's: written by its threads, and read by all of them.
        g.sync();
        for (unsigned k = g.rank(); k < n; k += g.size()) fill(seed, i + k, &own[k * out.item()], out.item());
        g.sync();
        if (way == 2) {
            s = out.push_many(g, own.data(), n);
        } else {
            n = 1;
            s = way == 1 ? out.try_push(g, own.data()) : out.push(g, own.data());
            if (s == zg::status::full) continue;
        }
        if (s != zg::status::ok) return s;
        i += n;
    }
    return zg::status::ok;
}

// The same stream, to its end. Says what came instead of an item, and how many came.
template <class Group>
zg::status pop_stream(const Group &g, zg::consumer &in, uint64_t seed, uint64_t most, uint64_t &count, std::vector<uint8_t> &own) {
    chance common{~seed}, alone{~seed + g.rank() + 1};
    for (count = 0; count < most;) {
        alone.stall();
        unsigned way = common.below(3);
        zg::status s;
        if (way == 2) {
            const zg::u8 *place;
            unsigned items;
            s = in.peek(g, 1 + common.below(5), place, items);
            if (s != zg::status::ok) return s;
            if (items > most - count) items = static_cast<unsigned>(most - count);
            for (unsigned k = g.rank(); k < items; k += g.size()) verify(seed, count + k, place + k * in.item(), in.item());
            in.release(g, items);
            count += items;
            continue;
        }
        g.sync();
        s = way == 1 ? in.try_pop(g, own.data()) : in.pop(g, own.data());
        if (s == zg::status::empty) continue;
        if (s != zg::status::ok) return s;
        g.sync();
        if (g.rank() == g.size() - 1) verify(seed, count, own.data(), in.item());
        ++count;
    }
    return zg::status::ok;
}
