// Part of zsr.cuh: segments, many small tuples in one item of a ring, as crates/ring/src/segment lays them out (version 1).
#ifndef ZSR_SEGMENTS_CUH
#define ZSR_SEGMENTS_CUH

namespace zsr {
namespace gpu {

constexpr u32 segment_magic = 0x4745535a;  // "ZSEG"
constexpr u32 segment_version = 1, segment_checksum = 1 << 8, segment_tuples = 2 << 8, segment_stamp = 4 << 8;
constexpr u32 segment_header = 32;

// ---- CRC-32 (IEEE) of a group: each thread takes a part, and parts are joined by what CRCs are, polynomials modulo another -----

constexpr u32 crc_polynomial = 0xedb88320;

// a * b; bit 31 is x^0.
ZSR_GPU u32 crc_times(u32 a, u32 b) {
    u32 sum = 0;
    ZSR_ROLLED
    for (u32 i = 0; i < 32; ++i) {
        sum ^= a & 0x80000000u ? b : 0;
        a <<= 1;
        b = b >> 1 ^ (b & 1 ? crc_polynomial : 0);
    }
    return sum;
}

// A CRC with `bytes` zero bytes behind what it is of: times x^(8 * bytes).
ZSR_GPU u32 crc_behind(u32 crc, u32 bytes) {
    // x^8, x^16, x^32 and so on.
    for (u32 power = 0x00800000; bytes != 0; bytes >>= 1, power = crc_times(power, power)) {
        if (bytes & 1) crc = crc_times(crc, power);
    }
    return crc;
}

ZSR_GPU u32 crc_of(const u8 *at, u32 bytes, u32 crc) {
    ZSR_ROLLED
    for (u32 i = 0; i < bytes; ++i) {
        crc ^= ring_memory::load1(at + i);
        for (u32 k = 0; k < 8; ++k) crc = crc >> 1 ^ (crc & 1 ? crc_polynomial : 0);
    }
    return crc;
}

// Of the header's first 28 bytes and the `used` bytes behind the header. Every thread gets it.
template <class Group> ZSR_GPU u32 segment_crc(const Group &g, const u8 *item, u32 used) {
    u32 part = (used + g.size() - 1) / g.size();
    u32 from = part * g.rank() < used ? part * g.rank() : used;
    u32 bytes = used - from < part ? used - from : part;
    u32 crc = g.rank() == 0 ? crc_of(item, 28, ~0u) : 0;
    if (g.rank() == 0) crc = crc_behind(crc, bytes);
    crc ^= crc_of(item + segment_header + from, bytes, 0);
    return ~g.all_xor(crc_behind(crc, used - from - bytes));
}

// ---- Writing ----------------------------------------------------------------------------------------------------------------

// Puts tuples of one size into segments, and these into a producer's ring. As for `producer`, every thread has the same copy.
class segment_writer {
public:
    // `tuple`: bytes of each, at least one of which fits an item. `number` stands in every header. `checksum`: for rings whose
    // consumers are in memory that does not promise an order (docs/gpu.md). `sequence`: how many segments were pushed before.
    ZSR_GPU segment_writer(u32 tuple, u32 number, bool checksum, u64 sequence = 0)
        : tuple_(tuple), number_(number), flags_(segment_tuples | (checksum ? segment_checksum : 0)), sequence_(sequence) {}

    // Adds the tuple of every thread that says `have`; waits for room.
    template <class Group> ZSR_GPU status append(producer &out, const Group &g, bool have, const void *tuple) {
        u32 total, index = g.before(have, total), done = 0;
        while (done < total) {
            u32 fit;
            status s = open(out, g, fit);
            if (s != status::ok) return s;
            if (fit > total - done) fit = total - done;
            if (have && index >= done && index - done < fit) {
                copy_in(thread(), place_ + segment_header + (count_ + index - done) * tuple_, tuple, tuple_);
            }
            count_ += fit;
            done += fit;
        }
        return status::ok;
    }

    // Adds `tuples` that lie side by side; waits for room.
    template <class Group> ZSR_GPU status append_many(producer &out, const Group &g, const void *from, u32 tuples) {
        const u8 *f = static_cast<const u8 *>(from);
        while (tuples > 0) {
            u32 fit;
            status s = open(out, g, fit);
            if (s != status::ok) return s;
            if (fit > tuples) fit = tuples;
            copy_in(g, place_ + segment_header + count_ * tuple_, f, fit * tuple_);
            count_ += fit;
            f += static_cast<u64>(fit) * tuple_;
            tuples -= fit;
        }
        return status::ok;
    }

    // Pushes the open segment, if it has tuples.
    template <class Group> ZSR_GPU void flush(producer &out, const Group &g) {
        if (count_ == 0) return;
        u32 used = count_ * tuple_;
        if (g.rank() == 0) {
            u32 low = static_cast<u32>(sequence_), high = static_cast<u32>(sequence_ >> 32);
            u32 words[8] = {segment_magic, segment_version | flags_, number_, count_, low, high, used, 0};
            for (u32 i = 0; i < 8; ++i) ring_memory::store4(place_ + i * 4, words[i]);
        }
        if (flags_ & segment_checksum) {
            g.sync();
            u32 crc = segment_crc(g, place_, used);
            if (g.rank() == 0) ring_memory::store4(place_ + 28, crc);
        }
        out.publish(g, 1);
        ++sequence_;
        count_ = 0;
    }
    // Pushes the open segment and ends the stream.
    template <class Group> ZSR_GPU void close(producer &out, const Group &g) {
        flush(out, g);
        out.close(g);
    }
    // How many segments were pushed, for the writer of the next kernel.
    ZSR_GPU u64 sequence() const { return sequence_; }

private:
    // Has a segment with room for at least one tuple.
    template <class Group> ZSR_GPU status open(producer &out, const Group &g, u32 &fit) {
        u32 most = (out.item() - segment_header) / tuple_;
        if (count_ == most) flush(out, g);
        if (count_ == 0) {
            u32 room;
            status s = out.reserve(g, 1, place_, room);
            if (s != status::ok) return s;
        }
        fit = most - count_;
        return status::ok;
    }

    u32 tuple_, number_, flags_, count_ = 0;
    u64 sequence_;
    u8 *place_ = nullptr;
};

// ---- Reading ----------------------------------------------------------------------------------------------------------------

// A segment where it lies in the ring.
struct segment {
    const u8 *tuples;
    u32 count, tuple;
    u32 producer;
    u64 sequence;

    // Copies tuple `i` to the calling thread's memory.
    ZSR_GPU void get(u32 i, void *to) const { copy_out(thread(), to, tuples + i * tuple, tuple); }
};

// Checks the segment in `item`. Every thread gets the same answer.
template <class Group> ZSR_GPU status read_segment(const Group &g, const u8 *item, u32 bytes, segment &s) {
    if (bytes < segment_header) return status::damaged;
    u32 w[8];
    for (u32 i = 0; i < 8; i += 2) {
        // One thread's view for all, as memory without an order may change between two looks.
        u64 two = 0;
        if (g.rank() == 0) two = ring_memory::load4(item + i * 4) | static_cast<u64>(ring_memory::load4(item + i * 4 + 4)) << 32;
        two = g.share(two);
        w[i] = static_cast<u32>(two);
        w[i + 1] = static_cast<u32>(two >> 32);
    }
    u32 flags = w[1] & ~0xffu, count = w[3], used = w[6];
    u32 known = segment_checksum | segment_tuples | segment_stamp;
    if (w[0] != segment_magic || (w[1] & 0xff) != segment_version || flags & ~known) return status::damaged;
    if ((flags & segment_checksum) && (flags & segment_stamp)) return status::damaged;
    if (!(flags & segment_tuples) || used > bytes - segment_header) return status::damaged;
    if (count == 0 ? used != 0 : used == 0 || used % count != 0) return status::damaged;
    if (!(flags & segment_stamp) && w[7] != (flags & segment_checksum ? segment_crc(g, item, used) : 0)) return status::damaged;
    s.tuples = item + segment_header;
    s.count = count;
    s.tuple = count == 0 ? 0 : used / count;
    s.producer = w[2];
    s.sequence = w[4] | static_cast<u64>(w[5]) << 32;
    return status::ok;
}

// The next segment of a consumer's ring, which stays until release(g, 1). Waits for it. `patience`: how often it is looked at again
// that is not sound: 0 where memory promises an order. `damaged`: it is still there; release it to go on behind it.
template <class Group> ZSR_GPU status next_segment(consumer &in, const Group &g, segment &s, u32 patience = 0) {
    const u8 *place;
    u32 count;
    status got = in.peek(g, 1, place, count);
    if (got != status::ok) return got;
    for (u32 ns = 32; (got = read_segment(g, place, in.item(), s)) != status::ok && patience > 0; --patience) {
        rest(ns);
        (void)in.look(g);
    }
    return got;
}

}  // namespace gpu
}  // namespace zsr

#endif
