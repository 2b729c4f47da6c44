// What zsr.cuh costs on a GPU: cycles of an SM per item, and bytes per second beside a plain copy of the same bytes. Rings are empty (for
// pushes) or full (for pops), and have nobody at their other end, so that only the header's own work is measured. Prints Markdown.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <vector>

#include "zsr.cuh"

namespace zg = zsr::gpu;
using zg::u32;
using zg::u64;
using zg::u8;

constexpr u32 ring_size = 2 << 20, stride = ring_size + zg::at_items, rings_at_most = 1056, threads_of_a_block = 256;
constexpr int turns = 7;

static void must(cudaError_t error, const char *what) {
    if (error == cudaSuccess) return;
    std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
    std::exit(1);
}

enum work { push_shared, push_stores, push_memory, push_many, copy_in, pop_shared, pop_loads, pop_memory, copy_out };
constexpr bool in_shared(work w) { return w == push_shared || w == push_stores || w == pop_shared || w == pop_loads; }

struct task {
    u8 *rings;   // `stride` apart
    u8 *memory;  // of the device, ring_size for each ring
    u32 item, count;
    long long *cycles;  // of each ring's loop
};

template <class Group> __device__ void run(const Group &g, const task &t, work w, u32 number, u8 *shared, u64 *barrier) {
    const zg::ring r{t.rings + static_cast<u64>(number) * stride, ring_size, t.item, false};
    u8 *own = t.memory + static_cast<u64>(number) * ring_size;
    zg::bulk copies(g, barrier);
    zg::producer out(r, g);
    zg::consumer in(r, g);
    zg::status got = zg::status::ok;
    // Items in turn, where the device and where the ring has them.
    auto each = [&](auto move) {
        for (u32 i = 0; i < t.count && got == zg::status::ok; ++i) {
            const u64 at = static_cast<u64>(i) * t.item;
            got = move(own + at, r.base + zg::at_items + at);
        }
    };
    g.sync();
    const long long begun = clock64();
    switch (w) {
        case push_shared: each([&](u8 *, u8 *) { return out.push(g, shared); }); break;
        case push_stores:
            each([&](u8 *, u8 *) {
                u8 *place;
                u32 room;
                const zg::status s = out.reserve(g, 1, place, room);
                zg::copy_in(g, place, shared, t.item);
                out.publish(g, 1);
                return s;
            });
            break;
        case push_memory: each([&](u8 *from, u8 *) { return out.push(g, from); }); break;
        case push_many: got = out.push_many(g, own, t.count); break;
        case pop_shared: each([&](u8 *, u8 *) { return in.pop(g, shared, copies); }); break;
        case pop_loads:
            each([&](u8 *, u8 *) {
                const u8 *place;
                u32 shown;
                const zg::status s = in.peek(g, 1, place, shown);
                zg::copy_out(g, shared, place, t.item);
                in.release(g, 1);
                return s;
            });
            break;
        case pop_memory: each([&](u8 *to, u8 *) { return in.pop(g, to); }); break;
        case copy_in: each([&](u8 *from, u8 *to) { return zg::copy_in(g, to, from, t.item), zg::status::ok; }); break;
        case copy_out: each([&](u8 *to, u8 *from) { return zg::copy_out(g, to, from, t.item), zg::status::ok; }); break;
    }
    g.sync();
    if (g.rank() == 0) t.cycles[number] = got == zg::status::ok ? clock64() - begun : -1;
}

template <work w> __global__ void by_thread(task t) {
    extern __shared__ __align__(16) u8 shared[];
    __shared__ u64 barrier;
    run(zg::thread(), t, w, blockIdx.x, shared, &barrier);
}
// A ring per warp.
template <work w> __global__ void by_warp(task t) {
    extern __shared__ __align__(16) u8 shared[];
    __shared__ u64 barriers[32];
    const u32 own = threadIdx.x / 32;
    run(zg::warp(), t, w, blockIdx.x * (blockDim.x / 32) + own, shared + own * t.item, &barriers[own]);
}
template <work w> __global__ void by_block(task t) {
    extern __shared__ __align__(16) u8 shared[];
    __shared__ u64 barrier;
    run(zg::block(), t, w, blockIdx.x, shared, &barrier);
}
__global__ void set_heads(u8 *rings, u32 head) {
    zg::store_release(rings + static_cast<u64>(blockIdx.x) * stride + zg::at_head, head);
    zg::store_release(rings + static_cast<u64>(blockIdx.x) * stride + zg::at_tail, 0);
}

enum group { threads, warps, blocks };
struct result {
    double cycles, seconds;
};
static cudaEvent_t from, to;
static u8 *memory;
static long long *cycles;

static double median(std::vector<double> all) {
    std::sort(all.begin(), all.end());
    return all[all.size() / 2];
}

// What the device is busy with `start` for, in seconds.
template <class Start> static double seconds_of(Start start) {
    must(cudaEventRecord(from), "an event");
    start();
    must(cudaEventRecord(to), "an event");
    must(cudaEventSynchronize(to), "what was measured");
    float ms = 0;
    must(cudaEventElapsedTime(&ms, from, to), "a time");
    return ms / 1e3;
}

// `count` rings, each with `items` items; the median of `turns`, behind one that does not count.
template <work w> static result measure(u8 *rings, group g, u32 count, u32 item, u32 items, u32 of_a_block = 1) {
    auto kernel = g == threads ? by_thread<w> : g == warps ? by_warp<w> : by_block<w>;
    const u32 grid = count / of_a_block, size = g == threads ? 1 : g == warps ? 32 * of_a_block : threads_of_a_block;
    const u32 shared = in_shared(w) ? item * of_a_block : 0;
    must(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)), "shared memory");
    std::vector<double> times, all_cycles;
    for (int turn = 0; turn <= turns; ++turn) {
        set_heads<<<count, 1>>>(rings, w == pop_shared || w == pop_loads || w == pop_memory ? items * item : 0);
        const double time = seconds_of([&] { kernel<<<grid, size, shared>>>(task{rings, memory, item, items, cycles}); });
        std::vector<long long> c(count);
        must(cudaMemcpy(c.data(), cycles, count * sizeof(long long), cudaMemcpyDeviceToHost), "cycles");
        if (*std::min_element(c.begin(), c.end()) < 0) must(cudaErrorUnknown, "a ring");
        if (turn == 0) continue;
        times.push_back(time);
        all_cycles.push_back(static_cast<double>(c[0]) / items);
    }
    return {median(all_cycles), median(times)};
}

static double memcpy_seconds(void *target, const void *source, size_t bytes) {
    std::vector<double> times;
    for (int turn = 0; turn <= turns; ++turn) {
        const double time = seconds_of([&] { must(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDefault), "a copy"); });
        if (turn > 0) times.push_back(time);
    }
    return median(times);
}

// A row's cells, one for each kind of work.
template <work... w, class Cell> static void cells(Cell cell) {
    (cell(std::integral_constant<work, w>()), ...);
    std::printf(" |\n");
    std::fflush(stdout);
}

static void per_item(u8 *rings, const char *where) {
    const char *names[] = {"thread", "warp", "block of 256"};
    std::printf("\n### Cycles per item, rings in %s, one ring\n\n", where);
    std::printf("| group | item | push from shared memory | the same by stores | push from device memory | plain copy to the ring | pop to shared memory | the same by loads | pop to device memory | plain copy from the ring |\n"
                "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
    for (group g : {threads, warps, blocks}) {
        for (u32 item : {64u, 256u, 1024u, 4096u, 16384u, 65536u}) {
            if (g == threads && item > 4096) continue;
            const u32 items = std::min(ring_size / item, 512u);
            std::printf("| %s | %u B", names[g], item);
            cells<push_shared, push_stores, push_memory, copy_in, pop_shared, pop_loads, pop_memory, copy_out>(
                [&]<work w>(std::integral_constant<work, w>) { std::printf(" | %.0f", measure<w>(rings, g, 1, item, items).cycles); });
        }
    }
}

static void per_second(u8 *rings, const char *where) {
    std::printf("\n### GB/s of items, rings in %s, by how many rings\n\n", where);
    const size_t bytes = static_cast<size_t>(rings_at_most) * ring_size;
    std::printf("cudaMemcpyAsync of %.1f GB: to that memory %.1f GB/s, from it %.1f GB/s\n\n", bytes / 1e9, bytes / 1e9 / memcpy_seconds(rings, memory, bytes),
                bytes / 1e9 / memcpy_seconds(memory, rings, bytes));
    std::printf("| a ring's group | item | rings | push from shared memory | the same by stores | push from device memory | push_many from it | plain copy from it | pop to shared memory | the same by loads | pop to device memory | plain copy to it |\n"
                "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
    for (group g : {warps, blocks}) {
        for (u32 item : {64u, 1024u, 4096u, 16384u, 65536u}) {
            for (u32 count : {1u, 4u, 16u, 64u, 132u, 264u, 1056u}) {
                // Enough to fill a ring, or as much as takes a short time.
                const u32 items = std::min(ring_size / item, 4096u);
                const u32 of_a_block = g == blocks || count < 4 ? 1 : count % 8 == 0 ? 8 : 4;
                auto rate = [&](double seconds) { return static_cast<double>(count) * items * item / 1e9 / seconds; };
                std::printf("| %s | %u B | %u", g == warps ? "warp" : "block of 256", item, count);
                cells<push_shared, push_stores, push_memory, push_many, copy_in, pop_shared, pop_loads, pop_memory, copy_out>([&]<work w>(std::integral_constant<work, w>) {
                    if (in_shared(w) && item * of_a_block > 200 * 1024) std::printf(" | ");
                    else std::printf(" | %.1f", rate(measure<w>(rings, g, count, item, items, of_a_block).seconds));
                });
            }
        }
    }
}

int main() {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        std::printf("no device\n");
        return 77;
    }
    cudaDeviceProp about;
    must(cudaGetDeviceProperties(&about, 0), "cudaGetDeviceProperties");
    int khz = 0, order = 0;
    must(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, 0), "the clock rate");
    must(cudaDeviceGetAttribute(&order, cudaDevAttrGPUDirectRDMAWritesOrdering, 0), "the order of writes");
    std::printf("%s, sm_%d%d, %d SMs, %d MHz at most; order of GPUDirect writes: %d\n", about.name, about.major, about.minor, about.multiProcessorCount, khz / 1000, order);
    must(cudaEventCreate(&from), "an event");
    must(cudaEventCreate(&to), "an event");
    const size_t bytes = static_cast<size_t>(rings_at_most) * stride;
    u8 *device, *host, *host_of_device;
    must(cudaMalloc(&device, bytes), "memory of the device");
    must(cudaMalloc(&memory, bytes), "memory of the device");
    must(cudaMalloc(&cycles, rings_at_most * sizeof(long long)), "memory of the device");
    must(cudaHostAlloc(&host, bytes, cudaHostAllocMapped), "pinned memory");
    must(cudaHostGetDevicePointer(&host_of_device, host, 0), "pinned memory");
    must(cudaMemset(memory, 0x5a, bytes), "memory of the device");
    must(cudaMemset(device, 0, bytes), "memory of the device");
    per_item(device, "device memory");
    per_item(host_of_device, "pinned host memory");
    per_second(device, "device memory");
    per_second(host_of_device, "pinned host memory");
}
