// zsr.cuh at a ring that a Rust program has made: peer FILE push|pop SIZE ITEM big|little SEED COUNT close|abort|leave THREADS
// Prints how its stream has ended.
#include <fcntl.h>
#include <sys/mman.h>

#include <string>

#include "host.hpp"

int main(int argc, char **argv) {
    check(argc == 10, "usage");
    std::string role = argv[2], order = argv[5], end = argv[8];
    unsigned size = static_cast<unsigned>(std::stoul(argv[3])), item = static_cast<unsigned>(std::stoul(argv[4]));
    unsigned threads = static_cast<unsigned>(std::stoul(argv[9]));
    uint64_t seed = std::stoull(argv[6]), count = std::stoull(argv[7]), came = 0;
    int file = open(argv[1], O_RDWR | O_CLOEXEC);
    check(file >= 0, "the ring's file can't be opened");
    void *base = mmap(nullptr, 4096 + size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    check(base != MAP_FAILED, "the ring can't be mapped");
    zg::ring r{static_cast<uint8_t *>(base), size, item, order == "big"};
    std::vector<uint8_t> own(item * 8);
    zg::status last = zg::status::ok;
    crew all(threads);
    std::vector<std::thread> group;
    for (unsigned i = 0; i < threads; ++i) {
        group.emplace_back([&, i] {
            member g{&all, i};
            zg::status s;
            if (role == "push") {
                zg::producer out(r, g);
                s = push_stream(g, out, seed, count, 8, own);
                if (s == zg::status::ok && end == "close") out.close(g);
                if (s == zg::status::ok && end == "abort") out.abort(g);
            } else {
                zg::consumer in(r, g);
                uint64_t popped;
                s = pop_stream(g, in, seed, count, popped, own);
                if (s == zg::status::ok && end == "abort") in.abort(g);
                if (i == 0) came = popped;
            }
            if (i == 0) last = s;
        });
    }
    for (auto &thread : group) thread.join();
    const char *names[] = {"ok", "full", "empty", "closed", "aborted", "corrupt", "damaged"};
    std::printf("%s %llu\n", names[static_cast<unsigned>(last)], static_cast<unsigned long long>(came));
}
