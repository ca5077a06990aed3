#include "train/features.hpp"

#include "exchange/tree_sum.hpp"
#include "graph/simplify.hpp"

#include <algorithm>

namespace hekla::train {

uint64_t Features::bytes(const graph::FrozenCut& cut, uint64_t examples, int64_t batch) {
    uint64_t row = 0;
    for (const std::string& name : cut.features)
        row += static_cast<uint64_t>(cut.below.shape(cut.below.outputs.at(name)).elements() / batch) * 4;
    return row * examples;
}

program::CompileOptions Features::options(const graph::FrozenCut& cut) {
    program::CompileOptions options;
    options.outputs = cut.features;
    options.gradients = program::Gradients::ignore;
    return options;
}

namespace {

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

Result<Features> Features::compute(program::Runtime& runtime, program::ParameterStore& store,
                                   const plugin::Composition& composition, const graph::FrozenCut& cut,
                                   const Split& split, int64_t batch, int64_t length, uint64_t seed,
                                   exchange::Communicator& ranks) {
    HK_ASSIGN(const graph::Graph graph, graph::simplify(cut.below));
    HK_ASSIGN(const auto program, program::Program::compile(runtime, graph, store, options(cut)));
    Features result;
    const uint64_t count = split.examples().size();
    for (const std::string& name : cut.features) {
        One& one = result.features_.emplace_back();
        one.name = name;
        one.row_bytes = static_cast<std::size_t>(graph.shape(graph.outputs.at(name)).elements() / batch) * 4;
        one.rows = ResourceArray<std::byte>(one.row_bytes * count, store.host_memory());
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
        HK_TRY(batch::make_fields(composition, examples, nullptr, seed, batch, length, fields, store.host_memory()));
        for (const data::Field& field : fields)
            if (program->has_input(field.name)) HK_TRY(program->set_input(field.name, field.bytes));
        HK_TRY(program->run());
        for (One& one : result.features_) {
            HK_ASSIGN(const program::HostTensor host, program->read_output(one.name));
            std::copy_n(host.bytes.begin(), (end - begin) * one.row_bytes,
                        one.rows.begin() + static_cast<std::ptrdiff_t>(begin * one.row_bytes));
        }
    }
    for (One& one : result.features_)
        HK_TRY(share_rows(ranks, {one.rows.data(), one.rows.size()}, one.row_bytes * size, batches));
    return result;
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
