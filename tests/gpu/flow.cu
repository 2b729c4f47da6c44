// Members of a running system's flows, by kernels or, compiled by a C++ compiler, by threads of a CPU. Every word of every item is known, and
// checked where it is popped.
//
//     flow KERNELS ITEMS WAY:FLOW:MEMBER:NUMBER...
//
// WAY `push`: ITEMS items go into each ring of the producer, which is number NUMBER of its flow. `pop`: what comes was pushed into ring NUMBER
// of each producer, and nothing is left out; `pop-some`: as `pop`, but others have the rest. KERNELS: 1, a persistent kernel per member; or
// ITEMS in so many kernels, one after the other. Says a line of JSON per consumer: `counts`: items by producer; `sum`: of all items, in any
// order; `order`: of all items, in theirs.
#include "device.hpp"

#include <chrono>
#include <memory>
#include <sstream>

constexpr u32 producers_at_most = 8, headings = 3, longest = 32768;

struct part {
    u32 status;  // of zsr.cuh; 98: no kernel has said any, 99: what came is wrong
    u64 items, wrong, wrong_at, order, sum;
    u64 counts[producers_at_most], next[producers_at_most];
};

#if defined(__CUDACC__)
#define ZSR_BOTH __host__ __device__
#else
#define ZSR_BOTH
#endif
ZSR_BOTH inline u64 name_of(u32 producer, u32 number) { return mix(static_cast<u64>(producer) << 32 | number); }
ZSR_BOTH inline u32 word_of(u32 producer, u32 number, u32 ring, u32 w) {
    return static_cast<u32>(mix(name_of(producer, number) ^ static_cast<u64>(ring) << 32 ^ w));
}

// An item that is pushed from memory of the group, and popped to it: in shared memory, so by bulk copies where there are such.
#if defined(__CUDACC__)
#define STAGE                                  \
    extern __shared__ __align__(16) u8 stage[]; \
    __shared__ u64 barrier;
#else
#define STAGE                                  \
    alignas(16) static thread_local u8 stage[longest]; \
    u64 barrier;
#endif

struct pushing {
    const zg::ring *rings;
    part *parts;
    u32 producer, first, count;
    bool in_place, ends;
    template <class Group> ZSR_GPU void operator()(u32 ring, const Group &g) const {
        STAGE
        (void)barrier;
        zg::producer out(rings[ring], g);
        zg::status got = zg::status::ok;
        u32 n = first;
        for (; n < first + count; ++n) {
            const u32 heading[headings] = {producer, n, ring};
            auto word = [&](u32 w) { return w < headings ? heading[w] : word_of(producer, n, ring, w); };
            if (in_place) {
                u8 *place;
                u32 room;
                got = out.reserve(g, 1, place, room);
                if (got != zg::status::ok) break;
                for (u32 w = g.rank(); w < out.item() / 4; w += g.size()) zg::ring_memory::store4(place + 4 * w, word(w));
                out.publish(g, 1);
            } else {
                for (u32 w = g.rank(); w < out.item() / 4; w += g.size()) reinterpret_cast<u32 *>(stage)[w] = word(w);
                g.sync();
                got = out.push(g, stage);
                if (got != zg::status::ok) break;
            }
        }
        if (got == zg::status::ok && ends) out.close(g);
        if (g.rank() == 0) {
            parts[ring].status = static_cast<u32>(got);
            parts[ring].items = n;
        }
    }
};

struct popping {
    const zg::ring *rings;
    part *parts;
    u32 target, most;
    bool in_place, every;  // `every`: each producer's items come without gaps
    template <class Group> ZSR_GPU void operator()(u32 ring, const Group &g) const {
        STAGE
        zg::bulk copies(g, &barrier);
        zg::consumer in(rings[ring], g);
        part &p = parts[ring];
        zg::status got = zg::status::ok;
        for (u32 n = 0; n < most; ++n) {
            const u8 *place = stage;
            u32 shown;
            got = in_place ? in.peek(g, 1, place, shown) : in.pop(g, stage, copies);
            if (got != zg::status::ok) break;
            if (!in_place) g.sync();
            auto word = [&](u32 w) { return in_place ? zg::ring_memory::load4(place + 4 * w) : reinterpret_cast<const u32 *>(place)[w]; };
            const u32 producer = word(0), number = word(1);
            if (producer >= producers_at_most || word(2) != target) {
                if (g.rank() == 0) wrong(p, n);
            } else {
                for (u32 w = headings + g.rank(); w < in.item() / 4; w += g.size()) {
                    if (word(w) != word_of(producer, number, target, w)) wrong(p, static_cast<u64>(number) << 32 | w);
                }
                if (g.rank() == 0) {
                    if (number < p.next[producer] || (every && number != p.next[producer])) wrong(p, number);
                    p.next[producer] = number + 1;
                    p.counts[producer] += 1;
                    p.order = mix(p.order ^ name_of(producer, number));
                    p.sum += name_of(producer, number);
                    p.items += 1;
                }
            }
            if (in_place) in.release(g, 1);
            else g.sync();
        }
        if (g.rank() == 0) p.status = static_cast<u32>(got);
    }
    ZSR_GPU static void wrong(part &p, u64 at) {
        add(p.wrong, 1);
        p.wrong_at = at;
    }
};

// One member. It is attached, and has all its memory, before the first kernel of any starts: what maps or allocates memory may wait for
// kernels that run, and these wait for other members.
class worker {
public:
    worker(const std::string &way, const std::string &flow, const std::string &name, u32 number)
        : way_(way), name_(name), number_(number), member_(way == "push" ? member::produces : member::consumes, flow, name),
          rings_(member_.all), parts_(std::vector<part>(member_.all.size(), part{98, 0, 0, 0, 0, 0, {}, {}})) {
        const u32 size = member_.all.at(0).item;
        if (size < 4 * headings || size > longest) fail("items of " + std::to_string(size) + " B");
    }

    // Its kernels, one after the other.
    void run(u32 kernels, u32 items) {
        const u32 each = items / kernels, size = member_.all[0].item, rings = static_cast<u32>(member_.all.size());
        const auto begun = std::chrono::steady_clock::now();
        if (way_ == "push") {
            for (u32 k = 0; k < kernels; ++k) {
                running(pushing{rings_.at(), parts_.at(), number_, each * k, each, (number_ + k) % 2 == 0, k + 1 == kernels}, rings, size).wait();
                if (!all_are(zg::status::ok)) fail(name_ + ": a ring is closed");
            }
            return;
        }
        u32 k = 0;
        do {
            const u32 most = kernels == 1 ? ~0u : each;
            running(popping{rings_.at(), parts_.at(), number_, most, (number_ + k) % 2 == 0, way_ == "pop"}, rings, size).wait();
            ++k;
        } while (!all_are(zg::status::closed));
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
        for (const part &p : parts_.values()) {
            std::ostringstream line;
            line << "{\"member\": \"" << name_ << "\", \"seconds\": " << took.count() << ", \"order\": \"" << std::hex << p.order << "\", \"sum\": \"" << p.sum
                 << std::dec << "\", \"counts\": [";
            for (u32 i = 0; i < producers_at_most; ++i) line << (i ? ", " : "") << p.counts[i];
            std::printf("%s]}\n", line.str().c_str());
        }
    }

private:
    bool all_are(zg::status wanted) const {
        bool are = true;
        for (const part &p : parts_.values()) {
            if (p.wrong > 0) fail(name_ + ": " + std::to_string(p.wrong) + " words are wrong, at " + std::to_string(p.wrong_at));
            if (p.status != static_cast<u32>(wanted)) are = false;
            if (p.status != static_cast<u32>(zg::status::ok) && p.status != static_cast<u32>(zg::status::closed)) {
                fail(name_ + ": status " + std::to_string(p.status) + " of zsr.cuh behind " + std::to_string(p.items) + " items");
            }
        }
        return are;
    }

    std::string way_, name_;
    u32 number_;
    member member_;
    array<zg::ring> rings_;
    array<part> parts_;
};

int main(int argc, char **argv) {
    auto number = [](const std::string &text) { return static_cast<u32>(std::strtoul(text.c_str(), nullptr, 10)); };
    const u32 kernels = argc > 3 ? number(argv[1]) : 0, items = argc > 3 ? number(argv[2]) : 0;
    if (kernels == 0 || items == 0) {
        std::fprintf(stderr, "flow KERNELS ITEMS push|pop|pop-some:FLOW:MEMBER:NUMBER...\n");
        return 2;
    }
    std::vector<std::unique_ptr<worker>> workers;
    for (int i = 3; i < argc; ++i) {
        std::istringstream words(argv[i]);
        std::string way, flow, name, n;
        std::getline(words, way, ':') && std::getline(words, flow, ':') && std::getline(words, name, ':') && std::getline(words, n);
        if (n.empty()) fail(std::string(argv[i]) + ": expected WAY:FLOW:MEMBER:NUMBER");
        workers.push_back(std::make_unique<worker>(way, flow, name, number(n)));
    }
    std::vector<std::thread> threads;
    for (auto &w : workers) threads.emplace_back([&w, kernels, items] { w->run(kernels, items); });
    for (std::thread &t : threads) t.join();
}
