// A partitioned hash join whose build side arrives through rings. A persistent kernel has one block per partition: the block takes rows
// out of its ring into a hash table in the GPU's memory as they come, and at the end of the stream looks up the probe side, which is
// there already. No host code runs between the first row and the result.
//
//     zsr flow create build -p h1 -c p0@h2 p1@h2 p2@h2 p3@h2 --schema 'key: u64, value: u64' --routing 'explicit(key)' --item-size 4KiB --doorbell false
//     join build 1000000 &        # on h1: rows, each to the consumer that has its partition
//     join probe 1000000 1000000 4  # on h2: joins them with rows of its own, and compares with a join on the CPU
//
//     nvcc -std=c++17 -O2 -x cu join.cu $(pkg-config --cflags --libs zsr) -o join      with a GPU
//     c++  -std=c++17 -O2 -x c++ join.cu $(pkg-config --cflags --libs zsr) -pthread -o join   without
#include "device.hpp"

#include <unordered_map>

#include "zsr.hpp"

struct row {
    u64 key, value;
};
// What a partition's block says at its end: a status of zsr.cuh, or one of these.
constexpr u32 done = 100, table_full = 101;
struct outcome {
    u32 status;
    u64 built, matches, sum;
};
constexpr u64 nobody = ~0ull;

// Row `i` of the build side and of the probe side. About a third of the keys come more than once.
static row build_row(u64 i, u64 rows) { return {mix(i) % (rows * 2), mix(i ^ 1ull << 60)}; }
static row probe_row(u64 i, u64 rows) { return {mix(i ^ 1ull << 61) % (rows * 2), mix(i ^ 1ull << 62)}; }
static u32 partition_of(u64 key, u32 partitions) { return static_cast<u32>(mix(key) >> 40) % partitions; }

struct join {
    const zg::ring *rings;
    row *tables;            // one of `slots` rows per partition, its keys `nobody`
    u32 slots;              // a power of two
    const row *probe;       // by partition: that of `p` is probe[from[p]] to probe[from[p + 1]]
    const u64 *from;
    outcome *outcomes;

    ZSR_GPU u32 slot_of(u64 key) const { return static_cast<u32>(mix(key)) & (slots - 1); }

    template <class Group> ZSR_GPU void operator()(u32 p, const Group &g) const {
        outcome &out = outcomes[p];
        row *table = tables + static_cast<u64>(p) * slots;
        zg::consumer in(rings[p], g);
        zg::segment s;
        u64 built = 0;
        u32 bad = done;
        zg::status got;
        while ((got = zg::next_segment(in, g, s)) == zg::status::ok) {
            // Rows that the table has no room for are popped all the same: a consumer that stops would stop the others, too. One slot stays
            // free, at which a search for a key that is not there ends.
            if (s.count > 0 && s.tuple != sizeof(row)) bad = static_cast<u32>(zg::status::damaged);
            else if (built + s.count >= slots) bad = table_full;
            for (u32 i = g.rank(); i < s.count && bad == done; i += g.size()) {
                row r;
                s.get(i, &r);
                u32 at = slot_of(r.key);
                while (!take(table[at].key, nobody, r.key)) at = (at + 1) & (slots - 1);
                table[at].value = r.value;
            }
            built += s.count;
            in.release(g, 1);
        }
        if (got != zg::status::closed) bad = static_cast<u32>(got);
        g.sync();
        u64 matches = 0, sum = 0;
        for (u64 i = from[p] + g.rank(); i < from[p + 1] && bad == done; i += g.size()) {
            for (u32 at = slot_of(probe[i].key); table[at].key != nobody; at = (at + 1) & (slots - 1)) {
                if (table[at].key != probe[i].key) continue;
                matches += 1;
                sum += table[at].value * probe[i].value;
            }
        }
        add(out.matches, matches);
        add(out.sum, sum);
        if (g.rank() == 0) {
            out.status = bad;
            out.built = built;
        }
    }
};

static int build(u64 rows) {
    zsr::producer out("build");
    const u32 partitions = static_cast<u32>(out.consumers());
    for (u64 i = 0; i < rows; ++i) {
        row r = build_row(i, rows);
        out.push_value(r, static_cast<std::int32_t>(partition_of(r.key, partitions)));
    }
    out.close();
    std::printf("build: %llu rows to %u partitions\n", rows, partitions);
    return 0;
}

static int probe(u64 build_rows, u64 probe_rows, u32 partitions) {
    std::vector<zg::ring> rings;
    std::vector<std::unique_ptr<member>> members;
    for (u32 p = 0; p < partitions; ++p) {
        members.push_back(std::make_unique<member>(member::consumes, "build", "p" + std::to_string(p)));
        rings.push_back(members.back()->all.at(0));
    }
    std::vector<std::vector<row>> parts(partitions);
    for (u64 i = 0; i < probe_rows; ++i) {
        row r = probe_row(i, build_rows);
        parts[partition_of(r.key, partitions)].push_back(r);
    }
    std::vector<row> all;
    std::vector<u64> from{0};
    for (const auto &part : parts) {
        all.insert(all.end(), part.begin(), part.end());
        from.push_back(all.size());
    }
    // Twice the rows that a partition has on average, and no less than a thousand.
    u32 slots = 1024;
    while (slots < 2 * build_rows / partitions) slots *= 2;

    array<zg::ring> d_rings(rings);
    array<row> tables(std::vector<row>(static_cast<u64>(slots) * partitions, row{nobody, 0})), d_probe(all);
    array<u64> d_from(from);
    array<outcome> outcomes(std::vector<outcome>(partitions, outcome{98, 0, 0, 0}));
    running(join{d_rings.at(), tables.at(), slots, d_probe.at(), d_from.at(), outcomes.at()}, partitions).wait();

    outcome total{done, 0, 0, 0};
    for (const outcome &one : outcomes.values()) {
        if (one.status == table_full) fail("the hash table of a partition is full: more rows came than `join probe` was told");
        if (one.status != done) fail("a partition's ring ended with status " + std::to_string(one.status) + " of zsr.cuh, behind " + std::to_string(one.built) + " rows");
        total = {done, total.built + one.built, total.matches + one.matches, total.sum + one.sum};
    }

    std::unordered_multimap<u64, u64> table;
    outcome wanted{done, build_rows, 0, 0};
    for (u64 i = 0; i < build_rows; ++i) {
        row r = build_row(i, build_rows);
        table.emplace(r.key, r.value);
    }
    for (const row &r : all) {
        for (auto [at, end] = table.equal_range(r.key); at != end; ++at) {
            wanted.matches += 1;
            wanted.sum += at->second * r.value;
        }
    }
    std::printf("join: %llu rows built, %llu matches, sum %016llx\n", total.built, total.matches, total.sum);
    if (total.built != wanted.built || total.matches != wanted.matches || total.sum != wanted.sum) {
        fail("the CPU's join is another: " + std::to_string(wanted.built) + " rows, " + std::to_string(wanted.matches) + " matches");
    }
    return 0;
}

int main(int argc, char **argv) try {
    const std::string what = argc > 1 ? argv[1] : "";
    auto number = [&](int i) { return std::strtoull(argv[i], nullptr, 10); };
    if (what == "build" && argc == 3) return build(number(2));
    if (what == "probe" && argc == 5 && number(4) > 0) return probe(number(2), number(3), static_cast<u32>(number(4)));
    std::fprintf(stderr, "join build ROWS, or join probe BUILD_ROWS PROBE_ROWS PARTITIONS\n");
    return 2;
} catch (const std::exception &e) {
    fail(e.what());
}
