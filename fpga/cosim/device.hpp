// A verilated zsr_producer or zsr_consumer at a ring: clock, registers, control words.
#ifndef ZSR_COSIM_DEVICE_HPP
#define ZSR_COSIM_DEVICE_HPP

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include <poll.h>
#include <unistd.h>

#include "bus.hpp"

namespace cosim {

using clock = std::chrono::steady_clock;

// Bits of CONTROL and STATUS, as in fpga/rtl/zsr_pkg.sv.
constexpr std::uint32_t run = 1, close_it = 4, abort_it = 8;
constexpr std::uint32_t attached = 1, closed = 2, aborted = 4, peer_aborted = 8, corrupt = 16, bus_error = 32, bad_config = 64;

// Version of the rings' layout that the designs know.
constexpr std::uint32_t abi = 1;

inline volatile std::sig_atomic_t stopped = 0;
inline void stop_on_signals() {
    struct sigaction how = {};  // without SA_RESTART: a read of the input ends, too
    how.sa_handler = [](int) { stopped = 1; };
    for (int which : {SIGINT, SIGTERM}) sigaction(which, &how, nullptr);
}

struct failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Options of all programs; each uses its own. `at_flow`: it attaches to a flow, which has to be named.
struct options {
    std::string flow;
    const char *system = nullptr, *member = nullptr;
    double hertz = 0;  // 0: as fast as it goes
    unsigned latency = 32;
    std::uint64_t seed = 1;
    unsigned record_size = 32;
    std::uint32_t ring_size = 0, item_size = 0, big_endian = 0;
    int memory = -1;  // a descriptor

    options(int argc, char **argv, const char *usage, bool at_flow = true) {
        auto number = [&](const char *text, double least) {
            char *end;
            double value = std::strtod(text, &end);
            if (end == text || *end || !(value >= least) || value > 1e12)
                throw failure(std::string("`") + text + "` is no number that fits: " + usage);
            return value;
        };
        for (int i = 1; i < argc; ++i) {
            std::string name = argv[i];
            if (name == "--help" || name == "-h") {
                std::printf("%s\n", usage);
                std::exit(0);
            }
            if (name.substr(0, 2) != "--") {
                if (!flow.empty()) throw failure(std::string("one flow only: ") + usage);
                flow = name;
                continue;
            }
            if (++i == argc) throw failure(name + " wants a value: " + usage);
            if (name == "--system") system = argv[i];
            else if (name == "--member") member = argv[i];
            else if (name == "--clock") hertz = number(argv[i], 1);
            else if (name == "--latency") latency = static_cast<unsigned>(number(argv[i], 1));
            else if (name == "--seed") seed = static_cast<std::uint64_t>(number(argv[i], 0));
            else if (name == "--record-size") record_size = static_cast<unsigned>(number(argv[i], 1));
            else if (name == "--ring-size") ring_size = static_cast<std::uint32_t>(number(argv[i], 1));
            else if (name == "--item-size") item_size = static_cast<std::uint32_t>(number(argv[i], 1));
            else if (name == "--big-endian") big_endian = number(argv[i], 0) != 0;
            else if (name == "--memory") memory = static_cast<int>(number(argv[i], 0));
            else throw failure("`" + name + "` is not known: " + usage);
        }
        if (flow.empty() == at_flow) throw failure(std::string(at_flow ? "which flow? " : "it takes no flow: ") + usage);
    }
};

// The one ring of a member.
class lease {
public:
    lease(const options &o, bool produces) {
        zsr_options how = ZSR_OPTIONS_INIT;
        how.system = o.system;
        how.member = o.member;
        check((produces ? zsr_rings_produce : zsr_rings_consume)(o.flow.c_str(), &how, &rings_));
        std::size_t count = 0;
        check(zsr_rings_count(rings_, &count));
        if (count != 1) {
            throw failure("flow " + o.flow + " has a ring to each of " + std::to_string(count) +
                          " consumers, and this design has one port: use a flow with one consumer, or load-balance or replicate");
        }
        check(zsr_rings_get(rings_, 0, &ring));
        const char *name;
        check(zsr_rings_member(rings_, &name));
        member = name;
    }
    lease(const lease &) = delete;
    ~lease() {
        if (rings_) zsr_rings_leave(rings_);
    }
    void leave() { check(zsr_rings_leave(std::exchange(rings_, nullptr))); }

    zsr_ring ring = ZSR_RING_INIT;
    std::string member;

private:
    static void check(zsr_status got) {
        if (got != ZSR_OK) throw failure(zsr_last_error());
    }
    zsr_rings *rings_ = nullptr;
};

// Bytes of a pin.
template <class Pin> constexpr std::size_t bytes_of = sizeof(std::remove_reference_t<Pin>);

// What both designs have. Of the other pins, in each cycle: before() drives them, sample() notes what they say at the rising edge, and
// after() does what follows from it.
template <class Top> class device {
public:
    device(const options &o, const zsr_ring &r) : memory(r, o.latency, o.seed), ring_(r), hertz_(o.hertz), ctl_read_(memory), ctl_write_(memory) {}
    virtual ~device() { top.final(); }

    void cycle() {
        pace();
        auto &t = top;
        t.m_ctl_arready = t.m_ctl_awready = t.m_ctl_wready = 1;
        t.m_ctl_rvalid = ctl_read_.r.valid;
        t.m_ctl_rresp = ctl_read_.r.resp;
        std::memcpy(&t.m_ctl_rdata, ctl_read_.r.data, 8);
        t.m_ctl_bvalid = ctl_write_.valid;
        t.m_ctl_bresp = ctl_write_.resp;
        before();
        t.clk = 0;
        t.eval();
        // What both sides see at the rising edge.
        bool ar = t.m_ctl_arvalid, r = t.m_ctl_rvalid && t.m_ctl_rready;
        bool aw = t.m_ctl_awvalid, w = t.m_ctl_wvalid, b = t.m_ctl_bvalid && t.m_ctl_bready;
        std::uint64_t ar_at = t.m_ctl_araddr, aw_at = t.m_ctl_awaddr, word = t.m_ctl_wdata, strobe = t.m_ctl_wstrb;
        sample();
        t.clk = 1;
        t.eval();
        memory.step();
        ctl_read_.take(ar, ar_at, 1, r);
        ctl_write_.take(aw, aw_at, w, &word, strobe, true, b);
        after();
        ++cycles;
    }

    void reset() {
        top.rst_n = 0;
        for (int i = 0; i < 4; ++i) cycle();
        top.rst_n = 1;
    }

    // Attaches the design to the ring, and waits until it is.
    void attach(std::uint32_t id) {
        reset();
        std::uint32_t version = get(0x04);
        if (get(0x00) != id || (version & 0xffff) != abi) throw failure("the design is another: ID " + std::to_string(get(0x00)));
        data_width = version >> 16;
        auto log2 = [](std::uint32_t n) { return static_cast<std::uint32_t>(std::countr_zero(n)); };
        set(0x10, aperture & 0xffffffff);
        set(0x14, aperture >> 32);
        set(0x18, log2(ring_.ring_size) | log2(ring_.item_size) << 8 | ring_.big_endian << 16);
        set(0x1c, 8);
        set(0x08, run);
        while (!(status() & (attached | bad()))) cycle();
        check();
    }

    // Lets go of the ring, for the next program.
    void detach() {
        set(0x08, 0);
        while (status() & attached) cycle();
    }

    std::uint32_t status() const { return top.status; }
    static constexpr std::uint32_t bad() { return aborted | peer_aborted | corrupt | bus_error | bad_config; }
    void check() const {
        std::uint32_t s = status();
        const char *why = s & bad_config ? "the ring's sizes do not fit the design: its items are smaller than a beat, or too large"
                          : s & bus_error ? "the bus has refused an address"
                          : s & corrupt ? "the ring's control words make no sense"
                          : s & (aborted | peer_aborted) ? "the flow has failed or was given up: zsr flow list says why" : nullptr;
        if (why) throw failure(std::string("ring ") + ring_.name + ": " + why);
    }

    // Registers of the ring (docs/fpga.md). The slave takes address and data together, at once.
    void set(std::uint32_t at, std::uint32_t value) {
        top.s_axil_awaddr = static_cast<std::uint8_t>(at);
        top.s_axil_wdata = value;
        top.s_axil_wstrb = 15;
        top.s_axil_awvalid = top.s_axil_wvalid = top.s_axil_bready = 1;
        cycle();
        top.s_axil_awvalid = top.s_axil_wvalid = 0;
        while (!top.s_axil_bvalid) cycle();
        cycle();
    }
    std::uint32_t get(std::uint32_t at) {
        return look(top.s_axil_araddr, top.s_axil_arvalid, top.s_axil_rvalid, top.s_axil_rready, top.s_axil_rdata, at);
    }

    Top top;
    bus memory;
    std::uint64_t cycles = 0;
    unsigned data_width = 0;  // bits, known when it is attached

protected:
    virtual void before() = 0;
    virtual void sample() = 0;
    virtual void after() = 0;

    // Reads a register, by the pins of an AXI4-Lite port.
    template <class Address, class Bit, class Word>
    std::uint32_t look(Address &araddr, Bit &arvalid, Bit &rvalid, Bit &rready, Word &rdata, std::uint32_t at) {
        araddr = static_cast<Address>(at);
        arvalid = rready = 1;
        cycle();
        arvalid = 0;
        while (!rvalid) cycle();
        std::uint32_t value = rdata;
        cycle();
        return value;
    }

    // The cycle in which a beat moved last: a design in which nothing moves is given less of the machine's time.
    std::uint64_t moved_ = 0;

private:
    void pace() {
        using namespace std::chrono;
        if (hertz_ > 0 && cycles % 64 == 0) {
            // What the machine could not give in time is caught up with, up to a twentieth of a second.
            due_ = std::max(due_ + duration_cast<clock::duration>(duration<double>(64 / hertz_)), clock::now() - milliseconds(50));
            std::this_thread::sleep_until(due_);
        } else if (hertz_ == 0 && cycles % 1024 == 0 && cycles - moved_ > 4096) {
            std::this_thread::sleep_for(microseconds(200));
        }
    }

    const zsr_ring &ring_;
    double hertz_;
    clock::time_point due_ = clock::now();
    read_port<8> ctl_read_;
    write_port<8> ctl_write_;
};

// A design that takes items: the port by which it reads them.
template <class Top> class consumer : public device<Top> {
public:
    using device<Top>::device;
    static constexpr std::size_t beat = bytes_of<decltype(Top::m_axi_rdata)>;

protected:
    void before() override {
        auto &t = this->top;
        t.m_axi_arready = 1;
        t.m_axi_rvalid = items_.r.valid;
        t.m_axi_rlast = items_.r.last;
        t.m_axi_rresp = items_.r.resp;
        std::memcpy(&t.m_axi_rdata, items_.r.data, beat);
    }
    void sample() override {
        auto &t = this->top;
        asked_ = t.m_axi_arvalid;
        at_ = t.m_axi_araddr;
        beats_ = t.m_axi_arlen + 1u;
        taken_ = t.m_axi_rvalid && t.m_axi_rready;
    }
    void after() override {
        items_.take(asked_, at_, beats_, taken_);
        if (taken_) this->moved_ = this->cycles;
    }

    // Whether a beat of an item came in this cycle.
    bool taken_ = false;

private:
    read_port<beat> items_{this->memory};
    bool asked_ = false;
    std::uint64_t at_ = 0;
    unsigned beats_ = 0;
};

// A design that writes items: the stream that it takes, and the port by which it writes them.
template <class Top> class producer : public device<Top> {
public:
    using device<Top>::device;
    static constexpr std::size_t beat = bytes_of<decltype(Top::m_axi_wdata)>;

    // Fills `to` from standard input, less at its end, and gives how many bytes; none when a signal or the flow has ended it. The
    // design goes on meanwhile: what it has taken is published, though nothing may follow for long.
    std::size_t read(std::uint8_t *to, std::size_t bytes) {
        std::size_t got = 0;
        while (got < bytes && goes_on()) {
            pollfd in = {STDIN_FILENO, POLLIN, 0};
            if (poll(&in, 1, 0) < 1) {
                this->cycle();
                continue;
            }
            ssize_t more = ::read(STDIN_FILENO, to + got, bytes - got);
            if (more == 0) break;
            if (more < 0 && errno != EINTR) throw failure(std::string("standard input: ") + std::strerror(errno));
            if (more > 0) got += static_cast<std::size_t>(more);
        }
        return goes_on() ? got : 0;
    }

    // One frame, which becomes one item. Returns false when a signal or the flow has ended it.
    bool push(const std::uint8_t *frame, std::size_t length) {
        auto &t = this->top;
        for (std::size_t from = 0; from < length;) {
            std::size_t bytes = std::min(beat, length - from);
            std::memcpy(&t.s_axis_tdata, frame + from, bytes);
            std::uint64_t keep = bytes == 64 ? ~0ull : (1ull << bytes) - 1;
            std::memcpy(&t.s_axis_tkeep, &keep, bytes_of<decltype(Top::s_axis_tkeep)>);
            t.s_axis_tlast = from + bytes == length;
            t.s_axis_tvalid = 1;
            this->cycle();
            if (streamed_) from += bytes;
            if (!goes_on()) return false;
        }
        t.s_axis_tvalid = 0;
        return true;
    }

    // Ends the stream behind all that was taken, as soon as there has been room for it, unless a signal or the flow ends that.
    void close() {
        this->set(0x08, run | close_it);
        while (!(this->status() & closed) && goes_on()) this->cycle();
    }

protected:
    void before() override {
        auto &t = this->top;
        t.m_bell_tready = 1;
        t.m_axi_awready = t.m_axi_wready = 1;
        t.m_axi_bvalid = items_.valid;
        t.m_axi_bresp = items_.resp;
    }
    void sample() override {
        auto &t = this->top;
        asked_ = t.m_axi_awvalid;
        at_ = t.m_axi_awaddr;
        sent_ = t.m_axi_wvalid;
        last_ = t.m_axi_wlast;
        taken_ = t.m_axi_bvalid && t.m_axi_bready;
        streamed_ = t.s_axis_tvalid && t.s_axis_tready;
        std::memcpy(data_, &t.m_axi_wdata, beat);
        std::memcpy(&strobe_, &t.m_axi_wstrb, bytes_of<decltype(Top::m_axi_wstrb)>);
    }
    void after() override {
        items_.take(asked_, at_, sent_, data_, strobe_, last_, taken_);
        if (streamed_) this->moved_ = this->cycles;
    }

private:
    bool goes_on() const { return !stopped && !(this->status() & this->bad()); }

    write_port<beat> items_{this->memory};
    bool asked_ = false, sent_ = false, last_ = false, taken_ = false, streamed_ = false;
    std::uint64_t at_ = 0, strobe_ = 0;
    std::uint8_t data_[beat] = {};
};

inline double seconds(clock::time_point at) { return std::chrono::duration<double>(at.time_since_epoch()).count(); }

}  // namespace cosim
#endif
