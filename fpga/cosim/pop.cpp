// zsr-fpga-pop: the verilated zsr_consumer at the ring in the memory that --memory names; the items that it has streamed out go to
// standard output. `zsr run` starts it for a consumer with `memory: fpga-sim`.
#include <vector>

#include "Vpop.h"
#include "given.hpp"

using namespace cosim;

static const char usage[] = "zsr-fpga-pop --memory DESCRIPTOR --ring-size BYTES --item-size BYTES [--big-endian 1] [--clock HZ] "
                            "[--latency CYCLES] [--seed N] > ITEMS";

class popper : public consumer<Vpop> {
public:
    using consumer::consumer;

    std::vector<std::uint8_t> streamed;
    std::uint64_t idle() const { return cycles - moved_; }

private:
    void before() override {
        top.m_axis_tready = 1;
        consumer::before();
    }
    void sample() override {
        consumer::sample();
        if (!top.m_axis_tvalid) return;
        moved_ = cycles;
        auto from = reinterpret_cast<const std::uint8_t *>(&top.m_axis_tdata);
        streamed.insert(streamed.end(), from, from + beat);
    }
};

static int pop(const options &o) {
    zsr_ring ring = given(o);
    popper p(o, ring);
    p.attach(0x5a535243);
    greet("zsr-fpga-pop", p.data_width);
    while (!(p.status() & (closed | p.bad()))) {
        p.cycle();
        if (p.streamed.size() >= 65536 || (!p.streamed.empty() && p.idle() > 16)) {
            put(p.streamed.data(), p.streamed.size());
            p.streamed.clear();
        }
        if (p.cycles % 1024 == 0 && reader_is_gone()) return 1;
    }
    p.check();
    put(p.streamed.data(), p.streamed.size());
    return 0;
}

int main(int argc, char **argv) try {
    return pop(options(argc, argv, usage, false));
} catch (const std::exception &e) {
    std::fprintf(stderr, "zsr-fpga-pop: %s\n", e.what());
    return 1;
}
