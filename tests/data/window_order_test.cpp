#include "text/support.hpp"

#include "data/permutation.hpp"
#include "data/window_order.hpp"

#include <algorithm>
#include <set>

using namespace hekla;
using namespace hekla::data;
using namespace hekla::test;

namespace {

WindowOrder make(Order order, uint64_t tokens, uint64_t window, uint64_t seed, uint64_t stride = 0) {
    return must(WindowOrder::create({order, tokens, window, stride, seed, "the data"}));
}

} // namespace

TEST_CASE("permutation: bijective at every size, including sizes too large for a table") {
    for (uint64_t size = 1; size < 700; size += size < 70 ? 1 : 97) {
        const Permutation permute(size, size * 7919);
        std::vector<bool> seen(size, false);
        for (uint64_t i = 0; i < size; ++i) {
            const uint64_t at = permute(i);
            REQUIRE(at < size);
            REQUIRE(!seen[at]);
            seen[at] = true;
        }
    }
    for (const uint64_t size : {uint64_t{1} << 32, (uint64_t{1} << 40) + 17, ~uint64_t{0}}) {
        const Permutation permute(size, 3);
        std::set<uint64_t> seen;
        for (uint64_t i = 0; i < 2000; ++i) {
            CHECK(permute(i) < size);
            seen.insert(permute(i));
        }
        CHECK(seen.size() == 2000);
    }
}

TEST_CASE("permutation: every item is equally likely at every position") {
    // 6 items, 6,000 keys: 1,000 per cell; five standard deviations are 145.
    std::array<std::array<int, 6>, 6> counts{};
    for (uint64_t key = 0; key < 6000; ++key) {
        const Permutation permute(6, key);
        for (uint64_t i = 0; i < 6; ++i) ++counts[i][permute(i)];
    }
    for (const auto& row : counts)
        for (const int count : row) CHECK(std::abs(count - 1000) < 145);
    // Neighbors do not stay neighbors: by chance 1 in 500 pairs would.
    const Permutation permute(1000, 5);
    int neighbors = 0;
    for (uint64_t i = 0; i + 1 < 1000; ++i) neighbors += permute(i + 1) == permute(i) + 1;
    CHECK(neighbors < 12);
}

TEST_CASE("window order: shuffle visits every window once per epoch, in a different order for each epoch and seed") {
    const WindowOrder order = make(Order::shuffle, 1003, 9, 1); // stride 8
    const uint64_t n = order.examples_per_epoch();
    CHECK(n == (1003 - 9) / 8 + 1);
    std::vector<std::vector<uint64_t>> epochs(3);
    for (uint64_t number = 0; number < 3 * n; ++number) {
        const Position position = order.at(number);
        CHECK(position.number == number);
        REQUIRE(position.epoch == number / n);
        CHECK(position.begin + 9 <= 1003);
        epochs[position.epoch].push_back(position.begin);
    }
    CHECK(epochs[0] != epochs[1]);
    CHECK(epochs[1] != epochs[2]);
    for (auto epoch : epochs) {
        std::sort(epoch.begin(), epoch.end());
        for (uint64_t i = 0; i < n; ++i) CHECK(epoch[i] == 8 * i);
    }
    const WindowOrder other = make(Order::shuffle, 1003, 9, 2);
    int same = 0;
    for (uint64_t i = 0; i < n; ++i) same += other.at(i) == order.at(i);
    CHECK(same < 10);
    CHECK(make(Order::shuffle, 1003, 9, 1).at(12345) == order.at(12345));
}

TEST_CASE("window order: random windows cover everything evenly, including the last token") {
    const WindowOrder order = make(Order::random, 29, 10, 7); // 20 windows
    std::array<int, 20> counts{};
    for (uint64_t i = 0; i < 20'000; ++i) {
        const Position position = order.at(i);
        REQUIRE(position.begin < 20);
        ++counts[position.begin];
    }
    for (const int count : counts) CHECK(std::abs(count - 1000) < 160);
    CHECK(make(Order::random, 29, 10, 7).at(999) == order.at(999));
    CHECK(make(Order::random, 10, 10, 7).at(5).begin == 0);
}

TEST_CASE("window order: sequential starts at the front; the stride can be set") {
    const WindowOrder order = make(Order::sequential, 100, 20, 0, 20);
    CHECK(order.examples_per_epoch() == 5);
    CHECK(order.at(3) == Position{3, 0, 60});
    CHECK(order.at(7) == Position{7, 1, 40});
    CHECK(WindowOrder::first_number(3, 1, 2, 8) == 56);
}

TEST_CASE("window order: the error for too little data contains both lengths and a remedy") {
    const auto result = WindowOrder::create({Order::random, 50, 65, 0, 0, "the validation data"});
    CHECK(result.code() == Code::invalid_argument);
    for (const char* part : {"the validation data", "50", "65", "15 shorter", "more text"})
        CHECK_MESSAGE(contains(result.message(), part), result.message());
    CHECK(WindowOrder::create({Order::random, 50, 0, 0, 0, "x"}).code() == Code::invalid_argument);
}
