// Rings in pinned host memory between kernels and CPU threads: check SECONDS, 0 for each case once. For compute-sanitizer, which has kernels
// wait for each other, fewer items go through with `check 0 alone`, and GPU to GPU is within one kernel; with `check 0 apart` a CPU is always at the
// other end: racecheck takes minutes for blocks that wait.
#include <chrono>
#include <string>

#include "../gpu-header/host.hpp"
#include "kernels.h"

static constexpr unsigned closed = static_cast<unsigned>(zg::status::closed);

// A ring whose counters are about to go round.
static zg::ring ring_in(unsigned char *base, unsigned size, unsigned item, bool big) {
    zg::word first{0u - item * 3, 5u << 16};
    zg::store_release(base, first.raw(big));
    zg::store_release(base + zg::at_tail, first.raw(big));
    return {base, size, item, big};
}

static constexpr unsigned items[] = {4, 64, 4096, 32768};
enum kind { gpu_to_cpu, cpu_to_gpu, gpu_to_gpu, within_a_kernel };

// A stream of `count` items in `kernels` parts: one kernel is a persistent one, several are a kernel per batch.
static double move(kind k, int group, zg::ring r, uint64_t seed, uint64_t count, unsigned kernels, bool in_place, bool stalls) {
    zg::thread g;
    std::vector<uint8_t> own(r.item * 8);
    auto part = [&](unsigned i) { return stream{seed, count / kernels * i, count / kernels, in_place, stalls, i + 1 == kernels}; };
    double cycles = 0;
    auto device = [&](work w) {
        for (unsigned i = 0; i < kernels; ++i) {
            outcome got = job(w, group, r.base, r.size, r.item, r.big_endian, part(i)).wait();
            check(got.status == 0 && got.items == count / kernels * (i + 1), w == pushes ? "a kernel that pushes" : "a kernel that pops", got.items, got.status);
            cycles += static_cast<double>(got.cycles) / static_cast<double>(count);
        }
    };
    if (k == within_a_kernel) {
        device(both);
        return cycles;
    }
    std::thread other([&] {
        if (k == cpu_to_gpu) {
            zg::producer out(r, g);
            std::vector<uint8_t> item(r.item);
            for (uint64_t i = 0; i < count; ++i) {
                fill(seed, i, item.data(), r.item);
                check(out.push(g, item.data()) == zg::status::ok, "a push", i);
            }
        } else {
            device(pushes);
        }
    });
    if (k == gpu_to_cpu) {
        zg::consumer in(r, g);
        std::vector<uint8_t> item(r.item);
        for (uint64_t i = 0; i < count; ++i) {
            check(in.pop(g, item.data()) == zg::status::ok, "a pop", i);
            verify(seed, i, item.data(), r.item);
        }
        zg::status end = in.pop(g, item.data());
        check(static_cast<unsigned>(end) == closed, "the end of the stream", count, static_cast<unsigned>(end));
    } else {
        device(pops);
    }
    other.join();
    return cycles;
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? std::atof(argv[1]) : 0;
    const std::string with = argc > 2 ? argv[2] : "";
    const std::vector<kind> all = with == "alone" ? std::vector{gpu_to_cpu, cpu_to_gpu, within_a_kernel}
                                  : with == "apart" ? std::vector{gpu_to_cpu, cpu_to_gpu}
                                                    : std::vector{gpu_to_cpu, cpu_to_gpu, gpu_to_gpu};
    char name[300];
    if (device_count(name, sizeof name) == 0) {
        std::printf("no device\n");
        return 77;
    }
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    std::printf("device: %s; rings in pinned host memory\n", name);
    begin(items[3]);
    auto *memory = static_cast<unsigned char *>(pinned(4096 + (1 << 22)));
    const char *kinds[] = {"GPU to CPU", "CPU to GPU", "GPU to GPU", "within a kernel"}, *groups[] = {"thread", "warp", "block"};
    uint64_t seed = 1;
    unsigned passed = 0;
    auto begun = std::chrono::steady_clock::now();
    do {
        for (kind k : all) {
            for (int group = 0; group < 3; ++group) {
                for (unsigned item : items) {
                    for (unsigned kernels : {1u, 7u}) {
                        const uint64_t each = !with.empty() ? 10 : item > 64 ? 30 : 300;
                        ++seed;
                        unsigned slots = 1u << mix(seed) % 6;
                        bool big = seed % 2, in_place = seed / 2 % 2, stalls = seconds > 0;
                        zg::ring r = ring_in(memory, slots * item, item, big);
                        double cycles = move(k, group, r, seed, 7 * each, kernels, in_place, stalls);
                        if (seconds == 0) std::printf("%s, %s, %u B, %u slots, %u kernels: %.0f cycles an item\n", kinds[k], groups[group], item, slots, kernels, cycles);
                        ++passed;
                    }
                }
            }
        }
    } while (std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count() < seconds);
    // A kernel that waits for room hears that the flow is given up.
    for (int group = 0; group < 3; ++group) {
        zg::ring r = ring_in(memory, 4 * 64, 64, false);
        job waits(pushes, group, r.base, r.size, r.item, false, stream{7, 0, 100, true, false, true});
        zg::word full{r.size - 3 * 64, 5u << 16};
        while (zg::word::of(zg::load_acquire(r.base), false).counter != full.counter) std::this_thread::yield();
        zg::store_release(r.base + zg::at_tail, zg::word{0u - 3 * 64, 5u << 16 | zg::flag_aborted}.raw(false));
        outcome got = waits.wait();
        check(got.status == static_cast<unsigned>(zg::status::aborted) && got.items == 4, "an abort", got.items, got.status);
        ++passed;
    }
    std::printf("%u passed, 0 failed\n", passed);
}
