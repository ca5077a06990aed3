// Which rank owns which elements: every element once, in slices of equal size.
#include "program/shards.hpp"

#include <doctest/doctest.h>

using namespace hekla::program;

namespace shards_test {
namespace {

const std::vector<StoreChunk> kChunks{{256 * 3}, {4096 * 37 + 512}, {256 * 7, Storage::f32, false}, {4096}, {8 * 4096}};

} // namespace

TEST_CASE("every trained element has one owner") {
    for (const uint32_t ranks : {1u, 2u, 3u, 7u, 64u}) {
        for (const uint64_t bucket_bytes : {uint64_t{1}, uint64_t{1} << 16, uint64_t{64} << 20}) {
            CAPTURE(ranks);
            CAPTURE(bucket_bytes);
            std::vector<std::vector<int>> owners(kChunks.size());
            for (std::size_t c = 0; c < kChunks.size(); ++c) owners[c].resize(kChunks[c].elements);
            std::vector<int> sums;
            for (uint32_t rank = 0; rank < ranks; ++rank) {
                const Shards shards(kChunks, {rank, ranks, bucket_bytes});
                sums.resize(shards.sums());
                uint64_t own = 0;
                for (const ElementRange& slice : shards.own()) {
                    CHECK(slice.first % kShardElements == 0);
                    for (uint64_t e = slice.first; e < slice.end(); ++e) ++owners[slice.chunk][e];
                    for (uint64_t s = 0; s < Shards::sums_of(slice); ++s) ++sums[shards.sum_index(slice) + s];
                    CHECK(shards.place(slice) < shards.own_elements(slice.chunk));
                    own += slice.count;
                }
                uint64_t by_chunk = 0;
                for (uint32_t c = 0; c < kChunks.size(); ++c) by_chunk += shards.own_elements(c);
                CHECK(by_chunk == own);
                for (const Shards::Bucket& bucket : shards.buckets()) {
                    uint64_t at = bucket.range.first;
                    for (const ElementRange& slice : bucket.slices) {
                        CHECK((slice.count == 0 || slice.first == at));
                        at += slice.count;
                    }
                    CHECK(at == bucket.range.end());
                }
            }
            for (std::size_t c = 0; c < kChunks.size(); ++c)
                for (const int count : owners[c]) REQUIRE(count == (kChunks[c].trained ? 1 : 0));
            for (const int count : sums) REQUIRE(count == 1);
        }
    }
}

TEST_CASE("the ranks' parts of a tensor are the tensor, and have their places in the arenas of moments") {
    const ElementRange tensor{1, 256 * 5, 4096 * 20 + 123};
    for (const uint32_t ranks : {1u, 2u, 5u}) {
        std::vector<int> covered(tensor.count);
        for (uint32_t rank = 0; rank < ranks; ++rank) {
            const Shards shards(kChunks, {rank, ranks, uint64_t{1} << 17});
            std::vector<uint64_t> places;
            for (const ElementRange& piece : shards.own_part(tensor)) {
                for (uint64_t e = piece.first; e < piece.end(); ++e) ++covered[e - tensor.first];
                for (uint64_t e = 0; e < piece.count; ++e) places.push_back(shards.place(piece) + e);
            }
            for (std::size_t i = 1; i < places.size(); ++i) REQUIRE(places[i] > places[i - 1]);
            if (!places.empty()) CHECK(places.back() < shards.own_elements(tensor.chunk));
            if (ranks == 1) CHECK(places.front() == tensor.first);
        }
        for (const int count : covered) REQUIRE(count == 1);
    }
}

TEST_CASE("there are at most 32 buckets of a chunk, however small they are asked to be") {
    const std::vector<StoreChunk> one{{4096 * 1000}};
    CHECK(Shards(one, {0, 2, 1}).buckets().size() == 32);
    CHECK(Shards(one, {0, 2, uint64_t{1} << 40}).buckets().size() == 1);
    CHECK(Shards(one, {0, 2, 4096 * 4 * 100}).buckets().size() == 10);
}

} // namespace shards_test
