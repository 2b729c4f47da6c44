// zsr-fpga-pop: the verilated zsr_consumer at the ring whose memory is standard input; the items that it has streamed out go to standard
// output. `zsr run` starts it for a consumer with `memory: fpga-sim` (control-plane/src/run/design.rs). Standard output begins with a
// line: the program, the version of the rings' layout, and the bits of a beat. When the reader of standard output is gone, it ends.
#include <algorithm>
#include <cerrno>
#include <vector>

#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "Vpop.h"
#include "device.hpp"

using namespace cosim;

static const char usage[] = "zsr-fpga-pop --ring-size BYTES --item-size BYTES [--big-endian 1] [--clock HZ] [--latency CYCLES] [--seed N] "
                            "< MEMORY > ITEMS";

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

// A reader that is gone ends the program by a signal.
static void put(const void *data, std::size_t bytes) {
    for (auto from = static_cast<const char *>(data); bytes > 0;) {
        ssize_t written = write(STDOUT_FILENO, from, bytes);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) throw failure(std::string("standard output: ") + std::strerror(errno));
        from += written;
        bytes -= static_cast<std::size_t>(written);
    }
}

static bool reader_is_gone() {
    pollfd out = {STDOUT_FILENO, 0, 0};
    return poll(&out, 1, 0) == 1 && (out.revents & POLLERR);
}

// The ring in the memory that is standard input.
static zsr_ring mapped(const options &o) {
    zsr_ring ring = ZSR_RING_INIT;
    if (!std::has_single_bit(o.ring_size) || !std::has_single_bit(o.item_size) || o.item_size > o.ring_size)
        throw failure(std::string("ring and items have powers of two, and the ring at least one item: ") + usage);
    struct stat file = {};
    ring.length = o.ring_size + std::size_t{4096};
    if (fstat(STDIN_FILENO, &file)) throw failure(std::string("standard input: ") + std::strerror(errno));
    if (file.st_size < static_cast<off_t>(ring.length))
        throw failure("standard input has " + std::to_string(file.st_size) + " bytes, and a ring of " + std::to_string(o.ring_size) +
                      " takes " + std::to_string(ring.length));
    void *base = mmap(nullptr, ring.length, PROT_READ | PROT_WRITE, MAP_SHARED, STDIN_FILENO, 0);
    if (base == MAP_FAILED) throw failure(std::string("standard input is no memory: ") + std::strerror(errno));
    ring.base = static_cast<std::uint8_t *>(base);
    ring.ring_size = o.ring_size;
    ring.item_size = o.item_size;
    ring.big_endian = o.big_endian;
    ring.name = "at standard input";
    return ring;
}

static int pop(const options &o) {
    zsr_ring ring = mapped(o);
    popper p(o, ring);
    p.attach(0x5a535243);
    std::string line = "zsr-fpga-pop " + std::to_string(abi) + " " + std::to_string(p.data_width) + "\n";
    put(line.data(), line.size());
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
