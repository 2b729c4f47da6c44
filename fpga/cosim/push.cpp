// zsr-fpga-push: the verilated zsr_producer as a producer of a flow. Records of --record-size bytes come from standard input; this program
// makes segments of them (crates/ring/src/segment), and the design writes these into the ring. Ends the stream at the end of the input.
#include <algorithm>
#include <vector>

#include "Vpush.h"
#include "device.hpp"

using namespace cosim;

static const char usage[] = "zsr-fpga-push FLOW [--record-size BYTES] [--system NAME] [--member NAME] [--clock HZ] [--latency CYCLES] "
                            "[--seed N] < RECORDS";

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
    producer<Vpush> p(o, at.ring);
    p.attach(0x5a535250);
    std::vector<std::uint8_t> records(most * o.record_size), frame;
    std::uint64_t sequence = 0, count = 0;
    while (std::size_t bytes = p.read(records.data(), records.size())) {
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
        if (!p.push(frame.data(), frame.size())) break;
        count += tuples;
    }
    if (!stopped) p.close();
    p.check();
    if (stopped) p.detach();
    if (!(p.status() & closed)) {
        // All items but the last of the input are full.
        std::uint64_t items = (p.get(0x30) | static_cast<std::uint64_t>(p.get(0x34)) << 32) / at.ring.item_size;
        throw failure("stopped; " + std::to_string(std::min(count, items * most)) +
                      " records are pushed, and the stream is open for the next program");
    }
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
