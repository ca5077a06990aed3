#include "plugin/process/stored_plugins.hpp"

#include "graph/output.hpp"
#include "graph/text.hpp"
#include "graph/text_form/sized_text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>

namespace hekla::plugin {
namespace {

using nlohmann::json;

constexpr const char* kModeNames[] = {"train", "evaluate", "encode", "decode"};

std::string text_of(const BuildRequest& request) {
    std::string text = request.mode >= 0 && request.mode < 4 ? kModeNames[request.mode] : "another mode";
    for (const BatchField& field : request.fields)
        text +=
            fmt::format(" {}:{}[{}]", field.name, graph::kind_name(field.kind), fmt::join(field.shape.vector(), ","));
    return text;
}

// Returns the family's sizes if it has these fields; nothing if it has others.
std::optional<std::vector<int64_t>> sizes_of(const GraphFamily& family, const BuildRequest& request) {
    if (request.mode != family.mode || request.fields.size() != family.fields.size()) return {};
    std::vector<int64_t> sizes(family.sizes.size(), -1);
    for (const GraphFamily::Field& wanted : family.fields) {
        const auto given = std::ranges::find(request.fields, wanted.name, &BatchField::name);
        if (given == request.fields.end() || given->kind != wanted.kind ||
            given->shape.vector().size() != wanted.shape.size())
            return {};
        for (std::size_t d = 0; d < wanted.shape.size(); ++d) {
            const int64_t extent = given->shape[static_cast<int>(d)];
            const auto named = std::ranges::find(family.sizes, wanted.shape[d], &GraphFamily::Size::name);
            if (named == family.sizes.end()) {
                if (wanted.shape[d] != std::to_string(extent)) return {};
                continue;
            }
            int64_t& size = sizes[static_cast<std::size_t>(named - family.sizes.begin())];
            if ((size >= 0 && size != extent) || extent < named->least || extent > named->most) return {};
            size = extent;
        }
    }
    if (std::ranges::find(sizes, -1) != sizes.end()) return {};
    return sizes;
}

// A set of plugins without methods: all are unsupported.
class NoPlugins : public PluginSet {
public:
    explicit NoPlugins(std::string why) : why_(std::move(why)) {}
    const ReadKeys& read() const override { return read_; }
#define HK_PLUGIN_METHOD(value, name, parameters, arguments)                                                           \
    Result<value> name parameters override { return refuse arguments; }
#define HK_PLUGIN_MEMORY_METHOD(returns, name, parameters, arguments)                                                  \
    returns name parameters override { return refuse arguments; }
#include "plugin/composition/plugin_methods.inc"
#undef HK_PLUGIN_METHOD
#undef HK_PLUGIN_MEMORY_METHOD

private:
    Status refuse(const auto&... /*arguments*/) const { return unsupported(why_); }
    std::string why_;
    ReadKeys read_;
};

class StoredPlugins final : public NoPlugins {
public:
    explicit StoredPlugins(StoredGraphs graphs)
        : NoPlugins(fmt::format("{}: holds graphs, and nothing else of the plugins that described them: use the "
                                "folder that it was exported from",
                                graphs.where)),
          graphs_(std::move(graphs)) {}

    Result<Described> build(const BuildRequest& request) override {
        std::vector<int64_t> sizes;
        HK_ASSIGN(const GraphFamily* family, find(request, sizes));
        const std::string where = fmt::format("{}: the graph for {}", graphs_.where, text_of(request));
        const Result<std::string> text = graph::close_text(family->text, sizes);
        if (!text.ok()) return text.status().with_context(where);
        Result<graph::Graph> graph = graph::parse(text.value());
        if (!graph.ok()) return corrupt(fmt::format("{}: {}", where, graph.message()));
        Described described;
        described.graph = graph.take();
        HK_TRY(keep_ports(request, described.graph));
        described.parts.push_back({graphs_.where, "", 0, described.graph.nodes.size()});
        return described;
    }

    Status check(const BuildRequest& request) override {
        std::vector<int64_t> sizes;
        return find(request, sizes).status();
    }

    Result<VirtualTokens> virtual_tokens() override { return VirtualTokens(); } // export_model() refuses others
    Result<std::vector<std::string>> decode_ports() override { return std::vector<std::string>(); }
    Result<bool> can_collate() override { return false; }

private:
    Result<const GraphFamily*> find(const BuildRequest& request, std::vector<int64_t>& sizes) const {
        for (const GraphFamily& family : graphs_.families) {
            std::optional<std::vector<int64_t>> found = sizes_of(family, request);
            if (!found) continue;
            sizes = std::move(*found);
            return &family;
        }
        return unsupported(
            fmt::format("{}: holds no graph for {}: {}", graphs_.where, text_of(request), graphs_.missing));
    }

    // Keeps the requested outputs.
    static Status keep_ports(const BuildRequest& request, graph::Graph& graph) {
        std::vector<std::string> names;
        for (const auto& [name, value] : graph.outputs)
            if (const auto port = graph::output_of(graph::OutputKind::port, name)) names.emplace_back(*port);
        for (const std::string& port : request.ports) {
            const auto found = graph.outputs.find(graph::output_name(graph::OutputKind::port, port));
            if (found == graph.outputs.end())
                return not_found(fmt::format("no port '{}' (known ports: {})", port, fmt::join(names, ", ")));
            graph.outputs[port] = found->second;
        }
        if (!request.all_ports)
            for (const std::string& name : names)
                graph.outputs.erase(graph::output_name(graph::OutputKind::port, name));
        return {};
    }

    StoredGraphs graphs_;
};

} // namespace

std::vector<BatchField> GraphFamily::fields_at(std::span<const int64_t> at) const {
    std::vector<BatchField> result;
    for (const Field& field : fields) {
        std::vector<int64_t> shape;
        for (const std::string& extent : field.shape) {
            const auto named = std::ranges::find(sizes, extent, &Size::name);
            shape.push_back(named == sizes.end() ? std::stoll(extent)
                                                 : at[static_cast<std::size_t>(named - sizes.begin())]);
        }
        result.push_back({field.name, field.kind, graph::Shape(shape)});
    }
    return result;
}

json family_json(const GraphFamily& family) {
    json sizes = json::array(), fields = json::array();
    for (const GraphFamily::Size& size : family.sizes)
        sizes.push_back({{"name", size.name}, {"least", size.least}, {"most", size.most}});
    for (const GraphFamily::Field& field : family.fields)
        fields.push_back({{"name", field.name}, {"kind", graph::kind_name(field.kind)}, {"shape", field.shape}});
    return {{"mode", kModeNames[family.mode]}, {"sizes", sizes}, {"fields", fields}};
}

GraphFamily family_from(const json& from) {
    GraphFamily family;
    const auto mode = from.at("mode").get<std::string>();
    family.mode = static_cast<int32_t>(std::ranges::find(kModeNames, mode) - std::begin(kModeNames)); // 4: none
    for (const json& one : from.at("sizes"))
        family.sizes.push_back(
            {one.at("name").get<std::string>(), one.at("least").get<int64_t>(), one.at("most").get<int64_t>()});
    for (const json& one : from.at("fields")) {
        const auto kind = one.at("kind").get<std::string>();
        const graph::Kind kinds[] = {graph::Kind::float_, graph::Kind::float32, graph::Kind::int32};
        const auto* const found =
            std::ranges::find_if(kinds, [&](graph::Kind k) { return kind == graph::kind_name(k); });
        family.fields.push_back({one.at("name").get<std::string>(),
                                 found == std::end(kinds) ? graph::Kind::int32 : *found,
                                 one.at("shape").get<std::vector<std::string>>()});
    }
    return family;
}

std::unique_ptr<PluginSet> make_stored_plugins(StoredGraphs graphs) {
    return std::make_unique<StoredPlugins>(std::move(graphs));
}

} // namespace hekla::plugin
