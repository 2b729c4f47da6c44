// zsr in C++17: a thin layer over zsr.h, which says what each call does. Handles end with their objects, errors are exceptions.
//
//     zsr::producer producer("rows");
//     producer.push("1,ada");
//     producer.close();
//
//     zsr::consumer consumer("rows");
//     while (auto batch = consumer.pop())
//         for (std::string_view record : batch) { ... }
//
// Threads: as in zsr.h, one call with an object at a time.
#ifndef ZSR_HPP
#define ZSR_HPP

#include "zsr.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace zsr {

// What a call says when it fails. what() is zsr_last_error().
class error : public std::runtime_error {
public:
    error(zsr_status status, const std::string &text) : std::runtime_error(text), status_(status) {}
    zsr_status status() const noexcept { return status_; }

private:
    zsr_status status_;
};

// Throws an error's text; gives back what is none.
inline zsr_status check(zsr_status status) {
    if (status < 0) throw error(status, zsr_last_error());
    return status;
}

// Microseconds of a time that is not negative.
template <class Rep, class Period> std::int64_t micros(std::chrono::duration<Rep, Period> time) {
    auto us = std::chrono::ceil<std::chrono::microseconds>(time).count();
    return us < 0 ? 0 : static_cast<std::int64_t>(us);
}

// Ends blocking calls of what was attached with it. Has to outlive the attach only.
class cancel {
public:
    cancel() : cancel_(zsr_cancel_new()) {
        if (!cancel_) throw std::bad_alloc();
    }
    void trigger() const { check(zsr_cancel_trigger(cancel_.get())); }
    const zsr_cancel *get() const noexcept { return cancel_.get(); }

private:
    struct free {
        void operator()(zsr_cancel *c) const noexcept { zsr_cancel_free(c); }
    };
    std::unique_ptr<zsr_cancel, free> cancel_;
};

// What a program says when it attaches; what is empty or 0 is found out.
struct options {
    std::string system = {}, controller = {}, member = {}, schema = {}, certificate = {};
    std::uint32_t record_size = 0;
    const class cancel *cancel = nullptr;

    // Points into this object.
    zsr_options get() const noexcept {
        zsr_options o = ZSR_OPTIONS_INIT;
        auto text = [](const std::string &s) { return s.empty() ? nullptr : s.c_str(); };
        o.record_size = record_size;
        o.system = text(system);
        o.controller = text(controller);
        o.member = text(member);
        o.schema = text(schema);
        o.certificate = text(certificate);
        o.cancel = cancel ? cancel->get() : nullptr;
        return o;
    }
};

// Waits until so many programs wait at the barrier `name`. False: they did not come in time.
inline bool barrier(const std::string &name, std::uint32_t participants, const options &with = {},
                    std::int64_t timeout_us = ZSR_FOREVER) {
    zsr_options o = with.get();
    return check(zsr_barrier(name.c_str(), participants, timeout_us, &o)) == ZSR_OK;
}

// Zeroed memory that a NIC on this machine can read and write, for layouts.
class registered {
public:
    explicit registered(std::size_t length) {
        zsr_registered *memory = nullptr;
        check(zsr_registered_new(length, &memory));
        memory_.reset(memory);
    }
    // Its bytes from `offset` on, as elements.
    template <class T> T *at(std::size_t offset = 0) const noexcept {
        static_assert(std::is_trivially_copyable_v<T>, "its bytes are what is sent");
        return reinterpret_cast<T *>(static_cast<char *>(zsr_registered_begin(get())) + offset);
    }
    zsr_registered *get() const noexcept { return memory_.get(); }

private:
    struct free {
        void operator()(zsr_registered *m) const noexcept { zsr_registered_free(m); }
    };
    std::unique_ptr<zsr_registered, free> memory_;
};

// A column of a layout whose rows are `stride` elements apart.
template <class T> zsr_layout_column column(const T *first, std::uint64_t stride = 1) noexcept {
    return {first, stride * sizeof(T), static_cast<std::uint32_t>(sizeof(T))};
}

// `count` rows, the first `frequency` of every `period`, from row `start` on.
inline zsr_layout rows(std::uint32_t count, std::uint64_t start = 0, std::uint64_t period = 1, std::uint64_t frequency = 1) noexcept {
    zsr_layout layout{};
    layout.rows = ZSR_ROWS_EVERY;
    layout.count = count;
    layout.start = start;
    layout.period = period;
    layout.frequency = frequency;
    return layout;
}

// Rows whose bits are set, of `count` bits in registered memory. The first bit is row `start`'s.
inline zsr_layout chosen(const std::uint8_t *bits, std::uint32_t count, std::uint64_t start = 0) noexcept {
    zsr_layout layout = rows(count, start);
    layout.rows = ZSR_ROWS_CHOSEN;
    layout.by = bits;
    return layout;
}

// Rows of these numbers, in registered memory.
template <class T> zsr_layout listed(const T *numbers, std::uint32_t count) noexcept {
    static_assert(std::is_unsigned_v<T> && (sizeof(T) == 4 || sizeof(T) == 8), "numbers of rows");
    zsr_layout layout = rows(count);
    layout.rows = ZSR_ROWS_LISTED;
    layout.by = numbers;
    layout.width = sizeof(T);
    return layout;
}

namespace detail {
// The handles of these regions.
inline std::vector<const zsr_registered *> regions_of(const std::vector<const registered *> &regions) {
    std::vector<const zsr_registered *> memory;
    for (const registered *region : regions) memory.push_back(region ? region->get() : nullptr);
    return memory;
}
} // namespace detail

// The popping side of one member of a flow, which says where records go before they come. One that is destroyed leaves.
class layout_consumer {
public:
    // Regions may be destroyed before the consumer.
    layout_consumer(const std::string &flow, const std::vector<const registered *> &regions, const options &with = {}) {
        zsr_options o = with.get();
        zsr_layout_consumer *c = nullptr;
        auto memory = detail::regions_of(regions);
        check(zsr_layout_consumer_attach(flow.c_str(), &o, memory.data(), memory.size(), &c));
        consumer_.reset(c);
    }

    // Where the records go of the next item that has no place yet: rows of these columns, which belong to the NIC until the item was
    // popped. False: as many are placed as the ring has items.
    bool place(zsr_layout rows, const std::vector<zsr_layout_column> &columns) {
        rows.columns = columns.data();
        rows.column_count = columns.size();
        return check(zsr_layout_consumer_place(get(), &rows)) == ZSR_OK;
    }
    // The next item; nullopt: none came in time, or, if ended(), none will come.
    std::optional<zsr_arrived> pop(std::int64_t timeout_us = ZSR_FOREVER) {
        zsr_arrived arrived{};
        zsr_status said = check(zsr_layout_consumer_pop(get(), timeout_us, &arrived));
        ended_ = said == ZSR_END;
        return said == ZSR_OK ? std::optional(arrived) : std::nullopt;
    }
    bool ended() const noexcept { return ended_; }
    void leave() { check(zsr_layout_consumer_leave(consumer_.release())); }
    // Gives up, as a program that dies.
    void abort() { check(zsr_layout_consumer_abort(consumer_.release())); }
    zsr_layout_consumer *get() const noexcept { return consumer_.get(); }

private:
    struct end {
        void operator()(zsr_layout_consumer *c) const noexcept { zsr_layout_consumer_leave(c); }
    };
    std::unique_ptr<zsr_layout_consumer, end> consumer_;
    bool ended_ = false;
};

// The pushing side of one member of a flow. One that is destroyed before close() or leave() leaves: the stream does not end.
class producer {
public:
    explicit producer(const std::string &flow, const options &with = {}) {
        zsr_options o = with.get();
        zsr_producer *p = nullptr;
        check(zsr_producer_attach(flow.c_str(), &o, &p));
        producer_.reset(p);
    }
    // With memory that layouts name, which may be destroyed before the producer.
    producer(const std::string &flow, const std::vector<const registered *> &regions, const options &with = {}) {
        zsr_options o = with.get();
        zsr_producer *p = nullptr;
        auto memory = detail::regions_of(regions);
        check(zsr_producer_attach_registered(flow.c_str(), &o, memory.data(), memory.size(), &p));
        producer_.reset(p);
    }

    // Rows of these columns as one item, without a copy. They must not change until was_taken(). False: no room in time.
    bool lay_out(zsr_layout rows, const std::vector<zsr_layout_column> &columns, zsr_ticket *ticket = nullptr,
                 std::int32_t consumer = ZSR_TO_KEY, std::int64_t timeout_us = ZSR_FOREVER) {
        rows.columns = columns.data();
        rows.column_count = columns.size();
        return check(zsr_producer_lay_out(get(), consumer, &rows, timeout_us, ticket)) == ZSR_OK;
    }
    bool was_taken(const zsr_ticket &ticket) {
        std::int32_t taken = 0;
        check(zsr_producer_was_taken(get(), &ticket, &taken));
        return taken != 0;
    }

    // Waits for room as long as it takes.
    void push(std::string_view record, std::int32_t consumer = ZSR_TO_KEY) { put(record, consumer, ZSR_FOREVER); }
    // False: no room now.
    bool try_push(std::string_view record, std::int32_t consumer = ZSR_TO_KEY) { return put(record, consumer, 0); }
    // False: no room in time.
    template <class Rep, class Period>
    bool push_for(std::string_view record, std::chrono::duration<Rep, Period> time, std::int32_t consumer = ZSR_TO_KEY) {
        return put(record, consumer, micros(time));
    }
    // A record that is the bytes of a value.
    template <class T> void push_value(const T &value, std::int32_t consumer = ZSR_TO_KEY) {
        static_assert(std::is_trivially_copyable_v<T>, "its bytes are the record");
        push({reinterpret_cast<const char *>(&value), sizeof value}, consumer);
    }
    // `count` records side by side. Says how many were taken: all, unless the time is over.
    template <class T>
    std::size_t push_rows(const T *rows, std::size_t count, std::int64_t timeout_us = ZSR_FOREVER,
                          std::int32_t consumer = ZSR_TO_KEY) {
        static_assert(std::is_trivially_copyable_v<T>, "its bytes are the record");
        if (sizeof(T) != record_size()) {
            throw error(ZSR_ERROR_SIZE, "rows of " + std::to_string(sizeof(T)) + " B for a flow of records of " +
                                            std::to_string(record_size()) + " B");
        }
        std::size_t pushed = 0;
        check(zsr_producer_push_rows(get(), consumer, rows, count, timeout_us, &pushed));
        return pushed;
    }
    // Room in the ring, to be written and then published; {nullptr, 0}: none in time.
    std::pair<std::uint8_t *, std::size_t> reserve(std::size_t length, std::int64_t timeout_us = ZSR_FOREVER,
                                                   std::int32_t consumer = ZSR_TO_KEY) {
        std::pair<std::uint8_t *, std::size_t> room{nullptr, 0};
        check(zsr_producer_reserve(get(), consumer, length, timeout_us, &room.first, &room.second));
        return room;
    }
    void publish(std::size_t used) { check(zsr_producer_publish(get(), used)); }
    void flush() { check(zsr_producer_flush(get())); }
    // How many records still lie in its own rings when nothing has moved for so long.
    std::uint64_t settle(std::int64_t patience_us = ZSR_FOREVER) {
        std::uint64_t left = 0;
        check(zsr_producer_settle(get(), patience_us, &left));
        return left;
    }
    // Ends the stream.
    void close() { check(zsr_producer_close(producer_.release())); }
    void leave() { check(zsr_producer_leave(producer_.release())); }
    // Gives up, as a program that dies.
    void abort() { check(zsr_producer_abort(producer_.release())); }

    std::string member() const { return text(zsr_producer_member); }
    std::string schema() const { return text(zsr_producer_schema); }
    std::uint32_t record_size() const {
        std::uint32_t size = 0;
        check(zsr_producer_record_size(get(), &size));
        return size;
    }
    std::size_t consumers() const {
        std::size_t count = 0;
        check(zsr_producer_consumers(get(), &count));
        return count;
    }
    zsr_producer *get() const noexcept { return producer_.get(); }

private:
    struct end {
        void operator()(zsr_producer *p) const noexcept { zsr_producer_leave(p); }
    };
    bool put(std::string_view record, std::int32_t consumer, std::int64_t timeout_us) {
        return check(zsr_producer_push(get(), consumer, record.data(), record.size(), timeout_us)) == ZSR_OK;
    }
    std::string text(zsr_status (*of)(const zsr_producer *, const char **)) const {
        const char *text = nullptr;
        check(of(get(), &text));
        return text;
    }
    std::unique_ptr<zsr_producer, end> producer_;
};

// Records where they lie in the ring; destroying it gives them back. False: none came in time, or, if ended(), none will come.
class batch {
public:
    batch(batch &&other) noexcept
        : consumer_(std::exchange(other.consumer_, nullptr)), batch_(other.batch_), ended_(other.ended_) {}
    batch &operator=(batch &&other) noexcept {
        if (this != &other) {
            give_back();
            consumer_ = std::exchange(other.consumer_, nullptr);
            batch_ = other.batch_;
            ended_ = other.ended_;
        }
        return *this;
    }
    ~batch() { give_back(); }

    explicit operator bool() const noexcept { return consumer_ != nullptr; }
    bool ended() const noexcept { return ended_; }
    std::size_t size() const noexcept { return consumer_ ? batch_.count : 0; }
    // Bytes of each record; 0: they differ in length.
    std::size_t record_size() const noexcept { return batch_.record_size; }
    // The value whose bytes record `i` is. The records have its size.
    template <class T> T value(std::size_t i) const {
        static_assert(std::is_trivially_copyable_v<T>, "the record is its bytes");
        if (i >= size() || sizeof(T) != batch_.record_size) {
            throw error(ZSR_ERROR_SIZE, "record " + std::to_string(i) + " of " + std::to_string(size()) + ", of " +
                                            std::to_string(batch_.record_size) + " B, is no value of " +
                                            std::to_string(sizeof(T)) + " B");
        }
        T value;
        std::memcpy(&value, batch_.data + i * sizeof(T), sizeof(T));
        return value;
    }
    const zsr_batch &get() const noexcept { return batch_; }
    // As the destructor, now.
    void give_back() noexcept {
        if (consumer_) zsr_consumer_give_back(consumer_, &batch_);
        consumer_ = nullptr;
    }

    // Goes through the records.
    class iterator {
    public:
        using iterator_category = std::input_iterator_tag;
        using value_type = std::string_view;
        using difference_type = std::ptrdiff_t;
        using pointer = const std::string_view *;
        using reference = const std::string_view &;
        iterator() = default;
        explicit iterator(const zsr_batch &batch) : batch_(batch) { ++*this; }
        reference operator*() const noexcept { return record_; }
        pointer operator->() const noexcept { return &record_; }
        iterator &operator++() {
            const std::uint8_t *record = nullptr;
            std::size_t length = 0;
            more_ = check(zsr_batch_next(&batch_, &record, &length)) == ZSR_OK;
            record_ = {reinterpret_cast<const char *>(record), length};
            return *this;
        }
        bool operator==(const iterator &other) const noexcept {
            return more_ == other.more_ && (!more_ || batch_.next == other.batch_.next);
        }
        bool operator!=(const iterator &other) const noexcept { return !(*this == other); }

    private:
        zsr_batch batch_ = ZSR_BATCH_INIT;
        std::string_view record_ = {};
        bool more_ = false;
    };
    iterator begin() const { return consumer_ ? iterator(batch_) : iterator(); }
    iterator end() const { return iterator(); }

private:
    friend class consumer;
    using call = zsr_status(zsr_consumer *, std::int64_t, zsr_batch *);
    batch(zsr_consumer *consumer, std::int64_t timeout_us, call *take = zsr_consumer_take) {
        zsr_status status = check(take(consumer, timeout_us, &batch_));
        if (status == ZSR_OK) consumer_ = consumer;
        ended_ = status == ZSR_END;
    }
    zsr_consumer *consumer_ = nullptr;
    zsr_batch batch_ = ZSR_BATCH_INIT;
    bool ended_ = false;
};

// Aggregates of rows by group: `aggregates` as "count, sum(price)", `group_by` as "shop"; empty: all rows are one group.
class combiner {
public:
    combiner(const std::string &schema, const std::string &aggregates, const std::string &group_by = {}) {
        zsr_combiner *c = nullptr;
        check(zsr_combiner_new(schema.c_str(), group_by.c_str(), aggregates.c_str(), &c));
        combiner_.reset(c);
    }

    // Rows whose bytes are those of values side by side.
    template <class T> void add(const T *rows, std::size_t count) {
        static_assert(std::is_trivially_copyable_v<T>, "its bytes are the row");
        check(zsr_combiner_add(get(), reinterpret_cast<const std::uint8_t *>(rows), count * sizeof(T)));
    }
    // Records of one size, where they lie.
    void add(const batch &rows) {
        if (rows.size() && !rows.record_size()) throw error(ZSR_ERROR_SIZE, "records that differ in length are no rows");
        check(zsr_combiner_add(get(), rows.get().data, rows.size() * rows.record_size()));
    }
    // What the results are: the columns of the group, then the aggregates. There are no gaps between columns.
    std::string schema() const {
        const char *text = nullptr;
        check(zsr_combiner_schema(get(), &text));
        return text;
    }
    // One row per group, in their order. A row has the bytes of a T, which has no gaps, either.
    template <class T> std::vector<T> results() {
        static_assert(std::is_trivially_copyable_v<T>, "the row is its bytes");
        zsr_batch rows = ZSR_BATCH_INIT;
        check(zsr_combiner_results(get(), &rows));
        if (sizeof(T) != rows.record_size) {
            throw error(ZSR_ERROR_SIZE, "results have " + std::to_string(rows.record_size) + " B (" + schema() +
                                            "), and are no values of " + std::to_string(sizeof(T)) + " B");
        }
        std::vector<T> results(rows.count);
        if (rows.count) std::memcpy(results.data(), rows.data, rows.bytes);
        return results;
    }
    zsr_combiner *get() const noexcept { return combiner_.get(); }

private:
    struct end {
        void operator()(zsr_combiner *c) const noexcept { zsr_combiner_free(c); }
    };
    std::unique_ptr<zsr_combiner, end> combiner_;
};

// The popping side of one member of a flow. One that is destroyed leaves: what is not popped is for the next program. Batches have to
// be destroyed before it.
class consumer {
public:
    explicit consumer(const std::string &flow, const options &with = {}) {
        zsr_options o = with.get();
        zsr_consumer *c = nullptr;
        check(zsr_consumer_attach(flow.c_str(), &o, &c));
        consumer_.reset(c);
    }

    // The next records, as many as came together, waiting for them as long as it takes. False at the end of the stream.
    batch pop() { return batch(get(), ZSR_FOREVER); }
    // Those that are there now.
    batch try_pop() { return batch(get(), 0); }
    template <class Rep, class Period> batch pop_for(std::chrono::duration<Rep, Period> time) {
        return batch(get(), micros(time));
    }
    // The newest records; all that lie in front of them are popped unread. The last one of the batch is the newest of all.
    batch pop_newest() { return batch(get(), ZSR_FOREVER, zsr_consumer_take_newest); }
    template <class Rep, class Period> batch pop_newest_for(std::chrono::duration<Rep, Period> time) {
        return batch(get(), micros(time), zsr_consumer_take_newest);
    }
    // Pops until the end of the stream, and gives all records to a combiner, where they lie. False: the end did not come in time.
    bool combine(combiner &into, std::int64_t timeout_us = ZSR_FOREVER) {
        return check(zsr_consumer_combine(get(), into.get(), timeout_us)) == ZSR_OK;
    }
    void leave() { check(zsr_consumer_leave(consumer_.release())); }
    // Gives up, as a program that dies.
    void abort() { check(zsr_consumer_abort(consumer_.release())); }

    std::string member() const { return text(zsr_consumer_member); }
    std::string schema() const { return text(zsr_consumer_schema); }
    zsr_consumer *get() const noexcept { return consumer_.get(); }

private:
    struct end {
        void operator()(zsr_consumer *c) const noexcept { zsr_consumer_leave(c); }
    };
    std::string text(zsr_status (*of)(const zsr_consumer *, const char **)) const {
        const char *text = nullptr;
        check(of(get(), &text));
        return text;
    }
    std::unique_ptr<zsr_consumer, end> consumer_;
};

// The first of these consumers, the most urgent first, that has records, which its next pop gives without waiting. None: none had records
// in time, or, if `ended`, all streams have ended. Of an error, `*failed` is the consumer that has it.
struct urgent {
    class consumer *consumer = nullptr;
    bool ended = false;
};
inline urgent most_urgent(const std::vector<consumer *> &consumers, std::int64_t timeout_us = ZSR_FOREVER,
                          consumer **failed = nullptr) {
    std::vector<zsr_consumer *> handles;
    for (consumer *each : consumers) handles.push_back(each->get());
    std::size_t at = 0;
    zsr_status status = zsr_consumer_most_urgent(handles.data(), handles.size(), timeout_us, &at);
    if (status < 0 && failed && at < consumers.size()) *failed = consumers[at];
    check(status);
    return {status == ZSR_OK ? consumers[at] : nullptr, status == ZSR_END};
}

} // namespace zsr

#endif
