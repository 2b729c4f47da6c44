/* Both ends of a flow `rows`, in one program.
 *
 *     zsr up shuffle-2x2.yaml --no-flows
 *     zsr flow create rows -p h1 -c h3 --item-size 4KiB
 *     cc rows.c $(pkg-config --cflags --libs zsr) -o rows && ./rows
 */
#include <stdio.h>
#include <string.h>
#include <zsr.h>

static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, zsr_last_error());
    return 1;
}

int main(void) {
    zsr_producer *producer;
    zsr_consumer *consumer;
    if (zsr_producer_attach("rows", NULL, &producer) < 0) return failed("producer");
    if (zsr_consumer_attach("rows", NULL, &consumer) < 0) return failed("consumer");

    const char *rows[] = {"1,ada", "2,grace", "3,edsger"};
    for (int i = 0; i < 3; i++) {
        /* Of several consumers, the flow's routing says which gets the row. */
        if (zsr_producer_push(producer, ZSR_TO_KEY, rows[i], strlen(rows[i]), ZSR_FOREVER) < 0) return failed("push");
    }
    if (zsr_producer_close(producer) < 0) return failed("close");

    /* Rows are read where the switch has written them. */
    zsr_batch batch = ZSR_BATCH_INIT;
    zsr_status status;
    while ((status = zsr_consumer_peek(consumer, ZSR_FOREVER, &batch)) == ZSR_OK) {
        const uint8_t *row;
        size_t length;
        while (zsr_batch_next(&batch, &row, &length) == ZSR_OK) printf("%.*s\n", (int)length, (const char *)row);
        if (zsr_consumer_release(consumer, ZSR_ALL) < 0) return failed("release");
    }
    if (status < 0) return failed("pop");
    return zsr_consumer_leave(consumer) < 0 ? failed("leave") : 0;
}
