#include "train/ranks/islands.hpp"

#include "exchange/tree_sum.hpp"
#include "program/lowering/half.hpp"
#include "program/parameter_store.hpp"

#include <algorithm>

namespace hekla::train {

using program::ElementRange;
using program::StoreArena;

Islands::Islands(program::ParameterStore& store, exchange::Communicator& ranks, const Options& options)
    : store_(store), ranks_(ranks), options_(options),
      shards_(store.chunks(),
              {static_cast<uint32_t>(ranks.rank()), static_cast<uint32_t>(ranks.size()), options.bucket_bytes}) {
    before_.resize(static_cast<std::size_t>(shards_.elements()));
    momentum_.resize(before_.size());
}

std::span<float> Islands::momentum(const program::ParameterEntry& entry) {
    return shards_.in(momentum_, {entry.chunk, entry.offset, static_cast<uint64_t>(entry.shape.elements())});
}

exchange::Traffic Islands::last_traffic() const { return ranks_.traffic().since(counted_); }

Status Islands::synchronize() {
    for (const program::Shards::Bucket& bucket : shards_.buckets()) {
        const std::span<float> values = shards_.in(before_, bucket.range);
        if (ranks_.rank() == 0) HK_TRY(store_.download(bucket.range, values, StoreArena::parameters));
        HK_TRY(ranks_.broadcast_fixed(std::as_writable_bytes(values)));
        if (ranks_.rank() != 0) HK_TRY(store_.upload(bucket.range, values, StoreArena::parameters));
        HK_TRY(ranks_.broadcast_fixed(std::as_writable_bytes(shards_.in(momentum_, bucket.range))));
    }
    counted_ = ranks_.traffic();
    return {};
}

// Replaces the changes of this island by the sums over all islands, for the elements of a bucket.
Status Islands::exchange_changes(const program::Shards::Bucket& bucket, std::vector<float>& changes) {
    const auto rank = static_cast<std::size_t>(ranks_.rank());
    const auto ranks = static_cast<std::size_t>(ranks_.size());
    const std::span<float> own = shards_.in(changes, bucket.slices[rank]);
    std::vector<std::vector<float>> received(ranks, std::vector<float>(own.size()));
    std::vector<std::vector<uint16_t>> sent_half(ranks), received_half(ranks, std::vector<uint16_t>(own.size()));
    std::vector<hk_exchange_part> parts(ranks);
    for (std::size_t r = 0; r < ranks; ++r) {
        if (r == rank) continue;
        const std::span<float> theirs = shards_.in(changes, bucket.slices[r]);
        parts[r] = {theirs.data(), received[r].data(), theirs.size_bytes(), own.size_bytes()};
        if (!options_.half) continue;
        for (const float x : theirs) sent_half[r].push_back(program::to_half(program::Storage::f16, x));
        parts[r] = {sent_half[r].data(), received_half[r].data(), 2 * theirs.size(), 2 * own.size()};
    }
    HK_TRY(ranks_.exchange(parts));
    std::vector<exchange::Node> nodes;
    for (std::size_t r = 0; r < ranks; ++r) {
        for (std::size_t i = 0; options_.half && r != rank && i < own.size(); ++i)
            received[r][i] = program::from_half(program::Storage::f16, received_half[r][i]);
        const auto island = static_cast<uint32_t>(r);
        nodes.push_back({{island, island + 1}, r == rank ? own : std::span<float>(received[r])});
    }
    HK_ASSIGN(const std::span<float> sum, exchange::sum_of_tree(static_cast<uint32_t>(ranks), nodes));
    if (sum.data() != own.data()) std::ranges::copy(sum, own.begin());
    // The sums come back in 32 bits, so that all islands have the same.
    for (std::size_t r = 0; r < ranks; ++r) {
        const std::span<float> theirs = shards_.in(changes, bucket.slices[r]);
        if (r != rank) parts[r] = {own.data(), theirs.data(), own.size_bytes(), theirs.size_bytes()};
    }
    parts[rank] = {};
    return ranks_.exchange(parts);
}

Status Islands::step() {
    const auto islands = static_cast<float>(ranks_.size());
    const auto rate = static_cast<float>(options_.learning_rate), mu = static_cast<float>(options_.momentum);
    std::vector<float> changes(before_.size());
    counted_ = ranks_.traffic(); // without what rank 0 has told the others
    for (const program::Shards::Bucket& bucket : shards_.buckets()) {
        const std::span<float> change = shards_.in(changes, bucket.range), before = shards_.in(before_, bucket.range),
                               momentum = shards_.in(momentum_, bucket.range);
        HK_TRY(store_.download(bucket.range, change, StoreArena::parameters));
        for (std::size_t i = 0; i < change.size(); ++i) change[i] = before[i] - change[i];
        HK_TRY(exchange_changes(bucket, changes));
        for (std::size_t i = 0; i < change.size(); ++i) {
            const float gradient = change[i] / islands;
            momentum[i] = mu * momentum[i] + gradient;
            before[i] -= rate * (gradient + mu * momentum[i]);
        }
        HK_TRY(store_.upload(bucket.range, before, StoreArena::parameters));
    }
    return {};
}

} // namespace hekla::train
