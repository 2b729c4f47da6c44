/* The peer of benches/beside_swx.rs: hop-pna.p4 in DPDK's software pipeline (SWX), on one core, with packets in memory.
 *
 *     gcc -O3 -march=native $(pkg-config --cflags libdpdk) -o swx swx.c $(pkg-config --libs libdpdk)
 *     swx code hop.spec hop.c
 *     gcc -O3 -march=native -fpic -shared $(pkg-config --cflags libdpdk) -I dpdk/lib/pipeline -o hop.so hop.c
 *     swx ip|ethernet ENTRIES $PWD/hop.so
 *
 * DPDK makes C of the .spec, which needs headers that are in DPDK's sources only (lib/pipeline of the version that is installed).
 *
 * Packets go round: out of a ring, through the pipeline, into another ring, and back. Says packets per second, and entries per second. */
#define ALLOW_EXPERIMENTAL_API
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_eal.h>
#include <rte_mbuf.h>
#include <rte_ring.h>
#include <rte_swx_ctl.h>
#include <rte_swx_pipeline.h>

enum { FLOWS = 4096, LENGTH = 100, BURST = 32, PACKETS = 20000000 };

static void must(int rc, const char *what) {
    if (rc) {
        fprintf(stderr, "%s: error %d\n", what, rc);
        exit(1);
    }
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

/* Addresses of entries, in no order. A MAC address is 02:00 and this. */
static uint32_t address(uint32_t n) { return 0x0a000000u | ((n * 2654435761u) & 0xffffffu); }

static void fill(uint8_t *p, int ip, uint32_t to) {
    uint8_t bytes[4] = {to >> 24, to >> 16, to >> 8, to};
    memset(p, 0, LENGTH);
    p[0] = 2;
    memcpy(p + 2, bytes, 4);
    p[6] = 4;
    if (ip) {
        memcpy(p + 12, (uint8_t[]){8, 0, 0x45}, 3);
        p[22] = 64;
        memcpy(p + 30, bytes, 4);
    } else {
        memcpy(p + 12, (uint8_t[]){0x88, 0xb5}, 2);
    }
}

static struct rte_swx_pipeline *build(const char *file) {
    struct rte_swx_pipeline *p = NULL;
    FILE *ports = tmpfile();
    fprintf(ports, "port in 0 ring in bsz %d\nport out 0 ring none bsz %d\nport out 1 ring out bsz %d\nport out 2 ring dropped bsz %d\n",
            BURST, BURST, BURST, BURST);
    rewind(ports);
    must(rte_swx_pipeline_build_from_lib(&p, "hop", file, ports, 0), file);
    return p;
}

static double add(struct rte_swx_pipeline *p, int ip, uint32_t entries) {
    struct rte_swx_ctl_pipeline *ctl = rte_swx_ctl_pipeline_create(p);
    if (!ctl) must(-1, "control");
    const char *table = ip ? "hosts" : "stations";
    double begun = now();
    for (uint32_t n = 0; n < entries; n++) {
        char text[128];
        int blank = 0;
        if (ip) snprintf(text, sizeof text, "match 0x%08x action route mac 0x060000000001 port 0x1", address(n));
        else snprintf(text, sizeof text, "match 0x0200%08x action forward port 0x1", address(n));
        struct rte_swx_table_entry *e = rte_swx_ctl_pipeline_table_entry_read(ctl, table, text, &blank);
        must(!e || rte_swx_ctl_pipeline_table_entry_add(ctl, table, e), text);
    }
    must(rte_swx_ctl_pipeline_commit(ctl, 1), "commit");
    return now() - begun;
}

int main(int argc, char **argv) {
    char *eal[] = {argv[0], "--no-huge", "-m", "2048", "--no-pci", "--no-telemetry", "--no-shconf", "-l", "0", "--log-level", "3", NULL};
    must(rte_eal_init(11, eal) < 0, "EAL");
    if (argc == 4 && !strcmp(argv[1], "code")) {
        FILE *spec = fopen(argv[2], "r"), *code = fopen(argv[3], "w");
        uint32_t line = 0;
        const char *why = "it can't be opened";
        if (!spec || !code || rte_swx_pipeline_codegen(spec, code, &line, &why)) {
            fprintf(stderr, "%s to %s, line %u: %s\n", argv[2], argv[3], line, why);
            return 1;
        }
        return fclose(code);
    }
    if (argc != 4) must(-1, "usage: swx ip|ethernet ENTRIES FILE");
    int ip = !strcmp(argv[1], "ip");
    uint32_t entries = strtoul(argv[2], NULL, 10);
    struct rte_mempool *pool = rte_pktmbuf_pool_create("packets", 2 * FLOWS - 1, 0, 0, 512 + RTE_PKTMBUF_HEADROOM, 0);
    struct rte_ring *in = rte_ring_create("in", 2 * FLOWS, 0, RING_F_SP_ENQ | RING_F_SC_DEQ);
    struct rte_ring *out = rte_ring_create("out", 2 * FLOWS, 0, RING_F_SP_ENQ | RING_F_SC_DEQ);
    struct rte_ring *dropped = rte_ring_create("dropped", 2 * FLOWS, 0, RING_F_SP_ENQ | RING_F_SC_DEQ);
    struct rte_ring *none = rte_ring_create("none", 2 * FLOWS, 0, RING_F_SP_ENQ | RING_F_SC_DEQ);
    must(!pool || !in || !out || !dropped || !none, "memory");
    struct rte_swx_pipeline *p = build(argv[3]);
    double took = add(p, ip, entries);
    for (uint32_t n = 0; n < FLOWS; n++) {
        struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
        fill((uint8_t *)rte_pktmbuf_append(m, LENGTH), ip, address((n * 251) % entries));
        must(rte_ring_enqueue(in, m), "ring");
    }
    uint64_t moved = 0;
    double begun = 0;
    for (uint64_t end = PACKETS + FLOWS; moved < end;) {
        /* The first round warms up. */
        if (begun == 0 && moved >= FLOWS) begun = now(), moved = 0, end = PACKETS;
        rte_swx_pipeline_run(p, 1000);
        void *burst[256];
        unsigned got = rte_ring_dequeue_burst(out, burst, 256, NULL);
        if (got) must(rte_ring_enqueue_bulk(in, burst, got, NULL) != got, "ring");
        moved += got;
    }
    double seconds = now() - begun;
    if (rte_ring_count(dropped) || rte_ring_count(none)) must(-1, "packets were dropped");
    printf("%.0f packets/s, %.0f entries/s\n", moved / seconds, entries / took);
    return 0;
}
