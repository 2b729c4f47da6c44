// zsr-fpga-q1: the verilated zsr_q1 (fpga/examples/q1) as a consumer of a flow. At the end of the stream it prints one line of JSON: the
// member, when the first row and the end of the stream were there (seconds of CLOCK_MONOTONIC), cycles of the clock, rows, and of each
// group its count and its sums, in the order and the units of the registers.
#include <cctype>

#include "Vq1.h"
#include "device.hpp"

using namespace cosim;

static const char usage[] = "zsr-fpga-q1 FLOW [--system NAME] [--member NAME] [--clock HZ] [--latency CYCLES] [--seed N]";

class query : public consumer<Vq1> {
public:
    using consumer::consumer;

    std::uint32_t result(std::uint32_t at) {
        return look(top.s_q1_araddr, top.s_q1_arvalid, top.s_q1_rvalid, top.s_q1_rready, top.s_q1_rdata, at);
    }
    clock::time_point first{};

private:
    void after() override {
        consumer::after();
        if (taken_ && first == clock::time_point{}) first = clock::now();
    }
};

static std::string decimal(unsigned __int128 n) {
    std::string digits;
    do digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(n % 10)));
    while (n /= 10);
    return digits;
}

static int consume(const options &o) {
    lease at(o, false);
    query q(o, at.ring);
    q.attach(0x5a535243);
    while (!(q.status() & (closed | q.bad())) && !stopped) q.cycle();
    if (stopped) {
        q.detach();
        throw failure("stopped before the end of the stream: what it had summed is lost");
    }
    q.check();
    while (q.result(0x0c) & 1) {}
    auto end = clock::now();
    std::uint64_t rows = q.result(0x18) | static_cast<std::uint64_t>(q.result(0x1c)) << 32;
    if (std::uint32_t odd = q.result(0x20), none = q.result(0x24); odd || none) {
        throw failure(std::to_string(odd) + " rows were left out and " + std::to_string(none) +
                      " items are no segments: docs/fpga.md says what a row is");
    }
    std::string groups;
    for (unsigned g = 0, count = q.result(0x04) >> 16; g < count; ++g) {
        std::uint32_t words[24];
        for (unsigned n = 0; n < 24; ++n) words[n] = q.result(0x400 + 0x80 * g + 4 * n);
        if (!(words[0] >> 31)) continue;
        std::string key;
        for (unsigned byte : {words[0] & 0xff, words[0] >> 8 & 0xff}) {
            char escaped[8];
            std::snprintf(escaped, sizeof escaped, "\\u%04x", byte);
            key += std::isalnum(static_cast<int>(byte)) ? std::string(1, static_cast<char>(byte)) : escaped;
        }
        groups += (groups.empty() ? "\"" : ", \"") + key + "\": [" + decimal(words[2] | static_cast<std::uint64_t>(words[3]) << 32);
        for (unsigned sum = 1; sum < 6; ++sum) {
            unsigned __int128 value = 0;
            for (unsigned n = 4; n-- > 0;) value = value << 32 | words[4 * sum + n];
            groups += ", " + decimal(value);
        }
        groups += "]";
    }
    double first = seconds(q.first == clock::time_point{} ? end : q.first);
    std::printf("{\"member\": \"%s\", \"rows\": %llu, \"cycles\": %llu, \"first\": %.6f, \"end\": %.6f, \"groups\": {%s}}\n",
                at.member.c_str(), static_cast<unsigned long long>(rows), static_cast<unsigned long long>(q.cycles), first, seconds(end),
                groups.c_str());
    at.leave();
    return 0;
}

int main(int argc, char **argv) try {
    stop_on_signals();
    return consume(options(argc, argv, usage));
} catch (const std::exception &e) {
    std::fprintf(stderr, "zsr-fpga-q1: %s\n", e.what());
    return 1;
}
