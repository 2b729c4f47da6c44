// Both ends of a flow `rows`, in one program: c++ -std=c++17 rows.cpp $(pkg-config --cflags --libs zsr)
#include <iostream>
#include <zsr.hpp>

int main() try {
    zsr::producer producer("rows");
    zsr::consumer consumer("rows");
    for (const char *row : {"1,ada", "2,grace", "3,edsger"}) producer.push(row);
    producer.close();
    while (auto batch = consumer.pop())
        for (std::string_view row : batch) std::cout << row << '\n';
} catch (const zsr::error &e) {
    std::cerr << e.what() << '\n';
    return 1;
}
