// zsr.hpp on a running system: flows `words` (records of any length) and `numbers` (`n: u64, x: f64`), to h2 and h3 by `n`.
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>
#include <zsr.hpp>

#define EXPECT(what) ((what) ? (void)0 : (std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what), std::exit(1)))

struct row {
    std::uint64_t n;
    double x;
};

struct result {
    std::uint64_t n;
    double sum;
    std::uint64_t count;
};

template <class F> zsr_status fails(F call) {
    try {
        call();
    } catch (const zsr::error &e) {
        EXPECT(*e.what());
        return e.status();
    }
    return ZSR_OK;
}

static void words() {
    static_assert(!std::is_copy_constructible_v<zsr::producer> && std::is_nothrow_move_constructible_v<zsr::producer>);
    static_assert(!std::is_copy_constructible_v<zsr::batch> && std::is_nothrow_move_assignable_v<zsr::batch>);
    EXPECT(fails([] { zsr::producer("no-such"); }) == ZSR_ERROR_NOT_FOUND);
    zsr::producer first("words");
    zsr::producer producer = std::move(first);
    EXPECT(fails([&] { first.push("x"); }) == ZSR_ERROR_INVALID);
    zsr::consumer consumer("words");
    EXPECT(producer.member() == "h1" && consumer.schema().empty() && producer.consumers() == 1);
    EXPECT(!consumer.try_pop() && !consumer.pop_for(std::chrono::microseconds(1)).ended());
    EXPECT(fails([] { zsr::consumer("words"); }) == ZSR_ERROR_RING);
    producer.push("one");
    EXPECT(producer.try_push("two") && producer.push_for("three", std::chrono::seconds(60)));
    auto room = producer.reserve(8);
    std::memcpy(room.first, "four", 4);
    producer.publish(4);
    producer.flush();
    std::vector<std::string> got;
    {
        zsr::batch batch = consumer.pop();
        for (std::string_view word : batch) got.emplace_back(word);
        producer.push("five");
        producer.close();
        // Two batches at once.
        zsr::batch other = consumer.pop();
        got.emplace_back(*other.begin());
        batch = std::move(other);
        EXPECT(batch.size() == 1 && !other);
    }
    EXPECT((got == std::vector<std::string>{"one", "two", "three", "four", "five"}));
    zsr::batch end = consumer.pop();
    EXPECT(!end && end.ended() && end.begin() == end.end());
}

static void numbers() {
    zsr::options h2, h3;
    h2.member = "h2", h3.member = "h3";
    zsr::consumer two("numbers", h2), three("numbers", h3);
    zsr::producer producer("numbers");
    std::vector<row> rows(1000);
    for (std::size_t i = 0; i < rows.size(); i++) rows[i] = {i % 2, double(i)};
    EXPECT(fails([&] { producer.push_rows("text", 4); }) == ZSR_ERROR_SIZE);
    std::thread pushing([&] {
        EXPECT(producer.push_rows(rows.data(), rows.size()) == rows.size());
        producer.push_value(row{1, -1});
        producer.close();
    });
    std::size_t expected = 0, count = 0;
    while (auto batch = two.pop())
        for (std::size_t i = 0; i < batch.size(); i++, expected += 2) EXPECT(batch.value<row>(i).x == double(expected));
    while (auto batch = three.pop()) {
        EXPECT(fails([&] { batch.value<char>(0); }) == ZSR_ERROR_SIZE);
        count += batch.size();
    }
    pushing.join();
    EXPECT(expected == 1000 && count == 501);
}

// Flows `plus-news` and `plus-sales` (`n: u64, x: f64`).
static void kinds() {
    zsr::producer news("plus-news"), sales("plus-sales");
    zsr::consumer newest("plus-news"), sold("plus-sales");
    EXPECT(!newest.pop_newest_for(std::chrono::microseconds(1)) && !zsr::most_urgent({&sold, &newest}, 0).consumer);
    for (const char *word : {"old", "new"}) {
        news.push(word);
        EXPECT(news.settle() == 0);
    }
    EXPECT(zsr::most_urgent({&sold, &newest}).consumer == &newest);
    zsr::batch batch = newest.pop_newest();
    EXPECT(batch.size() == 1 && *batch.begin() == "new");
    zsr::consumer *failed = nullptr;
    EXPECT(fails([&] { zsr::most_urgent({&newest, &newest}, 0, &failed); }) == ZSR_ERROR_BUSY && failed == &newest);

    EXPECT(fails([] { zsr::combiner("n: u64", "sum(m)"); }) == ZSR_ERROR_INVALID);
    zsr::combiner total("n: u64, x: f64", "sum(x), count", "n");
    EXPECT(total.schema() == "n: u64, sum_x: f64, count: u64" && total.results<result>().empty());
    row rows[] = {{1, 0.5}, {0, 2}, {1, 0.25}};
    EXPECT(sales.push_rows(rows, 3) == 3 && sales.settle() == 0);
    {
        zsr::batch taken = sold.pop();
        total.add(taken);
    }
    total.add(rows, 1);
    EXPECT(!sold.combine(total, 0));
    sales.push_value(row{2, 8});
    sales.close();
    EXPECT(sold.combine(total));
    std::vector<result> results = total.results<result>();
    EXPECT(results.size() == 3 && results[0].sum == 2 && results[1].sum == 1.25 && results[1].count == 3 && results[2].n == 2);
    EXPECT(fails([&] { total.results<row>(); }) == ZSR_ERROR_SIZE);
    news.close();
    zsr::urgent end = zsr::most_urgent({&sold, &newest});
    EXPECT(!end.consumer && end.ended);
}

// Flow `plus-laid`: layouts at the producer.
static void layouts() {
    zsr::registered memory(4096);
    auto notes = memory.at<std::uint32_t>();
    auto prices = memory.at<double>(400);
    for (int n = 0; n < 100; n++) {
        notes[n] = n;
        prices[n] = n / 2.0;
    }
    *memory.at<std::uint32_t>(2000) = 99;
    *memory.at<std::uint8_t>(3000) = 0b1010;
    EXPECT(fails([&] { zsr::producer("words", {&memory}); }) == ZSR_ERROR_RING);
    EXPECT(fails([&] { zsr::producer("plus-laid", {&memory, nullptr}); }) == ZSR_ERROR_INVALID);
    zsr::producer producer("plus-laid", {&memory});
    zsr::consumer consumer("plus-laid");
    std::vector<zsr_layout_column> columns{zsr::column(notes), zsr::column(prices)};
    zsr_ticket ticket;
    EXPECT(producer.lay_out(zsr::rows(2, 10, 5), columns, &ticket));
    EXPECT(producer.lay_out(zsr::chosen(memory.at<std::uint8_t>(3000), 8, 20), columns));
    EXPECT(producer.lay_out(zsr::listed(memory.at<std::uint32_t>(2000), 1), columns));
    EXPECT(fails([&] { producer.lay_out(zsr::rows(2000), columns); }) == ZSR_ERROR_INVALID);
    while (!producer.was_taken(ticket)) {}
    producer.close();
    std::vector<double> got;
    while (auto batch = consumer.pop()) {
        for (std::string_view record : batch) {
            std::uint32_t note;
            double price;
            EXPECT(record.size() == sizeof note + sizeof price);
            std::memcpy(&note, record.data(), sizeof note);
            std::memcpy(&price, record.data() + sizeof note, sizeof price);
            EXPECT(price == note / 2.0);
            got.push_back(note);
        }
    }
    EXPECT((got == std::vector<double>{10, 15, 21, 23, 99}));
}

// Flow `plus-placed`: layouts at the consumer.
static void placed() {
    zsr::registered memory(4096);
    auto notes = memory.at<std::uint32_t>();
    auto prices = memory.at<double>(400);
    EXPECT(fails([&] { zsr::layout_consumer("words", {&memory}); }) == ZSR_ERROR_RING);
    zsr::layout_consumer consumer("plus-placed", {&memory});
    zsr::options sized;
    sized.record_size = 12;
    zsr::producer producer("plus-placed", sized);
    std::vector<zsr_layout_column> columns{zsr::column(notes), zsr::column(prices)};
    // Rows become columns.
    EXPECT(consumer.place(zsr::rows(3, 10, 5), columns));
    EXPECT(fails([&] { consumer.place(zsr::rows(2000), columns); }) == ZSR_ERROR_INVALID);
    for (std::uint32_t note = 1; note < 4; note++) {
        char row[12];
        double price = note / 2.0;
        std::memcpy(row, &note, 4);
        std::memcpy(row + 4, &price, 8);
        producer.push({row, sizeof row});
    }
    producer.close();
    auto came = consumer.pop();
    EXPECT(came && came->records == 3 && came->bytes == 36 && came->rest_length == 0);
    for (std::uint32_t n = 0; n < 3; n++) EXPECT(notes[10 + 5 * n] == n + 1 && prices[10 + 5 * n] == (n + 1) / 2.0);
    EXPECT(!consumer.pop() && consumer.ended());
    consumer.leave();
}

int main() {
    words();
    numbers();
    kinds();
    layouts();
    placed();
}
