#include "program/lowering/optimizer.hpp"

#include "program/lowering/common.hpp"

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

struct Arenas {
    View parameters, gradients, moment1, moment2;
    View blocks, groups, sums, learning_rate, gradient_scale, state, loss, loss_scale;
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

Dispatch make_dispatch(const char* shader, uint32_t lanes, const kernels::optimizer::Record& record) {
    Dispatch dispatch;
    dispatch.shader = shader;
    dispatch.constants = {lanes};
    dispatch.subgroup_size = lanes;
    dispatch.record = make_record(record);
    return dispatch;
}

void write_buffer(Lowering& lowering, const WrittenBuffer& written, const View& state) {
    if (written.shape.elements() == 0) return;
    const View sum = lowering.named(ResourceKind::state, buffer_sum_state(written.name), written.shape, Storage::f32);
    const View buffer = lowering.named(ResourceKind::state, buffer_state(written.name), written.shape, Storage::f32);
    const View share = lowering.step_scalar(kMicroBatchShare, 1);
    Dispatch dispatch;
    dispatch.shader = "optimizer/buffer";
    dispatch.label = "buffer";
    dispatch.record = make_record(kernels::optimizer::BufferRecord{
        .sum = sum, .to = buffer, .state = state, .share = share, .count = word(buffer.elements())});
    dispatch.groups = elementwise_groups(buffer.elements());
    dispatch.bytes = 2.0 * static_cast<double>(buffer.bytes());
    lowering.append(std::move(dispatch));
}

} // namespace

Result<Lowering> lower_optimizer(const OptimizerPlan& plan, const std::vector<ParameterEntry>& table,
                                 std::span<const StoreChunk> chunks, const Limits& limits) {
    HK_TRY(check(plan, table, chunks));
    Lowering lowering;
    lowering.limits = limits;
    const uint32_t s = lanes(lowering);
    const bool sgd = plan.kind == OptimizerKind::sgd;
    const bool all = plan.stage == OptimizerStage::all;
    const bool judges = plan.stage == OptimizerStage::judge;
    const bool norms = all || judges || plan.stage == OptimizerStage::norm;
    const bool decides = all || judges || plan.stage == OptimizerStage::decide;
    const bool has_update = all || plan.stage == OptimizerStage::update;

    Arenas a;
    int64_t parts = 0;               // of the norm
    std::vector<uint64_t> first_sum; // by chunk
    for (const StoreChunk& chunk : chunks) {
        first_sum.push_back(static_cast<uint64_t>(parts));
        if (chunk.trained) parts += divide_up(static_cast<int64_t>(chunk.elements), kPart);
    }
    if (norms || decides)
        a.sums = all || judges ? lowering.allocate({parts}, Storage::f32, "sums of squares")
                               : lowering.named(ResourceKind::state, kOptimizerSums, {parts}, Storage::f32);
    if (has_update) {
        std::vector<float> groups;
        for (const OptimizerGroup& group : plan.groups) {
            groups.push_back(group.learning_rate_factor);
            groups.push_back(group.weight_decay);
        }
        if (groups.empty()) groups = {1, 0};
        a.groups = lowering.constant("optimizer groups", {static_cast<int64_t>(groups.size())}, Storage::f32,
                                     bytes_of_vector(groups));
        a.learning_rate = lowering.step_scalar(kLearningRate, 0);
    }
    if (decides || has_update)
        a.state = lowering.named(ResourceKind::state, plan.state, {static_cast<int64_t>(sizeof(OptimizerState) / 4)},
                                 Storage::i32);
    if (decides) {
        a.gradient_scale = lowering.step_scalar(kGradientScale, 1);
        a.loss = plan.loss_state.empty()
                     ? lowering.step_scalar(kLoss, 0)
                     : lowering.named(ResourceKind::state, plan.loss_state, graph::Shape{}, Storage::f32);
        if (plan.loss_scaling)
            a.loss_scale = lowering.named(ResourceKind::state, kLossScaleState,
                                          {static_cast<int64_t>(sizeof(LossScale) / 4)}, Storage::i32);
    }

    std::vector<uint64_t> moments; // elements, by chunk
    const std::vector<OwnRange> ranges = own_ranges(plan, chunks, moments);
    std::vector<Arenas> of_chunk(chunks.size(), a);
    std::vector<View> pruned(chunks.size());
    for (std::size_t c = 0; c < chunks.size(); ++c) {
        if (!chunks[c].trained || moments[c] == 0 || plan.stage == OptimizerStage::decide) continue;
        const auto count = static_cast<int64_t>(chunks[c].elements);
        const std::string name = chunk_name(static_cast<uint32_t>(c));
        Arenas& own = of_chunk[c];
        own.gradients = lowering.named(ResourceKind::gradient, name, {count}, Storage::f32);
        if (const std::vector<uint32_t> bits = norms ? pruned_bits(plan, table, chunks, c) : std::vector<uint32_t>();
            !bits.empty())
            pruned[c] = lowering.constant(fmt::format("pruned weights {}", c), {static_cast<int64_t>(bits.size())},
                                          Storage::i32, bytes_of_vector(bits));
        if (!has_update) continue;
        own.parameters = lowering.named(ResourceKind::parameter, name, {count}, Storage::f32);
        const auto kept = static_cast<int64_t>(moments[c]);
        if (!sgd || plan.momentum != 0) own.moment1 = lowering.named(ResourceKind::moment1, name, {kept}, plan.moments);
        if (!sgd) own.moment2 = lowering.named(ResourceKind::moment2, name, {kept}, plan.moments);
        const std::vector<uint32_t> blocks = blocks_of(plan, table, chunks, c);
        own.blocks = lowering.constant(fmt::format("optimizer blocks {}", c), {static_cast<int64_t>(blocks.size())},
                                       Storage::i32, bytes_of_vector(blocks));
    }

    for (const OwnRange& range : ranges) {
        if (!norms) break;
        const auto& [chunk, first, elements] = range.elements;
        const auto count = static_cast<int64_t>(elements);
        const View gradients = part_of(of_chunk[chunk].gradients, first, elements);
        const View bits = part_of(pruned[chunk], first / 32, elements / 32);
        const View sums =
            part_of(a.sums, first_sum[chunk] + first / kPart, static_cast<uint64_t>(divide_up(count, kPart)));
        const bool masked = bits.resource != 0;
        Dispatch norm;
        norm.shader = "optimizer/norm";
        norm.label = "gradient norm";
        norm.constants = {s, masked ? 1u : 0u};
        norm.subgroup_size = s;
        norm.record =
            make_record(kernels::optimizer::NormRecord{.gradients = masked ? updates(gradients) : reads(gradients),
                                                       .sums = sums,
                                                       .pruned = bits,
                                                       .count = word(count)});
        norm.groups = static_cast<uint64_t>(sums.elements());
        norm.bytes = (masked ? 8.0 : 4.0) * static_cast<double>(count);
        lowering.append(std::move(norm));
    }

    if (decides) {
        Dispatch decide = make_dispatch("optimizer/decide", s,
                                        {.sums = a.sums,
                                         .gradient_scale = a.gradient_scale,
                                         .state = updates(a.state),
                                         .loss = a.loss,
                                         .loss_scale = a.loss_scale,
                                         .chunks = word(a.sums.elements()),
                                         .beta1 = plan.beta1,
                                         .beta2 = plan.beta2,
                                         .max_norm = plan.max_norm});
        decide.label = "step decision";
        decide.constants.push_back(plan.loss_scaling ? 1u : 0u);
        lowering.append(std::move(decide));
    }

    for (const OwnRange& range : ranges) {
        if (!has_update) break;
        const auto& [chunk, first, elements] = range.elements;
        const Arenas& own = of_chunk[chunk];
        const View moment1 = part_of(own.moment1, range.moments, elements);
        const View moment2 = part_of(own.moment2, range.moments, elements);
        const bool halved = plan.moments != Storage::f32;
        Dispatch update = make_dispatch(halved ? "optimizer/update.16" : "optimizer/update", s,
                                        {.parameters = part_of(own.parameters, first, elements),
                                         .gradients = part_of(own.gradients, first, elements),
                                         .moment1 = moment1,
                                         .moment2 = moment2,
                                         .blocks = part_of(own.blocks, first / kBlock, elements / kBlock),
                                         .groups = a.groups,
                                         .learning_rate = a.learning_rate,
                                         .state = reads(a.state),
                                         .beta1 = plan.beta1,
                                         .beta2 = plan.beta2,
                                         .epsilon = plan.epsilon,
                                         .momentum = plan.momentum,
                                         .nesterov = plan.nesterov ? 1u : 0u,
                                         .chunk = chunk,
                                         .first_block = static_cast<uint32_t>(first / kBlock)});
        update.label = "update";
        update.constants.push_back(sgd ? 1u : 0u);
        update.constants.push_back(static_cast<uint32_t>(plan.moments));
        update.groups = elements / kBlock;
        double kept = 0; // bytes
        for (const View* view : {&moment1, &moment2})
            if (view->resource != 0) kept += static_cast<double>(view->bytes());
        update.bytes = 12.0 * static_cast<double>(elements) + 2.0 * kept;
        if (plan.moments_over_bus) update.seconds = 2.0 * kept / kBusBytes;
        lowering.append(std::move(update));
    }
    if (has_update || judges)
        for (const WrittenBuffer& written : plan.buffers) write_buffer(lowering, written, a.state);
    return lowering;
}

} // namespace hekla::program
