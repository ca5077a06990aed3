#include "base/philox.hpp"
#include "gpu/commands.hpp"
#include "gpu/submit.hpp"

#include <doctest/doctest.h>

using namespace hekla;
using namespace hekla::gpu;

TEST_SUITE("no_device") {

    TEST_CASE("folding covers every group and wastes less than one slice") {
        const std::array<uint32_t, 3> limits[] = {{65535, 65535, 65535}, {7, 5, 3}, {1, 1, 100}, {UINT32_MAX, 1, 1}};
        RandomStream random(1, 2);
        for (const auto& limit : limits) {
            const uint64_t most = uint64_t{limit[0]} * limit[1] * limit[2];
            for (int i = 0; i < 2000; ++i) {
                const uint64_t groups = 1 + random.next_below(i % 2 ? most : std::min<uint64_t>(most, 200000));
                const auto folded = fold_groups(groups, limit);
                REQUIRE(folded.ok());
                const auto& g = folded.value();
                for (std::size_t d = 0; d < 3; ++d) {
                    CHECK(g[d] >= 1);
                    CHECK(g[d] <= limit[d]);
                }
                const uint64_t all = uint64_t{g[0]} * g[1] * g[2];
                CHECK(all >= groups);
                CHECK(all - groups < uint64_t{g[1]} * g[2] + g[0] * uint64_t{g[2]});
            }
            CHECK(fold_groups(most, limit).ok());
            if (most < UINT64_MAX / 2) CHECK(fold_groups(most + 1, limit).code() == Code::invalid_argument);
            CHECK(fold_groups(0, limit).code() == Code::invalid_argument);
        }
    }

    TEST_CASE("a few groups are not folded") {
        const auto folded = fold_groups(65535, {65535, 65535, 65535});
        REQUIRE(folded.ok());
        CHECK(folded.value() == std::array<uint32_t, 3>{65535, 1, 1});
        CHECK(fold_groups(65536, {65535, 65535, 65535}).value() == std::array<uint32_t, 3>{32768, 2, 1});
    }

    TEST_CASE("segments are split by budget, at least one dispatch each") {
        const std::vector<Segment> s{{nullptr, 0.5}, {nullptr, 0.25}, {nullptr, 0.25}, {nullptr, 4}, {nullptr, 0}};
        CHECK(segments_within(s, 0, 0) == 5);
        CHECK(segments_within(s, 0, 1) == 3);
        CHECK(segments_within(s, 0, 0.75) == 2);
        CHECK(segments_within(s, 0, 0.1) == 1);
        CHECK(segments_within(s, 3, 1) == 1);
        CHECK(segments_within(s, 4, 1) == 1);
        CHECK(segments_within(s, 5, 1) == 0);
    }

} // suite
