#include "batch/collate.hpp"
#include "batch/drawn_example.hpp"
#include "check/fenced.hpp"
#include "check/tests.hpp"
#include "graph/shape.hpp"
#include "infer/passes/head_outputs.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <thread>

namespace hekla::check {
namespace {

using Fields = std::vector<data::Field>;

bool makes_batches(const plugin::Provided& provided) { return provided.interface_id == HK_OBJECTIVE_INTERFACE; }

// Returns the bytes of one row of a field whose first dimension is the batch.
std::span<const std::byte> row_of(const data::Field& field, int64_t row, int64_t rows) {
    const std::size_t size = field.bytes.size() / static_cast<std::size_t>(rows);
    return std::span(field.bytes).subspan(static_cast<std::size_t>(row) * size, size);
}

// Returns the first field that differs between two batches of the same shape; empty if all are equal.
std::string differing(const Fields& a, const Fields& b) {
    for (std::size_t i = 0; i < a.size(); ++i)
        if (a[i].bytes != b[i].bytes) return a[i].name;
    return {};
}

} // namespace

Status test_pure_batches(Trial& trial) {
    for (const plugin::Provided& provided : trial.manifest().provides) {
        if (!makes_batches(provided)) continue;
        const std::string name = name_of(provided);
        HK_ASSIGN(const Small small, small_network(trial, provided));
        const std::size_t count = std::min<std::size_t>(small.examples.size(), 5);
        const auto rows = static_cast<int64_t>(count);
        std::vector<data::EncodedExample> examples(small.examples.begin(),
                                                   small.examples.begin() + static_cast<std::ptrdiff_t>(count));
        const auto batch = [&](std::span<const data::EncodedExample> of, int64_t size, uint64_t seed) {
            return batch_of(small, of, size, small.length, seed);
        };
        trial.doing(name + ": the same batch twice");
        HK_ASSIGN(const Fields first, batch(examples, rows, 7));
        HK_ASSIGN(const Fields other_seed, batch(examples, rows, 8));
        HK_ASSIGN(const Fields again, batch(examples, rows, 7));
        if (const std::string field = differing(first, again); !field.empty())
            trial.fail(
                fmt::format("{}: the same examples and seed give a different '{}' the second time: collate keeps "
                            "state between calls, or draws random numbers that do not depend on the seed",
                            name, field));
        trial.doing(name + ": the rows in another order");
        std::vector<data::EncodedExample> turned(examples.rbegin(), examples.rend());
        HK_ASSIGN(const Fields reversed, batch(turned, rows, 7));
        trial.doing(name + ": the same rows in a larger batch");
        HK_ASSIGN(const Fields larger, batch(examples, rows + 3, 7));
        for (std::size_t i = 0; i < first.size(); ++i) {
            const bool by_row = !first[i].shape.empty() && first[i].shape[0] == rows && larger[i].shape[0] == rows + 3;
            if (!by_row) continue;
            for (int64_t row = 0; row < rows; ++row) {
                const auto here = row_of(first[i], row, rows);
                if (!std::ranges::equal(here, row_of(reversed[i], rows - 1 - row, rows))) {
                    trial.fail(fmt::format("{}: '{}' of an example depends on its row in the batch: derive "
                                           "random numbers from the example's index",
                                           name, first[i].name));
                    break;
                }
                if (!std::ranges::equal(here, row_of(larger[i], row, rows + 3))) {
                    trial.fail(
                        fmt::format("{}: '{}' of an example depends on the size of the batch", name, first[i].name));
                    break;
                }
            }
        }
    }
    return {};
}

Status test_threads(Trial& trial) {
    for (const plugin::Provided& provided : trial.manifest().provides) {
        if (!makes_batches(provided)) continue;
        HK_ASSIGN(const Small small, small_network(trial, provided));
        constexpr uint64_t kBatches = 24;
        std::vector<Fields> alone(kBatches);
        const auto examples = [&](uint64_t number) {
            const std::size_t begin = number % (small.examples.size() / 2 + 1);
            return std::span(small.examples).subspan(begin, std::min<std::size_t>(4, small.examples.size() - begin));
        };
        for (uint64_t i = 0; i < kBatches; ++i) {
            HK_ASSIGN(alone[i], batch_of(small, examples(i), 4, small.length, i));
        }
        trial.doing(fmt::format("{}: four threads make batches on one instance", name_of(provided)));
        constexpr int kThreads = 4;
        std::vector<std::string> wrong(kThreads);
        std::vector<std::thread> threads;
        for (int t = 0; t < kThreads; ++t)
            threads.emplace_back([&, t] {
                for (int round = 0; round < 8 && wrong[static_cast<std::size_t>(t)].empty(); ++round)
                    for (uint64_t i = 0; i < kBatches; ++i) {
                        const uint64_t number = (i + static_cast<uint64_t>(t) * 5) % kBatches;
                        const auto made = batch_of(small, examples(number), 4, small.length, number);
                        std::string& difference = wrong[static_cast<std::size_t>(t)];
                        if (!made.ok())
                            difference = made.message();
                        else if (const std::string field = differing(alone[number], made.value()); !field.empty())
                            difference = fmt::format("a different '{}' than alone", field);
                    }
            });
        for (std::thread& thread : threads) thread.join();
        for (const std::string& difference : wrong)
            if (!difference.empty()) {
                trial.fail(fmt::format("{}: with four threads at once collate gives {}: calls share state",
                                       name_of(provided), difference));
                break;
            }
    }
    return {};
}

Status test_bounds(Trial& trial) {
    for (const plugin::Provided& provided : trial.manifest().provides) {
        if (!makes_batches(provided)) continue;
        HK_ASSIGN(const Small small, small_network(trial, provided));
        for (const int64_t length : {small.length, int64_t{9}, int64_t{5}}) {
            HK_ASSIGN(Fields fields, batch_of(small, {}, 3, length, 1));
            std::vector<std::unique_ptr<Fenced>> memory;
            std::vector<hk_field> views = batch::field_views(fields);
            for (std::size_t i = 0; i < views.size(); ++i) {
                memory.push_back(std::make_unique<Fenced>(fields[i].bytes.size()));
                if (memory.back()->data() == nullptr) return out_of_memory("no memory for fences");
                views[i].data = memory.back()->data();
            }
            std::vector<batch::DrawnExample> drawn;
            for (std::size_t i = 0; i < std::min<std::size_t>(3, small.examples.size()); ++i)
                drawn.push_back({small.examples[i], 0});
            trial.doing(
                fmt::format("{}: rows of {} tokens, with a guard page after each field", name_of(provided), length));
            const Status made =
                batch::collate_into(*small.composition, drawn, &small.data.train().examples(), 1, views);
            if (const std::string bad = bad_refusal(made); !bad.empty())
                trial.fail(fmt::format("{}: rows of {} tokens: {}", name_of(provided), length, bad));
            for (std::size_t i = 0; i < views.size(); ++i)
                if (memory[i]->touched_before())
                    trial.fail(
                        fmt::format("{}: writes before the beginning of '{}'", name_of(provided), fields[i].name));
        }
    }
    return {};
}

Status test_strange_examples(Trial& trial) {
    for (const plugin::Provided& provided : trial.manifest().provides) {
        if (!makes_batches(provided)) continue;
        HK_ASSIGN(const Small small, small_network(trial, provided));
        const auto attempt = [&](const std::string& what, const std::vector<data::EncodedExample>& examples) {
            trial.doing(fmt::format("{}: {}", name_of(provided), what));
            const auto made = batch_of(small, examples, 4, small.length, 3);
            if (const std::string bad = bad_refusal(made.status()); !bad.empty())
                trial.fail(fmt::format("{}: {}: {}", name_of(provided), what, bad));
            if (!made.ok()) return;
            const int32_t vocabulary = small.tokenizer->vocabulary_size();
            for (const data::Field& field : made.value()) {
                if (!field.name.ends_with("input_ids")) continue;
                for (std::size_t at = 0; at < field.bytes.size(); at += 4) {
                    int32_t id = 0;
                    std::memcpy(&id, field.bytes.data() + at, 4);
                    if (id >= 0 && id < vocabulary) continue;
                    trial.fail(fmt::format("{}: {}: '{}' holds the id {}, the vocabulary has {}", name_of(provided),
                                           what, field.name, id, vocabulary));
                    break;
                }
            }
        };
        const data::EncodedExample& usual = small.examples.front();
        const auto changed = [&](const auto& change) {
            data::EncodedExample example = usual;
            for (data::EncodedColumn& column : example.columns) change(column);
            return example;
        };
        const auto is_text = [](const data::EncodedColumn& column) {
            return column.kind == HK_COLUMN_TOKENS || column.kind == HK_COLUMN_WORDS ||
                   column.kind == HK_COLUMN_CHOICES;
        };
        attempt("no examples", {});
        attempt("one example four times", {usual, usual, usual, usual});
        attempt("texts of one token", {changed([&](data::EncodedColumn& column) {
                    if (is_text(column)) column.ids.resize(1), column.parts = {0};
                })});
        attempt("texts without a token", {changed([&](data::EncodedColumn& column) {
                    if (is_text(column)) column.ids.clear(), column.parts.clear();
                })});
        attempt("texts of a thousand tokens", {changed([&](data::EncodedColumn& column) {
                    if (!is_text(column)) return;
                    const std::vector<int32_t> once = column.ids;
                    while (column.ids.size() < 1000 && !once.empty())
                        column.ids.insert(column.ids.end(), once.begin(), once.end());
                })});
        attempt("unknown classes", {changed([&](data::EncodedColumn& column) {
                    if (column.kind == HK_COLUMN_CLASSES) std::ranges::fill(column.ids, -1);
                })});
        const auto needs = small.composition->columns();
        if (!needs.ok()) continue;
        for (const plugin::ColumnNeed& need : needs.value()) {
            if (!need.optional && !need.target) continue;
            data::EncodedExample example = usual;
            std::erase_if(example.columns, [&](const data::EncodedColumn& column) { return column.name == need.name; });
            attempt(fmt::format("without the column '{}'", need.name), {example, usual});
        }
    }
    return {};
}

Status test_decoding(Trial& trial) {
    for (const plugin::Provided& provided : trial.manifest().provides) {
        if (provided.interface_id != HK_HEAD_INTERFACE) continue;
        HK_ASSIGN(const Small small, small_network(trial, provided));
        HK_ASSIGN(const std::vector<std::string> ports, small.composition->decode_ports());
        if (ports.empty()) {
            trial.skip(name_of(provided) + ": does not decode its outputs");
            continue;
        }
        HK_ASSIGN(Fields fields, batch_of(small, std::span(small.examples).first(2), 3, small.length, 1));
        HK_ASSIGN(const std::vector<plugin::BatchField> described, small.composition->batch_fields(3, small.length));
        HK_ASSIGN(const graph::Graph graph, small.composition->build(HK_MODE_EVALUATE, described, ports));
        for (const double scale : {1.0, 1e30}) {
            std::map<std::string, graph::Tensor, std::less<>> outputs;
            std::vector<graph::ValueId> wanted;
            for (const std::string& port : ports) wanted.push_back(graph.outputs.at(port));
            HK_ASSIGN(std::vector<graph::Tensor> values,
                      graph::evaluate(graph, feeds_of(graph, fields, trial.seed()), wanted));
            for (std::size_t i = 0; i < ports.size(); ++i) {
                for (double& value : values[i].data) value *= scale;
                outputs[ports[i]] = std::move(values[i]);
            }
            trial.doing(fmt::format("{}: decodes outputs scaled by {:g}", name_of(provided), scale));
            const auto decoded = infer::decode_rows(*small.composition, outputs, fields, 2);
            trial.require(decoded.status(), name_of(provided));
        }
    }
    return {};
}

} // namespace hekla::check
