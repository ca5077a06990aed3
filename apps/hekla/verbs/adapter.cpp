// hekla adapter: what an adapter's folder contains, merging it into its body, and PEFT's form of it.
#include "adapted_model.hpp"
#include "base/json.hpp"
#include "base/number_text.hpp"
#include "command.hpp"
#include "gguf_model.hpp"
#include "infer/adapters/adapter_use.hpp"
#include "infer/adapters/peft_adapter.hpp"
#include "infer/open/tensors.hpp"
#include "lora_model.hpp"
#include "model/dtype.hpp"
#include "model/folder.hpp"
#include "model/stacked_tensors.hpp"
#include "output.hpp"
#include "peft_prefix.hpp"
#include "text/tokenizer.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fmt/format.h>
#include <map>
#include <set>

namespace hekla::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

struct AdapterArguments {
    std::string folder, body, output, dtype, format = "peft";
    bool json = false;
};

// ---- merge ----------------------------------------------------------------------------------------------------------

// Computes a merged parameter in float64, rounded once to the type of its stored tensor.
Result<std::vector<std::byte>> merged_bytes(const AdaptedModel& m, graph::ValueId value, model::DType dtype,
                                            const std::map<std::string, const model::TensorView*>& stored) {
    HK_ASSIGN(const graph::Tensor values, infer::evaluate_stored(m.described.graph, value, stored));
    std::vector<std::byte> bytes(values.data.size() * model::size_of(dtype));
    HK_TRY(model::from_float64(dtype, values.data, bytes));
    return bytes;
}

Status merge(const Globals& globals, const AdapterArguments& a, std::string& summary) {
    const plugin::Registry registry = scan_plugins(globals);
    HK_ASSIGN(const AdaptedModel m, open_adapted_model(registry, a.folder, a.body, true, globals.log()));
    std::map<std::string, const model::TensorView*> stored;
    for (const plugin::StoredTensor& tensor : m.tensors) stored.emplace(tensor.tensor.name, tensor.stored);
    const auto type_of = [&](const model::TensorView& tensor) {
        return !a.dtype.empty() && model::is_floating(tensor.dtype) ? *model::dtype_named(a.dtype) : tensor.dtype;
    };
    model::ModelContents contents;
    std::size_t merged = 0;
    for (const auto& [name, tensor] : stored) {
        if (name.starts_with(plugin::kAdapter)) continue;
        const auto found = m.described.graph.outputs.find(plugin::kMerged + name);
        if (found == m.described.graph.outputs.end()) {
            contents.tensors.push_back(model::converted_source(name, *tensor, type_of(*tensor)));
            continue;
        }
        ++merged;
        model::TensorSource source;
        source.name = name;
        source.dtype = type_of(*tensor);
        source.dims = tensor->dims;
        source.stream = [&m, &stored, value = found->second, dtype = source.dtype](const model::Sink& sink) -> Status {
            HK_ASSIGN(const std::vector<std::byte> bytes, merged_bytes(m, value, dtype, stored));
            return sink(bytes);
        };
        contents.tensors.push_back(std::move(source));
    }
    const std::size_t tensors = contents.tensors.size();
    contents.tensors = model::divide_stacks(std::move(contents.tensors),
                                            plugin::model_rules(m.composition->architecture().names).stacks);
    const bool whole = std::ranges::any_of( // parameters that were trained and saved with the adapter
        m.adapter_tensors, [](const model::TensorView& tensor) { return !tensor.name.starts_with(plugin::kAdapter); });
    if (merged == 0 && !whole)
        return invalid_argument(fmt::format("{}: the adapter changes none of the body's weights", a.folder));
    HK_ASSIGN(ordered_json config, parse_ordered_json_object(m.folder().config_json(), "config.json"));
    if (m.own)
        for (const char* key : {"adapter", "adapter_config", "base"}) config["hekla"].erase(key);
    contents.config_json = config.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
    contents.copies = m.folder().auxiliary_files();
    // One of several adapters of a run has no tokenizer of its own.
    if (m.own && text::load_tokenizer(m.own->path()).status().code() == Code::not_found)
        for (const fs::path& file : m.body.auxiliary_files())
            if (std::ranges::find(contents.copies, file.filename(), &fs::path::filename) == contents.copies.end())
                contents.copies.push_back(file);
    HK_TRY(model::save_folder(a.output, contents));
    summary = fmt::format("{}: {} of {} tensors merged, each rounded once from float64", a.output, merged, tensors);
    return {};
}

// ---- convert --------------------------------------------------------------------------------------------------------

// Returns the module of a parameter: "classifier" of "classifier.weight".
std::string module_of(const std::string& parameter) { return parameter.substr(0, parameter.rfind('.')); }

// Returns whether a parameter of the body is trained because the adapter selects it at a site.
bool is_trained_at_site(const AdaptedModel& m, const std::string& name) {
    return std::ranges::any_of(m.described.sites, [&](const plugin::Site& site) { return site.trains(name); });
}

Result<model::ModelContents> peft_contents(const AdaptedModel& m) {
    HK_ASSIGN(ordered_json config, m.composition->adapter_config());
    model::ModelContents contents;
    std::set<std::string> whole;
    HK_TRY(add_peft_prefix(m, contents, config));
    for (const model::TensorView& tensor : m.adapter_tensors) {
        if (is_of_prefix(m, tensor.name)) continue;
        contents.tensors.push_back(
            model::converted_source(infer::peft_name(tensor.name, m.described.sites), tensor, tensor.dtype));
        if (!tensor.name.starts_with(plugin::kAdapter) && !is_trained_at_site(m, tensor.name))
            whole.insert(module_of(tensor.name));
    }
    // Hekla keeps ties, and PEFT does not: it needs the values in both places.
    for (const auto& [alias, parameter] : m.composition->architecture().names.ties)
        if (m.spec.head == "lm" && whole.contains(module_of(std::string(parameter))) &&
            m.described.graph.find_leaf(graph::Op::parameter, std::string(alias)) == graph::kNone)
            for (const model::TensorView& tensor : m.adapter_tensors)
                if (tensor.name == parameter) {
                    const std::string name = infer::peft_name(std::string(alias), m.described.sites);
                    contents.tensors.push_back(model::converted_source(name, tensor, tensor.dtype));
                    whole.insert(module_of(std::string(alias)));
                }
    if (!whole.empty()) config["modules_to_save"] = whole; // the adapter's key names them by patterns
    // Objects and "all-norms" are written by the host: a plugin writes no keys with dots, and does not know the sites.
    const json own = m.adapter_config();
    for (const auto& [key, value] : own.items())
        if (value.is_object()) config[key] = value;
    const bool tokens = m.composition->virtual_tokens().count > 0;
    if (!tokens && !config.contains("target_modules")) {
        config["target_modules"] = json::array();
        for (const plugin::Site& site : m.described.sites)
            if ((site.trained & HK_TRAINS_WEIGHT) != 0) config["target_modules"].push_back(site.name);
    }
    if (!tokens)
        config["fan_in_fan_out"] = std::ranges::any_of( // the modules are Conv1D
            m.described.sites, [](const plugin::Site& site) { return site.wanted && site.input_first; });
    std::error_code problem;
    config["base_model_name_or_path"] = fs::weakly_canonical(m.body.path(), problem).string();
    config["inference_mode"] = true;
    config["task_type"] = nullptr;
    // PEFT needs it for virtual tokens, and looks for invocations and tasks with it alone.
    const bool needed = tokens || !m.composition->invocations().empty() || config["peft_type"] == "POLY";
    if (needed && m.spec.head == "lm")
        config["task_type"] = m.config.value("is_encoder_decoder", json()) == true ? "SEQ_2_SEQ_LM" : "CAUSAL_LM";
    if (config.value("prompt_tuning_init", ordered_json()) == "TEXT") // which PEFT reads before new training alone
        config["tokenizer_name_or_path"] = config["base_model_name_or_path"];
    contents.config_json = config.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
    return contents;
}

Status convert_adapter(const Globals& globals, const AdapterArguments& a, std::string& summary) {
    const plugin::Registry registry = scan_plugins(globals);
    HK_ASSIGN(const AdaptedModel m, open_adapted_model(registry, a.folder, a.body, false, globals.log()));
    if (a.format == "gguf") {
        std::error_code problem;
        if (fs::exists(a.output, problem))
            return invalid_argument(fmt::format("{} exists: name a file that does not", a.output));
        HK_TRY(write_gguf_adapter(m, a.output));
        summary =
            fmt::format("{}: {} tensors of adapter '{}', GGUF", a.output, m.adapter_tensors.size(), m.adapter_text());
        return {};
    }
    model::ModelContents contents;
    if (a.format == "peft") {
        HK_ASSIGN(contents, peft_contents(m));
        contents.config_name = "adapter_config.json";
        contents.weights_stem = "adapter_model";
    } else {
        contents.tensors = model::sources_of(m.adapter_tensors);
        contents.config_json = m.config.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
        contents.copies = m.folder().auxiliary_files();
    }
    HK_TRY(model::save_folder(a.output, contents));
    summary = fmt::format("{}: {} tensors of adapter '{}', {} format", a.output, m.adapter_tensors.size(),
                          m.adapter_text(), a.format == "peft" ? "PEFT's" : "Hekla's");
    return {};
}

// ---- inspect --------------------------------------------------------------------------------------------------------

double norm_of(const graph::Tensor& tensor) {
    double sum = 0.0;
    for (const double x : tensor.data) sum += x * x;
    return std::sqrt(sum);
}

Result<ordered_json> inspection(const Globals& globals, const AdapterArguments& a) {
    const plugin::Registry registry = scan_plugins(globals);
    HK_ASSIGN(const AdaptedModel m, open_adapted_model(registry, a.folder, a.body, false, globals.log()));
    int64_t own = 0, all = 0;
    std::map<std::string, std::pair<int64_t, double>> by_site; // parameters, norm
    for (const auto& [name, value] : m.described.graph.parameters()) {
        const int64_t elements = m.described.graph.shape(value).elements();
        if (!name.starts_with(plugin::kAdapter)) all += elements;
    }
    for (const model::TensorView& tensor : m.adapter_tensors) {
        HK_ASSIGN(const graph::Tensor values, infer::tensor_of(tensor));
        own += values.shape.elements();
        if (!tensor.name.starts_with(plugin::kAdapter)) continue;
        std::string name = tensor.name.substr(std::string_view(plugin::kAdapter).size());
        if (!m.spec.combination.empty()) name.erase(0, name.find('.') + 1); // the adapter's name, or "combine"
        for (const plugin::Site& site : m.described.sites) {
            // The tensors of virtual tokens do not have the site's name: "prompt_embeddings.1" is of attention 1.
            const bool of_tokens = m.composition->virtual_tokens().count > 0 &&
                                   (site.kind == HK_SITE_EMBEDDING || name.ends_with(fmt::format(".{}", site.index)));
            if (!site.wanted || (!of_tokens && !name.starts_with(site.name + "."))) continue;
            auto& [count, norm] = by_site[site.name];
            count += values.shape.elements();
            norm = std::hypot(norm, norm_of(values));
        }
    }
    struct Change {
        int64_t rank = 0;
        double norm = 0.0;
    };
    std::map<std::string, Change> changes; // of LoRA; what DoRA changes depends on the body's weights
    if (m.is_lora() && !m.adapter_config().value("use_dora", false)) {
        HK_ASSIGN(const std::vector<LoraModule> modules, lora_modules(m));
        for (const LoraModule& one : modules)
            changes[one.name] = {one.factors.rank(), std::abs(one.scale) * lora::norm(one.factors)};
    }
    ordered_json j;
    j["adapter"] = m.adapter_text();
    j["config"] = m.adapter_config();
    j["body"] = m.body.path().string();
    j["architecture"] = m.spec.architecture;
    j["parameters"] = own;
    j["parameters_of_body"] = all;
    j["share"] = all > 0 ? static_cast<double>(own) / static_cast<double>(all) : 0.0;
    j["modules"] = ordered_json::array();
    for (const plugin::Site& site : m.described.sites)
        if (site.wanted) {
            const auto change = changes.find(site.name);
            const bool known = change != changes.end();
            j["modules"].push_back({{"name", site.name},
                                    {"kind", plugin::site_kind_name(site.kind)},
                                    {"in", site.in},
                                    {"out", site.out},
                                    {"rank", known ? ordered_json(change->second.rank) : ordered_json()},
                                    {"parameters", by_site[site.name].first},
                                    {"norm", by_site[site.name].second},
                                    {"norm_of_change", known ? ordered_json(change->second.norm) : ordered_json()}});
        }
    ordered_json whole = ordered_json::array();
    for (const model::TensorView& tensor : m.adapter_tensors)
        if (!tensor.name.starts_with(plugin::kAdapter)) whole.push_back(tensor.name);
    j["saved_whole"] = whole;
    return j;
}

int run_inspect(const Globals& globals, const AdapterArguments& a) {
    const Result<ordered_json> made = inspection(globals, a);
    if (!made.ok()) return fail(made.status());
    const ordered_json& j = made.value();
    if (a.json) {
        std::printf("%s\n", j.dump(1, ' ', false, ordered_json::error_handler_t::replace).c_str());
        return kDone;
    }
    std::string text =
        fmt::format("adapter '{}' for {} ({})\n{} parameters, {} of the body's {}\n", j["adapter"].get<std::string>(),
                    j["body"].get<std::string>(), j["architecture"].get<std::string>(), j["parameters"].get<int64_t>(),
                    percent_text(j["share"].get<double>(), 2), j["parameters_of_body"].get<int64_t>());
    std::size_t width = 6;
    for (const ordered_json& module : j["modules"]) width = std::max(width, module["name"].get<std::string>().size());
    text += fmt::format("{:<{}}  {:>7}  {:>7}  {:>5}  {:>10}  {:>9}  {:>9}\n", "module", width, "in", "out", "rank",
                        "parameters", "norm", "change");
    const auto or_dash = [](const ordered_json& value, const char* format) {
        return value.is_null() ? std::string("-") : fmt::format(fmt::runtime(format), value.get<double>());
    };
    for (const ordered_json& module : j["modules"])
        text += fmt::format("{:<{}}  {:>7}  {:>7}  {:>5}  {:>10}  {:>9.3g}  {:>9}\n", module["name"].get<std::string>(),
                            width, module["in"].get<int64_t>(), module["out"].get<int64_t>(),
                            or_dash(module["rank"], "{:.0f}"), module["parameters"].get<int64_t>(),
                            module["norm"].get<double>(), or_dash(module["norm_of_change"], "{:.3g}"));
    for (const ordered_json& name : j["saved_whole"]) text += fmt::format("saved whole: {}\n", name.get<std::string>());
    print_foreign(text);
    return kDone;
}

int run_written(Status (*run)(const Globals&, const AdapterArguments&, std::string&), const Globals& globals,
                const AdapterArguments& a) {
    std::string summary;
    const Status status = run(globals, a, summary);
    if (!status.ok()) return fail(status);
    print_foreign(summary + "\n");
    return kDone;
}

} // namespace

void add_adapter(CLI::App& app, const Globals& globals, Verbs& verbs) {
    CLI::App* group = app.add_subcommand("adapter", "Show, merge, convert, combine and extract adapters.");
    group->require_subcommand(1);
    add_adapter_list(*group, globals, verbs);
    const auto add = [&](const char* name, const char* about, const char* example, auto run) {
        CLI::App* parser = group->add_subcommand(name, about);
        const auto a = std::make_shared<AdapterArguments>();
        parser
            ->add_option("folder", a->folder,
                         "folder of a run with [adapter], or of an adapter that PEFT or AdapterHub saved")
            ->required();
        parser->add_option("--body", a->body, "folder of the body (default: the one that the adapter names)");
        parser->footer(example);
        verbs.push_back({parser, [&globals, a, run] { return run(globals, *a); }});
        return std::pair(parser, a);
    };
    {
        const auto [parser, a] =
            add("inspect", "Show what an adapter acts at, its size, and for LoRA the norm of each change of a weight.",
                "Example: hekla adapter inspect out/adapted",
                [](const Globals& g, const AdapterArguments& x) { return run_inspect(g, x); });
        parser->add_flag("--json", a->json, "print a JSON object");
    }
    {
        const auto [parser, a] =
            add("merge", "Write the body with an adapter merged into its weights, as a plain model folder.",
                "Example: hekla adapter merge out/adapted -o out/merged --dtype bf16",
                [](const Globals& g, const AdapterArguments& x) { return run_written(merge, g, x); });
        parser->add_option("-o,--output", a->output, "folder to write; it must not exist")->required();
        parser->add_option("--dtype", a->dtype, "storage of floating-point tensors (default: that of the body's)")
            ->check(CLI::IsMember({"f32", "f16", "bf16"}));
    }
    {
        const auto [parser, a] =
            add("convert",
                "Write an adapter as PEFT's library or llama.cpp loads it, or PEFT's or AdapterHub's as a folder of "
                "Hekla.",
                "Example: hekla adapter convert out/adapted -o out/peft\n"
                "         hekla adapter convert out/peft -o out/adapted --format hekla --body out/quickstart\n"
                "         hekla adapter convert out/adapted -o out/adapted.gguf --format gguf",
                [](const Globals& g, const AdapterArguments& x) { return run_written(convert_adapter, g, x); });
        parser->add_option("-o,--output", a->output, "folder or GGUF file to write; it must not exist")->required();
        parser->add_option("--format", a->format, "format to write")
            ->check(CLI::IsMember({"peft", "hekla", "gguf"}))
            ->capture_default_str();
    }
    add_adapter_combine(*group, globals, verbs);
    add_adapter_extract(*group, globals, verbs);
}

} // namespace hekla::app
