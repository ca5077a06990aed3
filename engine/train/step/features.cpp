#include "train/step/features.hpp"

#include "base/number_text.hpp"
#include "batch/collate.hpp"
#include "data/batcher.hpp"
#include "exchange/communicator.hpp"
#include "exchange/tree_sum.hpp"
#include "graph/passes/simplify.hpp"
#include "plugin/composition/compose.hpp"
#include "program/estimate.hpp"
#include "program/parameter_store.hpp"
#include "program/program.hpp"
#include "program/runtime.hpp"
#include "train/run/split.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::train {

namespace {

constexpr uint64_t kMostFeatures = uint64_t{2} << 30; // bytes on the host; above this they are computed in every step
constexpr double kLeastShare = 0.05; // of a forward pass that features must save, or they are computed in every step

uint64_t bytes_of(const graph::FrozenCut& cut, uint64_t examples, int64_t rows) {
    uint64_t row = 0;
    for (const std::string& name : cut.features)
        row += static_cast<uint64_t>(cut.below.shape(cut.below.outputs.at(name)).elements() / rows) * 4;
    return row * examples;
}

// How the program of the part below the cut is compiled.
program::CompileOptions options_of(const graph::FrozenCut& cut) {
    program::CompileOptions options;
    options.outputs = cut.features;
    options.gradients = program::Gradients::ignore;
    return options;
}

// Gives every rank the rows of all. batches: by rank, those that it has computed; batch_bytes: of the rows of one, of
// which the last may have fewer.
Status share_rows(exchange::Communicator& ranks, std::span<std::byte> rows, std::size_t batch_bytes,
                  std::span<const exchange::PartRange> batches) {
    const auto part = [&](std::size_t rank) {
        const std::size_t first = std::min(rows.size(), batches[rank].first * batch_bytes);
        return rows.subspan(first, std::min(rows.size(), batches[rank].end * batch_bytes) - first);
    };
    const auto own = static_cast<std::size_t>(ranks.rank());
    std::vector<hk_exchange_part> parts(batches.size());
    for (std::size_t r = 0; r < parts.size(); ++r)
        if (r != own) parts[r] = {part(own).data(), part(r).data(), part(own).size(), part(r).size()};
    return ranks.exchange(parts);
}

} // namespace

Result<FrozenLayers> FrozenLayers::cut(const graph::Graph& step, const std::set<std::string, std::less<>>& frozen,
                                       int64_t rows, uint64_t examples) {
    FrozenLayers layers;
    HK_ASSIGN(layers.cut_, graph::cut_frozen(step, frozen, rows));
    if (layers.cut_ && (layers.cut_->share < kLeastShare || bytes_of(*layers.cut_, examples, rows) > kMostFeatures))
        layers.cut_.reset();
    return layers;
}

Status FrozenLayers::estimate(program::Estimator& estimator) const {
    if (!cut_) return {};
    HK_ASSIGN(const graph::Graph below, graph::simplify(cut_->below));
    return estimator.add(below, options_of(*cut_), 0.0).status();
}

Status Features::prepare(const Source& source) {
    const std::optional<graph::FrozenCut>& cut = source.layers.cut_;
    if (!cut || !features_.empty()) return {};
    source.message(fmt::format("computing the frozen layers, {:.0f}% of a forward pass, once for {} examples",
                               100.0 * cut->share, grouped(static_cast<double>(source.split.size()))));
    Features made;
    HK_TRY(made.compute(source, *cut));
    *this = std::move(made);
    return {};
}

Status Features::compute(const Source& source, const graph::FrozenCut& cut) {
    const Split& split = source.split;
    const int64_t batch = source.batch;
    exchange::Communicator& ranks = source.ranks;
    HK_ASSIGN(const graph::Graph graph, graph::simplify(cut.below));
    HK_ASSIGN(const auto program, program::Program::compile(source.runtime, graph, source.store, options_of(cut)));
    const uint64_t count = split.examples().size();
    for (const std::string& name : cut.features) {
        One& one = features_.emplace_back();
        one.name = name;
        one.row_bytes = static_cast<std::size_t>(graph.shape(graph.outputs.at(name)).elements() / batch) * 4;
        one.rows = ResourceArray<std::byte>(one.row_bytes * count, source.store.host_memory());
    }
    // Whole batches, so that they do not depend on the number of ranks.
    const auto size = static_cast<uint64_t>(batch);
    const std::vector<exchange::PartRange> batches =
        exchange::parts_by_rank(static_cast<uint32_t>((count + size - 1) / size), ranks.size(), {});
    const exchange::PartRange own = batches[static_cast<std::size_t>(ranks.rank())];
    for (uint32_t i = own.first; i < own.end; ++i) {
        const uint64_t begin = i * size, end = std::min(count, begin + size);
        std::vector<batch::DrawnExample> examples(end - begin);
        for (uint64_t i = begin; i < end; ++i) split.examples().get(i, examples[i - begin].example);
        std::vector<data::Field> fields;
        HK_TRY(batch::make_fields(source.composition, examples, nullptr, source.seed, batch, source.length, fields,
                                  source.store.host_memory()));
        for (const data::Field& field : fields)
            if (program->has_input(field.name)) HK_TRY(program->set_input(field.name, field.bytes));
        HK_TRY(program->run());
        for (One& one : features_) {
            HK_ASSIGN(const program::HostTensor host, program->read_output(one.name));
            std::copy_n(host.bytes.begin(), (end - begin) * one.row_bytes,
                        one.rows.begin() + static_cast<std::ptrdiff_t>(begin * one.row_bytes));
        }
    }
    for (One& one : features_)
        HK_TRY(share_rows(ranks, {one.rows.data(), one.rows.size()}, one.row_bytes * size, batches));
    return {};
}

Status Features::set(program::Program& program, std::span<const uint64_t> examples) const {
    for (const One& one : features_) {
        std::vector<std::byte> bytes;
        for (const uint64_t example : examples) {
            const auto from = one.rows.begin() + static_cast<std::ptrdiff_t>(example * one.row_bytes);
            bytes.insert(bytes.end(), from, from + static_cast<std::ptrdiff_t>(one.row_bytes));
        }
        if (program.has_input(one.name)) HK_TRY(program.set_input(one.name, bytes));
    }
    return {};
}

} // namespace hekla::train
