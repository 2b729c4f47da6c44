// What the consumers have in common that are no FPGA: a row as it comes, the sums of a group, and the line that says them, which is that
// of zsr-fpga-q1 (fpga/cosim/q1.cpp). Sums are whole numbers: hundredths of hundredths of hundredths, which no rounding touches.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>

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
// Count, quantity, price, price less discount, the same with tax, discount.
struct sums {
    wide values[6] = {};
};

inline std::string decimal(wide n) {
    std::string digits;
    do digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(n % 10)));
    while (n /= 10);
    return digits;
}

using steady = std::chrono::steady_clock;

inline void print_result(const char *member, std::uint64_t rows, steady::time_point first, steady::time_point end,
                         const std::map<std::string, sums> &groups) {
    auto seconds = [](steady::time_point at) { return std::chrono::duration<double>(at.time_since_epoch()).count(); };
    std::string text;
    for (auto &[key, group] : groups) {
        text += (text.empty() ? "\"" : ", \"") + key + "\": [";
        for (int i = 0; i < 6; ++i) text += (i ? ", " : "") + decimal(group.values[i]);
        text += "]";
    }
    std::printf("{\"member\": \"%s\", \"rows\": %llu, \"first\": %.6f, \"end\": %.6f, \"groups\": {%s}}\n", member,
                static_cast<unsigned long long>(rows), seconds(rows ? first : end), seconds(end), text.c_str());
}
