// TPC-H Q1 on a CPU, at a stated speed: cpu FLOW MEMBER ROWS_PER_SECOND. Prints what zsr-fpga-q1 prints (fpga/cosim/q1.cpp). It sums
// in whole numbers: hundredths of hundredths of hundredths, which no rounding touches.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>

#include "zsr.hpp"

struct row {
    std::uint64_t orderkey;
    std::uint32_t quantity, price, discount, tax;
    std::int32_t shipdate;
    char flag, status;
    std::uint16_t linenumber;
};
static_assert(sizeof(row) == 32);
constexpr std::int32_t last_day = 10471;  // 1998-09-02

using wide = unsigned __int128;
struct group {
    wide values[6] = {};
};

static std::string decimal(wide n) {
    std::string digits;
    do digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(n % 10)));
    while (n /= 10);
    return digits;
}

int main(int argc, char **argv) try {
    using namespace std::chrono;
    using clock = steady_clock;
    double speed = argc == 4 ? std::atof(argv[3]) : 0;
    if (speed <= 0) throw std::runtime_error("cpu FLOW MEMBER ROWS_PER_SECOND");
    zsr::options options;
    options.member = argv[2];
    options.record_size = sizeof(row);
    zsr::consumer consumer(argv[1], options);

    std::map<std::string, group> groups;
    std::uint64_t rows = 0;
    clock::time_point first{}, due{};
    while (auto batch = consumer.pop()) {
        if (rows == 0) first = due = clock::now();
        for (std::size_t from = 0; from < batch.size();) {
            std::size_t to = std::min(batch.size(), from + 128);
            // As fast as stated: what the machine could not give in time is caught up with, up to a twentieth of a second.
            due = std::max(due, clock::now() - milliseconds(50)) + duration_cast<clock::duration>(duration<double>(static_cast<double>(to - from) / speed));
            for (; from < to; ++from, ++rows) {
                auto r = batch.value<row>(from);
                if (r.shipdate > last_day) continue;
                wide disc_price = wide{r.price} * (100 - r.discount), charge = disc_price * (100 + r.tax);
                group &g = groups[{r.flag, r.status}];
                wide add[6] = {1, r.quantity, r.price, disc_price, charge, r.discount};
                for (int i = 0; i < 6; ++i) g.values[i] += add[i];
            }
            std::this_thread::sleep_until(due);
        }
    }
    auto end = clock::now();
    auto seconds = [](clock::time_point at) { return duration<double>(at.time_since_epoch()).count(); };
    std::string text;
    for (auto &[key, g] : groups) {
        text += (text.empty() ? "\"" : ", \"") + key + "\": [";
        for (int i = 0; i < 6; ++i) text += (i ? ", " : "") + decimal(g.values[i]);
        text += "]";
    }
    std::printf("{\"member\": \"%s\", \"rows\": %llu, \"first\": %.6f, \"end\": %.6f, \"groups\": {%s}}\n", argv[2],
                static_cast<unsigned long long>(rows), seconds(rows ? first : end), seconds(end), text.c_str());
} catch (const std::exception &e) {
    std::fprintf(stderr, "cpu: %s\n", e.what());
    return 1;
}
