/* What zsr.h promises, on a running system. check PART; parts are below, and tests/capi/check.py makes the flows that they need. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zsr.h>

#define EXPECT(what) \
    ((what) ? (void)0 : (fprintf(stderr, "%s:%d: not so: %s (last error: %s)\n", __FILE__, __LINE__, #what, zsr_last_error()), exit(1)))
#define SAYS(words) EXPECT(strstr(zsr_last_error(), words))
#define OK(call) EXPECT((call) == ZSR_OK)

typedef struct {
    uint64_t n;
    double x;
} row;

static zsr_producer *producer(const char *flow, const zsr_options *options) {
    zsr_producer *p;
    OK(zsr_producer_attach(flow, options, &p));
    return p;
}

static zsr_consumer *consumer(const char *flow, const zsr_options *options) {
    zsr_consumer *c;
    OK(zsr_consumer_attach(flow, options, &c));
    return c;
}

/* Without a system: nothing that can be checked is undefined. */
static void arguments(void) {
    zsr_producer *p = NULL;
    zsr_consumer *c = NULL;
    size_t n = 0;
    const uint8_t *data;
    EXPECT(zsr_abi_version() == ZSR_ABI_VERSION);
    EXPECT(!strcmp(zsr_last_error(), ""));
    EXPECT(!strcmp(zsr_status_name(ZSR_END), "ZSR_END") && !strcmp(zsr_status_name(77), "unknown"));
    EXPECT(zsr_producer_attach("f", NULL, NULL) == ZSR_ERROR_INVALID);
    SAYS("producer is null");
    EXPECT(zsr_producer_push(NULL, ZSR_TO_KEY, "x", 1, 0) == ZSR_ERROR_INVALID);
    SAYS("the handle is null");
    EXPECT(zsr_consumer_pop(NULL, &n, sizeof n, 0, &n) == ZSR_ERROR_INVALID);
    EXPECT(zsr_producer_close(NULL) == ZSR_ERROR_INVALID && zsr_consumer_leave(NULL) == ZSR_ERROR_INVALID);
    EXPECT(zsr_cancel_trigger(NULL) == ZSR_ERROR_INVALID);
    zsr_cancel_free(NULL);

    zsr_options o = ZSR_OPTIONS_INIT;
    o.abi = 2;
    EXPECT(zsr_producer_attach("f", &o, &p) == ZSR_ERROR_ABI && !p);
    SAYS("ABI version 2");
    o.abi = ZSR_ABI_VERSION;
    o.size = 8;
    EXPECT(zsr_consumer_attach("f", &o, &c) == ZSR_ERROR_ABI && !c);
    SAYS("options.size is 8, expected");
    /* A later header's options, which ask for nothing that is new, or for something. */
    struct {
        zsr_options o;
        uint64_t later;
    } later = {ZSR_OPTIONS_INIT, 0};
    later.o.size = sizeof later;
    EXPECT(zsr_producer_attach("f", &later.o, &p) == ZSR_ERROR_NOT_FOUND);
    later.later = 1;
    EXPECT(zsr_producer_attach("f", &later.o, &p) == ZSR_ERROR_ABI);
    zsr_options bad = ZSR_OPTIONS_INIT;
    bad.schema = "id: u7";
    EXPECT(zsr_producer_attach("f", &bad, &p) == ZSR_ERROR_INVALID);
    SAYS("options.schema: column `id`: `u7` is no type");
    bad.schema = "\xff";
    EXPECT(zsr_producer_attach("f", &bad, &p) == ZSR_ERROR_INVALID);
    SAYS("not UTF-8");
    zsr_options where = ZSR_OPTIONS_INIT;
    where.system = "nowhere";
    EXPECT(zsr_producer_attach("f", &where, &p) == ZSR_ERROR_NOT_FOUND);
    SAYS("no system `nowhere` is up; start it with: zsr up");
    EXPECT(zsr_barrier("b", 2, 0, NULL) == ZSR_ERROR_NOT_FOUND);

    /* Batches of no handle, such as a program could make up. */
    zsr_batch b = ZSR_BATCH_INIT;
    EXPECT(zsr_batch_next(&b, &data, &n) == ZSR_END);
    EXPECT(zsr_batch_next(NULL, &data, &n) == ZSR_ERROR_INVALID && zsr_batch_next(&b, NULL, &n) == ZSR_ERROR_INVALID);
    b.size = 1;
    EXPECT(zsr_batch_next(&b, &data, &n) == ZSR_ERROR_ABI);
    const uint8_t lies[] = {2, 0, 0, 0, 'o', 'k', 9, 0, 0, 0, 'n', 'o'};
    zsr_batch l = {sizeof l, lies, sizeof lies, 2, 0, 0, 0, 0};
    OK(zsr_batch_next(&l, &data, &n));
    EXPECT(n == 2 && !memcmp(data, "ok", 2));
    EXPECT(zsr_batch_next(&l, &data, &n) == ZSR_ERROR_DAMAGED);
}

/* Flow `rows`: records of any length. */
static void records(void) {
    zsr_producer *p = producer("rows", NULL), *second = NULL;
    zsr_consumer *c = consumer("rows", NULL);
    const char *text;
    size_t n = 9;
    uint8_t *place, buffer[64];
    const uint8_t *data;
    uint32_t size = 9;
    OK(zsr_producer_member(p, &text));
    EXPECT(!strcmp(text, "h1"));
    OK(zsr_consumer_schema(c, &text));
    EXPECT(!strcmp(text, ""));
    OK(zsr_producer_record_size(p, &size));
    OK(zsr_producer_consumers(p, &n));
    EXPECT(size == 0 && n == 1);
    EXPECT(zsr_producer_attach("rows", NULL, &second) == ZSR_ERROR_RING && !second);
    SAYS("has its producer already");
    EXPECT(zsr_producer_attach("no-such", NULL, &second) == ZSR_ERROR_NOT_FOUND);
    SAYS("no-such");

    /* Nothing there, at once and in time. */
    EXPECT(zsr_consumer_pop(c, buffer, sizeof buffer, 0, &n) == ZSR_AGAIN && n == 0);
    EXPECT(zsr_consumer_pop(c, buffer, sizeof buffer, 1000, &n) == ZSR_AGAIN);
    OK(zsr_producer_push(p, ZSR_TO_KEY, "one", 3, ZSR_FOREVER));
    OK(zsr_producer_push(p, 0, NULL, 0, 0));
    EXPECT(zsr_producer_push(p, 1, "x", 1, 0) == ZSR_ERROR_ROUTE);
    EXPECT(zsr_producer_push(p, -2, "x", 1, 0) == ZSR_ERROR_INVALID);
    EXPECT(zsr_producer_push(p, 0, NULL, 1, 0) == ZSR_ERROR_INVALID);
    EXPECT(zsr_producer_push(p, 0, buffer, SIZE_MAX, 0) == ZSR_ERROR_INVALID);
    EXPECT(zsr_producer_push_rows(p, 0, buffer, 2, 0, NULL) == ZSR_ERROR_SCHEMA);
    SAYS("does not say how many bytes its records have");
    /* In place: what is not published is not there. */
    EXPECT(zsr_producer_publish(p, 1) == ZSR_ERROR_INVALID);
    OK(zsr_producer_reserve(p, ZSR_TO_KEY, 10, 0, &place, &n));
    EXPECT(n == 10);
    memcpy(place, "in place??", 10);
    EXPECT(zsr_producer_publish(p, 11) == ZSR_ERROR_SIZE);
    OK(zsr_producer_publish(p, 8));
    OK(zsr_producer_reserve(p, ZSR_TO_KEY, 10, 0, &place, &n));
    OK(zsr_producer_flush(p));
    EXPECT(zsr_producer_publish(p, 8) == ZSR_ERROR_INVALID);

    /* A record that is too long for the buffer stays. */
    EXPECT(zsr_consumer_pop(c, buffer, 2, ZSR_FOREVER, &n) == ZSR_ERROR_SIZE && n == 3);
    OK(zsr_consumer_pop(c, buffer, sizeof buffer, 0, &n));
    EXPECT(n == 3 && !memcmp(buffer, "one", 3));
    /* What is peeked is what is left, until it is released. */
    zsr_batch b = ZSR_BATCH_INIT;
    for (int i = 0; i < 2; i++) {
        OK(zsr_consumer_peek(c, 0, &b));
        EXPECT(b.count == 2 && b.record_size == 0);
        OK(zsr_batch_next(&b, &data, &n));
        EXPECT(n == 0);
        OK(zsr_batch_next(&b, &data, &n));
        EXPECT(n == 8 && !memcmp(data, "in place", 8));
        EXPECT(zsr_batch_next(&b, &data, &n) == ZSR_END);
    }
    OK(zsr_consumer_release(c, 1));
    /* Whoever leaves with a batch half done leaves the rest to the next. */
    OK(zsr_consumer_leave(c));
    c = consumer("rows", NULL);
    OK(zsr_consumer_peek(c, ZSR_FOREVER, &b));
    EXPECT(b.count == 1);
    OK(zsr_consumer_release(c, ZSR_ALL));
    EXPECT(zsr_consumer_release(c, ZSR_ALL) == ZSR_ERROR_INVALID);
    b.size = 1;
    EXPECT(zsr_consumer_peek(c, 0, &b) == ZSR_ERROR_ABI);

    /* Batches that are taken stay while others are popped, and are given back in any order. */
    zsr_batch taken[3] = {ZSR_BATCH_INIT, ZSR_BATCH_INIT, ZSR_BATCH_INIT};
    for (int i = 0; i < 3; i++) {
        OK(zsr_producer_push(p, 0, &"abc"[i], 1, ZSR_FOREVER));
        OK(zsr_producer_flush(p));
        OK(zsr_consumer_take(c, ZSR_FOREVER, &taken[i]));
    }
    for (int i = 0; i < 3; i++) {
        zsr_batch copy = taken[i];
        OK(zsr_batch_next(&copy, &data, &n));
        EXPECT(n == 1 && *data == "abc"[i]);
    }
    OK(zsr_consumer_give_back(c, &taken[1]));
    OK(zsr_consumer_give_back(c, &taken[0]));
    EXPECT(zsr_consumer_give_back(c, &taken[0]) == ZSR_ERROR_INVALID);
    OK(zsr_consumer_give_back(c, &taken[2]));

    uint64_t left = 9;
    OK(zsr_producer_settle(p, ZSR_FOREVER, &left));
    EXPECT(left == 0);
    OK(zsr_producer_leave(p));
    p = producer("rows", NULL);
    OK(zsr_producer_close(p));
    EXPECT(zsr_consumer_peek(c, ZSR_FOREVER, (b.size = sizeof b, &b)) == ZSR_END);
    OK(zsr_consumer_leave(c));
    EXPECT(zsr_producer_attach("rows", NULL, &second) == ZSR_ERROR_RING);
}

/* Flow `typed`: `n: u64, x: f64`, rings of two items of 64 B, which hold two rows each. */
static void rows(void) {
    zsr_options o = ZSR_OPTIONS_INIT;
    zsr_producer *p = NULL;
    o.schema = "n: u64";
    EXPECT(zsr_producer_attach("typed", &o, &p) == ZSR_ERROR_SCHEMA);
    SAYS("has tuples (n: u64, x: f64), the program expects tuples (n: u64)");
    o.schema = NULL;
    o.record_size = 5;
    EXPECT(zsr_producer_attach("typed", &o, &p) == ZSR_ERROR_SCHEMA);
    o.record_size = 0;
    o.member = "h9";
    EXPECT(zsr_producer_attach("typed", &o, &p) == ZSR_ERROR_NOT_FOUND);
    o.member = "h1";
    o.schema = "n: u64, x: f64";
    p = producer("typed", &o);
    zsr_consumer *c = consumer("typed", NULL);
    const zsr_column *columns;
    size_t n, sent, got = 0;
    OK(zsr_consumer_columns(c, &columns, &n));
    EXPECT(n == 2 && !strcmp(columns[1].name, "x") && columns[1].kind == ZSR_TYPE_FLOAT);
    EXPECT(columns[0].width == 8 && columns[1].offset == 8);
    row all[100], back[100];
    for (int i = 0; i < 100; i++) all[i] = (row){(uint64_t)i, i / 2.0};
    EXPECT(zsr_producer_push(p, 0, all, 15, 0) == ZSR_ERROR_SIZE);
    SAYS("a tuple of 15 B was given to a writer of tuples of 16 B");
    EXPECT(zsr_producer_push_rows(p, 0, all, SIZE_MAX / 2, 0, &n) == ZSR_ERROR_INVALID);
    /* Nobody pops: eight rows fit the rings, whatever the patience. */
    EXPECT(zsr_producer_push_rows(p, ZSR_TO_KEY, all, 100, 0, &sent) == ZSR_AGAIN);
    while (sent < 8) {
        EXPECT(zsr_producer_push_rows(p, ZSR_TO_KEY, all + sent, 100 - sent, 1000, &n) == ZSR_AGAIN);
        sent += n;
    }
    EXPECT(sent == 8 && zsr_producer_push(p, 0, &all[8], sizeof(row), 1000) == ZSR_AGAIN);
    uint8_t *place;
    EXPECT(zsr_producer_reserve(p, 0, sizeof(row), 0, &place, &n) == ZSR_AGAIN && !place && !n);
    EXPECT(zsr_consumer_pop_rows(c, back, 15, 100, ZSR_FOREVER, &n) == ZSR_ERROR_SIZE && n == 0);
    while (sent < 100) {
        zsr_status status = zsr_consumer_pop_rows(c, back + got, sizeof(row), 3, 0, &n);
        EXPECT(status == ZSR_OK ? n >= 1 && n <= 3 : status == ZSR_AGAIN && n == 0);
        got += n;
        status = zsr_producer_reserve(p, 0, 3 * sizeof(row), 0, &place, &n);
        if (status == ZSR_AGAIN) continue;
        OK(status);
        EXPECT(n == sizeof(row) || n == 2 * sizeof(row));
        if (n > (100 - sent) * sizeof(row)) n = (100 - sent) * sizeof(row);
        memcpy(place, all + sent, n);
        EXPECT(zsr_producer_publish(p, 7) == ZSR_ERROR_SIZE);
        OK(zsr_producer_publish(p, n));
        sent += n / sizeof(row);
    }
    OK(zsr_producer_close(p));
    zsr_status status;
    while ((status = zsr_consumer_pop_rows(c, back + got, sizeof(row), 100 - got ? 100 - got : 1, ZSR_FOREVER, &n)) == ZSR_OK) got += n;
    EXPECT(status == ZSR_END && got == 100 && !memcmp(all, back, sizeof all));
    OK(zsr_consumer_leave(c));
}

#define MANY 20000

static void *push_many(void *handle) {
    for (uint64_t i = 0; i < MANY; i++) OK(zsr_producer_push(handle, ZSR_TO_KEY, &i, sizeof i, ZSR_FOREVER));
    EXPECT(zsr_producer_push(handle, 7, "x", 1, 0) == ZSR_ERROR_ROUTE);
    SAYS("consumer 7 was chosen");
    OK(zsr_producer_close(handle));
    return NULL;
}

static void *pop_many(void *handle) {
    uint64_t expected = 0, value;
    zsr_batch b = ZSR_BATCH_INIT;
    zsr_status status;
    /* Errors of other threads are not this one's. */
    EXPECT(!strcmp(zsr_last_error(), ""));
    while ((status = zsr_consumer_take(handle, ZSR_FOREVER, &b)) == ZSR_OK) {
        zsr_batch copy = b;
        const uint8_t *data;
        size_t n;
        while (zsr_batch_next(&copy, &data, &n) == ZSR_OK) {
            EXPECT(n == sizeof value);
            memcpy(&value, data, n);
            EXPECT(value == expected++);
        }
        OK(zsr_consumer_give_back(handle, &b));
    }
    EXPECT(status == ZSR_END && expected == MANY);
    return NULL;
}

static void *wait_for_cancel(void *handle) {
    size_t n;
    EXPECT(zsr_consumer_pop(handle, &n, sizeof n, ZSR_FOREVER, &n) == ZSR_ERROR_CANCELLED);
    SAYS("cancelled");
    return NULL;
}

/* Flow `many`: a thread that pushes and one that pops; flow `quiet`: one that waits, and is cancelled. */
static void threads(void) {
    pthread_t pushing, popping, waiting;
    zsr_cancel *cancel = zsr_cancel_new();
    zsr_options o = ZSR_OPTIONS_INIT;
    o.cancel = cancel;
    zsr_consumer *quiet = consumer("quiet", &o), *c = consumer("many", NULL);
    pthread_create(&waiting, NULL, wait_for_cancel, quiet);
    pthread_create(&pushing, NULL, push_many, producer("many", NULL));
    pthread_create(&popping, NULL, pop_many, c);
    pthread_join(pushing, NULL);
    pthread_join(popping, NULL);
    OK(zsr_consumer_leave(c));
    /* The other thread is in its call, or about to be: then this one is in first, and there is nothing to pop. */
    size_t n;
    zsr_status status;
    while ((status = zsr_consumer_pop(quiet, &n, sizeof n, 0, &n)) == ZSR_AGAIN) {}
    EXPECT(status == ZSR_ERROR_BUSY && zsr_consumer_leave(quiet) == ZSR_ERROR_BUSY);
    OK(zsr_cancel_trigger(cancel));
    pthread_join(waiting, NULL);
    OK(zsr_consumer_leave(quiet));
    zsr_cancel_free(cancel);
}

/* Flow `news`: items of one record each, in rings of four. */
static void newest(void) {
    zsr_producer *p = producer("news", NULL);
    zsr_consumer *c = consumer("news", NULL);
    zsr_batch b = ZSR_BATCH_INIT;
    uint64_t left, value = 0;
    uint8_t buffer[8];
    size_t n;
    EXPECT(zsr_consumer_take_newest(c, 0, &b) == ZSR_AGAIN && zsr_consumer_take_newest(c, 1000, &b) == ZSR_AGAIN);
    b.size = 1;
    EXPECT(zsr_consumer_take_newest(c, 0, &b) == ZSR_ERROR_ABI);
    b.size = sizeof b;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4; i++) {
            OK(zsr_producer_push(p, 0, &value, sizeof value, ZSR_FOREVER));
            OK(zsr_producer_flush(p));
            value++;
        }
        OK(zsr_producer_settle(p, ZSR_FOREVER, &left));
        EXPECT(left == 0);
        /* One that is shown, or begun, goes with those that are older. */
        if (round == 1) OK(zsr_consumer_peek(c, 0, &b));
        if (round == 2) OK(zsr_consumer_pop(c, buffer, sizeof buffer, 0, &n));
        const uint8_t *data;
        zsr_batch copy;
        OK(zsr_consumer_take_newest(c, round == 0 ? 0 : ZSR_FOREVER, &b));
        copy = b;
        OK(zsr_batch_next(&copy, &data, &n));
        EXPECT(b.count == 1 && n == sizeof value && !memcmp(data, &(uint64_t){value - 1}, n));
        EXPECT(zsr_consumer_take_newest(c, 0, &copy) == ZSR_AGAIN);
        OK(zsr_consumer_give_back(c, &b));
    }
    /* Whoever keeps all that the ring holds gets no more. */
    zsr_batch all[4] = {ZSR_BATCH_INIT, ZSR_BATCH_INIT, ZSR_BATCH_INIT, ZSR_BATCH_INIT};
    for (int i = 0; i < 4; i++) {
        OK(zsr_producer_push(p, 0, &value, sizeof value, ZSR_FOREVER));
        OK(zsr_producer_flush(p));
        OK(zsr_consumer_take(c, ZSR_FOREVER, &all[i]));
    }
    EXPECT(zsr_consumer_take(c, ZSR_FOREVER, &b) == ZSR_ERROR_INVALID && zsr_consumer_take_newest(c, 0, &b) == ZSR_ERROR_INVALID);
    SAYS("the whole ring of 4 items is held");
    EXPECT(zsr_consumer_most_urgent(&c, 1, 0, &n) == ZSR_ERROR_INVALID && n == 0);
    for (int i = 0; i < 4; i++) OK(zsr_consumer_give_back(c, &all[i]));
    OK(zsr_producer_close(p));
    EXPECT(zsr_consumer_take_newest(c, ZSR_FOREVER, &b) == ZSR_END);
    OK(zsr_consumer_leave(c));
}

static void push_and_settle(zsr_producer *p, const void *record, size_t length) {
    uint64_t left;
    OK(zsr_producer_push(p, ZSR_TO_KEY, record, length, ZSR_FOREVER));
    OK(zsr_producer_settle(p, ZSR_FOREVER, &left));
}

static void *most_urgent_until_cancelled(void *handles) {
    size_t at = 9;
    EXPECT(zsr_consumer_most_urgent(handles, 2, ZSR_FOREVER, &at) == ZSR_ERROR_CANCELLED && at == 0);
    return NULL;
}

/* Flows `urgent` and `bulk`. */
static void urgent(void) {
    zsr_cancel *cancel = zsr_cancel_new();
    zsr_options o = ZSR_OPTIONS_INIT;
    o.cancel = cancel;
    zsr_producer *u = producer("urgent", NULL), *b = producer("bulk", NULL);
    zsr_consumer *both[] = {consumer("urgent", &o), consumer("bulk", NULL)}, *wrong[] = {both[1], NULL}, *twice[] = {both[1], both[1]};
    size_t at = 9, n;
    char got[8];
    EXPECT(zsr_consumer_most_urgent(NULL, 2, 0, &at) == ZSR_ERROR_INVALID && zsr_consumer_most_urgent(both, 0, 0, &at) == ZSR_ERROR_INVALID);
    EXPECT(zsr_consumer_most_urgent(both, SIZE_MAX / 2, 0, &at) == ZSR_ERROR_INVALID);
    EXPECT(zsr_consumer_most_urgent(both, 2, 0, NULL) == ZSR_ERROR_INVALID);
    EXPECT(zsr_consumer_most_urgent(wrong, 2, 0, &at) == ZSR_ERROR_INVALID && at == 1);
    SAYS("consumers[1] is null");
    EXPECT(zsr_consumer_most_urgent(twice, 2, 0, &at) == ZSR_ERROR_BUSY && at == 1);
    EXPECT(zsr_consumer_most_urgent(both, 2, 0, &at) == ZSR_AGAIN && zsr_consumer_most_urgent(both, 2, 1000, &at) == ZSR_AGAIN);
    push_and_settle(b, "b1", 2);
    push_and_settle(b, "b2", 2);
    push_and_settle(u, "u1", 2);
    const char *expected[] = {"u1", "b1", "b2"};
    for (int i = 0; i < 3; i++) {
        OK(zsr_consumer_most_urgent(both, 2, ZSR_FOREVER, &at));
        EXPECT(at == (i > 0));
        OK(zsr_consumer_pop(both[at], got, sizeof got, 0, &n));
        EXPECT(n == 2 && !memcmp(got, expected[i], 2));
    }
    EXPECT(zsr_consumer_most_urgent(both, 2, 0, &at) == ZSR_AGAIN);
    pthread_t waiting;
    pthread_create(&waiting, NULL, most_urgent_until_cancelled, both);
    OK(zsr_cancel_trigger(cancel));
    pthread_join(waiting, NULL);
    /* One whose stream has ended is passed over. */
    OK(zsr_producer_close(u));
    push_and_settle(b, "b3", 2);
    OK(zsr_consumer_most_urgent(both, 2, 0, &at));
    OK(zsr_consumer_pop(both[at], got, sizeof got, 0, &n));
    EXPECT(at == 1 && !memcmp(got, "b3", 2));
    OK(zsr_producer_close(b));
    zsr_status status;
    while ((status = zsr_consumer_most_urgent(both, 2, ZSR_FOREVER, &at)) == ZSR_ERROR_CANCELLED) {}
    EXPECT(status == ZSR_END);
    OK(zsr_consumer_leave(both[0]));
    OK(zsr_consumer_leave(both[1]));
    zsr_cancel_free(cancel);
}

#define SHOPS 3
#define SALES 5000

/* Flow `sales`: `shop: u16, n: i64, x: f64`, which has 18 B; flow `lines`: records of any length. */
static void combine(void) {
    zsr_combiner *k = NULL;
    const char *text, *sales = "shop: u16, n: i64, x: f64";
    EXPECT(zsr_combiner_new(NULL, NULL, "count", &k) == ZSR_ERROR_INVALID && zsr_combiner_new(sales, NULL, NULL, &k) == ZSR_ERROR_INVALID);
    EXPECT(zsr_combiner_new("shop: text", NULL, "count", &k) == ZSR_ERROR_INVALID && !k);
    EXPECT(zsr_combiner_new(sales, "shop", "median(n)", &k) == ZSR_ERROR_INVALID && !k);
    SAYS("`median(n)` is no aggregate");
    EXPECT(zsr_combiner_new(sales, "shop", "count", NULL) == ZSR_ERROR_INVALID && zsr_combiner_free(NULL) == ZSR_ERROR_INVALID);
    OK(zsr_combiner_new(sales, "shop", "count, sum(n), min(n), max(x), avg(x)", &k));
    OK(zsr_combiner_schema(k, &text));
    EXPECT(!strcmp(text, "shop: u16, count: u64, sum_n: i64, min_n: i64, max_x: f64, avg_x: f64"));
    const zsr_column *columns;
    size_t n;
    OK(zsr_combiner_columns(k, &columns, &n));
    EXPECT(n == 6 && columns[2].offset == 10 && columns[2].kind == ZSR_TYPE_INT && columns[5].offset == 34);
    EXPECT(zsr_combiner_add(k, (const uint8_t *)"x", 1) == ZSR_ERROR_SIZE);
    SAYS("the combiner is of rows (shop: u16, n: i64, x: f64)");
    EXPECT(zsr_consumer_combine(NULL, k, 0) == ZSR_ERROR_INVALID);

    zsr_producer *p = producer("sales", NULL);
    zsr_consumer *c = consumer("sales", NULL);
    EXPECT(zsr_consumer_combine(c, NULL, 0) == ZSR_ERROR_INVALID && zsr_consumer_combine(c, k, 0) == ZSR_AGAIN);
    int64_t count[SHOPS] = {0}, sum[SHOPS] = {0}, least[SHOPS] = {0}, value;
    double most[SHOPS] = {0}, all[SHOPS] = {0}, mean;
    for (int64_t i = 0; i < SALES; i++) {
        uint8_t row[18];
        uint16_t shop = (uint16_t)(i * i % SHOPS);
        int64_t v = 1000 - i;
        double x = (double)(i % 777) / 4;
        memcpy(row, &shop, 2), memcpy(row + 2, &v, 8), memcpy(row + 10, &x, 8);
        count[shop]++, sum[shop] += v, all[shop] += x;
        if (v < least[shop]) least[shop] = v;
        if (x > most[shop]) most[shop] = x;
        /* Its ring does not hold them all. */
        while (zsr_producer_push(p, ZSR_TO_KEY, row, sizeof row, 1000) == ZSR_AGAIN) EXPECT(zsr_consumer_combine(c, k, 0) == ZSR_AGAIN);
    }
    OK(zsr_producer_close(p));
    OK(zsr_consumer_combine(c, k, ZSR_FOREVER));
    OK(zsr_consumer_leave(c));
    zsr_batch b = ZSR_BATCH_INIT;
    OK(zsr_combiner_results(k, &b));
    size_t shops = 0, group = 0;
    for (int shop = 0; shop < SHOPS; shop++) {
        if (!count[shop]) continue;
        const uint8_t *row = b.data + group++ * b.record_size;
        EXPECT(b.record_size == 42 && *row == shop && row[1] == 0);
        EXPECT((memcpy(&value, row + 2, 8), value == count[shop]) && (memcpy(&value, row + 10, 8), value == sum[shop]));
        EXPECT((memcpy(&value, row + 18, 8), value == least[shop]) && !memcmp(row + 26, &most[shop], 8));
        mean = all[shop] / (double)count[shop];
        EXPECT(!memcmp(row + 34, &mean, 8));
        shops++;
    }
    EXPECT(b.count == shops && shops > 1);
    OK(zsr_combiner_free(k));

    /* Each record behind its length; one of another size stays. */
    OK(zsr_combiner_new("n: i64", "", "sum(n), count", &k));
    p = producer("lines", NULL), c = consumer("lines", NULL);
    value = INT64_MAX;
    OK(zsr_producer_push(p, ZSR_TO_KEY, &value, sizeof value, 0));
    OK(zsr_producer_push(p, ZSR_TO_KEY, "other", 5, 0));
    push_and_settle(p, &value, sizeof value);
    EXPECT(zsr_consumer_combine(c, k, ZSR_FOREVER) == ZSR_ERROR_SCHEMA);
    OK(zsr_combiner_results(k, &b));
    EXPECT(b.count == 1 && b.record_size == 16 && !memcmp(b.data, &value, 8) && b.data[8] == 1);
    char other[8];
    OK(zsr_consumer_pop(c, other, sizeof other, 0, &n));
    EXPECT(n == 5 && !memcmp(other, "other", 5));
    OK(zsr_producer_close(p));
    OK(zsr_consumer_combine(c, k, ZSR_FOREVER));
    EXPECT(zsr_combiner_results(k, &b) == ZSR_ERROR_SUM);
    SAYS("column `n`");
    OK(zsr_combiner_free(k));
    OK(zsr_consumer_leave(c));
}

/* The controller is replaced while a producer is attached: SIGPIPE, which ends a program in C, stays away. */
static void restart(void) {
    zsr_producer *p = producer("over", NULL);
    puts("waiting");
    fflush(stdout);
    EXPECT(getchar() == 'y');
    OK(zsr_producer_push(p, ZSR_TO_KEY, "x", 1, ZSR_FOREVER));
    OK(zsr_producer_leave(p));
    p = producer("over", NULL);
    puts("waiting");
    fflush(stdout);
    EXPECT(getchar() == 'y');
    OK(zsr_producer_close(p));
}

static void *pop_until_down(void *handle) {
    zsr_batch b = ZSR_BATCH_INIT;
    EXPECT(zsr_consumer_peek(handle, ZSR_FOREVER, &b) == ZSR_ERROR_ENDED);
    SAYS("quiet");
    return NULL;
}

/* The system goes down while a consumer and a producer wait. */
static void down(void) {
    pthread_t popping;
    zsr_consumer *c = consumer("quiet", NULL);
    zsr_producer *p = producer("full", NULL);
    char record[3000] = "x";
    zsr_status status;
    pthread_create(&popping, NULL, pop_until_down, c);
    puts("waiting");
    fflush(stdout);
    while ((status = zsr_producer_push(p, ZSR_TO_KEY, record, sizeof record, ZSR_FOREVER)) == ZSR_OK) {}
    EXPECT(status == ZSR_ERROR_ENDED);
    SAYS("flow `full`");
    EXPECT(zsr_producer_push(p, ZSR_TO_KEY, record, sizeof record, 0) == ZSR_ERROR_ENDED);
    pthread_join(popping, NULL);
    EXPECT(zsr_producer_close(p) < 0);
    OK(zsr_consumer_leave(c));
}

typedef struct {
    zsr_out_stream *stream;
    int records;
} outgoing;

/* Record `n` of a stream: from nothing to more than an item. */
static size_t stream_record(int n, uint8_t *record) {
    size_t length = (size_t)(n % 4) * 3000;
    for (size_t i = 0; i < length; i++) record[i] = (uint8_t)((size_t)n + i);
    return length;
}

static void *push_stream(void *argument) {
    outgoing *out = argument;
    uint8_t record[9000];
    for (int n = 0; n < out->records; n++) OK(zsr_out_stream_push(out->stream, record, stream_record(n, record), ZSR_FOREVER));
    OK(zsr_out_stream_end(out->stream));
    return NULL;
}

static void *close_streams(void *out) {
    OK(zsr_out_streams_close(out));
    return NULL;
}

/* Flows `streams` and `streams-back`: items of 4 KiB, and of 512 B. */
static void streams(void) {
    zsr_out_streams *out;
    zsr_in_streams *in;
    zsr_out_stream *o;
    zsr_in_stream *s;
    const void *data;
    size_t n;
    EXPECT(zsr_out_streams_attach("streams", NULL, NULL, &out) == ZSR_ERROR_INVALID && !out);
    SAYS("answers is null");
    EXPECT(zsr_in_streams_attach("streams", "streams-back", 1000, 0, NULL, &in) == ZSR_ERROR_INVALID && !in);
    SAYS("a window of 1000 B is too small");
    EXPECT(zsr_in_streams_attach("streams", "no-such-flow", 0, 0, NULL, &in) == ZSR_ERROR_NOT_FOUND && !in);
    EXPECT(zsr_out_stream_push(NULL, "x", 1, 0) == ZSR_ERROR_INVALID && zsr_in_stream_pop(NULL, 0, &data, &n) == ZSR_ERROR_INVALID);
    OK(zsr_in_streams_attach("streams", "streams-back", 65536, 8, NULL, &in));
    OK(zsr_out_streams_attach("streams", "streams-back", NULL, &out));
    EXPECT(zsr_out_streams_open(out, "x", 1, 5, &o) == ZSR_ERROR_ROUTE && !o);
    EXPECT(zsr_out_streams_open(out, NULL, 1, 0, &o) == ZSR_ERROR_INVALID && !o);
    EXPECT(zsr_in_streams_accept(in, 1000, &s) == ZSR_AGAIN && !s);

    /* Several at a time, in threads. */
    outgoing of[3];
    pthread_t pushing[3];
    for (int i = 0; i < 3; i++) {
        OK(zsr_out_streams_open(out, &i, sizeof i, 0, &of[i].stream));
        of[i].records = 50 + i;
        pthread_create(&pushing[i], NULL, push_stream, &of[i]);
    }
    for (int i = 0; i < 3; i++) {
        uint8_t record[9000];
        OK(zsr_in_streams_accept(in, ZSR_FOREVER, &s));
        OK(zsr_in_stream_name(s, &data, &n));
        int number;
        EXPECT(n == sizeof number);
        memcpy(&number, data, n);
        for (int k = 0; k < 50 + number; k++) {
            OK(zsr_in_stream_pop(s, ZSR_FOREVER, &data, &n));
            EXPECT(n == stream_record(k, record) && !memcmp(data, record, n));
        }
        EXPECT(zsr_in_stream_pop(s, ZSR_FOREVER, &data, &n) == ZSR_END && !data);
        EXPECT(zsr_in_stream_pop(s, 0, &data, &n) == ZSR_END);
        OK(zsr_in_stream_end(s, NULL));
    }
    for (int i = 0; i < 3; i++) pthread_join(pushing[i], NULL);

    /* Who wants no more, and who gives up. */
    OK(zsr_out_streams_open(out, "much", 4, 0, &o));
    OK(zsr_out_stream_push(o, "one", 3, ZSR_FOREVER));
    OK(zsr_out_stream_flush(o));
    OK(zsr_in_streams_accept(in, ZSR_FOREVER, &s));
    OK(zsr_in_stream_end(s, "one is enough"));
    zsr_status status;
    uint8_t record[9000] = {0};
    while ((status = zsr_out_stream_push(o, record, sizeof record, 1000)) == ZSR_OK || status == ZSR_AGAIN) {}
    EXPECT(status == ZSR_ERROR_STREAM);
    SAYS("stream `much` was cancelled by its receiver: one is enough");
    EXPECT(zsr_out_stream_end(o) == ZSR_ERROR_STREAM);
    OK(zsr_out_streams_open(out, "half", 4, 0, &o));
    OK(zsr_out_stream_push(o, "one", 3, 0));
    OK(zsr_out_stream_abort(o, "out of paper"));
    OK(zsr_in_streams_accept(in, ZSR_FOREVER, &s));
    OK(zsr_in_stream_pop(s, ZSR_FOREVER, &data, &n));
    EXPECT(n == 3 && !memcmp(data, "one", 3));
    EXPECT(zsr_in_stream_pop(s, ZSR_FOREVER, &data, &n) == ZSR_ERROR_STREAM);
    SAYS("out of paper");
    OK(zsr_in_stream_end(s, NULL));

    pthread_t closing;
    pthread_create(&closing, NULL, close_streams, out);
    EXPECT(zsr_in_streams_accept(in, ZSR_FOREVER, &s) == ZSR_END && !s);
    pthread_join(closing, NULL);
    OK(zsr_in_streams_end(in));
}

/* Flow `laid`: two consumers, items of 4 KiB, layouts at the producer. */
static void layouts(void) {
    enum { ROWS = 200 };
    zsr_registered *memory = NULL, *none = NULL;
    zsr_producer *p;
    EXPECT(zsr_registered_new(0, &none) == ZSR_ERROR_INVALID && !none);
    EXPECT(zsr_registered_new(64, NULL) == ZSR_ERROR_INVALID && !zsr_registered_begin(NULL));
    zsr_registered_free(NULL);
    OK(zsr_registered_new(ROWS * 12 + 64, &memory));
    char *begin = zsr_registered_begin(memory);
    uint32_t *notes = (uint32_t *)begin;
    double *prices = (double *)(begin + ROWS * 4);
    uint64_t *list = (uint64_t *)(begin + ROWS * 12);
    for (int n = 0; n < ROWS; n++) {
        notes[n] = 7u * n;
        prices[n] = n / 2.0;
    }
    const zsr_registered *regions[] = {memory, NULL};
    EXPECT(zsr_producer_attach_registered("laid", NULL, regions, 2, &p) == ZSR_ERROR_INVALID && !p);
    SAYS("regions[1] is null");
    EXPECT(zsr_producer_attach_registered("laid", NULL, regions, 17, &p) == ZSR_ERROR_INVALID);
    EXPECT(zsr_producer_attach_registered("lines", NULL, regions, 1, &p) == ZSR_ERROR_RING && !p);
    SAYS("memory: layouts");
    OK(zsr_producer_attach_registered("laid", NULL, regions, 1, &p));
    zsr_options second = ZSR_OPTIONS_INIT;
    second.member = "h3";
    zsr_consumer *c[] = {consumer("laid", NULL), consumer("laid", &second)};

    zsr_layout_column columns[] = {{notes, 4, 4}, {prices, 8, 8}};
    zsr_layout l = {0};
    l.columns = columns;
    l.column_count = 2;
    EXPECT(zsr_producer_lay_out(p, 0, NULL, 0, NULL) == ZSR_ERROR_INVALID);
    EXPECT(zsr_producer_lay_out(p, 0, &l, 0, NULL) == ZSR_ERROR_INVALID);
    SAYS("no rows");
    l.count = ROWS + 20;
    EXPECT(zsr_producer_lay_out(p, 0, &l, 0, NULL) == ZSR_ERROR_INVALID);
    SAYS("behind region 0");
    l.rows = 9;
    EXPECT(zsr_producer_lay_out(p, 0, &l, 0, NULL) == ZSR_ERROR_INVALID);
    l.rows = ZSR_ROWS_LISTED;
    l.by = &l;
    EXPECT(zsr_producer_lay_out(p, 0, &l, 0, NULL) == ZSR_ERROR_INVALID);
    SAYS("layout.by is not in memory that this program has registered");
    zsr_layout every = l;
    every.rows = ZSR_ROWS_EVERY;
    every.period = 2;
    every.frequency = 1;
    every.count = ROWS / 2;
    zsr_ticket tickets[3];
    for (int i = 0; i < 2; i++) {
        every.start = i;
        OK(zsr_producer_lay_out(p, i, &every, ZSR_FOREVER, &tickets[i]));
    }
    EXPECT(zsr_producer_lay_out(p, ZSR_TO_KEY, &every, 0, NULL) == ZSR_ERROR_ROUTE);
    list[0] = 199;
    list[1] = 3;
    l.by = list;
    l.count = 2;
    l.width = 8;
    OK(zsr_producer_lay_out(p, 0, &l, ZSR_FOREVER, &tickets[2]));
    for (int i = 0; i < 3; i++) {
        int32_t taken = 0;
        while (!taken) OK(zsr_producer_was_taken(p, &tickets[i], &taken));
    }
    memset(begin, 0xff, ROWS * 12 + 64);
    zsr_registered_free(memory);
    OK(zsr_producer_close(p));
    for (int i = 0; i < 2; i++) {
        struct {
            char note[4], price[8];
        } row;
        size_t n;
        for (int k = 0; k < ROWS / 2 + (i == 0 ? 2 : 0); k++) {
            int number = k < ROWS / 2 ? 2 * k + i : k == ROWS / 2 ? 199 : 3;
            uint32_t note = 7u * number;
            double price = number / 2.0;
            OK(zsr_consumer_pop(c[i], &row, sizeof row, ZSR_FOREVER, &n));
            EXPECT(n == sizeof row && !memcmp(row.note, &note, 4) && !memcmp(row.price, &price, 8));
        }
        EXPECT(zsr_consumer_pop(c[i], &row, sizeof row, ZSR_FOREVER, &n) == ZSR_END);
        OK(zsr_consumer_leave(c[i]));
    }
}

/* Flow `placed`: items of 4 KiB, two to a ring, layouts at the consumer. */
static void placed(void) {
    enum { BLOCK = 100, BLOCKS = 64, ITEMS = 20 };
    zsr_registered *memory = NULL;
    zsr_layout_consumer *c;
    zsr_arrived arrived;
    OK(zsr_registered_new(BLOCK * BLOCKS + 4 * BLOCKS, &memory));
    char *begin = zsr_registered_begin(memory);
    uint32_t *numbers = (uint32_t *)(begin + BLOCK * BLOCKS);
    const zsr_registered *regions[] = {memory, NULL};
    EXPECT(zsr_layout_consumer_attach(NULL, NULL, regions, 1, &c) == ZSR_ERROR_INVALID && !c);
    EXPECT(zsr_layout_consumer_attach("placed", NULL, regions, 2, &c) == ZSR_ERROR_INVALID && !c);
    SAYS("regions[1] is null");
    EXPECT(zsr_layout_consumer_attach("lines", NULL, regions, 1, &c) == ZSR_ERROR_RING && !c);
    SAYS("memory: layouts");
    EXPECT(zsr_layout_consumer_attach("lines", NULL, NULL, 0, &c) == ZSR_ERROR_INVALID && !c);
    SAYS("memory: layouts");
    OK(zsr_layout_consumer_attach("placed", NULL, regions, 1, &c));
    zsr_registered_free(memory);
    EXPECT(zsr_layout_consumer_place(c, NULL) == ZSR_ERROR_INVALID);
    EXPECT(zsr_layout_consumer_pop(c, 0, NULL) == ZSR_ERROR_INVALID);
    EXPECT(zsr_layout_consumer_pop(c, 0, &arrived) == ZSR_AGAIN);
    EXPECT(zsr_layout_consumer_pop(NULL, 0, &arrived) == ZSR_ERROR_INVALID);

    zsr_options sized = ZSR_OPTIONS_INIT;
    sized.record_size = BLOCK;
    zsr_producer *p;
    OK(zsr_producer_attach("placed", &sized, &p));
    zsr_layout_column blocks = {begin, BLOCK, BLOCK};
    zsr_layout l = {0};
    l.columns = &blocks;
    l.column_count = 1;
    l.rows = ZSR_ROWS_LISTED;
    l.count = 2;
    l.width = 4;
    l.by = &l;
    EXPECT(zsr_layout_consumer_place(c, &l) == ZSR_ERROR_INVALID);
    SAYS("layout.by is not in memory that this program has registered");
    char sent[3][BLOCK];
    for (int item = 0; item < ITEMS; item++) {
        /* Each item has 1, 2 or 3 records, and place for 2. */
        int count = 1 + item % 3;
        l.by = numbers + 2 * (item % 2);
        for (int n = 0; n < 2; n++) numbers[2 * (item % 2) + n] = (uint32_t)((item * 2 + n) * 5 % BLOCKS);
        OK(zsr_layout_consumer_place(c, &l));
        for (int n = 0; n < count; n++) {
            memset(sent[n], 10 * item + n + 1, BLOCK);
            OK(zsr_producer_push(p, ZSR_TO_KEY, sent[n], BLOCK, ZSR_FOREVER));
        }
        OK(zsr_producer_flush(p));
        OK(zsr_layout_consumer_pop(c, ZSR_FOREVER, &arrived));
        EXPECT(arrived.records == (uint32_t)count && arrived.bytes == (uint64_t)count * BLOCK);
        for (int n = 0; n < count && n < 2; n++)
            EXPECT(!memcmp(begin + (item * 2 + n) * 5 % BLOCKS * BLOCK, sent[n], BLOCK));
        EXPECT(arrived.rest_length == (count == 3 ? BLOCK : 0) && !memcmp(arrived.rest, sent[2], arrived.rest_length));
    }
    OK(zsr_layout_consumer_place(c, &l));
    OK(zsr_layout_consumer_place(c, &l));
    EXPECT(zsr_layout_consumer_place(c, &l) == ZSR_AGAIN);
    OK(zsr_producer_close(p));
    EXPECT(zsr_layout_consumer_pop(c, ZSR_FOREVER, &arrived) == ZSR_END);
    OK(zsr_layout_consumer_leave(c));
}

int main(int argc, char **argv) {
    const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"arguments", arguments}, {"records", records}, {"rows", rows}, {"threads", threads}, {"newest", newest}, {"urgent", urgent},
        {"combine", combine}, {"streams", streams}, {"layouts", layouts}, {"placed", placed}, {"restart", restart}, {"down", down}};
    for (size_t i = 0; argc == 2 && i < sizeof parts / sizeof *parts; i++) {
        if (!strcmp(argv[1], parts[i].name)) return parts[i].run(), 0;
    }
    fprintf(stderr, "usage: check arguments|records|rows|threads|newest|urgent|combine|streams|layouts|placed|restart|down\n");
    return 2;
}
