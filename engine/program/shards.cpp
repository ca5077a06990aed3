#include "program/shards.hpp"

#include "program/lowering/records.hpp"

#include <algorithm>

namespace hekla::program {

static_assert(kShardElements == kernels::optimizer::kPartElements);

Shards::Shards(std::span<const StoreChunk> chunks, const ShardOptions& options)
    : rank_(options.rank), ranks_(options.ranks) {
    constexpr uint64_t kMostBuckets = 32;
    const auto units_of = [](uint64_t elements) { return (elements + kShardElements - 1) / kShardElements; };
    uint64_t units = 0;
    for (const StoreChunk& chunk : chunks) {
        first_sum_.push_back(units);
        first_element_.push_back(elements_);
        if (!chunk.trained) continue;
        units += units_of(chunk.elements);
        elements_ += chunk.elements;
    }
    sums_ = units;
    const uint64_t of_bucket = std::max({uint64_t{1}, options.bucket_bytes / sizeof(float) / kShardElements,
                                         (units + kMostBuckets - 1) / kMostBuckets});
    for (uint32_t c = 0; c < chunks.size(); ++c) {
        if (!chunks[c].trained) continue;
        const uint64_t whole = units_of(chunks[c].elements);
        const auto range = [&](uint64_t first, uint64_t end) {
            const uint64_t begin = first * kShardElements;
            return ElementRange{c, begin, std::min(end * kShardElements, chunks[c].elements) - begin};
        };
        for (uint64_t first = 0; first < whole; first += of_bucket) {
            const uint64_t end = std::min(whole, first + of_bucket);
            Bucket bucket{range(first, end), {}};
            for (uint64_t r = 0; r < ranks_; ++r)
                bucket.slices.push_back(
                    range(first + (end - first) * r / ranks_, first + (end - first) * (r + 1) / ranks_));
            if (const ElementRange& own = bucket.slices[rank_]; own.count > 0) own_.push_back(own);
            buckets_.push_back(std::move(bucket));
        }
    }
}

uint64_t Shards::own_elements(uint32_t chunk) const {
    uint64_t sum = 0;
    for (const ElementRange& slice : own_)
        if (slice.chunk == chunk) sum += slice.count;
    return sum;
}

std::vector<ElementRange> Shards::part(const ElementRange& range, uint32_t rank) const {
    std::vector<ElementRange> pieces;
    for (const Bucket& bucket : buckets_) {
        const ElementRange& slice = bucket.slices[rank];
        const uint64_t first = std::max(slice.first, range.first);
        const uint64_t end = std::min(slice.end(), range.end());
        if (slice.chunk == range.chunk && first < end) pieces.push_back({slice.chunk, first, end - first});
    }
    return pieces;
}

uint64_t Shards::place(const ElementRange& own_piece) const {
    uint64_t before = 0;
    for (const ElementRange& slice : own_) {
        if (slice.chunk != own_piece.chunk) continue;
        if (own_piece.first >= slice.first && own_piece.first < slice.end())
            return before + (own_piece.first - slice.first);
        before += slice.count;
    }
    return before;
}

std::span<float> Shards::in(std::span<float> all, const ElementRange& range) const {
    return all.subspan(static_cast<std::size_t>(first_element_[range.chunk] + range.first),
                       static_cast<std::size_t>(range.count));
}

uint64_t Shards::sum_index(const ElementRange& range) const {
    return first_sum_[range.chunk] + range.first / kShardElements;
}

} // namespace hekla::program
