#include "program/lowering/choose.hpp"

#include "program/lowering/common.hpp"
#include "program/lowering/half.hpp"
#include "program/lowering/loop.hpp"
#include "program/lowering/records.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace hekla::program {

namespace {

// Of a row, at most, on GPUs. A workgroup of 1,024 invocations has 64 registers for each on NVIDIA's, too few.
constexpr uint32_t kInvocations = 512, kSubgroups = 32;

Result<View> field_of(const Lowering& lowering, const std::string& name, int64_t rows) {
    const graph::ValueId leaf = lowering.graph->find_leaf(graph::Op::input, name);
    if (leaf == graph::kNone || !lowering.needed[lowering.graph->value(leaf).node])
        return invalid_argument(fmt::format("the decoding step reads no field '{}'", name));
    const View view = lowering.view(leaf);
    if (view.storage != Storage::i32 || view.elements() != rows || !view.contiguous())
        return invalid_argument(
            fmt::format("the field '{}' is {}, expected {} integers", name, view.shape.text(), rows));
    return view;
}

} // namespace

Status lower_choose(Lowering& lowering) {
    const auto found = lowering.graph->outputs.find("logits");
    if (found == lowering.graph->outputs.end()) return invalid_argument("the decoding step has no output 'logits'");
    const View logits = lowering.contiguous(lowering.view(found->second));
    if (logits.storage != Storage::f32 || logits.shape.rank() != 3 || logits.shape[1] != 1)
        return invalid_argument(
            fmt::format("the logits of a decoding step are {} {}, expected float32 [rows, 1, vocabulary]",
                        storage_name(logits.storage), logits.shape.text()));
    const int64_t rows = logits.shape[0], width = logits.shape[2];
    const ChooseFields& fields = *lowering.options.choose;
    HK_ASSIGN(const View tokens, field_of(lowering, fields.tokens, rows));
    HK_ASSIGN(const View start, field_of(lowering, fields.start, rows));
    HK_ASSIGN(const View count, field_of(lowering, fields.count, rows));
    const auto words = [](std::size_t bytes) { return static_cast<int64_t>(bytes / sizeof(uint32_t)); };
    const View options = lowering.named(ResourceKind::input, kChooseOptions,
                                        graph::Shape{words(sizeof(kernels::generate::ChooseOptions))}, Storage::i32);
    const View states = lowering.named(ResourceKind::input, kChooseRows,
                                       graph::Shape{rows, words(sizeof(kernels::generate::ChooseRow))}, Storage::i32);
    const View chosen = lowering.named(ResourceKind::output, kChosen,
                                       graph::Shape{rows, int64_t{kernels::generate::kChosenSlots}}, Storage::i32);
    const uint32_t most = lowering.limits.many_registers ? kInvocations : kInvocations / 4;
    const uint32_t invocations = std::min(most, lowering.limits.max_group_invocations);
    const uint32_t subgroups = lowering.limits.cpu ? 1 : std::clamp(invocations / lanes(lowering), 1u, kSubgroups);
    Dispatch dispatch = subgroup_dispatch(lowering, "generate/choose", {subgroups});
    dispatch.record = make_record(kernels::generate::ChooseRecord{.logits = logits,
                                                                  .options = options,
                                                                  .rows = states,
                                                                  .tokens = tokens,
                                                                  .start = start,
                                                                  .count = count,
                                                                  .chosen = chosen,
                                                                  .width = word(width),
                                                                  .stride = word(width)});
    dispatch.groups = static_cast<uint64_t>(rows);
    dispatch.bytes = static_cast<double>(logits.bytes());
    dispatch.label = "choice of tokens";
    lowering.append(std::move(dispatch));
    return {};
}

} // namespace hekla::program
