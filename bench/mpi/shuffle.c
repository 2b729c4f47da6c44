// The shuffle of bench/src/baseline/pu.rs by MPI_Alltoallv: each rank makes tuples, routes each by its key into a buffer per target, and all
// exchange their buffers when one of them is full.
//
//     shuffle TUPLE_BYTES TUPLES_PER_RANK BUFFER_BYTES
//
// Rank 0 prints seconds, tuples and the sum of keys. Under callgrind, what is counted is all that a rank does for the shuffle.

#include <inttypes.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_TOGGLE_COLLECT
#endif

static int route(uint64_t key, int ranks) {
    return (int)(((key * UINT64_C(0x9e3779b97f4a7c15) >> 32) * (uint64_t)ranks) >> 32);
}

static uint64_t next_key(uint64_t key) {
    return key * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 4) {
        fprintf(stderr, "usage: shuffle TUPLE_BYTES TUPLES_PER_RANK BUFFER_BYTES\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    size_t size = strtoul(argv[1], NULL, 10), buffer = strtoul(argv[3], NULL, 10);
    uint64_t left = strtoull(argv[2], NULL, 10);
    char *tuple = malloc(size), *out = malloc(buffer * ranks), *in = malloc(buffer * ranks);
    int *counts = calloc(4 * ranks, sizeof(int));
    int *from = counts + ranks, *at = from + ranks, *in_at = at + ranks;
    if (!tuple || !out || !in || !counts) MPI_Abort(MPI_COMM_WORLD, 3);
    for (size_t n = 0; n < size; n++) tuple[n] = (char)(n * 7);
    memset(out, 0, buffer * ranks);
    memset(in, 0, buffer * ranks);
    for (int r = 0; r < ranks; r++) at[r] = in_at[r] = (int)(buffer * r);

    uint64_t key = next_key((uint64_t)rank << 48), tuples = 0, keys = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    CALLGRIND_TOGGLE_COLLECT;
    for (;;) {
        memset(counts, 0, ranks * sizeof(int));
        while (left > 0) {
            int to = route(key, ranks);
            if (counts[to] + size > buffer) break;
            memcpy(tuple, &key, 8);
            memcpy(tuple + 8, &key, 8);
            memcpy(out + at[to] + counts[to], tuple, size);
            counts[to] += (int)size;
            key = next_key(key), left--;
        }
        // Ranks that have nothing more go on until nobody has.
        MPI_Alltoall(counts, 1, MPI_INT, from, 1, MPI_INT, MPI_COMM_WORLD);
        MPI_Alltoallv(out, counts, at, MPI_BYTE, in, from, in_at, MPI_BYTE, MPI_COMM_WORLD);
        for (int r = 0; r < ranks; r++)
            for (int done = 0; done < from[r]; done += (int)size) {
                uint64_t found;
                memcpy(&found, in + in_at[r] + done, 8);
                tuples++, keys += found;
            }
        int more = left > 0, any;
        MPI_Allreduce(&more, &any, 1, MPI_INT, MPI_LOR, MPI_COMM_WORLD);
        if (!any) break;
    }
    CALLGRIND_TOGGLE_COLLECT;
    MPI_Barrier(MPI_COMM_WORLD);
    double seconds = MPI_Wtime() - start;
    uint64_t own[2] = {tuples, keys}, all[2];
    MPI_Reduce(own, all, 2, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("%.9f %" PRIu64 " %" PRIu64 "\n", seconds, all[0], all[1]);
    MPI_Finalize();
    return 0;
}
