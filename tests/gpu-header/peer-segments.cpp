// Segments of 24-byte tuples at a ring that a Rust program has made: peer-segments FILE push|pop SIZE SEED plain|checksum THREADS
#include <fcntl.h>
#include <sys/mman.h>

#include <string>

#include "host.hpp"

constexpr unsigned tuple = 24, tuples = 500;

int main(int argc, char **argv) {
    check(argc == 7, "usage");
    unsigned size = static_cast<unsigned>(std::stoul(argv[3])), threads = static_cast<unsigned>(std::stoul(argv[6]));
    uint64_t seed = std::stoull(argv[4]);
    int file = open(argv[1], O_RDWR | O_CLOEXEC);
    check(file >= 0, "the ring's file can't be opened");
    void *base = mmap(nullptr, 4096 + size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    check(base != MAP_FAILED, "the ring can't be mapped");
    zg::ring r{static_cast<uint8_t *>(base), size, 512, 0};
    crew all(threads);
    std::vector<std::thread> group;
    for (unsigned i = 0; i < threads; ++i) {
        group.emplace_back([&, i] {
            member g{&all, i};
            uint8_t one[tuple], want[tuple];
            if (argv[2][1] == 'u') {
                zg::producer out(r, g);
                zg::segment_writer writer(tuple, 4, argv[5][0] == 'c');
                for (unsigned k = 0; k < tuples; k += g.size()) {
                    fill(seed, k + i, one, tuple);
                    check(writer.append(out, g, k + i < tuples, one) == zg::status::ok, "append", k);
                }
                writer.close(out, g);
                return;
            }
            zg::consumer in(r, g);
            zg::segment s;
            unsigned k = 0;
            zg::status got;
            for (; (got = zg::next_segment(in, g, s)) == zg::status::ok; in.release(g, 1)) {
                check(s.producer == 4 && s.tuple == tuple, "the header", s.producer, s.tuple);
                for (unsigned t = i; t < s.count; t += g.size()) {
                    s.get(t, one);
                    fill(seed, k + t, want, tuple);
                    check(std::memcmp(one, want, tuple) == 0, "another tuple", k + t);
                }
                k += s.count;
            }
            check(got == zg::status::closed && k == tuples, "how it ended", k, static_cast<unsigned>(got));
        });
    }
    for (auto &thread : group) thread.join();
}
