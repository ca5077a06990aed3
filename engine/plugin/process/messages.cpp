#include "plugin/process/messages.hpp"

#include "base/json.hpp"
#include "graph/text.hpp"
#include "plugin/host/host_error.hpp"
#include "plugin/host/host_operation.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::plugin {
namespace {

// The place of a plugin's kernel in a source file.
struct Source {
    std::string file;
    uint32_t line = 0;
};
auto members(MaybeConst<Source> auto& s) { return std::tie(s.file, s.line); }

// Collects the sources of a graph's own operations, by their labels.
void collect_sources(const graph::Graph& graph, std::map<std::string, Source>& sources) {
    for (const graph::Node& node : graph.nodes) {
        if (node.own == nullptr) continue;
        const graph::OwnDeclaration& declaration = node.own->operation->declaration();
        sources.try_emplace(node.own->operation->label(), Source{declaration.glsl_file, declaration.glsl_line});
        if (node.own->gradient != nullptr) collect_sources(*node.own->gradient, sources);
    }
}

// Returns the reference of an operation whose graph was described elsewhere; its library is opened at the first use.
graph::OwnReference reference_here(const Registry& registry, std::string name, uint32_t revision) {
    return [&registry, name = std::move(name), revision](std::span<const graph::Tensor* const> inputs,
                                                         std::span<const graph::Attribute> attributes,
                                                         std::span<graph::Tensor> outputs) -> Status {
        OwnOperations own(
            [&](const std::string& id) { return registry.open<hk_operation>(HK_OPERATION_INTERFACE, id); });
        HK_ASSIGN(const OwnOperations::Known* known, own.find(name, revision));
        return known->operation->declaration().reference(inputs, attributes, outputs);
    };
}

} // namespace

std::string problem_of(const Described& described) {
    std::size_t end = 0;
    for (const GraphPart& part : described.parts) {
        if (part.first != end || part.end < end || part.end > described.graph.nodes.size())
            return "parts outside of the graph";
        end = part.end;
    }
    return {};
}

std::string problem_of(const ColumnNeed& need) {
    if (need.kind >= HK_COLUMN_TOKENS && need.kind <= HK_COLUMN_MESSAGES) return {};
    return fmt::format("a column of the unknown kind {}", need.kind);
}

void put(MessageWriter& out, const graph::Graph& graph) {
    out.text(graph::print(graph));
    std::map<std::string, Source> sources;
    collect_sources(graph, sources);
    out.number(sources.size());
    for (const auto& [label, source] : sources) {
        out.text(label);
        put(out, source);
    }
}

void get(MessageReader& in, graph::Graph& graph) {
    const std::string_view text = in.text();
    std::map<std::string, Source, std::less<>> sources;
    for (std::size_t left = in.count(); left > 0; --left) {
        const std::string_view label = in.text();
        get(in, sources[std::string(label)]);
    }
    if (!in.ok()) return;
    Result<graph::Graph> parsed = graph::parse(text, [&](graph::OwnDeclaration& d) {
        if (const auto found = sources.find(fmt::format("{}/{}", d.name, d.revision)); found != sources.end()) {
            d.glsl_file = found->second.file;
            d.glsl_line = found->second.line;
        }
        d.reference = reference_here(in.registry(), d.name, d.revision);
    });
    if (!parsed.ok()) return in.refuse(parsed.status().with_context("an invalid graph"));
    graph = parsed.take();
}

void put(MessageWriter& out, const graph::Shape& shape) { out.array(shape.dims()); }

void get(MessageReader& in, graph::Shape& shape) {
    const std::span<const int64_t> dims = in.array<int64_t>();
    if (dims.size() > HK_MAX_RANK || std::ranges::any_of(dims, [](int64_t d) { return d < 0 || d > int64_t{1} << 46; }))
        return in.refuse(corrupt(fmt::format("a shape of the dimensions [{}]", fmt::join(dims, ", "))));
    shape = graph::Shape(dims);
}

void get(MessageReader& in, graph::Kind& kind) {
    const int64_t number = in.integer();
    if (number < static_cast<int64_t>(graph::Kind::float_) || number > static_cast<int64_t>(graph::Kind::int32))
        return in.refuse(corrupt(fmt::format("the unknown kind {}", number)));
    kind = static_cast<graph::Kind>(number);
}

// Preserves numbers and texts exactly, including those that JSON cannot represent.
void put(MessageWriter& out, const nlohmann::json& value) {
    std::string bytes; // of char, because libc++ has no char_traits for unsigned types, which the library would use
    nlohmann::json::to_cbor(value, bytes);
    out.text(bytes);
}

void get(MessageReader& in, nlohmann::json& value) {
    const std::string_view bytes = in.text();
    if (!in.ok()) return;
    try {
        value = nlohmann::json::from_cbor(bytes.begin(), bytes.end());
    } catch (const nlohmann::json::exception& e) {
        in.refuse(corrupt(fmt::format("a configuration that is none: {}", e.what())));
    }
}

void put(MessageWriter& out, const nlohmann::ordered_json& value) {
    out.text(value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

void get(MessageReader& in, nlohmann::ordered_json& value) {
    const std::string_view text = in.text();
    if (!in.ok()) return;
    Result<nlohmann::ordered_json> parsed = parse_ordered_json_object(text, "a written configuration");
    if (!parsed.ok()) return in.refuse(parsed.status());
    value = parsed.take();
}

void put(MessageWriter& out, const hk_example& example) {
    for (const uint64_t number : {example.index, example.epoch, example.document}) out.number(number);
    out.number(example.column_count);
    for (const hk_column& column : std::span(example.columns, example.column_count)) {
        out.integer(column.kind);
        out.text(view(column.name));
        const bool numbers = column.kind == HK_COLUMN_NUMBERS;
        out.array(std::span<const int32_t>(column.ids, numbers ? 0 : column.size));
        out.array(std::span<const float>(column.numbers, numbers ? column.size : 0));
        out.array(std::span<const uint64_t>(column.parts, column.part_count));
    }
}

void get(MessageReader& in, hk_example& example) {
    example.struct_size = sizeof example;
    for (uint64_t* const number : {&example.index, &example.epoch, &example.document}) *number = in.number();
    std::vector<hk_column>& columns = in.add_columns(in.count());
    for (hk_column& column : columns) {
        column.struct_size = sizeof column;
        column.kind = static_cast<int32_t>(in.integer());
        const std::string_view name = in.text();
        const std::span<const int32_t> ids = in.array<int32_t>();
        const std::span<const float> numbers = in.array<float>();
        const std::span<const uint64_t> parts = in.array<uint64_t>();
        column.name = {name.data(), name.size()};
        column.ids = ids.data();
        column.numbers = numbers.data();
        column.size = column.kind == HK_COLUMN_NUMBERS ? numbers.size() : ids.size();
        column.parts = parts.data();
        column.part_count = parts.size();
    }
    example.column_count = static_cast<uint32_t>(columns.size());
    example.columns = columns.data();
}

} // namespace hekla::plugin
