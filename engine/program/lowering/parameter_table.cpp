#include "program/lowering/parameter_table.hpp"

#include "program/lowering/storage16.hpp"

#include <charconv>
#include <functional>
#include <set>

namespace hekla::program {

namespace {

constexpr const char* kChunkPrefix = "chunk #";

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
