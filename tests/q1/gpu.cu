// TPC-H Q1 on a GPU: a persistent kernel takes rows out of the member's ring, wherever that is, and sums them; no host code sees a row.
//
//     gpu FLOW MEMBER [ROWS_PER_SECOND]   as fast as stated; with 0, or without it, as fast as it can
//     gpu --device                        says which GPU it would run on; ends with 77 if there is none
//
// Compiled by a C++ compiler (-x c++) it is a program without a GPU, in which a thread stands for the kernel's block.
#include "device.hpp"

#include <stdexcept>

#include "q1.hpp"

#if defined(__CUDACC__)
// Nanoseconds of a clock of the device's own.
__device__ inline u64 now() {
    u64 ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}
__device__ inline void pause(u64 ns) { __nanosleep(ns < 100'000 ? static_cast<u32>(ns) : 100'000); }
// Who makes the low half go over carries: each time it does so, exactly one thread sees it.
__device__ inline void add(u64 (&to)[2], u64 n) {
    if (atomicAdd(&to[0], n) + n < n) atomicAdd(&to[1], 1ull);
}
#else
inline u64 now() { return static_cast<u64>(std::chrono::duration_cast<std::chrono::nanoseconds>(steady::now().time_since_epoch()).count()); }
inline void pause(u64 ns) { std::this_thread::sleep_for(std::chrono::nanoseconds(ns)); }
inline void add(u64 (&to)[2], u64 n) {
    to[0] += n;
    to[1] += to[0] < n;
}
#endif

// A word that the kernel writes and the host reads while the kernel runs.
class shared_word {
public:
    shared_word() {
#if defined(__CUDACC__)
        must(cudaHostAlloc(&host_, sizeof *host_, cudaHostAllocMapped), "memory that kernel and host share");
        must(cudaHostGetDevicePointer(&device_, host_, 0), "the device's address of it");
#else
        host_ = device_ = new u64;
#endif
        *host_ = 0;
    }
    shared_word(const shared_word &) = delete;
    shared_word &operator=(const shared_word &) = delete;
    ~shared_word() {
#if defined(__CUDACC__)
        cudaFreeHost(host_);
#else
        delete host_;
#endif
    }
    u64 *device() const { return device_; }
    // Waits for a word other than 0. A kernel that fails ends the program, so it need not be asked.
    void wait() const {
        while (__atomic_load_n(host_, __ATOMIC_ACQUIRE) == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
    }

private:
    u64 *host_, *device_;
};

// The sums of a group, 128 bits each, the low half first.
struct halves {
    u64 values[6][2];
};
// One for each return flag and line status that two bytes can be, so that no thread has to look for its group.
constexpr u32 groups = 1 << 16;

struct outcome {
    u32 status;  // of zsr.cuh; 98: the kernel has said none, 99: records that are no rows
    u64 rows, refused;
};

struct query {
    zg::ring ring;
    double ns_per_row;
    halves *sums;
    outcome *out;
    u64 *begun;  // not 0: the first row is there, or none will come

    template <class Group> ZSR_GPU void operator()(u32, const Group &g) const {
        zg::consumer in(ring, g);
        zg::segment s;
        u64 rows = 0, due = 0;
        bool odd = false;
        zg::status got;
        while ((got = zg::next_segment(in, g, s)) == zg::status::ok) {
            odd = s.count > 0 && s.tuple != sizeof(row);
            if (odd) break;
            const bool leads = g.rank() == 0 && s.count > 0, paces = leads && ns_per_row > 0;
            if (leads && rows == 0) {
                due = now();
                zg::store_release(begun, 1);
            }
            if (paces) {
                // As cpu.cpp has it: what could not be done in time is caught up with, up to a twentieth of a second.
                const u64 earliest = now() - 50'000'000;
                due = (due > earliest ? due : earliest) + static_cast<u64>(s.count * ns_per_row);
            }
            for (u32 i = g.rank(); i < s.count; i += g.size()) {
                row r;
                zg::copy_out(zg::thread(), &r, s.tuples + i * sizeof r, sizeof r);
                // As zsr_q1 refuses them. What is left makes less than 2^47 of a row.
                if (r.discount > 100 || r.tax > 155) {
                    add(out->refused, 1);
                    continue;
                }
                if (r.shipdate > last_day) continue;
                auto &to = sums[static_cast<u8>(r.flag) << 8 | static_cast<u8>(r.status)].values;
                const u64 price = u64{r.price} * (100 - r.discount);
                add(to[0], 1);
                add(to[1], r.quantity);
                add(to[2], r.price);
                add(to[3], price);
                add(to[4], price * (100 + r.tax));
                add(to[5], r.discount);
            }
            for (u64 at; paces && (at = now()) < due;) pause(due - at);
            rows += s.count;
            in.release(g, 1);
        }
        if (g.rank() == 0) {
            out->status = odd ? 99 : static_cast<u32>(got);
            out->rows = rows;
            zg::store_release(begun, 1);
        }
    }
};

static int device() {
#if defined(__CUDACC__)
    int count = 0;
    cudaDeviceProp properties;
    cudaError_t got = cudaGetDeviceCount(&count);
    if (got == cudaSuccess && count > 0) got = cudaGetDeviceProperties(&properties, 0);
    if (got != cudaSuccess || count == 0) {
        std::printf("no device: %s\n", got != cudaSuccess ? cudaGetErrorString(got) : "the driver has none");
        return 77;
    }
    std::printf("%s\n", properties.name);
    return 0;
#else
    std::printf("host build\n");
    return 77;
#endif
}

static int consume(const char *flow, const char *name, double speed) {
    // All that takes its time comes before the ring: who attaches is there for rows.
    array<halves> d_sums(std::vector<halves>(groups, halves{}));
    array<outcome> d_out({outcome{98, 0, 0}});
    shared_word begun;
    member at(member::consumes, flow, name);

    steady::time_point first;
    std::thread watch([&] {
        begun.wait();
        first = steady::now();
    });
    running(query{at.all.at(0), speed > 0 ? 1e9 / speed : 0, d_sums.at(), d_out.at(), begun.device()}, 1).wait();
    const auto end = steady::now();
    watch.join();

    const outcome out = d_out.values().at(0);
    if (out.status == 99) fail("gpu: the records of flow `" + std::string(flow) + "` are no rows of " + std::to_string(sizeof(row)) + " bytes");
    if (out.status != static_cast<u32>(zg::status::closed)) {
        fail("gpu: the ring ended with status " + std::to_string(out.status) + " of zsr.cuh, behind " + std::to_string(out.rows) + " rows");
    }
    if (out.refused > 0) fail("gpu: " + std::to_string(out.refused) + " rows have a discount above 1.00, or a tax above 1.55");
    std::map<std::string, sums> results;
    const auto all = d_sums.values();
    for (u32 key = 0; key < groups; ++key) {
        if (all[key].values[0][0] == 0) continue;
        sums &to = results[{static_cast<char>(key >> 8), static_cast<char>(key & 0xff)}];
        for (int i = 0; i < 6; ++i) to.values[i] = wide{all[key].values[i][1]} << 64 | all[key].values[i][0];
    }
    print_result(name, out.rows, first, end, results);
    return 0;
}

int main(int argc, char **argv) try {
    if (argc == 2 && std::string(argv[1]) == "--device") return device();
    double speed = 0;
    char *rest = nullptr;
    if (argc == 4) speed = std::strtod(argv[3], &rest);
    if ((argc == 3 || (argc == 4 && rest != argv[3] && *rest == 0)) && speed >= 0) return consume(argv[1], argv[2], speed);
    std::fprintf(stderr, "gpu FLOW MEMBER [ROWS_PER_SECOND], or gpu --device\n");
    return 2;
} catch (const std::exception &e) {
    fail(std::string("gpu: ") + e.what());
}
