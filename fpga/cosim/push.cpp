// zsr-fpga-push: the verilated zsr_producer as a producer of a flow. Records of --record-size bytes come from standard input; this program
// makes segments of them (crates/ring/src/segment), and the design writes these into the ring. Ends the stream at the end of the input.
#include <algorithm>
#include <vector>

#include "Vpush.h"
#include "device.hpp"

using namespace cosim;

static const char usage[] = "zsr-fpga-push FLOW [--record-size BYTES] [--system NAME] [--member NAME] [--clock HZ] [--latency CYCLES] "
                            "[--seed N] < RECORDS";

class pusher : public device<Vpush> {
public:
    using device::device;
    static constexpr std::size_t beat = bytes_of<decltype(Vpush::m_axi_wdata)>;

    // One frame, which becomes one item. Returns false when a signal or the flow has ended it.
    bool push(const std::vector<std::uint8_t> &frame) {
        for (std::size_t from = 0; from < frame.size();) {
            std::size_t bytes = std::min(beat, frame.size() - from);
            std::memcpy(&top.s_axis_tdata, frame.data() + from, bytes);
            std::uint64_t keep = bytes == 64 ? ~0ull : (1ull << bytes) - 1;
            std::memcpy(&top.s_axis_tkeep, &keep, bytes_of<decltype(Vpush::s_axis_tkeep)>);
            top.s_axis_tlast = from + bytes == frame.size();
            top.s_axis_tvalid = 1;
            cycle();
            if (streamed_) from += bytes;
            if (stopped || status() & bad()) return false;
        }
        top.s_axis_tvalid = 0;
        return true;
    }

private:
    void before() override {
        top.m_bell_tready = 1;
        top.m_axi_awready = top.m_axi_wready = 1;
        top.m_axi_bvalid = items_.valid;
        top.m_axi_bresp = items_.resp;
    }
    void sample() override {
        asked_ = top.m_axi_awvalid;
        at_ = top.m_axi_awaddr;
        sent_ = top.m_axi_wvalid;
        last_ = top.m_axi_wlast;
        taken_ = top.m_axi_bvalid && top.m_axi_bready;
        streamed_ = top.s_axis_tvalid && top.s_axis_tready;
        std::memcpy(data_, &top.m_axi_wdata, beat);
        std::memcpy(&strobe_, &top.m_axi_wstrb, bytes_of<decltype(Vpush::m_axi_wstrb)>);
    }
    void after() override {
        items_.take(asked_, at_, sent_, data_, strobe_, last_, taken_);
        if (streamed_) moved_ = cycles;
    }

    write_port<beat> items_{memory};
    bool asked_ = false, sent_ = false, last_ = false, taken_ = false, streamed_ = false;
    std::uint64_t at_ = 0, strobe_ = 0;
    std::uint8_t data_[beat] = {};
};

static void put(std::vector<std::uint8_t> &to, std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) to.push_back(static_cast<std::uint8_t>(value >> 8 * i));
}

static int produce(const options &o) {
    lease at(o, true);
    std::size_t most = at.ring.item_size < 32 ? 0 : (at.ring.item_size - 32) / o.record_size;
    if (most == 0) {
        throw failure("items of " + std::to_string(at.ring.item_size) + " B have no room for a record of " +
                      std::to_string(o.record_size) + " B and a segment's header");
    }
    pusher p(o, at.ring);
    p.attach(0x5a535250);
    std::vector<std::uint8_t> records(most * o.record_size), frame;
    std::uint64_t sequence = 0, count = 0;
    while (std::size_t bytes = std::fread(records.data(), 1, records.size(), stdin)) {
        if (stopped) break;
        if (bytes % o.record_size) throw failure("the input ends inside a record");
        auto tuples = static_cast<std::uint32_t>(bytes / o.record_size);
        frame.clear();
        put(frame, 0x4745535a, 4);       // magic, version, tuples
        put(frame, 0x0201, 4);
        put(frame, at.ring.number, 4);
        put(frame, tuples, 4);
        put(frame, sequence++, 8);
        put(frame, bytes, 4);
        put(frame, 0, 4);
        frame.insert(frame.end(), records.begin(), records.begin() + static_cast<std::ptrdiff_t>(bytes));
        if (!p.push(frame)) break;
        count += tuples;
    }
    p.check();
    if (stopped) {
        p.detach();
        // All items but the last of the input are full.
        std::uint64_t items = (p.get(0x30) | static_cast<std::uint64_t>(p.get(0x34)) << 32) / at.ring.item_size;
        throw failure("stopped; " + std::to_string(std::min(count, items * most)) +
                      " records are pushed, and the stream is open for the next program");
    }
    p.set(0x08, run | close_it);
    while (!(p.status() & (closed | p.bad()))) p.cycle();
    p.check();
    std::fprintf(stderr, "%llu records pushed in %llu cycles\n", static_cast<unsigned long long>(count), static_cast<unsigned long long>(p.cycles));
    at.leave();
    return 0;
}

int main(int argc, char **argv) try {
    stop_on_signals();
    return produce(options(argc, argv, usage));
} catch (const std::exception &e) {
    std::fprintf(stderr, "zsr-fpga-push: %s\n", e.what());
    return 1;
}
