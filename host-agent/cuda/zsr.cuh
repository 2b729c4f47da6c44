// zsr.cuh: rings of zsr (ABI version 1) in CUDA device code. Header-only, C++17, includes nothing.
//
//     __global__ void produce(zsr::gpu::ring r, const row *rows, unsigned n) {   // one block, any number of threads
//         zsr::gpu::block all;
//         zsr::gpu::producer out(r, all);
//         for (unsigned i = 0; i < n; ++i) out.push(all, &rows[i]);
//         out.close(all);
//     }
//
// A push stores to memory, and a pop loads from it: no call reaches the network. A ring has one producer and one consumer; each is
// one group of threads: `thread`, `warp` (all 32 lanes) or `block` (all threads). Every thread of the group makes each call, with
// the same arguments, and gets the same answer; the first one publishes. Between kernels the state of a ring is in its memory, so a
// kernel per batch makes its producer anew.
//
// Compiled by a C++ compiler without CUDA it is the same code for the host, with `thread` only, or a group of the caller's own.
//
// Why the order of loads and stores is right, what pinned and device memory need, and how a program gets a `ring`: docs/gpu.md.
#ifndef ZSR_CUH
#define ZSR_CUH

#include "zsr_groups.cuh"

namespace zsr {
namespace gpu {

// What a call says. What is not `ok` has changed nothing.
enum class status : u32 {
    ok,
    full,     // no room now (try_ calls)
    empty,    // no item now (try_ calls)
    closed,   // the end of the stream: no item is left, and none will come
    aborted,  // the flow was given up, by the switch or the agent
    corrupt,  // the other side's word holds what no switch writes
    damaged,  // a segment that is none, or whose checksum does not fit
};

// A ring, as zsr_ring of zsr.h says it. `base` is where the device sees its first byte.
struct ring {
    u8 *base;
    u32 size;        // bytes of items, a power of two
    u32 item;        // bytes of an item, a power of two from 4
    u32 big_endian;  // control words have their most significant byte first
};

// ABI version 1.
constexpr u32 abi_version = 1;
constexpr u32 at_head = 0, at_source = 8, at_tail = 64, at_items = 4096;
constexpr u32 flag_closed = 1, flag_aborted = 2;

// ---- Producer ---------------------------------------------------------------------------------------------------------------

// Pushes items. Every thread of its group has a copy of it, and all copies are the same.
class producer {
public:
    // Goes on where the ring's last producer has ended.
    template <class Group> ZSR_GPU producer(const ring &r, const Group &g) : r_(r) {
        word own = word::of(g.share(g.rank() == 0 ? load_acquire(r.base + at_head) : 0), r.big_endian);
        head_ = limit_ = own.counter;
        flags_ = own.flags;
    }

    // Pushes one item of `item()` bytes at `from`, in any memory.
    template <class Group> ZSR_GPU status try_push(const Group &g, const void *from) {
        if (limit_ == head_) {
            status s = look(g);
            if (s != status::ok) return s;
        }
        put(g, slot(), from, r_.item);
        return status::ok;
    }
    template <class Group> ZSR_GPU status push(const Group &g, const void *from) {
        status s = wait_room(g);
        if (s == status::ok) put(g, slot(), from, r_.item);
        return s;
    }

    // Pushes `items` that lie side by side, as many at a time as there is room for.
    template <class Group> ZSR_GPU status push_many(const Group &g, const void *from, u32 items) {
        const u8 *f = static_cast<const u8 *>(from);
        while (items > 0) {
            u8 *place;
            u32 room;
            status s = reserve(g, items, place, room);
            if (s != status::ok) return s;
            put(g, place, f, room * r_.item);
            f += static_cast<u64>(room) * r_.item;
            items -= room;
        }
        return status::ok;
    }

    // Room for items that the group writes in place: at most `items`, at least one, side by side at `place`. Waits for it.
    template <class Group> ZSR_GPU status reserve(const Group &g, u32 items, u8 *&place, u32 &room) {
        status s = wait_room(g);
        if (s == status::ok) reserved(g, items, place, room);
        return s;
    }
    template <class Group> ZSR_GPU status try_reserve(const Group &g, u32 items, u8 *&place, u32 &room) {
        status s = limit_ == head_ ? look(g) : status::ok;
        if (s == status::ok) reserved(g, items, place, room);
        return s;
    }
    // Pushes the first `items` of those reserved.
    template <class Group> ZSR_GPU void publish(const Group &g, u32 items) {
        g.sync();
        store(g, items * r_.item);
    }

    // Ends the stream: all that was pushed is delivered, and then CLOSED.
    template <class Group> ZSR_GPU void close(const Group &g) {
        flags_ |= flag_closed;
        publish(g, 0);
    }
    // Gives up.
    template <class Group> ZSR_GPU void abort(const Group &g) {
        flags_ |= flag_aborted;
        publish(g, 0);
    }

    // Looks at the tail: waits until all that was pushed has been taken.
    template <class Group> ZSR_GPU status drain(const Group &g) {
        for (u32 ns = 32;; rest(ns)) {
            status s = look(g);
            if (s != status::full && s != status::ok) return s;
            if (limit_ - head_ == r_.size) return status::ok;
        }
    }
    ZSR_GPU u32 item() const { return r_.item; }
    ZSR_GPU u32 head() const { return head_; }

private:
    ZSR_GPU u8 *slot() const { return r_.base + at_items + (head_ & (r_.size - 1)); }

    template <class Group> ZSR_GPU status wait_room(const Group &g) {
        if (limit_ != head_) return status::ok;
        for (u32 ns = 32;; rest(ns)) {
            status s = look(g);
            if (s != status::full) return s;
        }
    }

    // Reads `tail`. It only moves forward, by whole items, and never beyond `head`.
    template <class Group> ZSR_GPU status look(const Group &g) {
        word tail = word::of(g.share(g.rank() == 0 ? load_acquire(r_.base + at_tail) : 0), r_.big_endian);
        u32 fill = head_ - tail.counter;
        if (tail.flags & flag_aborted) return status::aborted;
        if (fill > r_.size - (limit_ - head_) || fill & (r_.item - 1)) return status::corrupt;
        limit_ = tail.counter + r_.size;
        return fill == r_.size ? status::full : status::ok;
    }

    template <class Group> ZSR_GPU void reserved(const Group &g, u32 items, u8 *&place, u32 &room) {
        u32 bytes = limit_ - head_, wrap = r_.size - (head_ & (r_.size - 1));
        if (bytes / r_.item < items && bytes < wrap) {
            // What can't be believed now is found when there is no room.
            (void)look(g);
            bytes = limit_ - head_;
        }
        if (bytes > wrap) bytes = wrap;
        room = bytes / r_.item < items ? bytes / r_.item : items;
        place = slot();
    }

    // Copies into the ring and publishes.
    template <class Group> ZSR_GPU void put(const Group &g, u8 *to, const void *from, u32 bytes) {
        if (can_bulk(g, from, bytes)) {
            bulk_copy_in(g, to, from, bytes);
            store(g, bytes);
            // Behind this the caller may write there again.
            g.sync();
            return;
        }
        copy_in(g, to, from, bytes);
        g.sync();
        store(g, bytes);
    }

    template <class Group> ZSR_GPU void store(const Group &g, u32 bytes) {
        head_ += bytes;
        if (g.rank() == 0) store_release(r_.base + at_head, word{head_, flags_}.raw(r_.big_endian));
    }

    ring r_;
    // `limit_` is the head at which the ring is full, as far as known.
    u32 head_, limit_, flags_;
};

// ---- Consumer ---------------------------------------------------------------------------------------------------------------

// Pops items. As for `producer`, every thread has the same copy.
class consumer {
public:
    template <class Group> ZSR_GPU consumer(const ring &r, const Group &g) : r_(r) {
        word own = word::of(g.share(g.rank() == 0 ? load_acquire(r.base + at_tail) : 0), r.big_endian);
        tail_ = available_ = own.counter;
        flags_ = own.flags;
    }

    // Pops one item of `item()` bytes to `to`, in any memory.
    template <class Group> ZSR_GPU status try_pop(const Group &g, void *to) {
        if (available_ == tail_) {
            status s = look(g);
            if (s != status::ok) return s;
        }
        take(g, to);
        return status::ok;
    }
    template <class Group> ZSR_GPU status pop(const Group &g, void *to) {
        status s = wait_some(g);
        if (s == status::ok) take(g, to);
        return s;
    }
    // The same to shared memory, by a bulk copy where the architecture has it (sm_90) and that is faster. `b` counts this group's copies.
    template <class Group> ZSR_GPU status pop(const Group &g, void *to, bulk &b) {
        status s = wait_some(g);
        if (s != status::ok) return s;
#if defined(ZSR_BULK)
        // Small items are there sooner by loads.
        if (r_.item >= 128 * g.size() && can_bulk(g, to, r_.item)) {
            // All have waited for the copy.
            b.copy_out(g, to, slot(), r_.item);
            store(g, r_.item);
            return s;
        }
#endif
        (void)b;
        take(g, to);
        return s;
    }

    // Shows items in place, at most `items`, at least one: `count` of them side by side. Waits for them. They stay until release().
    // Read them with ring_memory or copy_out().
    template <class Group> ZSR_GPU status peek(const Group &g, u32 items, const u8 *&place, u32 &count) {
        status s = wait_some(g);
        if (s == status::ok) shown(g, items, place, count);
        return s;
    }
    template <class Group> ZSR_GPU status try_peek(const Group &g, u32 items, const u8 *&place, u32 &count) {
        status s = available_ == tail_ ? look(g) : status::ok;
        if (s == status::ok) shown(g, items, place, count);
        return s;
    }
    // Gives the first `items` back, whose memory is overwritten from then on.
    template <class Group> ZSR_GPU void release(const Group &g, u32 items) {
        g.sync();
        store(g, items * r_.item);
    }
    // Gives up.
    template <class Group> ZSR_GPU void abort(const Group &g) {
        flags_ |= flag_aborted;
        release(g, 0);
    }

    // Loads `head` again. What other writers have made visible before it is seen from here on.
    template <class Group> ZSR_GPU status look(const Group &g) {
        word head = word::of(g.share(g.rank() == 0 ? load_acquire(r_.base + at_head) : 0), r_.big_endian);
        u32 fill = head.counter - tail_;
        if (fill < available_ - tail_ || fill > r_.size || fill & (r_.item - 1)) return status::corrupt;
        available_ = head.counter;
        if (fill > 0) return status::ok;
        // What was committed before the end is delivered first.
        if (head.flags & flag_closed) return status::closed;
        return head.flags & flag_aborted ? status::aborted : status::empty;
    }
    ZSR_GPU u32 item() const { return r_.item; }
    ZSR_GPU u32 tail() const { return tail_; }

private:
    ZSR_GPU const u8 *slot() const { return r_.base + at_items + (tail_ & (r_.size - 1)); }

    template <class Group> ZSR_GPU status wait_some(const Group &g) {
        if (available_ != tail_) return status::ok;
        for (u32 ns = 32;; rest(ns)) {
            status s = look(g);
            if (s != status::empty) return s;
        }
    }

    template <class Group> ZSR_GPU void shown(const Group &g, u32 items, const u8 *&place, u32 &count) {
        u32 wrap = r_.size - (tail_ & (r_.size - 1));
        if ((available_ - tail_) / r_.item < items && available_ - tail_ < wrap) (void)look(g);
        u32 bytes = available_ - tail_;
        if (bytes > wrap) bytes = wrap;
        count = bytes / r_.item < items ? bytes / r_.item : items;
        place = slot();
    }

    template <class Group> ZSR_GPU void take(const Group &g, void *to) {
        copy_out(g, to, slot(), r_.item);
        release(g, 1);
    }

    template <class Group> ZSR_GPU void store(const Group &g, u32 bytes) {
        tail_ += bytes;
        if (g.rank() == 0) store_release(r_.base + at_tail, word{tail_, flags_}.raw(r_.big_endian));
    }

    ring r_;
    u32 tail_, available_, flags_;
};

}  // namespace gpu
}  // namespace zsr

#include "zsr_segments.cuh"

#endif
