// The loops that zsr's push is compared with: NVSHMEM's put with signal, of the same items, and the wait for room that a ring needs.
#include <nvshmem.h>
#include <nvshmemx.h>

struct ring {
    unsigned char *items;    // symmetric
    uint64_t *head, *tail;
    unsigned size, item;
    int pe;
};

enum kind { one, warp, block };

template <kind K> __device__ void put_all(ring r, const unsigned char *items, unsigned count) {
    uint64_t head = 0;
    for (unsigned i = 0; i < count; ++i, items += r.item) {
        nvshmem_signal_wait_until(r.tail, NVSHMEM_CMP_GT, head - r.size);
        unsigned char *to = r.items + (head & (r.size - 1));
        head += r.item;
        if (K == one) nvshmem_putmem_signal_nbi(to, items, r.item, r.head, head, NVSHMEM_SIGNAL_SET, r.pe);
        if (K == warp) nvshmemx_putmem_signal_nbi_warp(to, items, r.item, r.head, head, NVSHMEM_SIGNAL_SET, r.pe);
        if (K == block) nvshmemx_putmem_signal_nbi_block(to, items, r.item, r.head, head, NVSHMEM_SIGNAL_SET, r.pe);
    }
}

extern "C" __global__ void put_thread(ring r, const unsigned char *items, unsigned count) { put_all<one>(r, items, count); }
extern "C" __global__ void put_warp(ring r, const unsigned char *items, unsigned count) { put_all<warp>(r, items, count); }
extern "C" __global__ void put_block(ring r, const unsigned char *items, unsigned count) { put_all<block>(r, items, count); }
