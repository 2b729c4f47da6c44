// Runs a design and its promises as yosys compiled them (CXXRTL), on random inputs from reset: simulate EPISODES SEED. Says which
// covers were reached and which promises were broken. INPUT(name, member, bits), COVER(name, member) and PROMISE(name, member) stand in names.hpp, which `prove` writes.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>

#include "design.hpp"

static std::mt19937_64 draw;

// How often an input is 1. What ends everything is rare, so that something happens before it; who answers is quick or slow by episode.
static double often(const std::string &name) {
    auto some = [](std::initializer_list<double> of) { return of.begin()[draw() % of.size()]; };
    if (name == "run") return some({1, 1, 0.9});
    if (name == "close" || name == "put_close") return some({0, 0.02});
    if (name == "abort" || name == "take_abort" || name == "put_abort") return some({0, 0, 0.01});
    if (name == "lose" || name == "any_c_refuse" || name == "refuse") return some({0, 0, 0.05});
    if (name == "flush" || name == "tlast") return some({0, 0.1, 0.5});
    return some({0.1, 0.5, 0.9, 1});
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    std::map<std::string, long> reached, broken;
    draw.seed(std::strtoul(argv[2], nullptr, 10));
#define COVER(name, member) reached[#name] = 0;
#define PROMISE(name, member) broken[#name] = 0;
#define INPUT(name, member, bits)
#include "names.hpp"
#undef COVER
#undef PROMISE
#undef INPUT
    bool whole = true;
    for (long episodes = std::atol(argv[1]), episode = 0; episode < episodes && whole; episode++) {
        cxxrtl_design::p_top design;
        std::map<std::string, double> rate;
        const uint32_t begin = draw() % 2 ? uint32_t(0) - 16 * (draw() % 4) : uint32_t(draw()) & ~15u;
        const uint32_t watched = begin + 8 * (draw() % 16);
        const uint64_t constants = draw();
        for (int cycle = 0; cycle < 150; cycle++) {
#define COVER(name, member)
#define PROMISE(name, member)
#define INPUT(name, member, bits)                                                                                                          \
    {                                                                                                                              \
        const std::string called = #name;                                                                                          \
        if (!rate.count(called)) rate[called] = often(called);                                                                     \
        uint64_t value = bits > 1 ? draw() : (draw() >> 11) * 0x1p-53 < rate[called];                                             \
        if (called == "any_begin") value = begin >> 4;                                                                             \
        else if (called == "any_watched") value = watched >> 3;                                                                    \
        else if (called == "any_flags" || called == "any_tail_flags") value = constants % 8 ? 0 : constants >> 8;                  \
        else if (called == "any_fill") value = constants >> 16;                                                                    \
        design.member.set<uint64_t>(bits > 63 ? value : value & ((uint64_t(1) << (bits % 64)) - 1));                             \
    }
#include "names.hpp"
#undef COVER
#undef PROMISE
            design.p_clk.set<bool>(false);
            design.step();
#define COVER(name, member) reached[#name] += design.member.get<bool>();
#define PROMISE(name, member) broken[#name] += design.member.get<bool>();
#undef INPUT
#define INPUT(name, member, bits)
#include "names.hpp"
#undef COVER
#undef PROMISE
#undef INPUT
            design.p_clk.set<bool>(true);
            design.step();
        }
        // What a broken promise leads to is of no interest: an episode is enough.
        for (auto &[name, times] : broken) whole = whole && !times;
    }
    for (auto &[name, times] : reached) std::printf("cover %s %ld\n", name.c_str(), times);
    for (auto &[name, times] : broken) std::printf("promise %s %ld\n", name.c_str(), times);
}
