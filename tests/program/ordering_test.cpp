// Barriers from byte ranges, and an independent check that they suffice.
#include "program/hazards.hpp"
#include "program/ordering_check.hpp"

#include <doctest/doctest.h>

#include <random>

namespace ordering_test {

using namespace hekla::program;

namespace {

std::vector<OrderingEvent> as_events(const std::vector<std::vector<ByteRange>>& dispatches,
                                     const std::vector<bool>& barriers) {
    std::vector<OrderingEvent> events;
    for (std::size_t d = 0; d < dispatches.size(); ++d) {
        if (barriers[d]) {
            OrderingEvent barrier;
            barrier.kind = OrderingEvent::Kind::barrier;
            events.push_back(barrier);
        }
        OrderingEvent event;
        event.group = d + 1;
        for (const ByteRange& range : dispatches[d]) event.bytes.push_back({range.begin, range.end, range.write});
        events.push_back(event);
    }
    return events;
}

std::vector<std::vector<ByteRange>> random_dispatches(uint64_t seed, std::size_t count) {
    std::mt19937_64 random(seed);
    std::vector<std::vector<ByteRange>> dispatches(count);
    for (auto& ranges : dispatches) {
        for (uint64_t r = 0; r < 1 + random() % 4; ++r) {
            const uint64_t begin = random() % 4000;
            ranges.push_back({begin, begin + 1 + random() % 60, random() % 3 == 0});
        }
    }
    return dispatches;
}

} // namespace

TEST_CASE("every conflict is ordered, and every barrier is needed") {
    int removed = 0;
    for (uint64_t seed = 0; seed < 20; ++seed) {
        const auto dispatches = random_dispatches(seed, 80);
        std::vector<bool> barriers = place_barriers(dispatches);
        CHECK(check_ordering(as_events(dispatches, barriers)).faults.empty());
        for (std::size_t d = 0; d < barriers.size(); ++d) {
            if (!barriers[d]) continue;
            barriers[d] = false;
            CHECK_FALSE(check_ordering(as_events(dispatches, barriers)).faults.empty());
            barriers[d] = true;
            ++removed;
        }
    }
    CHECK(removed >= 100);
}

TEST_CASE("the checker agrees with a comparison of all pairs") {
    for (uint64_t seed = 100; seed < 130; ++seed) {
        const auto dispatches = random_dispatches(seed, 40);
        std::mt19937_64 random(seed);
        std::vector<bool> barriers(dispatches.size());
        for (std::size_t d = 0; d < barriers.size(); ++d) barriers[d] = random() % 3 != 0;
        bool unordered = false;
        for (std::size_t i = 0; i < dispatches.size(); ++i)
            for (std::size_t j = i + 1; j < dispatches.size() && !barriers[j]; ++j)
                for (const ByteRange& a : dispatches[i])
                    for (const ByteRange& b : dispatches[j])
                        unordered = unordered || ((a.write || b.write) && a.begin < b.end && b.begin < a.end);
        CHECK(check_ordering(as_events(dispatches, barriers)).faults.empty() != unordered);
    }
}

TEST_CASE("reads need no order, and neither do the slices of one dispatch") {
    OrderingEvent read;
    read.bytes = {{0, 100, false}};
    const OrderingEvent reads[] = {read, read};
    CHECK(check_ordering(reads).faults.empty());
    OrderingEvent part;
    part.group = 7;
    part.bytes = {{0, 100, true}, {100, 200, false}};
    const OrderingEvent parts[] = {part, part};
    CHECK(check_ordering(parts).faults.empty());
    OrderingEvent other = part;
    other.group = 8;
    const OrderingEvent two[] = {part, other};
    CHECK(check_ordering(two).faults.size() == 1);
}

TEST_CASE("a command that reads and writes does not hide an earlier read") {
    OrderingEvent reader;
    reader.group = 1;
    reader.bytes = {{0, 10, false}};
    OrderingEvent updater;
    updater.group = 2;
    updater.bytes = {{0, 10, false}, {0, 10, true}};
    const OrderingEvent events[] = {reader, updater};
    CHECK(check_ordering(events).faults.size() == 1);
}

TEST_CASE("a barrier without a stage does not order that stage") {
    OrderingEvent copy;
    copy.stage = Stage::transfer;
    copy.bytes = {{0, 10, true}};
    OrderingEvent barrier;
    barrier.kind = OrderingEvent::Kind::barrier;
    OrderingEvent dispatch;
    dispatch.group = 1;
    dispatch.bytes = {{0, 10, false}};
    const OrderingEvent good[] = {copy, barrier, dispatch};
    CHECK(check_ordering(good).faults.empty());
    barrier.from[1] = false; // compute to compute only
    const OrderingEvent bad[] = {copy, barrier, dispatch};
    CHECK(check_ordering(bad).faults.size() == 1);
}

} // namespace ordering_test
