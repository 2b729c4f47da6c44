// TPC-H Q1 on a CPU, at a stated speed: cpu FLOW MEMBER ROWS_PER_SECOND.
#include <cstdlib>
#include <thread>

#include "q1.hpp"
#include "zsr.hpp"

int main(int argc, char **argv) try {
    using namespace std::chrono;
    double speed = argc == 4 ? std::atof(argv[3]) : 0;
    if (speed <= 0) throw std::runtime_error("cpu FLOW MEMBER ROWS_PER_SECOND");
    zsr::options options;
    options.member = argv[2];
    options.record_size = sizeof(row);
    zsr::consumer consumer(argv[1], options);

    std::map<std::string, sums> groups;
    std::uint64_t rows = 0;
    steady::time_point first{}, due{};
    while (auto batch = consumer.pop()) {
        if (rows == 0) first = due = steady::now();
        for (std::size_t from = 0; from < batch.size();) {
            std::size_t to = std::min(batch.size(), from + 128);
            // As fast as stated: what the machine could not give in time is caught up with, up to a twentieth of a second.
            due = std::max(due, steady::now() - milliseconds(50)) + duration_cast<steady::duration>(duration<double>(static_cast<double>(to - from) / speed));
            for (; from < to; ++from, ++rows) {
                auto r = batch.value<row>(from);
                if (r.shipdate > last_day) continue;
                wide disc_price = wide{r.price} * (100 - r.discount), charge = disc_price * (100 + r.tax);
                sums &group = groups[{r.flag, r.status}];
                wide add[6] = {1, r.quantity, r.price, disc_price, charge, r.discount};
                for (int i = 0; i < 6; ++i) group.values[i] += add[i];
            }
            std::this_thread::sleep_until(due);
        }
    }
    print_result(argv[2], rows, first, steady::now(), groups);
} catch (const std::exception &e) {
    std::fprintf(stderr, "cpu: %s\n", e.what());
    return 1;
}
