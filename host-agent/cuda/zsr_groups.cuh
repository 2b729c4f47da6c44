// Part of zsr.cuh: how memory is read and written, and groups of threads.
#ifndef ZSR_GROUPS_CUH
#define ZSR_GROUPS_CUH

#if defined(__CUDACC__)
#define ZSR_GPU __device__ __forceinline__
#define ZSR_MEMCPY memcpy
// A loop that is not worth more code.
#define ZSR_ROLLED _Pragma("unroll 1")
#else
#define ZSR_GPU inline
#define ZSR_MEMCPY __builtin_memcpy
#define ZSR_ROLLED
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "zsr.cuh is for machines whose least significant byte is first"
#endif
#endif
// Bulk asynchronous copies.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define ZSR_BULK 1
#endif

namespace zsr {
namespace gpu {

using u8 = unsigned char;
using u32 = unsigned int;
using u64 = unsigned long long;

// ---- Memory -----------------------------------------------------------------------------------------------------------------

// A control word, with all that its writer stored before visible behind it.
ZSR_GPU u64 load_acquire(const void *at) {
#if defined(__CUDA_ARCH__)
    u64 raw;
    asm volatile("ld.acquire.sys.u64 %0, [%1];" : "=l"(raw) : "l"(at) : "memory");
    return raw;
#else
    return __atomic_load_n(static_cast<const u64 *>(at), __ATOMIC_ACQUIRE);
#endif
}

// Stores a control word behind all that this thread, and those it was synchronized with, have loaded and stored before.
ZSR_GPU void store_release(void *at, u64 raw) {
#if defined(__CUDA_ARCH__)
    asm volatile("st.release.sys.u64 [%0], %1;" ::"l"(at), "l"(raw) : "memory");
#else
    __atomic_store_n(static_cast<u64 *>(at), raw, __ATOMIC_RELEASE);
#endif
}

// Lets others run.
ZSR_GPU void rest(u32 &ns) {
#if defined(__CUDA_ARCH__)
    __nanosleep(ns);
#elif defined(__x86_64__)
    __builtin_ia32_pause();
#endif
    if (ns < 1024) ns *= 2;
}

ZSR_GPU u32 swapped(u32 x) { return x >> 24 | (x >> 8 & 0xff00) | (x << 8 & 0xff0000) | x << 24; }

// Counter and flags of a control word: the counter is first in memory.
struct word {
    u32 counter, flags;
    ZSR_GPU static word of(u64 raw, bool big) {
        u32 c = static_cast<u32>(raw), f = static_cast<u32>(raw >> 32);
        return big ? word{swapped(c), swapped(f)} : word{c, f};
    }
    ZSR_GPU u64 raw(bool big) const {
        u32 c = big ? swapped(counter) : counter, f = big ? swapped(flags) : flags;
        return c | static_cast<u64>(f) << 32;
    }
};

struct alignas(16) vec {
    u32 x[4];
};

// Memory of a ring. Never read through the read-only path of the device, which `const` and `__restrict__` would allow: it does not
// see what others write while the kernel runs.
struct ring_memory {
    ZSR_GPU static vec load16(const u8 *at) {
        vec v;
#if defined(__CUDA_ARCH__)
        asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                     : "=r"(v.x[0]), "=r"(v.x[1]), "=r"(v.x[2]), "=r"(v.x[3])
                     : "l"(__cvta_generic_to_global(at))
                     : "memory");
#else
        ZSR_MEMCPY(&v, __builtin_assume_aligned(at, 16), 16);
#endif
        return v;
    }
    ZSR_GPU static u32 load4(const u8 *at) {
        u32 v;
#if defined(__CUDA_ARCH__)
        asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(__cvta_generic_to_global(at)) : "memory");
#else
        ZSR_MEMCPY(&v, __builtin_assume_aligned(at, 4), 4);
#endif
        return v;
    }
    ZSR_GPU static u8 load1(const u8 *at) { return *static_cast<const volatile u8 *>(at); }
    ZSR_GPU static void store16(u8 *at, const vec &v) {
#if defined(__CUDA_ARCH__)
        asm volatile("st.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(__cvta_generic_to_global(at)), "r"(v.x[0]), "r"(v.x[1]),
                     "r"(v.x[2]), "r"(v.x[3])
                     : "memory");
#else
        ZSR_MEMCPY(__builtin_assume_aligned(at, 16), &v, 16);
#endif
    }
    ZSR_GPU static void store4(u8 *at, u32 v) {
#if defined(__CUDA_ARCH__)
        asm volatile("st.global.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(at)), "r"(v) : "memory");
#else
        ZSR_MEMCPY(__builtin_assume_aligned(at, 4), &v, 4);
#endif
    }
    ZSR_GPU static void store1(u8 *at, u8 v) { *at = v; }
};

// Memory of the caller, of any kind.
struct own_memory {
    ZSR_GPU static vec load16(const u8 *at) {
        vec v;
        ZSR_MEMCPY(&v, __builtin_assume_aligned(at, 16), 16);
        return v;
    }
    ZSR_GPU static u32 load4(const u8 *at) {
        u32 v;
        ZSR_MEMCPY(&v, __builtin_assume_aligned(at, 4), 4);
        return v;
    }
    ZSR_GPU static u8 load1(const u8 *at) { return *at; }
    ZSR_GPU static void store16(u8 *at, const vec &v) { ZSR_MEMCPY(__builtin_assume_aligned(at, 16), &v, 16); }
    ZSR_GPU static void store4(u8 *at, u32 v) { ZSR_MEMCPY(__builtin_assume_aligned(at, 4), &v, 4); }
    ZSR_GPU static void store1(u8 *at, u8 v) { *at = v; }
};

// Copies `bytes`, the threads of the group side by side: 16 bytes each where both places and the length allow it, with four loads
// on their way at a time; otherwise 4, or 1.
template <class To, class From, class Group> ZSR_GPU void copy(const Group &g, void *to, const void *from, u32 bytes) {
    u8 *t = static_cast<u8 *>(to);
    const u8 *f = static_cast<const u8 *>(from);
    u64 both = reinterpret_cast<u64>(t) | reinterpret_cast<u64>(f) | bytes;
    if ((both & 15) == 0) {
        u32 step = g.size() * 16, mine = g.rank() * 16;
        if (mine >= bytes) return;
        t += mine;
        f += mine;
        bytes -= mine;
        for (; bytes > 3 * step; t += 4 * step, f += 4 * step, bytes -= 4 * step) {
            vec a = From::load16(f), b = From::load16(f + step), c = From::load16(f + 2 * step), d = From::load16(f + 3 * step);
            To::store16(t, a);
            To::store16(t + step, b);
            To::store16(t + 2 * step, c);
            To::store16(t + 3 * step, d);
            if (bytes <= 4 * step) return;
        }
        for (; true; t += step, f += step, bytes -= step) {
            To::store16(t, From::load16(f));
            if (bytes <= step) return;
        }
    } else if ((both & 3) == 0) {
        for (u32 i = g.rank() * 4; i < bytes; i += g.size() * 4) To::store4(t + i, From::load4(f + i));
    } else {
        for (u32 i = g.rank(); i < bytes; i += g.size()) To::store1(t + i, From::load1(f + i));
    }
}
template <class Group> ZSR_GPU void copy_in(const Group &g, void *ring, const void *from, u32 bytes) {
    copy<ring_memory, own_memory>(g, ring, from, bytes);
}
template <class Group> ZSR_GPU void copy_out(const Group &g, void *to, const void *ring, u32 bytes) {
    copy<own_memory, ring_memory>(g, to, ring, bytes);
}

// ---- Groups -----------------------------------------------------------------------------------------------------------------

// What a group has: rank() below size(); sync(), which orders memory among its threads; share(), the first thread's value;
// before(), how many threads in front of this one say `have`, and how many in all; all_xor().
struct thread {
    ZSR_GPU u32 rank() const { return 0; }
    ZSR_GPU u32 size() const { return 1; }
    ZSR_GPU void sync() const {}
    ZSR_GPU u64 share(u64 v) const { return v; }
    ZSR_GPU u32 before(bool have, u32 &total) const {
        total = have;
        return 0;
    }
    ZSR_GPU u32 all_xor(u32 v) const { return v; }
};

#if defined(__CUDACC__)
// The 32 lanes of a warp, all of them.
struct warp {
    ZSR_GPU u32 rank() const {
        u32 lane;
        asm("mov.u32 %0, %%laneid;" : "=r"(lane));
        return lane;
    }
    ZSR_GPU u32 size() const { return 32; }
    ZSR_GPU void sync() const { __syncwarp(); }
    // A shuffle alone orders no memory.
    ZSR_GPU u64 share(u64 v) const {
        v = __shfl_sync(~0u, v, 0);
        __syncwarp();
        return v;
    }
    ZSR_GPU u32 before(bool have, u32 &total) const {
        u32 votes = __ballot_sync(~0u, have);
        total = __popc(votes);
        return __popc(votes & ((1u << rank()) - 1));
    }
    ZSR_GPU u32 all_xor(u32 v) const {
        for (u32 i = 16; i > 0; i /= 2) v ^= __shfl_xor_sync(~0u, v, i);
        return v;
    }
};

// All threads of the block.
class block {
public:
    ZSR_GPU block()
        : rank_(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)), size_(blockDim.x * blockDim.y * blockDim.z) {}
    ZSR_GPU u32 rank() const { return rank_; }
    ZSR_GPU u32 size() const { return size_; }
    ZSR_GPU void sync() const { __syncthreads(); }
    ZSR_GPU u64 share(u64 v) const {
        __shared__ u64 slot;
        if (rank() == 0) slot = v;
        __syncthreads();
        v = slot;
        __syncthreads();
        return v;
    }
    ZSR_GPU u32 before(bool have, u32 &total) const {
        __shared__ u32 counts[32];
        u32 w = rank() / 32, lanes = size() - w * 32, sum = 0, mine = 0;
        u32 votes = __ballot_sync(lanes < 32 ? (1u << lanes) - 1 : ~0u, have);
        if (rank() % 32 == 0) counts[w] = __popc(votes);
        __syncthreads();
        for (u32 i = 0; i < (size() + 31) / 32; ++i) {
            if (i == w) mine = sum;
            sum += counts[i];
        }
        __syncthreads();
        total = sum;
        return mine + __popc(votes & ((1u << rank() % 32) - 1));
    }
    ZSR_GPU u32 all_xor(u32 v) const {
        __shared__ u32 sum;
        if (rank() == 0) sum = 0;
        __syncthreads();
        atomicXor(&sum, v);
        __syncthreads();
        v = sum;
        __syncthreads();
        return v;
    }

private:
    u32 rank_, size_;
};
#endif

// Counts the bulk copies into shared memory that a group waits for. `barrier` is in shared memory and nobody else's.
class bulk {
public:
    template <class Group> ZSR_GPU bulk(const Group &g, u64 *barrier) {
#if defined(ZSR_BULK)
        at_ = static_cast<u32>(__cvta_generic_to_shared(barrier));
        if (g.rank() == 0) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at_) : "memory");
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        }
        g.sync();
#else
        (void)g, (void)barrier;
#endif
    }
#if defined(ZSR_BULK)
    // Copies from a ring to shared memory. What the group has read and written there, and what it has seen of the ring, comes before.
    template <class Group> ZSR_GPU void copy_out(const Group &g, void *shared, const void *ring, u32 bytes) {
        asm volatile("fence.proxy.async;" ::: "memory");
        g.sync();
        if (g.rank() == 0) {
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at_), "r"(bytes) : "memory");
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                             static_cast<u32>(__cvta_generic_to_shared(shared))),
                         "l"(__cvta_generic_to_global(ring)), "r"(bytes), "r"(at_)
                         : "memory");
        }
        for (u32 done = 0; !done;) {
            asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                         : "=r"(done)
                         : "r"(at_), "r"(phase_)
                         : "memory");
        }
        phase_ ^= 1;
    }

private:
    u32 at_, phase_ = 0;
#endif
};

// Copies from shared memory to a ring; what is written is visible to the first thread behind it.
template <class Group> ZSR_GPU void bulk_copy_in(const Group &g, void *ring, const void *shared, u32 bytes) {
#if defined(ZSR_BULK)
    // What the group has stored to shared memory is for the copy to see.
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    g.sync();
    if (g.rank() == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(__cvta_generic_to_global(ring)),
                     "r"(static_cast<u32>(__cvta_generic_to_shared(shared))), "r"(bytes)
                     : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        // Not `.read`: it has to be written, not only read, before `head` says so.
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
#else
    copy_in(g, ring, shared, bytes);
#endif
}

// Whether a bulk copy is faster than the group's own loads and stores, as measured on an H200 (bench/results/gpu.md). One thread starts it, so a
// thread and a warp gain; blocks do not, and with rings in host memory they reached half of what their stores do.
template <class Group> ZSR_GPU bool can_bulk(const Group &g, const void *shared, u32 bytes) {
#if defined(ZSR_BULK)
    return g.size() <= 32 && bytes % 16 == 0 && reinterpret_cast<u64>(shared) % 16 == 0 && __isShared(shared);
#else
    (void)g, (void)shared, (void)bytes;
    return false;
#endif
}

}  // namespace gpu
}  // namespace zsr

#endif
