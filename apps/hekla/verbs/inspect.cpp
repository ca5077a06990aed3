// hekla inspect: shows a recipe's model, the contents of model files, whether checkpoints are complete, or a graph.
#include "attention.hpp"
#include "command.hpp"
#include "described.hpp"
#include "graph/output.hpp"
#include "model/folder.hpp"
#include "model_cost.hpp"
#include "output.hpp"

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/number_text.hpp"
#include "drawing/svg.hpp"
#include "graph/text.hpp"
#include "infer/exported/exported_model.hpp"
#include "model/checkpoint.hpp"
#include "model/model_path.hpp"
#include "plugin/composition/named_model.hpp"
#include "train/recipe/recipe_file.hpp"
#include "train/step/training_graph.hpp"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>

namespace hekla::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

struct InspectArguments {
    std::string path;
    std::vector<std::string> overrides;
    std::string graph;  // svg, text
    std::string memory; // svg, json, text
    std::string output;
    int64_t batch = 1, length = 64;
    bool backward = false;
    bool json = false;
    AttentionArguments attention;
};

// ---- stored tensors ------------------------------------------------------------------------------------------------

ordered_json tensor_list(const model::Weights& weights) {
    ordered_json list = ordered_json::array();
    for (const model::TensorView& tensor : weights.tensors())
        list.push_back({{"name", tensor.name},
                        {"dtype", model::name_of(tensor.dtype)},
                        {"shape", tensor.dims},
                        {"bytes", tensor.bytes.size()}});
    return list;
}

Result<int64_t> elements_in(const model::Weights& weights) {
    int64_t elements = 0;
    for (const model::TensorView& tensor : weights.tensors()) {
        HK_ASSIGN(const int64_t count, model::element_count(tensor.dims));
        elements += count;
    }
    return elements;
}

Result<std::string> weights_text(const model::Weights& weights) {
    std::size_t widest = 4;
    for (const model::TensorView& tensor : weights.tensors())
        widest = std::max(widest, std::min<std::size_t>(tensor.name.size(), 60));
    std::string out;
    for (const model::TensorView& tensor : weights.tensors())
        out += fmt::format("  {:<{}}  {:<5} {:<20} {:>10}\n", tensor.name, widest, model::name_of(tensor.dtype),
                           model::format_dims(tensor.dims), size_text(tensor.bytes.size()));
    HK_ASSIGN(const int64_t elements, elements_in(weights));
    out += fmt::format("{} tensors, {} numbers, {}\n", weights.tensors().size(), grouped(static_cast<double>(elements)),
                       size_text(weights.byte_count()));
    return out;
}

Result<std::string> show_weights(const InspectArguments& a, const model::Weights& weights, ordered_json j,
                                 const std::string& heading) {
    if (a.json) {
        HK_ASSIGN(const int64_t elements, elements_in(weights));
        j["numbers"] = elements;
        j["bytes"] = weights.byte_count();
        j["tensors"] = tensor_list(weights);
        return json_line(j) + "\n";
    }
    HK_ASSIGN(const std::string table, weights_text(weights));
    return heading + table;
}

Result<std::string> show_checkpoint(const InspectArguments& a) {
    HK_ASSIGN(const model::Checkpoint checkpoint, model::verify_checkpoint(a.path));
    HK_ASSIGN(const model::Weights weights, model::Weights::open(checkpoint.path));
    uint64_t bytes = 0;
    std::string heading;
    ordered_json files = ordered_json::array();
    for (const model::FileRecord& file : checkpoint.files) {
        bytes += file.size;
        heading += fmt::format("  {:<40} {:>10}\n", file.name, size_text(file.size));
        files.push_back({{"name", file.name}, {"bytes", file.size}});
    }
    heading =
        fmt::format("{}: checkpoint of step {}, complete; the hash of every file matches its manifest ({})\n{}model:\n",
                    a.path, checkpoint.step, size_text(bytes), heading);
    return show_weights(
        a, weights, {{"kind", "checkpoint"}, {"step", checkpoint.step}, {"complete", true}, {"files", files}}, heading);
}

Result<std::string> show_run(const InspectArguments& a, const std::vector<int64_t>& steps, bool& damaged) {
    damaged = false;
    HK_ASSIGN(const std::optional<int64_t> best, model::read_best(a.path));
    ordered_json j{
        {"kind", "run"}, {"best", best ? ordered_json(*best) : ordered_json()}, {"checkpoints", ordered_json::array()}};
    std::string out = fmt::format("{}: run with {} checkpoint{}\n", a.path, steps.size(), steps.size() == 1 ? "" : "s");
    for (const int64_t step : steps) {
        const fs::path folder = model::checkpoint_path(a.path, step);
        const Result<model::Checkpoint> checked = model::verify_checkpoint(folder);
        ordered_json one{{"step", step}, {"complete", checked.ok()}};
        if (!checked.ok()) one["problem"] = checked.message();
        damaged = damaged || !checked.ok();
        j["checkpoints"].push_back(one);
        out += fmt::format("  {:<24} {}{}\n", folder.filename().string(),
                           checked.ok() ? "complete, hashes match" : "NOT USABLE: " + checked.message(),
                           best == step ? "  (best)" : "");
    }
    return a.json ? json_line(j) + "\n" : out;
}

Result<std::string> show_model(const Globals& globals, const InspectArguments& a) {
    HK_ASSIGN(const model::ModelFolder folder, model::ModelFolder::open(a.path));
    const plugin::Registry registry = scan_plugins(globals);
    const std::string config_file = (folder.path() / "config.json").string();
    HK_ASSIGN(const nlohmann::json config, parse_json_object(folder.config_json(), config_file));
    if (config.contains("model_type") || config.contains("architectures"))
        HK_TRY(plugin::named_model(registry, config, config_file).status());
    // The cost is known if a plugin knows the model and a device can be planned for. The tensors are shown in any case.
    std::string cost_text;
    ordered_json cost_json;
    const auto measured = [&]() -> Result<ModelCost> {
        DeviceOnDemand device(globals);
        return cost_of(device, registry, a.path, a.batch, a.length, globals.log());
    }();
    if (measured.status().code() == Code::unsupported) return measured.status();
    if (measured.ok()) {
        cost_text = measured->text();
        cost_json = measured->json();
    } else {
        cost_text = fmt::format("memory and compute are unknown: {}\n", measured.message());
        cost_json = {{"problem", measured.message()}};
    }
    std::string files;
    for (const fs::path& file : folder.auxiliary_files())
        files += (files.empty() ? "" : ", ") + file.filename().string();
    const std::string heading =
        fmt::format("{}: {} model{}\n", a.path, folder.model_type().empty() ? "Hugging Face" : folder.model_type(),
                    files.empty() ? "" : fmt::format(" with {}", files));
    HK_ASSIGN(std::string shown,
              show_weights(a, folder.weights(),
                           {{"kind", "model"}, {"model_type", folder.model_type()}, {"cost", cost_json}}, heading));
    return a.json ? shown : shown + cost_text;
}

// Shows a file written by `hekla export`.
Result<std::string> show_exported(const InspectArguments& a) {
    const plugin::Registry none = plugin::Registry::scan({});
    infer::ModelOptions options;
    options.tokenizer_required = false;
    HK_ASSIGN(const infer::Model model, infer::describe_exported(none, a.path, options));
    HK_ASSIGN(const infer::ExportSummary summary, infer::exported_summary(*model.exported));
    ordered_json tensors = ordered_json::array();
    std::string table;
    uint64_t bytes = 0;
    for (const model::TensorView& tensor : model.exported->tensors()) {
        HK_TRY(model.exported->check(tensor));
        tensors.push_back({{"name", tensor.name}, {"bytes", tensor.bytes.size()}});
        table += fmt::format("  {:<56} {}\n", tensor.name, model::describe(tensor));
        bytes += tensor.bytes.size();
    }
    if (a.json)
        return json_line({{"kind", "exported"},
                          {"architecture", model.composition->architecture().id},
                          {"version", summary.version},
                          {"can", summary.can},
                          {"length", summary.length},
                          {"tokens", model.tokenizer == nullptr ? 0 : model.tokenizer->vocabulary_size()},
                          {"tensors", tensors}}) +
               "\n";
    return fmt::format("{}: {}, exported by Hekla {} to {} with rows of up to {} tokens; complete\n{} of weights\n{}",
                       a.path, model.composition->architecture().id, summary.version, fmt::join(summary.can, " and "),
                       summary.length, size_text(bytes), table);
}

// ---- graphs --------------------------------------------------------------------------------------------------------

std::string graph_text(const graph::Graph& graph, const std::string& title) {
    std::map<std::string, int64_t> operations;
    for (const graph::Node& node : graph.nodes) ++operations[graph::info(node).name];
    std::vector<std::pair<int64_t, std::string>> most;
    for (const auto& [name, count] : operations) most.emplace_back(count, name);
    std::ranges::sort(most, [](const auto& x, const auto& y) {
        return x.first != y.first ? x.first > y.first : x.second < y.second;
    });
    std::string out = fmt::format("{}: {} nodes, {} parameters in {} tensors, hash {}\n", title, graph.nodes.size(),
                                  grouped(static_cast<double>(parameter_count(graph))), graph.parameters().size(),
                                  to_hex(graph::hash(graph)));
    for (const graph::Node& node : graph.nodes)
        if (node.op == graph::Op::input)
            out += fmt::format("  field      {} {} {}\n", node.text("field"),
                               graph::kind_name(graph.kind(node.outputs[0])), graph.shape(node.outputs[0]).text());
    for (const graph::LossTerm& term : graph.losses)
        out += fmt::format("  loss       {}, weight {}\n", term.name, term.weight);
    for (const graph::Metric& metric : graph.metrics) out += fmt::format("  metric     {}\n", metric.name);
    std::size_t gradients = 0;
    for (const auto& [name, value] : graph.outputs) {
        if (graph::output_of(graph::OutputKind::gradient, name))
            ++gradients;
        else
            out += fmt::format("  output     {} {}\n", name, graph.shape(value).text());
    }
    if (gradients > 0) out += fmt::format("  gradients  of {} parameters\n", gradients);
    std::vector<std::string> parts;
    for (const auto& [count, name] : most) parts.push_back(fmt::format("{} {}", count, name));
    out += fmt::format("  operations {}\n", fmt::join(parts, ", "));
    return out;
}

ordered_json graph_json(const graph::Graph& graph) {
    ordered_json j{{"kind", "graph"},
                   {"nodes", graph.nodes.size()},
                   {"parameters", parameter_count(graph)},
                   {"hash", to_hex(graph::hash(graph))}};
    j["tensors"] = ordered_json::array();
    for (const auto& [name, value] : graph.parameters())
        j["tensors"].push_back({{"name", name}, {"shape", graph.shape(value).vector()}});
    j["outputs"] = ordered_json::array();
    for (const auto& [name, value] : graph.outputs)
        j["outputs"].push_back({{"name", name}, {"shape", graph.shape(value).vector()}});
    return j;
}

// Shows a graph as the options ask. `plan`: the summary includes the memory plan.
Result<std::string> show_graph(const Globals& globals, const InspectArguments& a, const graph::Graph& shown,
                               const graph::Graph& planned, const std::string& title, bool plan) {
    if (a.graph == "text") return graph::print(shown);
    if (a.graph == "svg") return drawing::svg(shown, {.title = title});
    if (!a.memory.empty() || (plan && !a.json)) {
        HK_ASSIGN(const auto runtime, create_runtime(globals));
        HK_ASSIGN(const Planned plan_made, plan_of(*runtime, planned));
        const program::MemoryPlan& memory = plan_made.memory;
        if (a.memory == "svg") return memory.svg();
        if (a.memory == "json") return memory.json();
        if (a.memory == "text") return memory.text();
        return graph_text(shown, title) + "memory of a training step:\n" + memory.text();
    }
    return a.json ? json_line(graph_json(shown)) + "\n" : graph_text(shown, title);
}

Result<std::string> show_recipe(const Globals& globals, const InspectArguments& a) {
    HK_ASSIGN(const train::Recipe recipe, train::read_recipe(a.path, a.overrides));
    const plugin::Registry registry = scan_plugins(globals);
    HK_ASSIGN(const Described described, describe_recipe(registry, recipe, globals.log()));
    HK_ASSIGN(const graph::Graph differentiated,
              train::training_graph(described.graph, {}, train::recompute_of(recipe.train)));
    return show_graph(globals, a, a.backward ? differentiated : described.graph, differentiated, a.path, true);
}

Result<std::string> show_graph_file(const Globals& globals, const InspectArguments& a, const std::string& content) {
    const Result<graph::Graph> parsed = graph::parse(content);
    if (!parsed.ok()) return parsed.status().with_context(a.path);
    const graph::Graph& graph = parsed.value();
    if (!a.backward) return show_graph(globals, a, graph, graph, a.path, false);
    HK_ASSIGN(const graph::Graph differentiated, train::training_graph(graph));
    return show_graph(globals, a, differentiated, differentiated, a.path, false);
}

Result<std::string> show_folder(const Globals& globals, const InspectArguments& a, bool& damaged) {
    std::error_code problem;
    HK_ASSIGN(const fs::path folder, model::find_model_folder(a.path));
    if (!a.graph.empty() || !a.memory.empty()) {
        const plugin::Registry registry = scan_plugins(globals);
        HK_ASSIGN(const Described described, describe_folder(registry, folder, a.batch, a.length, globals.log()));
        if (!a.backward) return show_graph(globals, a, described.graph, described.graph, a.path, false);
        HK_ASSIGN(const graph::Graph differentiated, train::training_graph(described.graph));
        return show_graph(globals, a, differentiated, differentiated, a.path, false);
    }
    if (fs::exists(folder / model::kManifestName, problem) ||
        (folder / "").parent_path().filename().string().starts_with("checkpoint-"))
        return show_checkpoint(a);
    HK_ASSIGN(const std::vector<int64_t> steps, model::list_checkpoints(folder));
    if (!steps.empty() || fs::exists(folder / "train_log.jsonl", problem)) return show_run(a, steps, damaged);
    if (fs::exists(folder / "config.json", problem)) return show_model(globals, a);
    return not_found(
        fmt::format("{}: contains no checkpoint-N, {} or config.json, so it is not a run, a checkpoint or a model",
                    a.path, model::kManifestName));
}

// Sets `damaged` if anything shown is incomplete.
Result<std::string> show(const Globals& globals, const InspectArguments& a, bool& damaged) {
    std::error_code problem;
    HK_ASSIGN(const fs::path path, model::find_model_folder(a.path));
    if (!a.attention.text.empty() || !a.attention.fields.empty()) {
        AttentionArguments attention = a.attention;
        attention.model = a.path;
        return show_attention(globals, attention);
    }
    if (fs::is_directory(path, problem)) return show_folder(globals, a, damaged);
    if (path.extension() == ".toml") return show_recipe(globals, a);
    if (path.extension() == ".hekla") return show_exported(a);
    if (model::names_weights(path)) {
        HK_ASSIGN(const model::Weights weights, model::Weights::open(path));
        return show_weights(a, weights, {{"kind", "tensors"}}, fmt::format("{}\n", a.path));
    }
    HK_ASSIGN(const std::string content, read_file(path));
    if (content.starts_with("hekla graph ")) return show_graph_file(globals, a, content);
    return unsupported(
        fmt::format("{}: not a recipe (.toml), weights (.safetensors, PyTorch's .bin, .pt or .pth, or an .index.json "
                    "of either) or a graph (whose first line is \"hekla graph 1\")",
                    a.path));
}

} // namespace

void add_inspect(CLI::App& app, const Globals& globals, Verbs& verbs) {
    CLI::App* parser = app.add_subcommand(
        "inspect", "Show a recipe's model, the contents of model files, or whether checkpoints are complete.");
    const auto a = std::make_shared<InspectArguments>();
    parser
        ->add_option(
            "path", a->path,
            "recipe (.toml); folder of a run, a checkpoint or a model; weights (.safetensors, PyTorch's .bin); "
            "exported model (.hekla); graph as text")
        ->required();
    parser->add_option("overrides", a->overrides, "recipe keys to override: train.per_device_train_batch_size=4");
    CLI::Option* graph =
        parser->add_option("--graph", a->graph, "show the graph: as text that reads back, or as a picture")
            ->check(CLI::IsMember({"svg", "text"}));
    parser->add_option("--memory", a->memory, "show the memory plan: what is where, and when")
        ->check(CLI::IsMember({"svg", "json", "text"}))
        ->excludes(graph);
    parser->add_flag("--backward", a->backward, "the graph with its gradients, as in training");
    parser->add_option("--batch", a->batch, "rows per batch, for the graph of a folder")
        ->check(CLI::Range(1, 1 << 20))
        ->capture_default_str();
    parser->add_option("--length", a->length, "tokens per row, for the graph of a folder")
        ->check(CLI::Range(1, 1 << 24))
        ->capture_default_str();
    parser
        ->add_option("--attention", a->attention.text,
                     "write an HTML page (to --output) with the attention maps of every head for this text")
        ->excludes(graph);
    parser->add_option("--target", a->attention.target,
                       "with --attention: the decoder's text (default: what the model writes)");
    parser->add_option("--fields", a->attention.fields,
                       "instead of --attention: a .safetensors file with the model's fields; its first row is shown");
    parser->add_flag("--reference", a->attention.reference,
                     "with --attention: compute with the float64 interpreter (slow)");
    parser->add_option("-o,--output", a->output, "file to write (default: standard output)");
    parser->add_flag("--json", a->json, "print the summary as JSON");
    parser->footer("Examples: hekla inspect recipe.toml --graph svg -o graph.svg\n"
                   "          hekla inspect out/quickstart\n"
                   "          hekla inspect out/quickstart --attention \"int main(\" -o attention.html");
    verbs.push_back({parser, [&globals, a] {
                         bool damaged = false;
                         const Result<std::string> shown = show(globals, *a, damaged);
                         if (!shown.ok()) return fail(shown.status());
                         const Status written = write_foreign_output(a->output, shown.value());
                         if (!written.ok()) return fail(written);
                         return damaged ? fail(fmt::format("{}: a checkpoint is incomplete", a->path)) : kDone;
                     }});
}

} // namespace hekla::app
