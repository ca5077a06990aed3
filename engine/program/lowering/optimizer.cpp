#include "program/lowering/optimizer.hpp"

#include "program/lowering/common.hpp"
#include "program/lowering/optimizer_state.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace hekla::program {

namespace {

using kernels::optimizer::kUntouched;

constexpr uint64_t kBlock = kernels::optimizer::kBlockElements;
constexpr int64_t kPart = kernels::optimizer::kPartElements;
constexpr double kBusBytes = 1.2e10; // a second, over PCIe 4.0 with 16 lanes: half of what it could be

Status check(const OptimizerPlan& plan, const std::vector<ParameterEntry>& table, std::span<const StoreChunk> chunks) {
    if (plan.group_of.size() != table.size())
        return invalid_argument(fmt::format("an optimizer plan for {} parameters, and the table has {}",
                                            plan.group_of.size(), table.size()));
    for (const StoreChunk& chunk : chunks) {
        if (chunk.elements == 0 || chunk.elements % kBlock != 0)
            return invalid_argument(
                fmt::format("a chunk of {} elements; expected a multiple of {}", chunk.elements, kBlock));
        if (chunk.elements > 0xFFFFFFFFull - kBlock)
            return unsupported(fmt::format("a chunk of {} elements; the optimizer's kernels count to {}",
                                           chunk.elements, 0xFFFFFFFFull - kBlock));
    }
    for (std::size_t i = 0; i < table.size(); ++i) {
        if (plan.group_of[i] >= static_cast<int32_t>(plan.groups.size()))
            return invalid_argument(fmt::format("parameter '{}' is in optimizer group {}, and there are {}",
                                                table[i].name, plan.group_of[i], plan.groups.size()));
        if (table[i].chunk >= chunks.size())
            return invalid_argument(fmt::format("parameter '{}' is in chunk {}, and there are {}", table[i].name,
                                                table[i].chunk, chunks.size()));
        if (plan.group_of[i] >= 0 && !chunks[table[i].chunk].trained)
            return invalid_argument(
                fmt::format("parameter '{}' is frozen in the store and trained by the plan", table[i].name));
    }
    if (!plan.kept.empty() && plan.kept.size() != table.size())
        return invalid_argument(fmt::format("an optimizer plan with masks of {} parameters, and the table has {}",
                                            plan.kept.size(), table.size()));
    for (std::size_t i = 0; i < plan.kept.size(); ++i) {
        if (!plan.kept[i].empty() && std::ssize(plan.kept[i]) != table[i].shape.elements())
            return invalid_argument(fmt::format("parameter '{}' has {} elements, and its mask has {}", table[i].name,
                                                table[i].shape.elements(), plan.kept[i].size()));
    }
    const auto fraction = [](float x) { return x >= 0 && x < 1; };
    if (!fraction(plan.beta1) || !fraction(plan.beta2) || !fraction(plan.momentum))
        return invalid_argument(fmt::format("beta1 {}, beta2 {}, momentum {}: expected at least 0 and below 1",
                                            plan.beta1, plan.beta2, plan.momentum));
    if (!(plan.epsilon > 0) || !(plan.max_norm >= 0))
        return invalid_argument(
            fmt::format("epsilon {} must be above 0 and max_norm {} not below 0", plan.epsilon, plan.max_norm));
    return {};
}

template<class T>
std::vector<std::byte> bytes_of_vector(const std::vector<T>& values) {
    std::vector<std::byte> bytes(values.size() * sizeof(T));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

// Tensors that all chunks share. Those of other stages have no resource.
struct SharedViews {
    View groups, sums, learning_rate, gradient_scale, state, loss, loss_scale;
};

struct ChunkViews {
    View parameters, gradients, moment1, moment2, blocks, pruned;
    uint64_t first_sum = 0; // of SharedViews::sums
};

// Returns one word for each block of a chunk: the group of the parameter in it.
std::vector<uint32_t> blocks_of(const OptimizerPlan& plan, const std::vector<ParameterEntry>& table,
                                std::span<const StoreChunk> chunks, std::size_t chunk) {
    std::vector<uint32_t> blocks(chunks[chunk].elements / kBlock, kUntouched);
    for (std::size_t i = 0; i < table.size(); ++i) {
        if (plan.group_of[i] < 0 || table[i].chunk != chunk) continue;
        const uint64_t end = table[i].offset + static_cast<uint64_t>(table[i].shape.elements());
        for (uint64_t b = table[i].offset / kBlock; b * kBlock < end; ++b)
            blocks[b] = static_cast<uint32_t>(plan.group_of[i]);
    }
    return blocks;
}

// Returns one bit for each element of a chunk: whether it is pruned. Empty if none is.
std::vector<uint32_t> pruned_bits(const OptimizerPlan& plan, const std::vector<ParameterEntry>& table,
                                  std::span<const StoreChunk> chunks, std::size_t chunk) {
    std::vector<uint32_t> bits;
    for (std::size_t i = 0; i < plan.kept.size(); ++i) {
        if (plan.kept[i].empty() || table[i].chunk != chunk) continue;
        bits.resize(chunks[chunk].elements / 32);
        for (std::size_t element = 0; element < plan.kept[i].size(); ++element) {
            const uint64_t at = table[i].offset + element;
            if (plan.kept[i][element] == 0) bits[at / 32] |= 1u << at % 32;
        }
    }
    return bits;
}

// Elements that are updated, and where their moments are.
struct OwnRange {
    ElementRange elements;
    uint64_t moments = 0; // element of the chunk's moments
};

// Returns the elements that a plan updates, and the number of elements of each chunk's moments.
std::vector<OwnRange> own_ranges(const OptimizerPlan& plan, std::span<const StoreChunk> chunks,
                                 std::vector<uint64_t>& moments) {
    std::vector<OwnRange> ranges;
    for (uint32_t c = 0; c < chunks.size(); ++c) {
        moments.push_back(plan.shards != nullptr ? plan.shards->own_elements(c) : chunks[c].elements);
        if (plan.shards == nullptr && chunks[c].trained) ranges.push_back({{c, 0, chunks[c].elements}, 0});
    }
    if (plan.shards != nullptr)
        for (const ElementRange& range : plan.shards->own()) ranges.push_back({range, plan.shards->place(range)});
    return ranges;
}

// Returns `count` elements of a view of one dimension, from `first` on; nothing of a view without a resource.
View part_of(View view, uint64_t first, uint64_t count) {
    if (view.resource == 0) return view;
    view.offset += first;
    view.shape = graph::Shape{static_cast<int64_t>(count)};
    return view;
}

class OptimizerLowering {
public:
    OptimizerLowering(const OptimizerPlan& plan, const std::vector<ParameterEntry>& table,
                      std::span<const StoreChunk> chunks, const Limits& limits)
        : plan_(plan), table_(table), chunks_(chunks), ranges_(own_ranges(plan, chunks, moments_)) {
        lowering_.limits = limits;
    }

    Lowering lower() {
        make_shared();
        make_chunks();
        if (has_norm_)
            for (const OwnRange& range : ranges_) append_norm(range);
        if (has_decision_) append_decision();
        if (has_update_)
            for (const OwnRange& range : ranges_) append_update(range);
        if (has_update_ || plan_.stage == OptimizerStage::judge)
            for (const WrittenBuffer& written : plan_.buffers) append_buffer(written);
        return std::move(lowering_);
    }

private:
    void make_shared() {
        int64_t parts = 0; // of the norm
        for (std::size_t c = 0; c < chunks_.size(); ++c) {
            views_[c].first_sum = static_cast<uint64_t>(parts);
            if (chunks_[c].trained) parts += divide_up(static_cast<int64_t>(chunks_[c].elements), kPart);
        }
        if (has_norm_ || has_decision_)
            shared_.sums = has_norm_ && has_decision_
                               ? lowering_.allocate({parts}, Storage::f32, "sums of squares")
                               : lowering_.named(ResourceKind::state, kOptimizerSums, {parts}, Storage::f32);
        if (has_update_) {
            std::vector<float> groups;
            for (const OptimizerGroup& group : plan_.groups) {
                groups.push_back(group.learning_rate_factor);
                groups.push_back(group.weight_decay);
            }
            if (groups.empty()) groups = {1, 0};
            shared_.groups = lowering_.constant("optimizer groups", {static_cast<int64_t>(groups.size())}, Storage::f32,
                                                bytes_of_vector(groups));
            shared_.learning_rate = lowering_.step_scalar(kLearningRate, 0);
        }
        if (has_decision_ || has_update_)
            shared_.state = lowering_.named(ResourceKind::state, plan_.state,
                                            {static_cast<int64_t>(sizeof(OptimizerState) / 4)}, Storage::i32);
        if (!has_decision_) return;
        shared_.gradient_scale = lowering_.step_scalar(kGradientScale, 1);
        shared_.loss = plan_.loss_state.empty()
                           ? lowering_.step_scalar(kLoss, 0)
                           : lowering_.named(ResourceKind::state, plan_.loss_state, graph::Shape{}, Storage::f32);
        if (plan_.loss_scaling)
            shared_.loss_scale = lowering_.named(ResourceKind::state, kLossScaleState,
                                                 {static_cast<int64_t>(sizeof(LossScale) / 4)}, Storage::i32);
    }

    void make_chunks() {
        if (!has_norm_ && !has_update_) return;
        for (std::size_t c = 0; c < chunks_.size(); ++c) {
            if (!chunks_[c].trained || moments_[c] == 0) continue;
            const auto count = static_cast<int64_t>(chunks_[c].elements), kept = static_cast<int64_t>(moments_[c]);
            const std::string name = chunk_name(static_cast<uint32_t>(c));
            ChunkViews& chunk = views_[c];
            chunk.gradients = lowering_.named(ResourceKind::gradient, name, {count}, Storage::f32);
            if (has_norm_)
                chunk.pruned = constant(fmt::format("pruned weights {}", c), pruned_bits(plan_, table_, chunks_, c));
            if (!has_update_) continue;
            chunk.parameters = lowering_.named(ResourceKind::parameter, name, {count}, Storage::f32);
            if (!sgd_ || plan_.momentum != 0)
                chunk.moment1 = lowering_.named(ResourceKind::moment1, name, {kept}, plan_.moments);
            if (!sgd_) chunk.moment2 = lowering_.named(ResourceKind::moment2, name, {kept}, plan_.moments);
            chunk.blocks = constant(fmt::format("optimizer blocks {}", c), blocks_of(plan_, table_, chunks_, c));
        }
    }

    // Returns no view without words.
    View constant(const std::string& name, const std::vector<uint32_t>& words) {
        if (words.empty()) return {};
        return lowering_.constant(name, {static_cast<int64_t>(words.size())}, Storage::i32, bytes_of_vector(words));
    }

    void append_norm(const OwnRange& range) {
        const auto& [number, first, elements] = range.elements;
        const ChunkViews& chunk = views_[number];
        const auto count = static_cast<int64_t>(elements);
        const View gradients = part_of(chunk.gradients, first, elements);
        const View pruned = part_of(chunk.pruned, first / 32, elements / 32);
        const View sums =
            part_of(shared_.sums, chunk.first_sum + first / kPart, static_cast<uint64_t>(divide_up(count, kPart)));
        const bool masked = pruned.resource != 0;
        Dispatch norm = subgroup_dispatch(lowering_, "optimizer/norm", {masked ? 1u : 0u});
        norm.label = "gradient norm";
        norm.record =
            make_record(kernels::optimizer::NormRecord{.gradients = masked ? updates(gradients) : reads(gradients),
                                                       .sums = sums,
                                                       .pruned = pruned,
                                                       .count = word(count)});
        norm.groups = static_cast<uint64_t>(sums.elements());
        norm.bytes = (masked ? 8.0 : 4.0) * static_cast<double>(count);
        lowering_.append(std::move(norm));
    }

    void append_decision() {
        Dispatch decide = subgroup_dispatch(lowering_, "optimizer/decide", {plan_.loss_scaling ? 1u : 0u});
        decide.label = "step decision";
        decide.record = make_record(kernels::optimizer::Record{.sums = shared_.sums,
                                                               .gradient_scale = shared_.gradient_scale,
                                                               .state = updates(shared_.state),
                                                               .loss = shared_.loss,
                                                               .loss_scale = shared_.loss_scale,
                                                               .chunks = word(shared_.sums.elements()),
                                                               .beta1 = plan_.beta1,
                                                               .beta2 = plan_.beta2,
                                                               .max_norm = plan_.max_norm});
        lowering_.append(std::move(decide));
    }

    void append_update(const OwnRange& range) {
        const auto& [number, first, elements] = range.elements;
        const ChunkViews& chunk = views_[number];
        const View moment1 = part_of(chunk.moment1, range.moments, elements);
        const View moment2 = part_of(chunk.moment2, range.moments, elements);
        const auto moments = static_cast<uint32_t>(plan_.moments);
        Dispatch update =
            subgroup_dispatch(lowering_, plan_.moments != Storage::f32 ? "optimizer/update.16" : "optimizer/update",
                              {sgd_ ? 1u : 0u, moments});
        update.label = "update";
        update.record =
            make_record(kernels::optimizer::Record{.parameters = part_of(chunk.parameters, first, elements),
                                                   .gradients = part_of(chunk.gradients, first, elements),
                                                   .moment1 = moment1,
                                                   .moment2 = moment2,
                                                   .blocks = part_of(chunk.blocks, first / kBlock, elements / kBlock),
                                                   .groups = shared_.groups,
                                                   .learning_rate = shared_.learning_rate,
                                                   .state = reads(shared_.state),
                                                   .beta1 = plan_.beta1,
                                                   .beta2 = plan_.beta2,
                                                   .epsilon = plan_.epsilon,
                                                   .momentum = plan_.momentum,
                                                   .nesterov = plan_.nesterov ? 1u : 0u,
                                                   .chunk = number,
                                                   .first_block = static_cast<uint32_t>(first / kBlock)});
        update.groups = elements / kBlock;
        double kept = 0; // bytes
        for (const View* view : {&moment1, &moment2})
            if (view->resource != 0) kept += static_cast<double>(view->bytes());
        update.bytes = 12.0 * static_cast<double>(elements) + 2.0 * kept;
        if (plan_.moments_over_bus) update.seconds = 2.0 * kept / kBusBytes;
        lowering_.append(std::move(update));
    }

    void append_buffer(const WrittenBuffer& written) {
        if (written.shape.elements() == 0) return;
        const View sum =
            lowering_.named(ResourceKind::state, buffer_sum_state(written.name), written.shape, Storage::f32);
        const View buffer =
            lowering_.named(ResourceKind::state, buffer_state(written.name), written.shape, Storage::f32);
        const View share = lowering_.step_scalar(kMicroBatchShare, 1);
        Dispatch dispatch;
        dispatch.shader = "optimizer/buffer";
        dispatch.label = "buffer";
        dispatch.record = make_record(kernels::optimizer::BufferRecord{
            .sum = sum, .to = buffer, .state = shared_.state, .share = share, .count = word(buffer.elements())});
        dispatch.groups = elementwise_groups(buffer.elements());
        dispatch.bytes = 2.0 * static_cast<double>(buffer.bytes());
        lowering_.append(std::move(dispatch));
    }

    bool is_stage(std::initializer_list<OptimizerStage> stages) const {
        return std::ranges::find(stages, plan_.stage) != stages.end();
    }

    const OptimizerPlan& plan_;
    const std::vector<ParameterEntry>& table_;
    std::span<const StoreChunk> chunks_;
    std::vector<uint64_t> moments_; // elements, by chunk
    std::vector<OwnRange> ranges_;
    const bool sgd_ = plan_.kind == OptimizerKind::sgd;
    const bool has_norm_ = is_stage({OptimizerStage::all, OptimizerStage::judge, OptimizerStage::norm});
    const bool has_decision_ = is_stage({OptimizerStage::all, OptimizerStage::judge, OptimizerStage::decide});
    const bool has_update_ = is_stage({OptimizerStage::all, OptimizerStage::update});
    Lowering lowering_;
    SharedViews shared_;
    std::vector<ChunkViews> views_ = std::vector<ChunkViews>(chunks_.size());
};

} // namespace

Result<Lowering> lower_optimizer(const OptimizerPlan& plan, const std::vector<ParameterEntry>& table,
                                 std::span<const StoreChunk> chunks, const Limits& limits) {
    HK_TRY(check(plan, table, chunks));
    return OptimizerLowering(plan, table, chunks, limits).lower();
}

} // namespace hekla::program
