#include "text/support.hpp"

#include "data/length_groups.hpp"

#include <algorithm>
#include <set>
#include <thread>

using namespace hekla::data;

TEST_CASE("length groups: every example once per epoch, batches of similar length, the same from any thread") {
    std::vector<int64_t> lengths;
    for (int64_t i = 0; i < 1000; ++i) lengths.push_back(1 + i * 7919 % 60);
    constexpr uint64_t kBatch = 8;
    const LengthGroups groups(lengths, kBatch, 3);
    double spread = 0;
    for (uint64_t epoch = 0; epoch < 3; ++epoch) {
        std::set<uint64_t> seen;
        for (uint64_t i = 0; i < 1000; ++i) {
            const Position position = groups.at(epoch * 1000 + i);
            CHECK(position.epoch == epoch);
            seen.insert(position.begin);
        }
        CHECK(seen.size() == 1000);
        for (uint64_t b = 0; b < 1000 / kBatch; ++b) {
            int64_t least = 1000, most = 0;
            for (uint64_t i = 0; i < kBatch; ++i) {
                const int64_t length = lengths[groups.at(epoch * 1000 + b * kBatch + i).begin];
                least = std::min(least, length);
                most = std::max(most, length);
            }
            spread += static_cast<double>(most - least) / (3.0 * 125.0);
        }
    }
    CHECK(spread < 3.0); // random order would give about 46
    // The order differs between epochs, and is not sorted as a whole.
    CHECK(groups.at(0) != groups.at(1000));
    std::vector<int64_t> first;
    for (uint64_t b = 0; b < 40; ++b) first.push_back(lengths[groups.at(b * kBatch).begin]);
    CHECK(!std::is_sorted(first.begin(), first.end()));
    const LengthGroups again(lengths, kBatch, 3);
    CHECK(again.at(2500) == groups.at(2500)); // random access
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&] {
            for (uint64_t i = 0; i < 5000; i += 37) CHECK(groups.at(i) == again.at(i));
        });
    for (std::thread& thread : threads) thread.join();
}
