// What a verilated design sees of the machine that it is in: a ring's memory behind a bus that behaves as PCIe does, and its registers.
//
// - A write is posted: it reaches the memory some cycles after it was sent, in the order in which writes were sent. It is answered when it is there.
// - A read does not pass writes that were sent before it; writes that were sent later may pass it. Reads of one port are answered in
//   order, some cycles after they were sent, with what the memory holds then.
#ifndef ZSR_COSIM_BUS_HPP
#define ZSR_COSIM_BUS_HPP

#include <cstdint>
#include <cstring>
#include <deque>
#include <random>
#include <vector>

#include "zsr.h"

namespace cosim {

constexpr std::uint64_t aperture = std::uint64_t{1} << 32;  // where the ring's first byte is on the bus
constexpr unsigned okay = 0, decode_error = 3;

class bus {
public:
    // `latency`: cycles that a request takes at most.
    bus(const zsr_ring &ring, unsigned latency, std::uint64_t seed)
        : memory_(ring.base), bytes_(ring.length), delay_(1, latency ? latency : 1), dice_(seed) {}

    bool holds(std::uint64_t at, std::size_t bytes) const {
        return at >= aperture && at - aperture <= bytes_ && bytes <= bytes_ - (at - aperture);
    }

    // Eight bytes are a control word, which the switch, the NIC and programs read and write as one.
    void read(std::uint64_t at, void *to, std::size_t bytes) const {
        const std::uint8_t *from = memory_ + (at - aperture);
        if (bytes == 8 && at % 8 == 0) {
            std::uint64_t word = __atomic_load_n(reinterpret_cast<const std::uint64_t *>(from), __ATOMIC_ACQUIRE);
            std::memcpy(to, &word, 8);
        } else {
            std::memcpy(to, from, bytes);
        }
    }

    // What is written in one cycle: bytes, and which of them count.
    struct beat {
        std::uint64_t at;
        std::uint64_t strobe;
        std::vector<std::uint8_t> bytes;
    };

    // Posts a write; `answer` becomes true when the memory has it. Writes beyond the ring are refused.
    void post(beat data, unsigned *answer) {
        writes_.push_back({due(), std::move(data), answer});
        ++posted_;
    }
    std::uint64_t posted() const { return posted_; }
    std::uint64_t done() const { return done_; }
    std::uint64_t now() const { return now_; }
    std::uint64_t due() { return now_ + delay_(dice_); }

    void step() {
        ++now_;
        for (; !writes_.empty() && writes_.front().due <= now_; writes_.pop_front(), ++done_) {
            pending &w = writes_.front();
            bool good = holds(w.data.at, w.data.bytes.size());
            if (good) store(w.data);
            if (w.answer) *w.answer = good ? okay : decode_error;
        }
    }

private:
    struct pending {
        std::uint64_t due;
        beat data;
        unsigned *answer;
    };

    void store(const beat &data) {
        std::uint8_t *to = memory_ + (data.at - aperture);
        std::size_t bytes = data.bytes.size();
        if (bytes == 8 && data.strobe == 0xff) {
            std::uint64_t word;
            std::memcpy(&word, data.bytes.data(), 8);
            __atomic_store_n(reinterpret_cast<std::uint64_t *>(to), word, __ATOMIC_RELEASE);
            return;
        }
        for (std::size_t i = 0; i < bytes; ++i)
            if (data.strobe >> i & 1) to[i] = data.bytes[i];
    }

    std::uint8_t *memory_;
    std::size_t bytes_;
    std::uint64_t now_ = 0, posted_ = 0, done_ = 0;
    std::uniform_int_distribution<unsigned> delay_;
    std::mt19937_64 dice_;
    std::deque<pending> writes_;
};

constexpr unsigned unanswered = ~0u;

// The slave side of a read port, AXI4 or AXI4-Lite. Call drive() before the rising edge, take() with what the pins said there.
template <std::size_t Beat> class read_port {
public:
    explicit read_port(bus &b) : bus_(b) {}

    struct pins {
        bool valid = false, last = false;
        unsigned resp = okay;
        std::uint8_t data[Beat] = {};
    } r;

    void take(bool asked, std::uint64_t at, unsigned beats, bool taken) {
        if (taken) {
            r.valid = false;
            if (r.last) requests_.pop_front();
        }
        if (asked) requests_.push_back({bus_.due(), bus_.posted(), at, beats});
        if (r.valid || requests_.empty()) return;
        request &q = requests_.front();
        if (q.due > bus_.now() || bus_.done() < q.behind) return;
        bool good = bus_.holds(q.at, Beat);
        if (good) bus_.read(q.at, r.data, Beat);
        r.resp = good ? okay : decode_error;
        r.last = --q.beats == 0;
        r.valid = true;
        q.at += Beat;
    }

private:
    struct request {
        std::uint64_t due, behind, at;
        unsigned beats;
    };
    bus &bus_;
    std::deque<request> requests_;
};

// The slave side of a write port. A burst is answered once, when all of it is in the memory.
template <std::size_t Beat> class write_port {
public:
    explicit write_port(bus &b) : bus_(b) {}

    bool valid = false;
    unsigned resp = okay;

    void take(bool asked, std::uint64_t at, bool sent, const void *data, std::uint64_t strobe, bool last, bool taken) {
        if (taken) {
            valid = false;
            answers_.pop_front();
        }
        if (asked) addresses_.push_back(at);
        if (sent) {
            bus::beat b{0, strobe, std::vector<std::uint8_t>(Beat)};
            std::memcpy(b.bytes.data(), data, Beat);
            beats_.push_back({std::move(b), last});
        }
        while (!addresses_.empty() && !beats_.empty()) {
            auto [beat, ends] = std::move(beats_.front());
            beats_.pop_front();
            beat.at = addresses_.front();
            addresses_.front() += Beat;
            if (ends) {
                addresses_.pop_front();
                answers_.push_back(unanswered);
            }
            bus_.post(std::move(beat), ends ? &answers_.back() : nullptr);
        }
        if (!valid && !answers_.empty() && answers_.front() != unanswered) {
            resp = answers_.front();
            valid = true;
        }
    }

private:
    bus &bus_;
    std::deque<std::uint64_t> addresses_;
    std::deque<std::pair<bus::beat, bool>> beats_;
    std::deque<unsigned> answers_;
};

}  // namespace cosim
#endif
