// What programs have that `zsr run` starts (control-plane/system/src/run/design): a ring in memory that they are given as a descriptor, and a
// standard output that begins with a line: the program, the version of the rings' layout, and the bits of a beat. They end with the run:
// when the reader of standard output is gone.
#ifndef ZSR_COSIM_GIVEN_HPP
#define ZSR_COSIM_GIVEN_HPP

#include <sys/mman.h>
#include <sys/stat.h>

#include "device.hpp"

namespace cosim {

// A reader that is gone ends the program by a signal.
inline void put(const void *data, std::size_t bytes) {
    for (auto from = static_cast<const char *>(data); bytes > 0;) {
        ssize_t written = write(STDOUT_FILENO, from, bytes);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) throw failure(std::string("standard output: ") + std::strerror(errno));
        from += written;
        bytes -= static_cast<std::size_t>(written);
    }
}

inline bool reader_is_gone() {
    pollfd out = {STDOUT_FILENO, 0, 0};
    return poll(&out, 1, 0) == 1 && (out.revents & POLLERR);
}

inline void greet(const char *program, unsigned data_width) {
    std::string line = std::string(program) + " " + std::to_string(abi) + " " + std::to_string(data_width) + "\n";
    put(line.data(), line.size());
}

inline zsr_ring given(const options &o) {
    zsr_ring ring = ZSR_RING_INIT;
    if (!std::has_single_bit(o.ring_size) || !std::has_single_bit(o.item_size) || o.item_size > o.ring_size)
        throw failure("ring and items have powers of two, and the ring at least one item: --ring-size, --item-size");
    struct stat file = {};
    ring.length = o.ring_size + std::size_t{4096};
    if (fstat(o.memory, &file)) throw failure(std::string("the ring's memory (--memory): ") + std::strerror(errno));
    if (file.st_size < static_cast<off_t>(ring.length))
        throw failure("the memory has " + std::to_string(file.st_size) + " bytes, and a ring of " + std::to_string(o.ring_size) +
                      " takes " + std::to_string(ring.length));
    void *base = mmap(nullptr, ring.length, PROT_READ | PROT_WRITE, MAP_SHARED, o.memory, 0);
    if (base == MAP_FAILED) throw failure(std::string("the ring's memory can't be mapped: ") + std::strerror(errno));
    ring.base = static_cast<std::uint8_t *>(base);
    ring.ring_size = o.ring_size;
    ring.item_size = o.item_size;
    ring.big_endian = o.big_endian;
    ring.name = "given";
    return ring;
}

}  // namespace cosim
#endif
