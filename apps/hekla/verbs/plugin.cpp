// hekla plugin list: lists plugins from their manifests. hekla describe: prints the graph that plugins describe.
#include "base/json.hpp"
#include "command.hpp"
#include "described.hpp"
#include "output.hpp"

#include "base/file.hpp"
#include "graph/passes/taps.hpp"
#include "graph/text.hpp"
#include "plugin/composition/compose.hpp"
#include "train/step/training_graph.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::app {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// "hekla.architecture/1" -> "architecture"
std::string_view kind_of(std::string_view interface_id) {
    const std::size_t dot = interface_id.find('.'), slash = interface_id.find('/');
    return dot == std::string_view::npos || slash == std::string_view::npos || slash < dot
               ? interface_id
               : interface_id.substr(dot + 1, slash - dot - 1);
}

int run_list(const Globals& globals, bool as_json) {
    const plugin::Registry registry = scan_plugins(globals);
    if (as_json) {
        ordered_json list = ordered_json::array();
        for (const plugin::Manifest& m : registry.manifests()) {
            ordered_json one{{"plugin", m.plugin},
                             {"version", m.version},
                             {"licence", m.licence},
                             {"abi", fmt::format("{}.{}", m.abi_major, m.abi_minor_needed)},
                             {"manifest", m.file},
                             {"library", m.library},
                             {"sha256", m.sha256},
                             {"built_in", m.built_in},
                             {"needs", ordered_json::array()},
                             {"provides", ordered_json::array()}};
            for (const plugin::Need& need : m.needs)
                one["needs"].push_back({{"plugin", need.plugin}, {"version", need.version}});
            if (const Status needs = registry.check_needs(m); !needs.ok()) one["problem"] = needs.message();
            for (const plugin::Provided& p : m.provides) {
                ordered_json offer{{"interface", p.interface_id},
                                   {"id", p.id},
                                   {"about", p.about},
                                   {"parameters", p.parameters},
                                   {"defaults", p.defaults.parse()}};
                if (!p.model_types.empty()) offer["model_types"] = p.model_types;
                ordered_json classes = ordered_json::array();
                for (const plugin::ReferenceClass& c : p.classes) classes.push_back(c.name);
                if (!classes.empty()) offer["classes"] = classes;
                one["provides"].push_back(std::move(offer));
            }
            list.push_back(std::move(one));
        }
        std::printf("%s\n", json_line(list).c_str());
        return kDone;
    }
    if (registry.manifests().empty()) {
        std::vector<std::string> folders;
        for (const auto& folder : globals.plugin_folders()) folders.push_back(folder.string());
        return fail(fmt::format("no plugins in {}: give a folder with --plugin-path",
                                folders.empty() ? "any folder" : fmt::format("{}", fmt::join(folders, ", "))));
    }
    for (const std::string_view kind :
         {"architecture", "head", "objective", "operation", "adapter", "combiner", "optimizer"}) {
        bool heading = false;
        for (const plugin::Manifest& m : registry.manifests())
            for (const plugin::Provided& p : m.provides) {
                if (kind_of(p.interface_id) != kind) continue;
                if (!heading) fmt::print("{}s\n", kind);
                heading = true;
                fmt::print("  {:<16} {}{}\n  {:<16} {} {}, {}\n", p.id, p.about,
                           p.model_types.empty() ? "" : fmt::format(" [{}]", fmt::join(p.model_types, ", ")), "",
                           m.plugin, m.version, m.library);
            }
    }
    for (const plugin::Manifest& m : registry.manifests())
        if (const Status needs = registry.check_needs(m); !needs.ok())
            fmt::print("cannot be used: {}\n", needs.message());
    return kDone;
}

struct DescribeArguments {
    std::string architecture;
    std::string config, adapter_config, head_config, objective_config; // JSON, or a path to a JSON file
    std::vector<std::string> keys;
    std::string adapter, head, objective;
    std::vector<std::string> fields, ports;
    std::string mode = "train";
    std::string output;
    int64_t batch = 1, length = 16;
    std::vector<std::string> taps; // patterns of names
    bool all_ports = false, backward = false, full = false, list_taps = false;
};

Result<json> read_config(const std::string& given, const char* option) {
    if (given.empty()) return json::object();
    std::string content = given;
    if (given[0] != '{') { HK_ASSIGN(content, read_file(given)); }
    return parse_json_object(content, given[0] == '{' ? std::string(option) : fmt::format("{} {}", option, given));
}

// Parses "n_layer=2"; a value that is not JSON is a string.
Status set_key(json& config, const std::string& text) {
    const std::size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos)
        return invalid_argument(fmt::format("--set {}: expected KEY=VALUE", text));
    const std::string value = text.substr(equals + 1);
    Result<json> parsed = parse_json(value, text);
    config[text.substr(0, equals)] = parsed.ok() ? parsed.take() : json(value);
    return {};
}

// Parses "input_ids:int32:2x16"; "mask:float32:" is a scalar.
Result<plugin::BatchField> field_of(const std::string& text) {
    const auto wrong = [&] {
        return invalid_argument(fmt::format("--field {}: expected NAME:KIND:SIZES, as in input_ids:int32:2x16", text));
    };
    const std::size_t first = text.find(':'), second = first == std::string::npos ? first : text.find(':', first + 1);
    if (first == 0 || second == std::string::npos) return wrong();
    plugin::BatchField field;
    field.name = text.substr(0, first);
    const std::string kind = text.substr(first + 1, second - first - 1);
    if (kind == "int32")
        field.kind = graph::Kind::int32;
    else if (kind == "float32")
        field.kind = graph::Kind::float32;
    else
        return invalid_argument(fmt::format("--field {}: the kind is int32 or float32, not '{}'", text, kind));
    const char* at = text.data() + second + 1;
    const char* const end = text.data() + text.size();
    while (at != end) {
        int64_t size = 0;
        const auto parsed = std::from_chars(at, end, size);
        if (parsed.ec != std::errc() || size < 0 || field.shape.rank() == graph::kMaxRank) return wrong();
        field.shape.push_back(size);
        at = parsed.ptr;
        if (at == end) break;
        if (*at != 'x' || at + 1 == end) return wrong();
        ++at;
    }
    return field;
}

// Returns a line for each tap: its name, kind, shape and scope.
Result<std::string> list_of_taps(const graph::Graph& graph) {
    std::string lines;
    for (const graph::Node& node : graph.nodes) {
        if (node.op != graph::Op::tap) continue;
        const graph::ValueId value = node.outputs[0];
        const std::string scope = graph.scope_path(node.scope);
        lines += fmt::format("{} {} {}{}\n", node.text("name"), graph::kind_name(graph.kind(value)),
                             graph.shape(value).text(), scope.empty() ? "" : " in " + scope);
    }
    if (lines.empty()) return not_found("the graph has no taps: a plugin makes one with tap(value, name)");
    return lines;
}

Result<std::string> describe(const Globals& globals, const DescribeArguments& a) {
    plugin::CompositionSpec spec;
    spec.architecture = a.architecture;
    HK_ASSIGN(spec.config, read_config(a.config, "--config"));
    spec.config.erase("hekla"); // what a training wrote into a folder's config.json, for the host
    for (const std::string& key : a.keys) HK_TRY(set_key(spec.config, key));
    HK_ASSIGN(const nlohmann::json adapter_config, read_config(a.adapter_config, "--adapter-config"));
    if (!a.adapter.empty()) spec.adapters = {{"", {a.adapter, adapter_config}}};
    spec.head = a.head;
    HK_ASSIGN(spec.head_config, read_config(a.head_config, "--head-config"));
    spec.objective = a.objective;
    HK_ASSIGN(spec.objective_config, read_config(a.objective_config, "--objective-config"));
    const plugin::Registry registry = scan_plugins(globals);
    HK_ASSIGN(const auto composition, plugin::Composition::create(registry, spec, nullptr, globals.log()));
    std::vector<plugin::BatchField> fields;
    for (const std::string& text : a.fields) {
        HK_ASSIGN(plugin::BatchField field, field_of(text));
        fields.push_back(std::move(field));
    }
    if (fields.empty() && !a.objective.empty()) {
        HK_ASSIGN(fields, composition->batch_fields(a.batch, a.length));
    } else if (fields.empty()) {
        fields = {{"input_ids", graph::Kind::int32, {a.batch, a.length}}};
    }
    constexpr std::pair<const char*, int32_t> kModes[] = {{"train", HK_MODE_TRAIN},
                                                          {"evaluate", HK_MODE_EVALUATE},
                                                          {"encode", HK_MODE_ENCODE},
                                                          {"decode", HK_MODE_DECODE}};
    const auto mode = std::ranges::find_if(kModes, [&](const auto& m) { return a.mode == m.first; });
    // Without an objective and ports the graph would be empty, so show everything.
    const bool everything = a.all_ports || (a.objective.empty() && a.ports.empty());
    HK_ASSIGN(graph::Graph graph, composition->build(mode->second, fields, a.ports, everything));
    if (a.list_taps) return list_of_taps(graph);
    HK_ASSIGN(const std::vector<std::string> taps, graph::selected_taps(graph, a.taps));
    graph::add_tap_outputs(graph, taps);
    if (a.backward) { HK_ASSIGN(graph, train::training_graph(graph)); }
    const std::string text = graph::print(graph);
    return a.full || !a.output.empty() ? text : elide_lists(text);
}

} // namespace

void add_plugin(CLI::App& app, const Globals& globals, Verbs& verbs) {
    CLI::App* group = app.add_subcommand("plugin", "List, install, create, check, trace and develop plugins.");
    group->require_subcommand(1);
    CLI::App* list =
        group->add_subcommand("list", "List every plugin and its file, from the manifests; no library is loaded.");
    const auto as_json = std::make_shared<bool>(false);
    list->add_flag("--json", *as_json, "print JSON, with every parameter and default");
    list->footer("Example: hekla plugin list");
    verbs.push_back({list, [&globals, as_json] { return run_list(globals, *as_json); }});

    add_plugin_check(*group, globals, verbs);
    add_plugin_trace(*group, globals, verbs);
    add_plugin_dev(*group, globals, verbs);
    add_plugin_new(*group, verbs);
    add_plugin_install(*group, globals, verbs);

    CLI::App* parser =
        app.add_subcommand("describe", "Print the graph that an architecture, head and objective describe, as text.");
    const auto a = std::make_shared<DescribeArguments>();
    parser->add_option("architecture", a->architecture, "a plugin's id")->required();
    parser->add_option("--config", a->config, "the architecture's config: JSON, or a file (a model's config.json)");
    parser->add_option("--set", a->keys, "one key of the config: n_layer=2 (may be repeated)")->allow_extra_args(false);
    parser->add_option("--head", a->head, "a head's id");
    parser->add_option("--adapter", a->adapter, "an adapter's id");
    parser->add_option("--adapter-config", a->adapter_config, "JSON, or a file");
    parser->add_option("--head-config", a->head_config, "JSON, or a file");
    parser->add_option("--objective", a->objective, "an objective's id");
    parser->add_option("--objective-config", a->objective_config, "JSON, or a file");
    parser
        ->add_option("--field", a->fields,
                     "a field of the batch, NAME:KIND:SIZES (may be repeated); default: those of the objective")
        ->allow_extra_args(false);
    parser->add_option("--batch", a->batch, "rows of the batch, without --field")
        ->check(CLI::Range(1, 1 << 20))
        ->capture_default_str();
    parser->add_option("--length", a->length, "tokens per row, without --field")
        ->check(CLI::Range(1, 1 << 24))
        ->capture_default_str();
    parser->add_option("--mode", a->mode, "purpose of the graph")
        ->check(CLI::IsMember({"train", "evaluate", "encode", "decode"}))
        ->capture_default_str();
    parser->add_option("--port", a->ports, "a port to keep as an output (may be repeated)")->allow_extra_args(false);
    parser->add_flag("--all-ports", a->all_ports, "keep every port, as port.NAME");
    parser->add_flag("--taps", a->list_taps, "list the values that are named with tap(), instead of the graph");
    parser->add_option("--tap", a->taps, "a tap to keep as an output (may be repeated; may have *)")
        ->allow_extra_args(false);
    parser->add_flag("--backward", a->backward, "add the gradients, as in training");
    parser->add_flag("--full", a->full, "print long constants whole; a file (-o) always has them");
    parser->add_option("-o,--output", a->output, "write to this file instead of standard output");
    parser->footer(
        "Example: hekla describe gpt2 --set n_layer=2 --set n_embd=64 --set n_head=2 --head lm --objective clm");
    verbs.push_back({parser, [&globals, a] {
                         const Result<std::string> text = describe(globals, *a);
                         if (!text.ok()) return fail(text.status());
                         const Status written = write_foreign_output(a->output, text.value());
                         return written.ok() ? kDone : fail(written);
                     }});
}

} // namespace hekla::app
