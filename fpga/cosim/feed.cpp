// zsr-fpga-feed: the verilated zsr_producer at the ring in the memory that --memory names; the items that it writes come from standard
// input. Ends the stream at the end of the input. `zsr run` starts it for a producer with `memory: fpga-sim`.
#include <vector>

#include "Vfeed.h"
#include "given.hpp"

using namespace cosim;

static const char usage[] = "zsr-fpga-feed --memory DESCRIPTOR --ring-size BYTES --item-size BYTES [--big-endian 1] [--clock HZ] "
                            "[--latency CYCLES] [--seed N] < ITEMS";

class feeder : public producer<Vfeed> {
public:
    using producer::producer;

private:
    void after() override {
        producer::after();
        if (cycles % 1024 == 0 && reader_is_gone()) stopped = 1;
    }
};

static int feed(const options &o) {
    zsr_ring ring = given(o);
    feeder p(o, ring);
    p.attach(0x5a535250);
    greet("zsr-fpga-feed", p.data_width);
    std::vector<std::uint8_t> item(o.item_size);
    while (std::size_t bytes = p.read(item.data(), item.size())) {
        if (bytes < item.size()) throw failure("the input ends inside an item");
        if (!p.push(item.data(), item.size())) break;
    }
    if (!stopped) p.close();
    p.check();
    return stopped ? 1 : 0;
}

int main(int argc, char **argv) try {
    return feed(options(argc, argv, usage, false));
} catch (const std::exception &e) {
    std::fprintf(stderr, "zsr-fpga-feed: %s\n", e.what());
    return 1;
}
