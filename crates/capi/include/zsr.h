/*
 * zsr: programs at the rings of a running system of zsr, in C. C++ has zsr.hpp.
 *
 *     cc program.c $(pkg-config --cflags --libs zsr)
 *
 * A program attaches to a flow by its name, as one of its producers or consumers, on the machine whose agent has the rings. A push is
 * a store to memory: no call reaches the network.
 *
 * What holds for all functions:
 * - They return a zsr_status. What is below 0 is an error; zsr_last_error() says it in words, for the thread that called.
 * - Times are microseconds, sizes and lengths bytes. Texts are UTF-8 and end with a zero byte.
 * - A handle (zsr_producer, zsr_consumer, zsr_combiner, those of streams) takes one call at a time, from any thread; a second one at
 *   the same time returns ZSR_ERROR_BUSY. Different handles are independent.
 * - NULL where nothing says that it may be NULL is ZSR_ERROR_INVALID. A handle that was ended must not be used any more: nothing can
 *   notice that.
 * - After fork(), the child must not use handles of its parent.
 * - Neither signals nor exceptions are raised. SIGPIPE is not raised either.
 *
 * This file is made of crates/capi by `cargo xtask header`.
 */

#ifndef ZSR_H
#define ZSR_H

#include <stddef.h>
#include <stdint.h>
/* As `timeout_us`: as long as it takes. */
#define ZSR_FOREVER (-1)
/* As `consumer` of a push: the one that the flow's routing says, by the record's key. */
#define ZSR_TO_KEY (-1)
/* As `rows` of zsr_layout. */
#define ZSR_ROWS_EVERY 0
#define ZSR_ROWS_CHOSEN 1
#define ZSR_ROWS_LISTED 2
/* As `records` of zsr_consumer_release(): all. */
#define ZSR_ALL SIZE_MAX

// The ABI of this header. It grows when a program that was compiled with an older header no longer works.
#define ZSR_ABI_VERSION 1

// How a call went. What is below 0 is an error, with a text in zsr_last_error().
enum zsr_status
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // It is done.
    ZSR_OK = 0,
    // No room, or no record, within the time given. Try again.
    ZSR_AGAIN = 1,
    // The end of the stream: all producers have closed, and all is popped.
    ZSR_END = 2,
    // An argument is null or makes no sense, or the call does not go with the calls before it.
    ZSR_ERROR_INVALID = -1,
    // The program was compiled with a zsr.h that does not go with this library.
    ZSR_ERROR_ABI = -2,
    // Another thread is in a call with this handle.
    ZSR_ERROR_BUSY = -3,
    // The cancel of the handle was triggered.
    ZSR_ERROR_CANCELLED = -4,
    // No such system, flow or member, or none on this machine.
    ZSR_ERROR_NOT_FOUND = -5,
    // The controller, or a host's agent, does not answer or refuses.
    ZSR_ERROR_CONTROLLER = -6,
    // The ring can't be had: another program is at it, or it was closed.
    ZSR_ERROR_RING = -7,
    // The flow's records are not what the program takes them for.
    ZSR_ERROR_SCHEMA = -8,
    // A record is too long, or has another size than the flow's, or the buffer for it is too small.
    ZSR_ERROR_SIZE = -9,
    // The flow's routing, or the call, names no consumer that there is.
    ZSR_ERROR_ROUTE = -10,
    // The flow has failed, ended or was deleted, or the member was taken out of it. The handle can only be ended.
    ZSR_ERROR_ENDED = -11,
    // Records that were pushed before are lost with their consumer. The flow goes on: push the record of this call again.
    ZSR_ERROR_LOST = -12,
    // What came is damaged or not in order. What can't be read was passed over. Popping may go on.
    ZSR_ERROR_DAMAGED = -13,
    // A fault of the library itself. The handle can only be ended.
    ZSR_ERROR_INTERNAL = -14,
    // A sum of whole numbers that 64 bits can't hold.
    ZSR_ERROR_SUM = -15,
    // A stream was cancelled by its receiver, or given up by its sender. Other streams go on.
    ZSR_ERROR_STREAM = -16,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum zsr_status zsr_status;
#else
typedef int32_t zsr_status;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Type of a column.
enum zsr_type
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // A signed integer of `width` bytes.
    ZSR_TYPE_INT = 0,
    // An unsigned integer of `width` bytes.
    ZSR_TYPE_UINT = 1,
    // A floating point number of `width` bytes.
    ZSR_TYPE_FLOAT = 2,
    // `width` bytes.
    ZSR_TYPE_BYTES = 3,
    // A decimal number as text.
    ZSR_TYPE_DECIMAL = 4,
    // A day as text, YYYY-MM-DD.
    ZSR_TYPE_DATE = 5,
    // Text.
    ZSR_TYPE_TEXT = 6,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum zsr_type zsr_type;
#else
typedef int32_t zsr_type;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Ends blocking calls of all handles that were attached with it.
typedef struct zsr_cancel zsr_cancel;

// Aggregates of rows by group: counts, sums, least, largest and mean values.
typedef struct zsr_combiner zsr_combiner;

// The popping side of one member of a flow.
typedef struct zsr_consumer zsr_consumer;

// A stream that comes in.
typedef struct zsr_in_stream zsr_in_stream;

// Streams that come to one consumer of a flow.
typedef struct zsr_in_streams zsr_in_streams;

// The popping side of one member of a flow, which says where records go before they come.
typedef struct zsr_layout_consumer zsr_layout_consumer;

// A stream that goes out.
typedef struct zsr_out_stream zsr_out_stream;

// Streams from one producer of a flow to all of its consumers.
typedef struct zsr_out_streams zsr_out_streams;

// The pushing side of one member of a flow.
typedef struct zsr_producer zsr_producer;

// Memory of this program that a NIC on this machine can read and write.
typedef struct zsr_registered zsr_registered;

// All rings of one member of a flow, whose memory a GPU or another unit reads and writes itself (zsr.cuh).
typedef struct zsr_rings zsr_rings;

// Records where they lie in the ring. Begin with ZSR_BATCH_INIT. Where `record_size` is not 0, record `i` is at
// `data + i * record_size`; zsr_batch_next() goes through records of any kind.
typedef struct zsr_batch {
    // sizeof(zsr_batch).
    size_t size;
    // The first record, or its length.
    const uint8_t *data;
    // Bytes of all that lies there.
    size_t bytes;
    // How many records.
    size_t count;
    // Bytes of each record, which lie side by side; 0: each lies behind its length, a uint32_t with the least significant byte
    // first.
    size_t record_size;
    // How many records zsr_batch_next() has given.
    size_t next;
    // Bytes that zsr_batch_next() has passed.
    size_t passed;
    // The library's: by which number it was taken.
    uint64_t taken;
} zsr_batch;

// A column of a flow's records. Numbers have their least significant byte first, and there are no gaps between columns.
typedef struct zsr_column {
    // The column's name.
    const char *name;
    // The column's type.
    zsr_type kind;
    // Bytes; 0 for a column without a width: records are then lines of text, whose columns are divided by commas.
    uint32_t width;
    // Bytes in front of it in a record; 0 where records are lines of text.
    uint32_t offset;
} zsr_column;

// What a program says when it attaches. Begin with ZSR_OPTIONS_INIT, which sets `size` and `abi`, and set what is to be
// otherwise. Nothing of it is needed after the call.
typedef struct zsr_options {
    // sizeof(zsr_options).
    size_t size;
    // ZSR_ABI_VERSION.
    uint32_t abi;
    // Bytes of each record; 0: those of the flow's schema, or records differ in length.
    uint32_t record_size;
    // Name of the system on this machine; NULL: the only one that is up.
    const char *system;
    // HOST:PORT of a controller elsewhere (`zsr up --listen`); NULL: that of `system`. The rings are on this machine in any case.
    const char *controller;
    // Which member of the flow to be; NULL: the first one whose rings are free.
    const char *member;
    // What the program takes the records for, as `id: u64, price: f64`; the attach fails if the flow's schema is another.
    // NULL: whatever the flow says they are.
    const char *schema;
    // Ends blocking calls of the handle; NULL: nothing does.
    const struct zsr_cancel *cancel;
    // File of the certificate that a controller elsewhere wants to see (NAME.pem, with NAME.key and ca.pem beside it; `zsr ca`). NULL: there
    // is none, which a `controller` on this machine, such as at the end of a tunnel, takes.
    const char *certificate;
} zsr_options;

// A column of a layout: row n has `width` bytes at `first` plus n times `stride`.
typedef struct zsr_layout_column {
    // The element of row 0, in registered memory.
    const void *first;
    // Bytes from one row's element to the next row's.
    uint64_t stride;
    // Bytes of an element.
    uint32_t width;
} zsr_layout_column;

// Where records lie. Each row makes one: an element of each column, side by side. Begin with zeros.
typedef struct zsr_layout {
    // The columns, 1 to 255.
    const struct zsr_layout_column *columns;
    // How many there are.
    size_t column_count;
    // ZSR_ROWS_EVERY: the first `frequency` of every `period` rows from row `start` on, `count` in all; 0 of both is 1.
    // ZSR_ROWS_CHOSEN: those whose bit is set of `count` bits at `by`, the least significant of a byte first; the first bit is row
    // `start`'s. ZSR_ROWS_LISTED: those whose numbers are at `by`, `count` of them.
    int32_t rows;
    // Rows, bits or numbers.
    uint32_t count;
    // The first row.
    uint64_t start;
    // Rows from the begin of one group to that of the next.
    uint64_t period;
    // Rows of a group.
    uint64_t frequency;
    // Bits, or numbers, in registered memory.
    const void *by;
    // Bytes of each number, 4 or 8.
    uint32_t width;
} zsr_layout;

// An item that was popped, whose records are where its layout says.
typedef struct zsr_arrived {
    // Number of the producer that pushed it.
    uint32_t producer;
    // Number of its records.
    uint32_t records;
    // Bytes of its records.
    uint64_t bytes;
    // The last of these bytes, which the layout had no room for. The handle's, until the next call with it.
    const uint8_t *rest;
    // Bytes of `rest`; mostly 0.
    size_t rest_length;
} zsr_arrived;

// An item that was laid out.
typedef struct zsr_ticket {
    // Nothing for programs to read.
    uint64_t words[2];
} zsr_ticket;

// A ring in memory that this process has mapped, of ABI version 1. Begin with ZSR_RING_INIT.
typedef struct zsr_ring {
    // sizeof(zsr_ring).
    size_t size;
    // Its first byte, at a multiple of 4096: a page of control words, and then the items. If `gpu` is not 0, an address for kernels of
    // that GPU (a CUdeviceptr), which the host must not follow.
    uint8_t *base;
    // Bytes of all of it: what a CUDA program registers (cuMemHostRegister) if `gpu` is 0.
    size_t length;
    // Bytes of items, a power of two.
    uint32_t ring_size;
    // Bytes of each item, a power of two.
    uint32_t item_size;
    // 1: control words have their most significant byte first; 0: last.
    uint32_t big_endian;
    // The epoch in the upper 16 bits of its flags.
    uint32_t epoch;
    // What stands in the headers of segments that this program writes there.
    uint32_t number;
    // 0: in host memory. Otherwise in the own memory of a GPU, whose number for this process it is, and 1 more.
    uint32_t gpu;
    // The ring's name.
    const char *name;
    // The consumer that it leads to; an empty text where consumers share it, and for a consumer's ring.
    const char *consumer;
} zsr_ring;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The next record of a batch: `*length` bytes at `*record`.
//
// Ownership: `batch` stays the caller's; `*record` is the ring's, and valid as long as `batch->data`.
// Blocks: no.
// Threads: any, one at a time per zsr_batch; copies of one are independent.
// Errors: ZSR_END behind the last record; ZSR_ERROR_INVALID, ZSR_ERROR_ABI, ZSR_ERROR_DAMAGED (a record says that it is longer than
// the batch: what is behind it can't be read).
zsr_status zsr_batch_next(struct zsr_batch *batch,
                          const uint8_t **record,
                          size_t *length);

// Makes a cancel.
//
// Ownership: the caller's, until zsr_cancel_free().
// Blocks: no.
// Threads: any.
// Errors: returns NULL when there is no memory.
struct zsr_cancel *zsr_cancel_new(void);

// Ends all blocking calls of handles that were attached with this cancel, now and from now on: they return
// ZSR_ERROR_CANCELLED.
//
// Ownership: `cancel` stays the caller's.
// Blocks: no. It takes a lock, so a signal handler must not call it; a thread that waits for signals may.
// Threads: any, also several at once.
// Errors: ZSR_ERROR_INVALID if `cancel` is NULL.
zsr_status zsr_cancel_trigger(const struct zsr_cancel *cancel);

// Frees a cancel. Handles that were attached with it go on.
//
// Ownership: takes `cancel`, which may be NULL.
// Blocks: no.
// Threads: any, but not while another call has this cancel.
// Errors: none.
void zsr_cancel_free(struct zsr_cancel *cancel);

// Makes a combiner of rows of `schema`, a text as `id: u64, price: f64` whose columns all have a width. `aggregates` are, with commas
// between them: count, sum(COLUMN), min(COLUMN), max(COLUMN), avg(COLUMN). `group_by` names columns of whole numbers or bytes, with
// commas between them; NULL or an empty text: all rows are one group. Its memory grows with the number of groups, not of rows.
//
// Ownership: `*combiner` is the caller's, until zsr_combiner_free(). The texts stay the caller's.
// Blocks: no.
// Threads: any.
// Errors: ZSR_ERROR_INVALID (a text says nothing that can be combined; zsr_last_error() says why). `*combiner` is NULL then.
zsr_status zsr_combiner_new(const char *schema,
                            const char *group_by,
                            const char *aggregates,
                            struct zsr_combiner **combiner);

// What the results are, as `shop: u16, count: u64, sum_price: f64`: the columns of the group, then the aggregates. Sums of whole numbers
// are i64 or u64, those of fractions and mean values f64, least and largest values as their column.
//
// Ownership: `*schema` is the handle's, and valid as long as it.
// Blocks: no.
// Threads: any, one call with a handle at a time.
// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
zsr_status zsr_combiner_schema(const struct zsr_combiner *combiner,
                               const char **schema);

// The columns of the results, in order.
//
// Ownership: `*columns` and all in it is the handle's, and valid as long as it.
// Blocks: no.
// Threads: any, one call with a handle at a time.
// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
zsr_status zsr_combiner_columns(const struct zsr_combiner *combiner,
                                const struct zsr_column **columns,
                                size_t *count);

// Takes rows of the combiner's schema that lie side by side, `length` bytes in all.
//
// Ownership: `rows` stays the caller's.
// Blocks: no.
// Threads: any, one call with a handle at a time.
// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY, ZSR_ERROR_SIZE (`length` is not that of a whole number of rows; none was taken).
zsr_status zsr_combiner_add(struct zsr_combiner *combiner,
                            const uint8_t *rows,
                            size_t length);

// Pops until the end of the stream, and gives all records to a combiner, where they lie in the ring. What was popped before an error or
// before the time is over is in the combiner: the call can be made again.
//
// Ownership: both handles stay the caller's.
// Blocks: until the end of the stream, for at most `timeout_us` microseconds, but for records that are there, of which one batch is
// taken in any case; ZSR_FOREVER: as long as it takes.
// Threads: any, one call with each of the handles at a time.
// Errors: ZSR_OK at the end of the stream, ZSR_AGAIN when it did not come in time; ZSR_ERROR_INVALID, ZSR_ERROR_BUSY, ZSR_ERROR_SCHEMA
// (a record has not the size of the combiner's rows: it stays in the ring), ZSR_ERROR_CANCELLED, ZSR_ERROR_ENDED, ZSR_ERROR_DAMAGED.
zsr_status zsr_consumer_combine(struct zsr_consumer *consumer,
                                struct zsr_combiner *combiner,
                                int64_t timeout_us);

// The results: one row per group, side by side, in the order of their groups: numbers by value, bytes as they are. More rows can be added
// and the results asked for again. Of no rows at all, sums are 0, mean values are not numbers, and least values are the largest
// that there are.
//
// Ownership: `batch` is the caller's, and `batch->size` has to be sizeof(zsr_batch) (ZSR_BATCH_INIT). `batch->data` is the handle's, and
// valid until the next call of this function with it, or until it is freed.
// Blocks: no.
// Threads: any, one call with a handle at a time.
// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_ABI, ZSR_ERROR_BUSY, ZSR_ERROR_SUM.
zsr_status zsr_combiner_results(struct zsr_combiner *combiner,
                                struct zsr_batch *batch);

// Frees a combiner.
//
// Ownership: takes the handle, other than with ZSR_ERROR_BUSY. Nothing that it has given may be read any more.
// Blocks: no.
// Threads: any, one call with a handle at a time, and none after it.
// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
zsr_status zsr_combiner_free(struct zsr_combiner *combiner);

// Takes the ring of a consumer of `flow`.
//
// Ownership: `*consumer` is the caller's, until zsr_consumer_leave() or zsr_consumer_abort(). `flow` and `options`, which may be
// NULL, stay the caller's.
// Blocks: until controller and agent have answered, for at most 20 s.
// Threads: any.
// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_ABI, ZSR_ERROR_NOT_FOUND (system, flow, member), ZSR_ERROR_CONTROLLER, ZSR_ERROR_RING
// (another program is there), ZSR_ERROR_SCHEMA. `*consumer` is NULL then.
zsr_status zsr_consumer_attach(const char *flow,
                               const struct zsr_options *options,
                               struct zsr_consumer **consumer);

// The member that it is.
//
// Ownership: `*member` is the handle's, and valid as long as it.
// Blocks: no.
// Threads: any, one call with a handle at a time.
// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
zsr_status zsr_consumer_member(const struct zsr_consumer *consumer, const char **member);

// What the flow's records are, as `id: u64, price: f64`; an empty text if the flow does not say.
//
// Ownership: `*schema` is the handle's, and valid as long as it.
// Blocks: no.
// Threads: any, one call with a handle at a time.
// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
zsr_status zsr_consumer_schema(const struct zsr_consumer *consumer, const char **schema);

// The columns of the flow's schema, in order; none if the flow has no schema.
//
// Ownership: `*columns` and all in it is the handle's, and valid as long as it.
// Blocks: no.
// Threads: any, one call with a handle at a time.
// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
zsr_status zsr_consumer_columns(const struct zsr_consumer *consumer,
                                const struct zsr_column **columns,
                                size_t *count);

// Pops one record into `buffer`, which has `capacity` bytes; the record has `*length`.
//
// Ownership: the record is copied; all arguments stay the caller's.
// Blocks: until there is a record, for at most `timeout_us` microseconds; 0: not at all; ZSR_FOREVER: as long as it takes.
// Threads: any, one call with a handle at a time.
// Errors: ZSR_AGAIN when none came in time, ZSR_END at the end of the stream; ZSR_ERROR_INVALID, ZSR_ERROR_BUSY, ZSR_ERROR_SIZE (it
// has `*length` bytes, more than `capacity`, and stays in the ring), ZSR_ERROR_CANCELLED, ZSR_ERROR_ENDED, ZSR_ERROR_DAMAGED.
zsr_status zsr_consumer_pop(struct zsr_consumer *consumer,
                            void *buffer,
                            size_t capacity,
                            int64_t timeout_us,
                            size_t *length);

// Pops up to `count` records of a flow whose records have a size (of the producer's zsr_options.record_size, or the schema's) into
// `records`, side by side; `*popped` of them came.
//
// Ownership: the records are copied; all arguments stay the caller's.
// Blocks: until there is at least one record, as zsr_consumer_pop(). Takes what is there then.
// Threads: any, one call with a handle at a time.
// Errors: as zsr_consumer_pop(); ZSR_ERROR_SIZE also if records do not have `record_size` bytes each.
zsr_status zsr_consumer_pop_rows(struct zsr_consumer *consumer,
                                 void *records,
                                 size_t record_size,
                                 size_t count,
                                 int64_t timeout_us,
                                 size_t *popped);

// Shows the next records where they lie in the ring, as many as came together. They stay there: the same ones are shown again
// until zsr_consumer_release().
//
// Ownership: `batch` is the caller's, and `batch->size` has to be sizeof(zsr_batch) (ZSR_BATCH_INIT). `batch->data` is the
// ring's, and may be read until the records are released or the handle ends.
// Blocks: as zsr_consumer_pop().
// Threads: any, one call with a handle at a time; the records may be read by any threads.
// Errors: as zsr_consumer_pop(); ZSR_ERROR_ABI if `batch->size` is wrong.
zsr_status zsr_consumer_peek(struct zsr_consumer *consumer,
                             int64_t timeout_us,
                             struct zsr_batch *batch);

// Pops the first `records` of the records that zsr_consumer_peek() has shown (ZSR_ALL: all of them), whose memory may be
// overwritten from then on.
//
// Ownership: what is released is no longer the caller's to read.
// Blocks: no.
// Threads: any, one call with a handle at a time.
// Errors: ZSR_ERROR_INVALID (nothing is peeked), ZSR_ERROR_BUSY, ZSR_ERROR_DAMAGED (some of the records could not be read; all
// are popped).
zsr_status zsr_consumer_release(struct zsr_consumer *consumer,
                                size_t records);

// Pops the next records, as many as came together, and leaves them where they lie in the ring. Others can be popped before they
// are given back, in any order, with zsr_consumer_give_back().
//
// Ownership: `batch` is the caller's, and `batch->size` has to be sizeof(zsr_batch) (ZSR_BATCH_INIT). `batch->data` is the
// ring's, and may be read until the batch is given back or the handle ends.
// Blocks: as zsr_consumer_pop(). The ring has room for more when batches are given back.
// Threads: any, one call with a handle at a time; the records may be read by any threads.
// Errors: as zsr_consumer_peek(); ZSR_ERROR_INVALID when the whole ring is taken.
zsr_status zsr_consumer_take(struct zsr_consumer *consumer,
                             int64_t timeout_us,
                             struct zsr_batch *batch);

// Pops all that is there, and gives the newest records as zsr_consumer_take() does: those that came together last. Older ones, also of
// a batch that was peeked, are popped unread. For who wants to know what is so now, such as a price: the ring never fills, however late
// a program looks. The last record of the batch is the newest; of several producers, the one that came last, whoever pushed it.
//
// Ownership: as zsr_consumer_take().
// Blocks: as zsr_consumer_pop().
// Threads: any, one call with a handle at a time; the records may be read by any threads.
// Errors: as zsr_consumer_take().
zsr_status zsr_consumer_take_newest(struct zsr_consumer *consumer,
                                    int64_t timeout_us,
                                    struct zsr_batch *batch);

// Gives back the memory of a batch that was taken.
//
// Ownership: `batch` stays the caller's, its `data` is no longer the caller's to read.
// Blocks: no.
// Threads: any, one call with a handle at a time.
// Errors: ZSR_ERROR_INVALID (it is not one that this handle has taken, or was given back), ZSR_ERROR_ABI, ZSR_ERROR_BUSY.
zsr_status zsr_consumer_give_back(struct zsr_consumer *consumer,
                                  const struct zsr_batch *batch);

// Waits until one of several consumers, of which the first is the most urgent, has records: `*urgent` is the place in `consumers`, from 0,
// of the first that has. Nothing is popped: any call with that consumer does it, and does not wait. A consumer whose stream has ended
// is passed over.
//
// Ownership: `consumers`, of which there are `count`, stay the caller's, as do the handles.
// Blocks: until one has records, as zsr_consumer_pop(). It ends with the cancel of the first whose stream has not ended.
// Threads: any, one call with each of the handles at a time.
// Errors: ZSR_AGAIN when none had a record in time, ZSR_END when all streams have ended; ZSR_ERROR_INVALID (also if `count` is 0). Of an
// error of one consumer, `*urgent` is its place: ZSR_ERROR_BUSY (also if it is there twice), ZSR_ERROR_CANCELLED, ZSR_ERROR_ENDED (leave
// it out of the next call), ZSR_ERROR_DAMAGED; and ZSR_ERROR_INVALID when its whole ring is taken.
zsr_status zsr_consumer_most_urgent(struct zsr_consumer *const *consumers,
                                    size_t count,
                                    int64_t timeout_us,
                                    size_t *urgent);

// Leaves. Records that are not popped are for the next program at this member, and so are those of batches that were taken and not
// given back.
//
// Ownership: takes the handle, other than with ZSR_ERROR_BUSY. No batch of it may be read any more.
// Blocks: until the agent has the ring back, for at most 1 s.
// Threads: any, one call with a handle at a time, and none after it.
// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
zsr_status zsr_consumer_leave(struct zsr_consumer *consumer);

// Gives up: before the end of the stream, the flow does what its policy says when a program dies.
//
// Ownership: takes the handle, other than with ZSR_ERROR_BUSY. No batch of it may be read any more.
// Blocks: as zsr_consumer_leave().
// Threads: any, one call with a handle at a time, and none after it.
// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
zsr_status zsr_consumer_abort(struct zsr_consumer *consumer);

// The ABI of the library that is loaded, which has to be ZSR_ABI_VERSION. Calls that take a zsr_options check that, too.
//
// Ownership: nothing.
// Blocks: no.
// Threads: any.
// Errors: none.
uint32_t zsr_abi_version(void);

// The library's version, as `0.1.0`.
//
// Ownership: the library's; never freed.
// Blocks: no.
// Threads: any.
// Errors: none.
const char *zsr_version(void);

// What the last error of this thread was, in words; an empty text if there was none. Calls that succeed leave it.
//
// Ownership: the library's; valid until this thread's next call that fails, and until the thread ends.
// Blocks: no.
// Threads: any; each has its own.
// Errors: none.
const char *zsr_last_error(void);

// The name of a status, as `ZSR_END`; `unknown` if it is none.
//
// Ownership: the library's; never freed.
// Blocks: no.
// Threads: any.
// Errors: none.
const char *zsr_status_name(int32_t status);

// Waits until `participants` programs, on any hosts of the system, wait at the barrier `name`. Of `options`, `system` and
// `controller` count.
//
// Ownership: all arguments stay the caller's. `options` may be NULL.
// Blocks: until they are there, for at most `timeout_us` microseconds; below 0: as long as it takes.
// Threads: any.
// Errors: ZSR_AGAIN when they did not come in time; ZSR_ERROR_INVALID (others wait there for another number, too),
// ZSR_ERROR_ABI, ZSR_ERROR_NOT_FOUND, ZSR_ERROR_CONTROLLER.
zsr_status zsr_barrier(const char *name,
                       uint32_t participants,
                       int64_t timeout_us,
                       const struct zsr_options *options);

// As zsr_consumer_attach(), with `count` regions of memory that layouts name, at most 16. The member's ring has to be in memory of the kind
// `layouts` (`memory: layouts` in the topology).
//
// Ownership: `*consumer` is the caller's, until zsr_layout_consumer_leave() or zsr_layout_consumer_abort(). `flow`, `options`, which may be
// NULL, and `regions` stay the caller's; regions may be freed.
// Blocks: as zsr_consumer_attach().
// Threads: any.
// Errors: as zsr_consumer_attach(); ZSR_ERROR_INVALID also for a flow that is no shuffle, or has several lanes; ZSR_ERROR_RING also when the
// ring has no layouts. `*consumer` is NULL then.
zsr_status zsr_layout_consumer_attach(const char *flow,
                                      const struct zsr_options *options,
                                      const struct zsr_registered *const *regions,
                                      size_t count,
                                      struct zsr_layout_consumer **consumer);

// Says where the records go of the next item that has no place yet. The first layout is the first item's, and so on.
//
// Ownership: `layout` stays the caller's. What it names belongs to the NIC until its item was popped, and no other layout that is placed may
// name it.
// Blocks: no.
// Threads: any, one call with a handle at a time.
// Errors: ZSR_AGAIN: as many layouts are placed as the ring has items, and one has to be popped first. ZSR_ERROR_BUSY; ZSR_ERROR_INVALID, also
// for a layout that makes no sense, leaves registered memory, or names more than an item brings.
zsr_status zsr_layout_consumer_place(struct zsr_layout_consumer *consumer,
                                     const struct zsr_layout *layout);

// Pops the next item, whose records are where its layout says.
//
// Ownership: `arrived` is the caller's; its `rest` is the handle's.
// Blocks: until there is one, for at most `timeout_us` microseconds; ZSR_FOREVER: as long as it takes.
// Threads: any, one call with a handle at a time.
// Errors: ZSR_AGAIN when none came in time, ZSR_END when all producers have closed and all is popped; ZSR_ERROR_INVALID, also when no layout
// is placed for the item, which stays; ZSR_ERROR_BUSY, ZSR_ERROR_CANCELLED, ZSR_ERROR_ENDED; ZSR_ERROR_DAMAGED (the item is popped, and its
// layout is dropped).
zsr_status zsr_layout_consumer_pop(struct zsr_layout_consumer *consumer,
                                   int64_t timeout_us,
                                   struct zsr_arrived *arrived);

// Leaves. Items that are not popped are for the next program at this member, also such that have come to this program's memory, which is
// its own again behind this.
//
// Ownership: takes the handle, other than with ZSR_ERROR_BUSY.
// Blocks: as zsr_consumer_leave().
// Threads: any, one call with a handle at a time, and none after it.
// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
zsr_status zsr_layout_consumer_leave(struct zsr_layout_consumer *consumer);

// Gives up: before the end of the stream, the flow does what its policy says when a program dies.
//
// Ownership: takes the handle, other than with ZSR_ERROR_BUSY.
// Blocks: as zsr_consumer_leave().
// Threads: any, one call with a handle at a time, and none after it.
// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
zsr_status zsr_layout_consumer_abort(struct zsr_layout_consumer *consumer);

// Makes zeroed memory of `length` bytes.
//
// Ownership: `*memory` is the caller's, until zsr_registered_free().
// Blocks: no.
// Threads: any.
// Errors: ZSR_ERROR_INVALID (there is no memory of that length). `*memory` is NULL then.
zsr_status zsr_registered_new(size_t length, struct zsr_registered **memory);

// The first byte of registered memory, aligned to 4096 bytes; NULL if `memory` is NULL.
//
// Ownership: the bytes live as long as `memory`. What a producer's layout names must not change until
// zsr_producer_was_taken(). What a consumer's layout names is the NIC's until its item was popped.
// Blocks: no.
// Threads: any, also several at once.
// Errors: none.
void *zsr_registered_begin(const struct zsr_registered *memory);

// Frees registered memory. Producers that have registered it keep it until they end and their items were taken. Consumers keep it until
// they end.
//
// Ownership: takes `memory`, which may be NULL.
// Blocks: no.
// Threads: any, but not while another call has this memory.
// Errors: none.
void zsr_registered_free(struct zsr_registered *memory);

// As zsr_producer_attach(), with `count` regions of memory that layouts name, at most 16. The member's rings have to be in memory of the
// kind `layouts` (`memory: layouts` in the topology).
//
// Ownership: as zsr_producer_attach(); `regions` stay the caller's, and may be freed.
// Blocks: as zsr_producer_attach().
// Threads: any.
// Errors: as zsr_producer_attach(); ZSR_ERROR_RING also when the rings have no layouts.
zsr_status zsr_producer_attach_registered(const char *flow,
                                          const struct zsr_options *options,
                                          const struct zsr_registered *const *regions,
                                          size_t count,
                                          struct zsr_producer **producer);

// Pushes the records of a layout as one item to `consumer`, behind all that was pushed to it before: ZSR_TO_KEY where there is only one,
// or a number from 0 in the flow's order. Nothing is copied: the NIC reads the records where they lie.
//
// Ownership: `layout` stays the caller's, and what it names must not change until zsr_producer_was_taken() of `*ticket`, which may be
// NULL.
// Blocks: as zsr_producer_push().
// Threads: any, one call with a handle at a time.
// Errors: as zsr_producer_push(). ZSR_ERROR_INVALID also for a layout that makes no sense, leaves registered memory, or doesn't fit an item.
zsr_status zsr_producer_lay_out(struct zsr_producer *producer,
                                int32_t consumer,
                                const struct zsr_layout *layout,
                                int64_t timeout_us,
                                struct zsr_ticket *ticket);

// Whether the memory of an item may change: `*taken` is 1 then, else 0.
//
// Ownership: `ticket` stays the caller's.
// Blocks: no.
// Threads: any, one call with a handle at a time.
// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY, ZSR_ERROR_RING.
zsr_status zsr_producer_was_taken(struct zsr_producer *producer,
                                  const struct zsr_ticket *ticket,
                                  int32_t *taken);

// Takes all rings of a producer of `flow`.
//
// Ownership: `*producer` is the caller's, until zsr_producer_close(), zsr_producer_leave() or zsr_producer_abort(). `flow` and
// `options`, which may be NULL, stay the caller's.
// Blocks: until controller and agent have answered, for at most 20 s.
// Threads: any.
// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_ABI, ZSR_ERROR_NOT_FOUND (system, flow, member), ZSR_ERROR_CONTROLLER, ZSR_ERROR_RING
// (another program is there, the stream has ended), ZSR_ERROR_SCHEMA. `*producer` is NULL then.
zsr_status zsr_producer_attach(const char *flow,
                               const struct zsr_options *options,
                               struct zsr_producer **producer);

// The member that it is.
//
// Ownership: `*member` is the handle's, and valid as long as it.
// Blocks: no.
// Threads: any, one call with a handle at a time.
// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
zsr_status zsr_producer_member(const struct zsr_producer *producer, const char **member);

// What the flow's records are, as `id: u64, price: f64`; an empty text if the flow does not say.
//
// Ownership: `*schema` is the handle's, and valid as long as it.
// Blocks: no.
// Threads: any, one call with a handle at a time.
// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
zsr_status zsr_producer_schema(const struct zsr_producer *producer, const char **schema);

// The columns of the flow's schema, in order; none if the flow has no schema.
//
// Ownership: `*columns` and all in it is the handle's, and valid as long as it.
// Blocks: no.
// Threads: any, one call with a handle at a time.
// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
zsr_status zsr_producer_columns(const struct zsr_producer *producer,
                                const struct zsr_column **columns,
                                size_t *count);

// Bytes of each record, by the flow's schema or zsr_options.record_size; 0: records differ in length.
//
// Ownership: nothing.
// Blocks: no.
// Threads: any, one call with a handle at a time.
// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
zsr_status zsr_producer_record_size(const struct zsr_producer *producer, uint32_t *size);

// How many consumers a push can choose from. 1 for flows in which all consumers share the producer's one ring.
//
// Ownership: nothing.
// Blocks: no. Consumers that join or leave are noticed by the next push.
// Threads: any, one call with a handle at a time.
// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
zsr_status zsr_producer_consumers(const struct zsr_producer *producer,
                                  size_t *count);

// Pushes one record of `length` bytes to `consumer`: ZSR_TO_KEY, or a number from 0 in the flow's order. It is on its way when
// its item is full, or with zsr_producer_flush(); at once in a flow with the hint `latency`.
//
// Ownership: the record is copied; it stays the caller's. It may be NULL if `length` is 0.
// Blocks: until there is room, for at most `timeout_us` microseconds; 0: not at all; ZSR_FOREVER: as long as it takes. A change of
// the flow that is under way may add up to 10 s.
// Threads: any, one call with a handle at a time.
// Errors: ZSR_AGAIN when there was no room in time; ZSR_ERROR_INVALID, ZSR_ERROR_BUSY, ZSR_ERROR_SIZE, ZSR_ERROR_ROUTE,
// ZSR_ERROR_CANCELLED, ZSR_ERROR_LOST, ZSR_ERROR_ENDED, ZSR_ERROR_RING, ZSR_ERROR_CONTROLLER. The record was not taken then.
zsr_status zsr_producer_push(struct zsr_producer *producer,
                             int32_t consumer,
                             const void *record,
                             size_t length,
                             int64_t timeout_us);

// Pushes `count` records that lie side by side in `records`, each of the record size, to `consumer` as zsr_producer_push().
// `*pushed` of them, the first ones, were taken, whatever the call returns.
//
// Ownership: the records are copied; they stay the caller's. `pushed` may be NULL.
// Blocks: until all are taken, for at most `timeout_us` microseconds; 0: takes what there is room for; ZSR_FOREVER: as long as it
// takes. A change of the flow that is under way may add up to 10 s.
// Threads: any, one call with a handle at a time.
// Errors: ZSR_AGAIN when not all were taken in time; ZSR_ERROR_SCHEMA if records have no size; the others of
// zsr_producer_push().
zsr_status zsr_producer_push_rows(struct zsr_producer *producer,
                                  int32_t consumer,
                                  const void *records,
                                  size_t count,
                                  int64_t timeout_us,
                                  size_t *pushed);

// Room in the ring for records that the caller writes in place: for one record of at most `length` bytes; where records have a
// size, for as many of them as the item takes, but no more than `length` bytes, and at least for one. `consumer` is as for
// zsr_producer_push(); where a flow has several, ZSR_TO_KEY is refused, as the record is not there yet.
//
// Ownership: `*place`, with `*room` bytes, is the ring's. It holds anything, and may be written until zsr_producer_publish() or any
// other call with the handle, which forgets the reservation.
// Blocks: as zsr_producer_push().
// Threads: any, one call with a handle at a time; `*place` may be written by any threads before the publish.
// Errors: as zsr_producer_push(). `*place` is NULL then, and `*room` 0.
zsr_status zsr_producer_reserve(struct zsr_producer *producer,
                                int32_t consumer,
                                size_t length,
                                int64_t timeout_us,
                                uint8_t **place,
                                size_t *room);

// Pushes the first `used` bytes of what was reserved: one record, or, where records have a size, as many as that is.
//
// Ownership: the memory that was reserved is no longer the caller's to write.
// Blocks: no.
// Threads: any, one call with a handle at a time.
// Errors: ZSR_ERROR_INVALID (nothing is reserved), ZSR_ERROR_BUSY, ZSR_ERROR_SIZE (more than was reserved, or no whole records:
// the reservation stays), ZSR_ERROR_ENDED.
zsr_status zsr_producer_publish(struct zsr_producer *producer,
                                size_t used);

// Sends what is kept to fill items.
//
// Ownership: nothing.
// Blocks: no. A change of the flow that is under way may take up to 10 s.
// Threads: any, one call with a handle at a time.
// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY, ZSR_ERROR_LOST, ZSR_ERROR_ENDED, ZSR_ERROR_RING, ZSR_ERROR_CONTROLLER.
zsr_status zsr_producer_flush(struct zsr_producer *producer);

// Sends what is kept, and waits until all that was pushed lies in the rings of its consumers. `*left` records lie in the
// producer's own rings when nothing has moved for so long; they are delivered when there is room, also without this program.
//
// Ownership: nothing. `left` may be NULL.
// Blocks: until nothing has moved for `patience_us` microseconds; below 0: until all is delivered, or the cancel is triggered.
// Threads: any, one call with a handle at a time.
// Errors: ZSR_AGAIN when some are left; as zsr_producer_flush().
zsr_status zsr_producer_settle(struct zsr_producer *producer,
                               int64_t patience_us,
                               uint64_t *left);

// Ends the stream. All that was pushed is still delivered, also when this program has ended.
//
// Ownership: takes the handle, whatever the call returns, other than ZSR_ERROR_BUSY.
// Blocks: until the controller has answered, for at most 10 s.
// Threads: any, one call with a handle at a time, and none after it.
// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY, ZSR_ERROR_LOST (the stream has ended all the same), ZSR_ERROR_ENDED, ZSR_ERROR_RING,
// ZSR_ERROR_CONTROLLER.
zsr_status zsr_producer_close(struct zsr_producer *producer);

// Leaves without ending the stream: all that was pushed is delivered, and another program can go on.
//
// Ownership: takes the handle, whatever the call returns, other than ZSR_ERROR_BUSY.
// Blocks: until the agent has the rings back, for at most 1 s each.
// Threads: any, one call with a handle at a time, and none after it.
// Errors: as zsr_producer_close().
zsr_status zsr_producer_leave(struct zsr_producer *producer);

// Gives up: what is kept to fill items is not sent, and the flow does what its policy says when a program dies.
//
// Ownership: takes the handle, other than with ZSR_ERROR_BUSY.
// Blocks: as zsr_producer_leave().
// Threads: any, one call with a handle at a time, and none after it.
// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
zsr_status zsr_producer_abort(struct zsr_producer *producer);

// Takes all rings of a producer of `flow`, for a unit that pushes there itself. It ends its streams itself, too (`close` of zsr.cuh, or
// zsr_rings_close()). Nothing rings doorbells: a flow that is to begin fast after a pause is created with `--doorbell false`.
//
// Ownership: `*rings` is the caller's, until zsr_rings_leave() or zsr_rings_close(). `flow` and `options`, which may be NULL,
// stay the caller's.
// Blocks: until controller and agent have answered, for at most 20 s.
// Threads: any.
// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_ABI, ZSR_ERROR_NOT_FOUND (system, flow, member), ZSR_ERROR_CONTROLLER, ZSR_ERROR_RING
// (another program is there, the stream has ended, the rings are in memory of a GPU that this process does not have), ZSR_ERROR_SCHEMA.
// `*rings` is NULL then.
zsr_status zsr_rings_produce(const char *flow,
                             const struct zsr_options *options,
                             struct zsr_rings **rings);

// Takes all rings of a consumer of `flow`, one for each of the flow's lanes, for a unit that pops there itself.
//
// Ownership: `*rings` is the caller's, until zsr_rings_leave(). `flow` and `options`, which may be NULL, stay the caller's.
// Blocks: until controller and agent have answered, for at most 20 s.
// Threads: any.
// Errors: as zsr_rings_produce(). `*rings` is NULL then.
zsr_status zsr_rings_consume(const char *flow,
                             const struct zsr_options *options,
                             struct zsr_rings **rings);

// The member that it is.
//
// Ownership: `*member` is the handle's, and valid as long as it.
// Blocks: no.
// Threads: any, one call with a handle at a time.
// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
zsr_status zsr_rings_member(const struct zsr_rings *rings, const char **member);

// How many rings there are: one, or, of a producer of a shuffle, one to each consumer.
//
// Ownership: nothing.
// Blocks: no.
// Threads: any, one call with a handle at a time.
// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
zsr_status zsr_rings_count(const struct zsr_rings *rings, size_t *count);

// Ring number `index`, from 0: of a producer in the order of the flow's consumers, of a consumer in that of its lanes.
//
// Ownership: `ring` is the caller's, and `ring->size` has to be sizeof(zsr_ring) (ZSR_RING_INIT). What it points to is the
// handle's: before that ends, no unit may use the memory any more, and a CUDA program has unregistered it if `ring->gpu` is 0.
// Blocks: no.
// Threads: any, one call with a handle at a time; the memory is for one producer, or one consumer, at a time.
// Errors: ZSR_ERROR_INVALID (no such ring), ZSR_ERROR_BUSY, ZSR_ERROR_ABI if `ring->size` is wrong.
zsr_status zsr_rings_get(const struct zsr_rings *rings,
                         size_t index,
                         struct zsr_ring *ring);

// Leaves. Rings whose streams were closed, or drained to their end, have ended; the others are for the next program.
//
// Ownership: takes the handle, other than with ZSR_ERROR_BUSY.
// Blocks: until the agent has the rings back, for at most 1 s each.
// Threads: any, one call with a handle at a time, and none after it.
// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
zsr_status zsr_rings_leave(struct zsr_rings *rings);

// Ends the streams of a producer's rings behind what was pushed, and leaves. To be called when no unit pushes any more.
//
// Ownership: takes the handle, other than with ZSR_ERROR_BUSY.
// Blocks: as zsr_rings_leave().
// Threads: any, one call with a handle at a time, and none after it.
// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
zsr_status zsr_rings_close(struct zsr_rings *rings);

// Takes a producer of `flow`, and a consumer of `answers`: a shuffle whose consumers produce in `flow`, and the other way round.
// `options.member` is the producer's; of `answers` it is the first whose ring is free.
//
// Ownership: `*streams` is the caller's, until zsr_out_streams_close() or zsr_out_streams_abort(). The texts, and `options`, which may
// be NULL, stay the caller's.
// Blocks: until controller and agent have answered, for at most 20 s.
// Threads: any.
// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_ABI, ZSR_ERROR_NOT_FOUND (system, flow, member), ZSR_ERROR_CONTROLLER, ZSR_ERROR_RING
// (another program is there), ZSR_ERROR_SCHEMA. `*streams` is NULL then.
zsr_status zsr_out_streams_attach(const char *flow,
                                  const char *answers,
                                  const struct zsr_options *options,
                                  struct zsr_out_streams **streams);

// Opens a stream to the consumer with the number `consumer`, from 0, in the flow's order. Its name of `length` bytes may be anything,
// also one that another stream has. The receiver sees it with the stream's first record, or its flush.
//
// Ownership: `*stream` is the caller's, until zsr_out_stream_end() or zsr_out_stream_abort(); it may be used by another thread than
// `streams`, and after that. `name` stays the caller's.
// Blocks: until there is room in the ring.
// Threads: any, one call with a handle at a time.
// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY, ZSR_ERROR_ROUTE, ZSR_ERROR_SIZE (the name), ZSR_ERROR_CANCELLED, ZSR_ERROR_ENDED.
// `*stream` is NULL then.
zsr_status zsr_out_streams_open(struct zsr_out_streams *streams,
                                const void *name,
                                size_t length,
                                size_t consumer,
                                struct zsr_out_stream **stream);

// Ends the flow. Streams that were not ended are aborted.
//
// Ownership: takes `streams`, also when it fails.
// Blocks: until each consumer has read its ring to the end.
// Threads: any, one call with a handle at a time.
// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY (it lives on), ZSR_ERROR_CANCELLED, ZSR_ERROR_ENDED, ZSR_ERROR_LOST.
zsr_status zsr_out_streams_close(struct zsr_out_streams *streams);

// Gives the flow up. Its policy says what follows.
//
// Ownership: takes `streams`. Its open streams can only be ended.
// Blocks: no.
// Threads: any, one call with a handle at a time.
// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY (it lives on).
zsr_status zsr_out_streams_abort(struct zsr_out_streams *streams);

// Pushes a record of `length` bytes. It may be longer than the flow's items, and not longer than the receiver's window. It may stay in an
// item that is not full until another record fills that, or the stream is flushed or ended, or a push waits.
//
// Ownership: the record is copied; all arguments stay the caller's.
// Blocks: until the receiver has room, for at most `timeout_us` microseconds; 0: not at all; ZSR_FOREVER: as long as it takes. A long
// record that has begun to go goes as a whole, however long that takes.
// Threads: any, one call with a handle at a time.
// Errors: ZSR_AGAIN when there was no room in time; ZSR_ERROR_INVALID, ZSR_ERROR_BUSY, ZSR_ERROR_STREAM (the receiver wants no more),
// ZSR_ERROR_CANCELLED, ZSR_ERROR_ENDED.
zsr_status zsr_out_stream_push(struct zsr_out_stream *stream,
                               const void *record,
                               size_t length,
                               int64_t timeout_us);

// Has all that was pushed go now.
//
// Ownership: `stream` stays the caller's.
// Blocks: no.
// Threads: any, one call with a handle at a time.
// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY, ZSR_ERROR_ENDED, ZSR_ERROR_LOST.
zsr_status zsr_out_stream_flush(struct zsr_out_stream *stream);

// Ends the stream: its receiver finds ZSR_END behind all records.
//
// Ownership: takes `stream`, also when it fails.
// Blocks: until there is room in the ring.
// Threads: any, one call with a handle at a time.
// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY (it lives on), ZSR_ERROR_STREAM (the receiver wanted no more), ZSR_ERROR_CANCELLED,
// ZSR_ERROR_ENDED.
zsr_status zsr_out_stream_end(struct zsr_out_stream *stream);

// Gives the stream up. Its receiver finds ZSR_ERROR_STREAM with `why`, which may be NULL, behind all records.
//
// Ownership: takes `stream`, also when it fails; `why` stays the caller's.
// Blocks: until there is room in the ring.
// Threads: any, one call with a handle at a time.
// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY (it lives on), ZSR_ERROR_CANCELLED, ZSR_ERROR_ENDED.
zsr_status zsr_out_stream_abort(struct zsr_out_stream *stream, const char *why);

// Takes a consumer of `flow`, and a producer of `answers`: a shuffle whose consumers produce in `flow`, and the other way round.
// `options.member` is the consumer's; of `answers` it is the first whose rings are free.
//
// `window`: bytes of one stream that wait here, at most, and the longest record: 64 KiB or more; 0: 256 KiB. Each record counts for
// 64 B beside its bytes. `most`: streams that are open here, at most; one more is cancelled; 0: 1024.
//
// Ownership: `*streams` is the caller's, until zsr_in_streams_end(). The texts, and `options`, which may be NULL, stay the caller's.
// Blocks: until controller and agent have answered, for at most 20 s.
// Threads: any.
// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_ABI, ZSR_ERROR_NOT_FOUND (system, flow, member), ZSR_ERROR_CONTROLLER, ZSR_ERROR_RING
// (another program is there), ZSR_ERROR_SCHEMA. `*streams` is NULL then.
zsr_status zsr_in_streams_attach(const char *flow,
                                 const char *answers,
                                 uint32_t window,
                                 size_t most,
                                 const struct zsr_options *options,
                                 struct zsr_in_streams **streams);

// The next stream that a sender has opened.
//
// Ownership: `*stream` is the caller's, until zsr_in_stream_end(); it may be used by another thread than `streams`, and after that.
// Blocks: until there is one, for at most `timeout_us` microseconds; 0: not at all; ZSR_FOREVER: as long as it takes.
// Threads: any, one call with a handle at a time.
// Errors: ZSR_AGAIN when none came in time, ZSR_END when all senders have closed; ZSR_ERROR_INVALID, ZSR_ERROR_BUSY,
// ZSR_ERROR_CANCELLED, ZSR_ERROR_ENDED, ZSR_ERROR_DAMAGED (the flow carries no streams). `*stream` is NULL then.
zsr_status zsr_in_streams_accept(struct zsr_in_streams *streams,
                                 int64_t timeout_us,
                                 struct zsr_in_stream **stream);

// Accepts no more streams: those that were not accepted, and later ones, are cancelled. Those that were accepted go on.
//
// Ownership: takes `streams`.
// Blocks: no.
// Threads: any, one call with a handle at a time.
// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY (it lives on).
zsr_status zsr_in_streams_end(struct zsr_in_streams *streams);

// The name that the sender has given the stream: `*length` bytes.
//
// Ownership: `*name` is the handle's, and valid as long as it.
// Blocks: no.
// Threads: any, one call with a handle at a time.
// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY.
zsr_status zsr_in_stream_name(const struct zsr_in_stream *stream, const void **name, size_t *length);

// Pops the next record: `*length` bytes.
//
// Ownership: `*record` is the handle's, and valid until the next call with it. NULL if there is none.
// Blocks: until there is a record, for at most `timeout_us` microseconds; 0: not at all; ZSR_FOREVER: as long as it takes.
// Threads: any, one call with a handle at a time.
// Errors: ZSR_AGAIN when none came in time, ZSR_END at the stream's end; ZSR_ERROR_INVALID, ZSR_ERROR_BUSY, ZSR_ERROR_STREAM (its
// sender has given it up, or is gone), ZSR_ERROR_CANCELLED, ZSR_ERROR_ENDED, ZSR_ERROR_DAMAGED.
zsr_status zsr_in_stream_pop(struct zsr_in_stream *stream,
                             int64_t timeout_us,
                             const void **record,
                             size_t *length);

// Ends the reading of a stream. If the stream has not ended, it is cancelled: its sender finds ZSR_ERROR_STREAM with `why`, which may
// be NULL.
//
// Ownership: takes `stream`; `why` stays the caller's.
// Blocks: no.
// Threads: any, one call with a handle at a time.
// Errors: ZSR_ERROR_INVALID, ZSR_ERROR_BUSY (it lives on).
zsr_status zsr_in_stream_end(struct zsr_in_stream *stream,
                             const char *why);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ZSR_H */

/* What a zsr_options begins with. */
#define ZSR_OPTIONS_INIT { sizeof(zsr_options), ZSR_ABI_VERSION, 0, NULL, NULL, NULL, NULL, NULL, NULL }
/* What a zsr_batch begins with. */
#define ZSR_BATCH_INIT { sizeof(zsr_batch), NULL, 0, 0, 0, 0, 0, 0 }
/* What a zsr_ring begins with. */
#define ZSR_RING_INIT { sizeof(zsr_ring), NULL, 0, 0, 0, 0, 0, 0, 0, NULL, NULL }
