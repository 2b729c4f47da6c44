// What the examples need of a device. Compiled by nvcc: kernels of one block per part, memory of the GPU. Compiled by a C++ compiler:
// a thread per part, memory of the host; so the same program runs where there is no GPU.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "zsr.cuh"
#include "zsr.h"

namespace zg = zsr::gpu;
using zg::u32;
using zg::u64;
using zg::u8;

// Says what went wrong, and ends the program: the agent then tells the other members of the flow.
[[noreturn]] inline void fail(const std::string &what) {
    std::fprintf(stderr, "%s\n", what.c_str());
    std::exit(1);
}
inline void must(zsr_status got, const std::string &what) {
    if (got != ZSR_OK) fail(what + ": " + zsr_last_error());
}

#if defined(__CUDACC__)
inline void must(cudaError_t got, const std::string &what) {
    if (got != cudaSuccess) fail(what + ": " + cudaGetErrorString(got));
}
using group = zg::block;
constexpr u32 threads_of_a_block = 256;
// Kernels are loaded at the start: one that is loaded while another runs may have to wait for that one's end, which waits for it.
[[maybe_unused]] static const int eager = setenv("CUDA_MODULE_LOADING", "EAGER", 0);
template <class Job> __global__ void run_part(Job job) { job(blockIdx.x, group()); }

// Adds to a number that several threads of a part add to.
__device__ inline void add(u64 &to, u64 n) { atomicAdd(&to, n); }
// Takes the place for `key` if `empty` is in it.
__device__ inline bool take(u64 &place, u64 empty, u64 key) { return atomicCAS(&place, empty, key) == empty; }
// a * b + c, rounded in one and the same way wherever it stands.
__device__ inline float mad(float a, float b, float c) { return __fmaf_rn(a, b, c); }
#else
// One thread is the whole group of its part, so nobody else is at its numbers.
using group = zg::thread;
inline void add(u64 &to, u64 n) { to += n; }
inline bool take(u64 &place, u64 empty, u64 key) {
    if (place != empty) return false;
    place = key;
    return true;
}
inline float mad(float a, float b, float c) { return a * b + c; }
#endif

// An array where kernels have it.
template <class T> class array {
public:
    explicit array(const std::vector<T> &from) : count_(from.size()) {
#if defined(__CUDACC__)
        must(cudaMalloc(&at_, count_ * sizeof(T)), "memory of the GPU");
        must(cudaMemcpy(at_, from.data(), count_ * sizeof(T), cudaMemcpyHostToDevice), "a copy to the GPU");
#else
        at_ = static_cast<T *>(std::malloc(count_ * sizeof(T)));
        if (at_ == nullptr) fail("no memory for " + std::to_string(count_ * sizeof(T)) + " bytes");
        std::memcpy(at_, from.data(), count_ * sizeof(T));
#endif
    }
    array(const array &) = delete;
    array &operator=(const array &) = delete;
    ~array() {
#if defined(__CUDACC__)
        cudaFree(at_);
#else
        std::free(at_);
#endif
    }
    T *at() const { return at_; }
    std::vector<T> values() const {
        std::vector<T> all(count_);
#if defined(__CUDACC__)
        must(cudaMemcpy(all.data(), at_, count_ * sizeof(T), cudaMemcpyDeviceToHost), "a copy from the GPU");
#else
        std::memcpy(all.data(), at_, count_ * sizeof(T));
#endif
        return all;
    }

private:
    std::size_t count_;
    T *at_ = nullptr;
};

// `parts` groups of threads that run job(part, group) side by side. They must all fit the device at once, as they wait for each other.
// `shared`: bytes of dynamic shared memory of a block.
class running {
public:
    template <class Job> running(const Job &job, u32 parts, u32 shared = 0) {
#if defined(__CUDACC__)
        must(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream");
        run_part<<<parts, threads_of_a_block, shared, stream_>>>(job);
        must(cudaGetLastError(), "a kernel's start");
#else
        (void)shared;
        for (u32 part = 0; part < parts; ++part) threads_.emplace_back([job, part] { job(part, group()); });
#endif
    }
    running(const running &) = delete;
    running &operator=(const running &) = delete;
    void wait() {
#if defined(__CUDACC__)
        must(cudaStreamSynchronize(stream_), "a kernel");
        must(cudaStreamDestroy(stream_), "a stream's end");
#else
        for (std::thread &thread : threads_) thread.join();
#endif
    }

private:
#if defined(__CUDACC__)
    cudaStream_t stream_ = nullptr;
#else
    std::vector<std::thread> threads_;
#endif
};

// The rings of one member of a flow, where kernels have them.
class member {
public:
    enum way { produces, consumes };

    member(way w, const std::string &flow, const std::string &name) {
        zsr_options options = ZSR_OPTIONS_INIT;
        options.member = name.c_str();
        const std::string what = "member `" + name + "` of flow `" + flow + "`";
        must(w == produces ? zsr_rings_produce(flow.c_str(), &options, &rings_) : zsr_rings_consume(flow.c_str(), &options, &rings_), what);
        std::size_t count = 0;
        must(zsr_rings_count(rings_, &count), what);
        for (std::size_t i = 0; i < count; ++i) {
            zsr_ring r = ZSR_RING_INIT;
            must(zsr_rings_get(rings_, i, &r), what);
            void *base = r.base;
#if defined(__CUDACC__)
            // In the GPU's own memory the library has mapped it for kernels already.
            if (r.gpu == 0) {
                must(cudaHostRegister(r.base, r.length, cudaHostRegisterMapped), std::string("registering ring ") + r.name);
                must(cudaHostGetDevicePointer(&base, r.base, 0), std::string("the device's address of ring ") + r.name);
                registered_.push_back(r.base);
            }
#else
            if (r.gpu != 0) fail(std::string("ring ") + r.name + " is in a GPU's memory: compile this with nvcc");
#endif
            all.push_back({static_cast<u8 *>(base), r.ring_size, r.item_size, r.big_endian});
        }
    }
    member(const member &) = delete;
    member &operator=(const member &) = delete;
    ~member() {
#if defined(__CUDACC__)
        for (void *base : registered_) cudaHostUnregister(base);
#endif
        zsr_rings_leave(rings_);
    }

    std::vector<zg::ring> all;

private:
    zsr_rings *rings_ = nullptr;
    std::vector<void *> registered_;
};

// splitmix64's step: numbers that look like chance and are the same everywhere.
#if defined(__CUDACC__)
__host__ __device__
#endif
inline u64 mix(u64 x) {
    x += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}
