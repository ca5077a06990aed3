#include "batch/collate.hpp"
#include "check/probe.hpp"
#include "check/tests.hpp"
#include "data/batcher.hpp"
#include "hekla/plugin/architecture.h"
#include "hekla/plugin/combiner.h"
#include "plugin/composition/compose.hpp"
#include "plugin/host/joint.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>

namespace hekla::check {
namespace {

constexpr double kSame = 1e-9; // of float64 sums in another order

using Tensors = std::map<std::string, graph::Tensor>;

// Evaluates every port of the network for these fields, and the terms of its loss as "loss.NAME".
Result<Tensors> ports_of(const Small& small, std::span<const data::Field> fields, uint64_t seed) {
    std::vector<plugin::BatchField> described;
    for (const data::Field& field : fields)
        described.push_back({field.name,
                             field.kind == data::FieldKind::int32 ? graph::Kind::int32 : graph::Kind::float32,
                             graph::Shape(field.shape)});
    HK_ASSIGN(const graph::Graph graph, small.composition->build(HK_MODE_EVALUATE, described, {}, true));
    std::vector<graph::ValueId> wanted;
    std::vector<std::string> names;
    for (const auto& [name, value] : graph.outputs) {
        if (graph.value(value).kind == graph::Kind::int32) continue;
        names.push_back(name);
        wanted.push_back(value);
    }
    HK_ASSIGN(std::vector<graph::Tensor> values, graph::evaluate(graph, feeds_of(graph, fields, seed), wanted));
    Tensors all;
    for (std::size_t i = 0; i < names.size(); ++i) all[names[i]] = std::move(values[i]);
    return all;
}

double apart(double a, double b) { return std::abs(a - b) / std::max(1.0, std::max(std::abs(a), std::abs(b))); }

// Returns the greatest difference between row `a_row` of a and row `b_row` of b over their first `tokens` (0: all).
double rows_apart(const graph::Tensor& a, int64_t a_row, const graph::Tensor& b, int64_t b_row, int64_t tokens) {
    const auto size_of = [](const graph::Tensor& t) { return t.shape.elements() / t.shape[0]; };
    int64_t count = std::min(size_of(a), size_of(b));
    if (tokens > 0) count = std::min(count, tokens * (size_of(a) / a.shape[1]));
    double worst = 0.0;
    for (int64_t i = 0; i < count; ++i)
        worst = std::max(worst, apart(a.data[static_cast<std::size_t>(a_row * size_of(a) + i)],
                                      b.data[static_cast<std::size_t>(b_row * size_of(b) + i)]));
    return worst;
}

bool has_rows(const graph::Tensor& tensor, int64_t rows) { return tensor.shape.rank() > 1 && tensor.shape[0] == rows; }

bool is_body(const plugin::Provided& provided) { return provided.interface_id == HK_ARCHITECTURE_INTERFACE; }

bool is_part_of_body(const plugin::Provided& provided) {
    return provided.interface_id == HK_ADAPTER_INTERFACE || provided.interface_id == HK_COMBINER_INTERFACE;
}

} // namespace

Status test_causal(Trial& trial) {
    for (const plugin::Provided& provided : trial.manifest().provides) {
        if (!is_body(provided) && !is_part_of_body(provided)) continue;
        HK_ASSIGN(const Small small, small_network(trial, provided));
        HK_ASSIGN(const plugin::Registry::Entry body,
                  trial.registry().find(HK_ARCHITECTURE_INTERFACE, small.recipe->model.architecture));
        if (!is_causal(*body.provided, small.spec.config)) {
            trial.skip(fmt::format("{}: {} not causal by its manifest", name_of(provided),
                                   is_body(provided) ? "is" : name_of(*body.provided) + ", its body here, is"));
            continue;
        }
        HK_ASSIGN(std::vector<data::Field> fields,
                  batch_of(small, std::span(small.examples).first(1), 1, small.length, 1));
        const auto ids = std::ranges::find(fields, "input_ids", &data::Field::name);
        if (ids == fields.end()) {
            trial.skip(name_of(provided) + ": reads no input_ids");
            continue;
        }
        trial.doing(name_of(provided) + ": a token is changed");
        HK_ASSIGN(const Tensors before, ports_of(small, fields, trial.seed()));
        const int64_t at = small.length / 2;
        int32_t id = 0;
        std::byte* place = ids->bytes.data() + static_cast<std::size_t>(at) * 4;
        std::memcpy(&id, place, 4);
        id = id > 0 ? id - 1 : id + 1;
        std::memcpy(place, &id, 4);
        HK_ASSIGN(const Tensors after, ports_of(small, fields, trial.seed()));
        for (const auto& [port, value] : before) {
            if (!has_rows(value, 1) || value.shape[1] != small.length) continue;
            const double change = rows_apart(value, 0, after.at(port), 0, at);
            if (change > kSame)
                trial.fail(
                    fmt::format("{}: {} of tokens 0 to {} changes by {:.3g} when token {} changes: it depends on later "
                                "tokens",
                                name_of(provided), port, at - 1, change, at));
        }
    }
    return {};
}

Status test_rows_apart(Trial& trial) {
    for (const plugin::Provided& provided : trial.manifest().provides) {
        HK_ASSIGN(const Small small, small_network(trial, provided));
        const std::size_t count = std::min<std::size_t>(small.examples.size(), 3);
        const std::span examples = std::span(small.examples).first(count);
        trial.doing(name_of(provided) + ": rows in one batch and alone");
        const auto rows = static_cast<int64_t>(count);
        HK_ASSIGN(const std::vector<data::Field> together, batch_of(small, examples, rows, small.length, 1));
        HK_ASSIGN(const Tensors all, ports_of(small, together, trial.seed()));
        for (int64_t row = 0; row < rows; ++row) {
            HK_ASSIGN(const std::vector<data::Field> alone,
                      batch_of(small, examples.subspan(static_cast<std::size_t>(row), 1), 1, small.length, 1));
            HK_ASSIGN(const Tensors one, ports_of(small, alone, trial.seed()));
            for (const auto& [port, value] : all) {
                const graph::Tensor& single = one.at(port);
                if (!has_rows(value, rows) || !has_rows(single, 1)) continue;
                const double change = rows_apart(value, row, single, 0, 0);
                if (change > kSame)
                    trial.fail(fmt::format("{}: {} of row {} differs by {:.3g} if the batch has other rows",
                                           name_of(provided), port, row, change));
            }
        }
    }
    return {};
}

Status test_padding(Trial& trial) {
    for (const plugin::Provided& provided : trial.manifest().provides) {
        if (!is_body(provided)) continue;
        // Uses rows of a table, which are shorter than the rows of the batch.
        nlohmann::json check = provided.check.parse();
        check["objective"] = "classification";
        check["head"] = "classifier";
        check.erase("objective_config");
        check.erase("head_config");
        const std::string text = check.dump();
        plugin::Provided rows = provided;
        rows.check.text = text;
        const Result<Small> small = small_network(trial, rows);
        if (!small.ok()) {
            trial.skip(
                fmt::format("{}: does not read rows of different lengths: {}", name_of(provided), small.message()));
            continue;
        }
        const int64_t needed = batch::example_length(*small->composition, small->examples.front());
        trial.doing(fmt::format("{}: a row of {} tokens with padding after it", name_of(provided), needed));
        Tensors seen[2];
        const int64_t lengths[2] = {needed, needed + 5};
        std::vector<int64_t> real[2]; // positions of the tokens: some families pad on the left
        for (int i = 0; i < 2; ++i) {
            HK_ASSIGN(const std::vector<data::Field> fields,
                      batch_of(small.value(), std::span(small->examples).first(1), 1, lengths[i], 1));
            HK_ASSIGN(seen[i], ports_of(small.value(), fields, trial.seed()));
            const auto mask = std::ranges::find(fields, "attention_mask", &data::Field::name);
            for (int64_t t = 0; t < lengths[i]; ++t) {
                int32_t counts = t < needed ? 1 : 0;
                if (mask != fields.end()) std::memcpy(&counts, mask->bytes.data() + static_cast<std::size_t>(t) * 4, 4);
                if (counts != 0) real[i].push_back(t);
            }
        }
        if (real[0].size() != real[1].size()) {
            trial.skip(name_of(provided) + ": longer rows contain other tokens");
            continue;
        }
        for (const auto& [port, value] : seen[0]) {
            const graph::Tensor& padded = seen[1].at(port);
            if (!has_rows(value, 1) || value.shape.rank() != padded.shape.rank()) continue;
            const bool by_token = value.shape[1] == lengths[0] && padded.shape[1] == lengths[1];
            if (!by_token && !(value.shape == padded.shape)) continue;
            bool same_width = true; // of the axes after the tokens: a tokens x tokens map grows too
            for (int axis = 2; axis < value.shape.rank(); ++axis)
                same_width = same_width && value.shape[axis] == padded.shape[axis];
            if (!same_width) continue;
            double change = 0.0;
            if (!by_token) change = rows_apart(value, 0, padded, 0, 0);
            const int64_t width = by_token ? value.shape.elements() / value.shape[1] : 0;
            for (std::size_t t = 0; by_token && t < real[0].size(); ++t)
                for (int64_t k = 0; k < width; ++k)
                    change = std::max(change, apart(value.data[static_cast<std::size_t>(real[0][t] * width + k)],
                                                    padded.data[static_cast<std::size_t>(real[1][t] * width + k)]));
            if (change > kSame)
                trial.fail(fmt::format("{}: {} changes by {:.3g} if 5 tokens of padding follow the row: use "
                                       "attention_mask in attention and in pooling over tokens",
                                       name_of(provided), port, change));
        }
    }
    return {};
}

Status test_gradient(Trial& trial) {
    for (const plugin::Provided& provided : trial.manifest().provides) {
        HK_ASSIGN(const Probe probe, training_probe(trial, provided, 2));
        trial.doing(name_of(provided) + ": gradients of the loss");
        HK_TRY(compare_with_differences(trial, probe));
    }
    return {};
}

} // namespace hekla::check
