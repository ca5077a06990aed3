#include "train/ranks/sharded_step.hpp"

#include "base/hash.hpp"
#include "base/stopwatch.hpp"
#include "program/gradient_reader.hpp"
#include "program/lowering/half.hpp"
#include "program/parameter_store.hpp"
#include "program/runtime.hpp"
#include "train/step/loss_counts.hpp"
#include "train/update/optimizer.hpp"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>

namespace hekla::train {

using exchange::PartRange;
using program::ElementRange;
using program::StoreArena;

namespace {

ElementRange range_of(const program::ParameterEntry& entry) {
    return {entry.chunk, entry.offset, static_cast<uint64_t>(entry.shape.elements())};
}

} // namespace

std::vector<uint32_t> balanced_shares(uint32_t parts, std::span<const double> seconds_per_part) {
    std::vector<uint32_t> shares(seconds_per_part.size(), 1);
    for (std::size_t given = shares.size(); given < parts; ++given) {
        std::size_t best = 0;
        const auto seconds = [&](std::size_t r) { return (shares[r] + 1) * seconds_per_part[r]; };
        for (std::size_t r = 1; r < shares.size(); ++r)
            if (seconds(r) < seconds(best)) best = r;
        ++shares[best];
    }
    return shares;
}

ShardedStep::ShardedStep(const graph::Graph& described, program::ParameterStore& store, Optimizer& optimizer,
                         exchange::Communicator& ranks, StepRunnerOptions runner, const StepParts& options)
    : described_(described), store_(store), optimizer_(optimizer), ranks_(ranks), runner_(described, std::move(runner)),
      options_(options) {
    set_shares(options.shares);
}

Result<std::unique_ptr<ShardedStep>> ShardedStep::create(const graph::Graph& described, program::Runtime& runtime,
                                                         program::ParameterStore& store, Optimizer& optimizer,
                                                         exchange::Communicator& ranks, StepRunnerOptions runner,
                                                         const StepParts& options) {
    std::unique_ptr<ShardedStep> step(new ShardedStep(described, store, optimizer, ranks, std::move(runner), options));
    if (ranks.size() == 1) return step;
    // The backward pass ends with the first layers, whose parameters come first.
    std::vector<ElementRange> ranges;
    for (const program::Shards::Bucket& bucket : store.shards()->buckets()) ranges.insert(ranges.begin(), bucket.range);
    HK_ASSIGN(step->reader_, program::GradientReader::create(runtime, store, std::move(ranges)));
    return step;
}

void ShardedStep::set_shares(std::span<const uint32_t> shares) {
    parts_ = exchange::parts_by_rank(options_.parts, ranks_.size(), shares);
    sums_.emplace(options_.parts, parts_[static_cast<std::size_t>(ranks_.rank())],
                  static_cast<std::size_t>(store_.shards()->elements()));
    busy_.assign(parts_.size(), 0.0);
    computed_.assign(parts_.size(), 0.0);
}

MicroRange ShardedStep::micro() const {
    const PartRange parts = parts_[static_cast<std::size_t>(ranks_.rank())];
    return {parts.first * micro_of_part(), (parts.end - parts.first) * micro_of_part()};
}

std::vector<uint32_t> ShardedStep::balance() {
    seconds_of_part_.clear();
    for (std::size_t r = 0; r < busy_.size(); ++r) {
        if (computed_[r] == 0.0) return {}; // no step since the last call
        seconds_of_part_.push_back(busy_[r] / computed_[r]);
    }
    const std::vector<uint32_t> shares = balanced_shares(options_.parts, seconds_of_part_);
    bool same = true;
    for (std::size_t r = 0; r < shares.size(); ++r) same = same && shares[r] == parts_[r].end - parts_[r].first;
    if (same) return {};
    set_shares(shares);
    return shares;
}

Status ShardedStep::begin(const std::vector<data::Batch>& own, int64_t step, double learning_rate) {
    own_ = &own;
    step_ = step;
    submitted_ = 0;
    numbers_.clear();
    pending_.clear();
    sums_->clear();
    before_ = ranks_.traffic();
    std::vector<double> counts;
    HK_TRY(add_counts(described_, own, counts));
    const StepTokens tokens = tokens_of(own);
    counts.insert(counts.end(), {tokens.all, tokens.labels});
    HK_ASSIGN(const auto of_ranks, ranks_.gather(exchange::bytes_of(counts)));
    counts_.assign(counts.size(), 0.0);
    for (const std::vector<std::byte>& bytes : of_ranks) {
        HK_ASSIGN(const std::vector<double> theirs, exchange::values_of<double>(bytes));
        if (theirs.size() != counts_.size()) return internal_error("the ranks have different numbers of losses");
        for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += theirs[i];
    }
    tokens_ = {counts_.end()[-2], counts_.end()[-1]};
    counts_.resize(counts_.size() - 2);
    HK_TRY(optimizer_.set(any_label(counts_) ? learning_rate : 0.0)); // as StepRunner
    HK_ASSIGN(const double scale, optimizer_.loss_scale());
    HK_TRY(runner_.begin(own, counts_, scale));
    started_ = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < std::min<std::size_t>(2, micro_of_part()); ++i) HK_TRY(submit(i));
    return {};
}

Status ShardedStep::submit(std::size_t index) {
    HK_TRY(read_down_to(1));
    const MicroBatchRunner::Submission submission{
        micro().first + static_cast<uint32_t>(index), index % micro_of_part() > 0, {}};
    ++submitted_;
    if (reader_ == nullptr || index + 1 < own_->size()) return runner_.submit((*own_)[index], step_, submission);
    HK_ASSIGN(values_, runner_.submit_by_range((*own_)[index], step_, submission, *reader_));
    return {};
}

Status ShardedStep::read_down_to(std::size_t pending) {
    while (runner_.pending() > pending) {
        HK_ASSIGN(const std::vector<double> numbers, runner_.read_oldest());
        numbers_.insert(numbers_.end(), numbers.begin(), numbers.end());
    }
    return {};
}

// Computes the gradients of one of this rank's parts, and adds them to those of the parts before it. Those of the last
// part are sent bucket by bucket, while the device computes the others.
Status ShardedStep::run_part(uint32_t part) {
    while (submitted_ < std::size_t{part + 1} * micro_of_part()) HK_TRY(submit(submitted_));
    if (reader_ != nullptr && submitted_ == own_->size()) {
        const std::span<float> to = sums_->next_part();
        const std::vector<program::Shards::Bucket>& buckets = store_.shards()->buckets();
        for (std::size_t i = 0; i < buckets.size(); ++i) {
            const program::Shards::Bucket& bucket = buckets[buckets.size() - 1 - i];
            const std::span<float> gradients = elements_in(to, bucket.range);
            HK_TRY(reader_->read(i, values_[i], gradients));
            sums_->add_elements(static_cast<std::size_t>(gradients.data() - to.data()), gradients.size());
            HK_ASSIGN(Pending pending, begin_bucket(bucket));
            pending_.push_back(std::move(pending));
        }
        sums_->end_part();
        return read_down_to(0);
    }
    HK_TRY(read_down_to(0));
    const std::span<float> to = sums_->next_part();
    for (uint32_t c = 0; c < store_.chunks().size(); ++c) {
        if (!store_.chunks()[c].trained) continue;
        const ElementRange range{c, 0, store_.chunks()[c].elements};
        HK_TRY(store_.download(range, elements_in(to, range), StoreArena::gradients));
    }
    sums_->add_part();
    return {};
}

// Begins to exchange the gradients of a bucket.
Result<ShardedStep::Pending> ShardedStep::begin_bucket(const program::Shards::Bucket& bucket) {
    const auto rank = static_cast<std::size_t>(ranks_.rank());
    const auto ranks = static_cast<std::size_t>(ranks_.size());
    const auto count = static_cast<std::size_t>(bucket.slices[rank].count);
    const std::vector<exchange::Node> own = sums_->nodes();
    Pending pending;
    pending.bucket = &bucket;
    pending.sent.resize(ranks);
    pending.received.resize(ranks);
    pending.sent_half.resize(ranks);
    pending.received_half.resize(ranks);
    std::vector<hk_exchange_part> parts(ranks);
    for (std::size_t r = 0; r < ranks; ++r) {
        if (r == rank) continue;
        const std::size_t nodes = exchange::nodes_of(options_.parts, parts_[r]).size();
        ResourceArray<float>& received = pending.received[r];
        received = ResourceArray<float>(count * nodes);
        if (options_.half) {
            std::vector<uint16_t>& half = pending.sent_half[r];
            for (const exchange::Node& node : own)
                for (const float x : elements_in(node.values, bucket.slices[r]))
                    half.push_back(program::to_half(program::Storage::bf16, x));
            pending.received_half[r].resize(received.size());
            parts[r] = {half.data(), pending.received_half[r].data(), 2 * half.size(), 2 * received.size()};
            continue;
        }
        std::span<float> send = elements_in(own[0].values, bucket.slices[r]);
        if (own.size() > 1) { // several nodes, one after the other
            const auto elements = static_cast<std::size_t>(bucket.slices[r].count);
            ResourceArray<float>& all = pending.sent[r];
            all = ResourceArray<float>(elements * own.size());
            for (std::size_t n = 0; n < own.size(); ++n)
                std::ranges::copy(elements_in(own[n].values, bucket.slices[r]), all.data() + n * elements);
            send = {all.data(), all.size()};
        }
        parts[r] = {send.data(), received.data(), send.size_bytes(), received.size() * sizeof(float)};
    }
    HK_ASSIGN(pending.number, ranks_.begin(parts));
    return pending;
}

// Waits for the gradients of a bucket, and stores the sums of this rank's elements.
Status ShardedStep::end_bucket(Pending& pending) {
    HK_TRY(ranks_.finish(pending.number));
    const auto rank = static_cast<std::size_t>(ranks_.rank());
    const ElementRange& slice = pending.bucket->slices[rank];
    const auto count = static_cast<std::size_t>(slice.count);
    if (count == 0) return {};
    std::vector<exchange::Node> all;
    for (std::size_t r = 0; r < pending.received.size(); ++r) {
        if (r == rank)
            for (const exchange::Node& node : sums_->nodes())
                all.push_back({node.parts, elements_in(node.values, slice)});
        ResourceArray<float>& received = pending.received[r];
        for (std::size_t i = 0; i < pending.received_half[r].size(); ++i)
            received[i] = program::from_half(program::Storage::bf16, pending.received_half[r][i]);
        std::size_t at = 0;
        if (r != rank)
            for (const PartRange& node : exchange::nodes_of(options_.parts, parts_[r])) {
                all.push_back({node, {received.data() + at, count}});
                at += count;
            }
    }
    HK_ASSIGN(const std::span<float> sum, exchange::sum_of_tree(options_.parts, all));
    return store_.upload(slice, sum, StoreArena::gradients);
}

// Returns the sums of squares of all ranks' gradients.
Result<std::vector<float>> ShardedStep::all_sums() {
    const program::Shards& shards = *store_.shards();
    HK_ASSIGN(const std::vector<float> own, optimizer_.own_sums());
    HK_ASSIGN(const auto of_ranks, ranks_.gather(exchange::bytes_of(own)));
    std::vector<float> all(static_cast<std::size_t>(shards.sums()));
    std::vector<std::vector<float>> sums;
    std::vector<std::size_t> used(of_ranks.size());
    for (const std::vector<std::byte>& bytes : of_ranks) {
        HK_ASSIGN(std::vector<float> theirs, exchange::values_of<float>(bytes));
        sums.push_back(std::move(theirs));
    }
    for (const program::Shards::Bucket& bucket : shards.buckets())
        for (std::size_t r = 0; r < sums.size(); ++r) {
            const ElementRange& slice = bucket.slices[r];
            const auto count = static_cast<std::size_t>(program::Shards::sums_of(slice));
            if (used[r] + count > sums[r].size())
                return internal_error(fmt::format("rank {} has fewer sums of squares than it owns", r));
            std::copy_n(sums[r].begin() + static_cast<std::ptrdiff_t>(used[r]), count,
                        all.begin() + static_cast<std::ptrdiff_t>(shards.sum_index(slice)));
            used[r] += count;
        }
    return all;
}

// Begins to send the parameters of a bucket that this rank owns to the others, and to receive theirs.
Result<ShardedStep::Pending> ShardedStep::begin_sharing(const program::Shards::Bucket& bucket) {
    const auto rank = static_cast<std::size_t>(ranks_.rank());
    const auto ranks = static_cast<std::size_t>(ranks_.size());
    Pending pending;
    pending.bucket = &bucket;
    pending.sent.emplace_back(static_cast<std::size_t>(bucket.slices[rank].count));
    ResourceArray<float>& own = pending.sent.front();
    if (!own.empty()) HK_TRY(store_.download(bucket.slices[rank], {own.data(), own.size()}, StoreArena::parameters));
    pending.received.resize(ranks);
    std::vector<hk_exchange_part> parts(ranks);
    for (std::size_t r = 0; r < ranks; ++r) {
        if (r == rank) continue;
        ResourceArray<float>& theirs = pending.received[r];
        theirs = ResourceArray<float>(static_cast<std::size_t>(bucket.slices[r].count));
        parts[r] = {own.data(), theirs.data(), own.size() * sizeof(float), theirs.size() * sizeof(float)};
    }
    HK_ASSIGN(pending.number, ranks_.begin(parts));
    return pending;
}

Status ShardedStep::end_sharing(Pending& pending) {
    HK_TRY(ranks_.finish(pending.number));
    for (std::size_t r = 0; r < pending.received.size(); ++r)
        if (const ResourceArray<float>& slice = pending.received[r]; !slice.empty())
            HK_TRY(store_.upload(pending.bucket->slices[r], {slice.data(), slice.size()}, StoreArena::parameters));
    pending = {};
    return {};
}

// Sends the parameters that each rank owns to the others. Those of the next bucket are on their way while those of the
// last one are stored.
Status ShardedStep::share_parameters() {
    if (ranks_.size() == 1) return {};
    for (const program::Shards::Bucket& bucket : store_.shards()->buckets()) {
        HK_ASSIGN(Pending pending, begin_sharing(bucket));
        pending_.push_back(std::move(pending));
        if (pending_.size() > 1) HK_TRY(end_sharing(pending_[pending_.size() - 2]));
    }
    if (!pending_.empty()) HK_TRY(end_sharing(pending_.back()));
    pending_.clear();
    return {};
}

Result<TakenStep> ShardedStep::end() {
    Result<TakenStep> taken = take();
    if (!taken.ok()) ranks_.fail(taken.status());
    return taken;
}

Result<TakenStep> ShardedStep::take() {
    const PartRange own = parts_[static_cast<std::size_t>(ranks_.rank())];
    for (uint32_t part = 0; part < own.end - own.first; ++part) HK_TRY(run_part(part));
    numbers_.push_back(seconds_since(started_));
    HK_ASSIGN(const auto of_ranks, ranks_.gather(exchange::bytes_of(numbers_)));
    LossSum sum(described_);
    for (std::size_t r = 0; r < of_ranks.size(); ++r) {
        HK_ASSIGN(std::vector<double> numbers, exchange::values_of<double>(of_ranks[r]));
        if (numbers.empty()) return internal_error(fmt::format("rank {} sent no losses", r));
        busy_[r] += numbers.back();
        computed_[r] += parts_[r].end - parts_[r].first;
        numbers.pop_back();
        for (std::size_t at = 0; at + sum.numbers() <= numbers.size(); at += sum.numbers())
            sum.add(std::span(numbers).subspan(at, sum.numbers()));
    }
    TakenStep result;
    result.loss = sum.result(counts_);
    result.labels = any_label(counts_);
    if (reader_ == nullptr)
        for (const program::Shards::Bucket& bucket : store_.shards()->buckets()) {
            HK_ASSIGN(Pending pending, begin_bucket(bucket));
            pending_.push_back(std::move(pending));
        }
    for (Pending& pending : pending_) HK_TRY(end_bucket(pending));
    pending_.clear();
    HK_ASSIGN(const std::vector<float> sums, all_sums());
    std::vector<std::byte> decision;
    if (ranks_.rank() == 0) {
        HK_ASSIGN(result.outcome, optimizer_.decide(sums, static_cast<float>(result.loss.total)));
        if (ranks_.size() > 1) { HK_ASSIGN(decision, optimizer_.decision()); }
    }
    HK_TRY(ranks_.broadcast(decision));
    if (ranks_.rank() != 0) HK_TRY(optimizer_.set_decision(decision));
    HK_TRY(optimizer_.update_own());
    HK_TRY(share_parameters());
    result.tokens = tokens_;
    result.exchange = ranks_.traffic().since(before_);
    return result;
}

Status ShardedStep::check_parameters() {
    std::vector<Hash128> hashes;
    for (const program::Shards::Bucket& bucket : store_.shards()->buckets()) {
        ResourceArray<float> values(static_cast<std::size_t>(bucket.range.count));
        HK_TRY(store_.download(bucket.range, {values.data(), values.size()}, StoreArena::parameters));
        hashes.push_back(hash128(std::as_bytes(std::span(values.data(), values.size()))));
    }
    HK_ASSIGN(const auto all, ranks_.gather(exchange::bytes_of(hashes)));
    for (std::size_t rank = 1; rank < all.size(); ++rank)
        if (all[rank] != all[0])
            return internal_error(
                fmt::format("{} has other parameters than rank 0: its memory or device is faulty; the "
                            "checkpoints may have been written from wrong numbers",
                            ranks_.name(static_cast<int32_t>(rank))));
    return {};
}

Status ShardedStep::send_parameters_of_rank_0() {
    for (const program::Shards::Bucket& bucket : store_.shards()->buckets()) {
        ResourceArray<float> values(static_cast<std::size_t>(bucket.range.count));
        const std::span<float> all(values.data(), values.size());
        if (ranks_.rank() == 0) HK_TRY(store_.download(bucket.range, all, StoreArena::parameters));
        HK_TRY(ranks_.broadcast_fixed(std::as_writable_bytes(all)));
        if (ranks_.rank() != 0) HK_TRY(store_.upload(bucket.range, all, StoreArena::parameters));
    }
    return {};
}

Status ShardedStep::synchronize() {
    if (ranks_.size() == 1) return {};
    HK_TRY(send_parameters_of_rank_0());
    std::vector<std::byte> states;
    if (ranks_.rank() == 0) { HK_ASSIGN(states, optimizer_.decision()); }
    HK_TRY(ranks_.broadcast(states));
    return ranks_.rank() != 0 ? optimizer_.set_decision(states) : Status();
}

Status ShardedStep::with_parameters_of_rank_0(const std::function<Status()>& use) {
    if (ranks_.size() == 1) return use();
    const std::vector<program::Shards::Bucket>& buckets = store_.shards()->buckets();
    std::vector<ResourceArray<float>> own;
    if (ranks_.rank() != 0)
        for (const program::Shards::Bucket& bucket : buckets) {
            own.emplace_back(static_cast<std::size_t>(bucket.range.count));
            HK_TRY(store_.download(bucket.range, own.back(), StoreArena::parameters));
        }
    HK_TRY(send_parameters_of_rank_0());
    const Status used = use();
    for (std::size_t i = 0; i < own.size(); ++i)
        HK_TRY(store_.upload(buckets[i].range, own[i], StoreArena::parameters));
    return used;
}

Result<ResourceArray<float>> ShardedStep::gather(const program::ParameterEntry& entry, StoreArena arena) {
    if (ranks_.size() == 1) return store_.download(entry.name, arena);
    const program::Shards& shards = *store_.shards();
    const ElementRange whole = range_of(entry);
    std::vector<float> own;
    for (const ElementRange& piece : shards.own_part(whole)) {
        const std::size_t before = own.size();
        own.resize(before + static_cast<std::size_t>(piece.count));
        HK_TRY(store_.download(piece, std::span(own).subspan(before), arena));
    }
    std::vector<hk_exchange_part> parts(static_cast<std::size_t>(ranks_.size()));
    std::vector<std::vector<float>> received(parts.size());
    if (ranks_.rank() != 0) {
        parts[0] = {own.data(), nullptr, own.size() * sizeof(float), 0};
        HK_TRY(ranks_.exchange(parts));
        return ResourceArray<float>();
    }
    received[0] = std::move(own);
    for (std::size_t r = 1; r < parts.size(); ++r) {
        std::size_t count = 0;
        for (const ElementRange& piece : shards.part(whole, static_cast<uint32_t>(r)))
            count += static_cast<std::size_t>(piece.count);
        received[r].resize(count);
        parts[r] = {nullptr, received[r].data(), 0, count * sizeof(float)};
    }
    HK_TRY(ranks_.exchange(parts));
    ResourceArray<float> values(static_cast<std::size_t>(whole.count));
    for (std::size_t r = 0; r < parts.size(); ++r) {
        const float* from = received[r].data();
        for (const ElementRange& piece : shards.part(whole, static_cast<uint32_t>(r))) {
            std::copy_n(from, piece.count, values.data() + (piece.first - whole.first));
            from += piece.count;
        }
    }
    return values;
}

Status ShardedStep::scatter(const program::ParameterEntry& entry, std::span<const float> values, StoreArena arena) {
    if (ranks_.size() == 1) return store_.upload(entry.name, values, arena);
    const program::Shards& shards = *store_.shards();
    const ElementRange whole = range_of(entry);
    std::vector<hk_exchange_part> parts(static_cast<std::size_t>(ranks_.size()));
    std::vector<std::vector<float>> of_rank(parts.size());
    if (ranks_.rank() == 0) {
        for (std::size_t r = 0; r < parts.size(); ++r) {
            for (const ElementRange& piece : shards.part(whole, static_cast<uint32_t>(r))) {
                const auto from = values.subspan(static_cast<std::size_t>(piece.first - whole.first),
                                                 static_cast<std::size_t>(piece.count));
                of_rank[r].insert(of_rank[r].end(), from.begin(), from.end());
            }
            if (r != 0) parts[r] = {of_rank[r].data(), nullptr, of_rank[r].size() * sizeof(float), 0};
        }
    }
    std::vector<float>& own = of_rank[static_cast<std::size_t>(ranks_.rank())];
    if (ranks_.rank() != 0) {
        std::size_t count = 0;
        for (const ElementRange& piece : shards.own_part(whole)) count += static_cast<std::size_t>(piece.count);
        own.resize(count);
        parts[0] = {nullptr, own.data(), 0, count * sizeof(float)};
    }
    HK_TRY(ranks_.exchange(parts));
    std::size_t at = 0;
    for (const ElementRange& piece : shards.own_part(whole)) {
        const auto count = static_cast<std::size_t>(piece.count);
        HK_TRY(store_.upload(piece, std::span<const float>(own).subspan(at, count), arena));
        at += count;
    }
    return {};
}

} // namespace hekla::train
