#include "program/lowering/parameter_table.hpp"

#include "program/lowering/storage16.hpp"

#include <charconv>
#include <functional>
#include <set>

namespace hekla::program {

namespace {

constexpr const char* kChunkPrefix = "chunk #";

// Sets which parameters are read by linears alone, and all in the same order.
void find_weights_of_linears(const graph::Graph& graph, std::vector<ParameterEntry>& table) {
    enum class Readers : uint8_t { none, rows, transposed, others };
    std::vector<Readers> readers(graph.values.size(), Readers::none);
    const auto add = [&](graph::ValueId value, Readers reader) {
        Readers& all = readers[value];
        all = all == Readers::none || all == reader ? reader : Readers::others;
    };
    for (const graph::Node& node : graph.nodes)
        for (std::size_t i = 0; i < node.inputs.size(); ++i) {
            if (node.inputs[i] == graph::kNone) continue;
            const bool is_weight = node.op == graph::Op::linear && i == 1;
            add(node.inputs[i], !is_weight                         ? Readers::others
                                : node.integer("input_first") == 0 ? Readers::transposed
                                                                   : Readers::rows);
        }
    for (const auto& [name, value] : graph.outputs) add(value, Readers::others);
    std::size_t i = 0;
    for (const auto& [name, value] : graph.parameters()) {
        ParameterEntry& entry = table[i++];
        entry.transposed = readers[value] == Readers::transposed;
        entry.readable_by_panels = entry.transposed || readers[value] == Readers::rows;
    }
}

} // namespace

std::string chunk_name(uint32_t chunk) { return kChunkPrefix + std::to_string(chunk); }

std::optional<uint32_t> chunk_of(std::string_view name) {
    const std::string_view prefix = kChunkPrefix;
    if (!name.starts_with(prefix)) return {};
    uint32_t chunk = 0;
    const char* end = name.data() + name.size();
    const auto read = std::from_chars(name.data() + prefix.size(), end, chunk);
    if (read.ec != std::errc() || read.ptr != end) return {};
    return chunk;
}

std::vector<ParameterEntry> parameter_table(const graph::Graph& graph) {
    std::vector<ParameterEntry> table;
    const std::vector<bool> readable = factors_only(graph);
    for (const auto& [name, value] : graph.parameters()) {
        ParameterEntry entry;
        entry.name = name;
        entry.shape = graph.shape(value);
        entry.readable_in_16_bits = readable[value];
        table.push_back(std::move(entry));
    }
    find_weights_of_linears(graph, table);
    return table;
}

void keep_readable_in_16_bits(std::vector<ParameterEntry>& table, const graph::Graph& also) {
    const std::vector<bool> readable = factors_only(also);
    std::set<std::string, std::less<>> not_readable;
    for (const auto& [name, value] : also.parameters())
        if (!readable[value]) not_readable.insert(name);
    for (ParameterEntry& entry : table)
        if (not_readable.contains(entry.name)) entry.readable_in_16_bits = false;
}

} // namespace hekla::program
