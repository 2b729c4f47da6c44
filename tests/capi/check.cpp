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

int main() {
    words();
    numbers();
}
