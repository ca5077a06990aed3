#include "train/step/loss_counts.hpp"

#include "batch/collate.hpp"
#include "graph/reference.hpp"

#include <algorithm>

namespace hekla::train {
namespace {

// Marks the nodes that the counts are computed from.
std::vector<bool> nodes_of_counts(const graph::Graph& described) {
    std::vector<bool> needed(described.nodes.size(), false);
    for (const graph::LossTerm& term : described.losses) needed[described.value(term.count).node] = true;
    for (std::size_t id = described.nodes.size(); id-- > 0;)
        if (needed[id])
            for (const graph::ValueId input : described.nodes[id].inputs)
                if (input != graph::kNone) needed[described.value(input).node] = true;
    return needed;
}

} // namespace

Result<std::vector<double>> loss_counts(const graph::Graph& described, std::span<const data::Field> fields) {
    const std::vector<bool> needed = nodes_of_counts(described);
    graph::Feeds feeds;
    for (std::size_t id = 0; id < needed.size(); ++id) {
        const graph::Node& node = described.nodes[id];
        if (!needed[id] || node.op != graph::Op::input) continue;
        const auto field = std::ranges::find(fields, node.text("field"), &data::Field::name);
        if (field != fields.end()) feeds.fields.emplace(field->name, batch::tensor_of(*field));
    }
    std::vector<graph::ValueId> wanted;
    for (const graph::LossTerm& term : described.losses) wanted.push_back(term.count);
    HK_ASSIGN(const std::vector<graph::Tensor> values, graph::evaluate(described, feeds, wanted));
    std::vector<double> counts;
    for (const graph::Tensor& value : values) counts.push_back(value.data[0]);
    return counts;
}

double label_tokens(std::span<const data::Field> fields) {
    for (const std::string_view name : {"next_ids", "labels"}) {
        const auto field = std::ranges::find(fields, name, &data::Field::name);
        if (field == fields.end() || field->kind != data::FieldKind::int32 || field->shape.size() < 2) continue;
        const std::span ids(reinterpret_cast<const int32_t*>(field->bytes.data()), field->bytes.size() / 4);
        return static_cast<double>(std::ranges::count_if(ids, [](int32_t id) { return id != -100; }));
    }
    return 0.0;
}

bool any_label(std::span<const double> counts) {
    return std::ranges::any_of(counts, [](double count) { return count > 0.0; });
}

} // namespace hekla::train
