// hekla adapter extract: LoRA from the difference of two models, by singular value decompositions.
#include "base/json.hpp"
#include "command.hpp"
#include "infer/adapters/peft_adapter.hpp"
#include "infer/open/model.hpp"
#include "infer/open/weights_folder.hpp"
#include "lora_model.hpp"
#include "model/folder.hpp"
#include "output.hpp"
#include "plugin/composition/model_names.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <set>

namespace hekla::app {
namespace adapter_extract {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

struct Arguments {
    std::string body, tuned, output, others = "refuse";
    int64_t rank = 16;
    double energy = 1.0;
    bool json = false;
};

// A composition with LoRA, for its sites and names.
struct WithLora {
    std::unique_ptr<plugin::Composition> composition;
    plugin::Described described;
};

Result<model::ModelFolder> open_whole(const plugin::Registry& registry, const std::string& folder,
                                      plugin::CompositionSpec& spec) {
    HK_ASSIGN(const fs::path from, infer::weights_folder(folder));
    HK_ASSIGN(model::ModelFolder opened, model::ModelFolder::open(from));
    HK_ASSIGN(spec, infer::stored_spec(registry, opened));
    if (!spec.adapters.empty())
        return unsupported(
            fmt::format("{}: is an adapter; expected a whole model: `hekla adapter merge` makes one", folder));
    return opened;
}

Result<WithLora> describe(const plugin::Registry& registry, plugin::CompositionSpec spec,
                          const model::ModelFolder& body, const json& adapter_config, const Log& log) {
    spec.adapters = {{"", {"lora", adapter_config}}};
    WithLora made;
    HK_ASSIGN(made.composition, plugin::Composition::create(registry, spec, nullptr, log));
    HK_ASSIGN(const json config, parse_json_object(body.config_json(), (body.path() / "config.json").string()));
    plugin::BuildRequest request;
    request.mode = HK_MODE_EVALUATE;
    request.objective = false;
    Status first;
    for (std::vector<plugin::BatchField>& fields : infer::smallest_batches(config)) {
        request.fields = std::move(fields);
        Result<plugin::Described> described = made.composition->describe(request);
        if (described.ok()) {
            made.described = described.take();
            return made;
        }
        if (first.ok()) first = described.status();
    }
    return first;
}

using Stored = std::map<std::string, const model::TensorView*>;

Result<plugin::FoundTensors> tensors_of(const WithLora& m, const model::Weights& weights) {
    model::NameRules rules = plugin::model_rules(m.composition->architecture().names);
    rules.ignorable.emplace_back("*"); // heads that are not used here
    return plugin::find_some_tensors(m.described.graph, weights.tensors(), weights.path().string(), rules,
                                     [](const std::string& name) { return !name.starts_with(plugin::kAdapter); });
}

// Returns the parameters by name. `found` must outlive the result.
Stored by_name(const plugin::FoundTensors& found) {
    Stored stored;
    for (const plugin::StoredTensor& tensor : found.tensors)
        if (!tensor.tensor.buffer) stored.emplace(tensor.tensor.name, tensor.stored);
    return stored;
}

// Returns TUNED - BODY; empty if they are equal.
Result<std::vector<double>> difference_of(const model::TensorView& body, const model::TensorView& tuned,
                                          const Arguments& a) {
    if (body.dims != tuned.dims)
        return invalid_argument(
            fmt::format("{} is {} in {} and {} in {}; expected two models of one architecture and size", body.name,
                        model::format_dims(body.dims), a.body, model::format_dims(tuned.dims), a.tuned));
    HK_ASSIGN(const int64_t count, model::element_count(body.dims));
    std::vector<double> before(static_cast<std::size_t>(count)), after(before.size());
    HK_TRY(model::load_float64(body, before));
    HK_TRY(model::load_float64(tuned, after));
    bool equal = true;
    for (std::size_t i = 0; i < after.size(); ++i) {
        after[i] -= before[i];
        equal = equal && after[i] == 0.0;
    }
    if (equal) after.clear();
    return after;
}

double norm_of(const std::vector<double>& values) {
    double sum = 0.0;
    for (const double x : values) sum += x * x;
    return std::sqrt(sum);
}

std::string module_of(const std::string& parameter) { return parameter.substr(0, parameter.rfind('.')); }

struct Extracted {
    std::vector<LoraModule> modules;
    ordered_json table = ordered_json::array(); // a row a module
    std::map<std::string, double> others;       // parameters that no matrix can change -> the norm of their change
    bool biases = false;                        // of the modules changed
};

// Returns the matrix [out, in] of a change, if the parameter is of this shape.
std::optional<lora::Matrix> change_matrix(const plugin::Site& site, const model::TensorView& tensor,
                                          std::vector<double>& change) {
    const std::vector<int64_t> expected =
        site.input_first ? std::vector{site.in, site.out} : std::vector{site.out, site.in};
    if (tensor.dims != expected) return {};
    lora::Matrix matrix(expected[0], expected[1]);
    matrix.data = std::move(change);
    return site.input_first ? lora::transposed(matrix) : matrix;
}

Status add_module(const plugin::Site& site, const lora::Matrix& change, const Arguments& a, Extracted& made) {
    HK_ASSIGN(const lora::Decomposition exact, lora::decompose(change));
    const int64_t most = std::min({a.rank, site.in, site.out});
    const int64_t rank = lora::rank_for(exact.values, a.energy, most);
    LoraModule module{site.name, false, lora::truncated(exact, rank), 1.0};
    double largest = 0.0;
    const lora::Matrix low = lora::product(module.factors);
    for (std::size_t i = 0; i < low.data.size(); ++i)
        largest = std::max(largest, std::abs(low.data[i] - change.data[i]));
    made.table.push_back({{"name", site.name},
                          {"rank", rank},
                          {"energy", lora::energy(exact.values, rank)},
                          {"norm", norm_of(change.data)},
                          {"largest_error", largest}});
    made.modules.push_back(std::move(module));
    return {};
}

Result<Extracted> extract_modules(const WithLora& m, const Stored& body, const Stored& tuned, const Arguments& a) {
    std::map<std::string, const plugin::Site*> by_weight, by_bias;
    for (const plugin::Site& site : m.described.sites) {
        // A weight that another module shares would be changed for both.
        if (site.kind != HK_SITE_LINEAR || site.parameter != site.name + ".weight") continue;
        by_weight.emplace(site.parameter, &site);
        if (!site.bias.empty()) by_bias.emplace(site.bias, &site);
    }
    for (const plugin::Site& site : m.described.sites)
        if (site.parameter != site.name + ".weight") by_weight.erase(site.parameter);
    Extracted made;
    std::set<std::string> with_bias; // modules
    for (const auto& [name, before] : body) {
        const auto after = tuned.find(name);
        if (after == tuned.end())
            return invalid_argument(fmt::format("{}: has no tensor {}, which {} has", a.tuned, name, a.body));
        HK_ASSIGN(std::vector<double> change, difference_of(*before, *after->second, a));
        if (change.empty()) continue;
        const double size = norm_of(change);
        if (const auto site = by_weight.find(name); site != by_weight.end()) {
            if (const std::optional<lora::Matrix> matrix = change_matrix(*site->second, *before, change)) {
                Status added = add_module(*site->second, *matrix, a, made);
                if (!added.ok()) return added.with_context(name);
                continue;
            }
        }
        made.others.emplace(name, size);
        if (const auto site = by_bias.find(name); site != by_bias.end()) with_bias.insert(site->second->name);
    }
    if (a.others != "save") return made;
    made.biases = !with_bias.empty();
    for (const std::string& name : with_bias) // a module whose bias alone changed needs matrices, too
        if (std::ranges::find(made.modules, name, &LoraModule::name) == made.modules.end()) {
            const auto site = std::ranges::find(m.described.sites, name, &plugin::Site::name);
            made.modules.push_back({name, false, {lora::Matrix(site->out, 1), lora::Matrix(1, site->in)}, 1.0});
        }
    return made;
}

std::string names_with_norms(const std::map<std::string, double>& others) {
    std::string text;
    std::size_t shown = 0;
    for (const auto& [name, size] : others) {
        if (shown++ == 8) return text + fmt::format(" and {} more", others.size() - 8);
        text += fmt::format("{}{} ({:.3g})", text.empty() ? "" : ", ", name, size);
    }
    return text;
}

// Completes what is saved whole: biases of the modules, and all parameters of the modules that contain the others.
Result<LoraExtras> extras_of(const WithLora& m, const Stored& tuned, const Extracted& made) {
    LoraExtras extras;
    std::set<std::string> modules, parameters;
    for (const plugin::Site& site : m.described.sites)
        if (site.wanted && made.biases && !site.bias.empty()) parameters.insert(site.bias);
    extras.lora_only_biases = made.biases;
    for (const auto& [name, size] : made.others) {
        if (parameters.contains(name)) continue;
        const std::string module = module_of(name);
        for (const LoraModule& one : made.modules)
            if (one.name == module || one.name.starts_with(module + "."))
                return unsupported(
                    fmt::format("{} changed, and its module {} contains modules with matrices, so that it "
                                "cannot be saved whole; `--others drop` leaves the change out",
                                name, module));
        modules.insert(module);
    }
    for (const auto& [name, tensor] : tuned)
        if (modules.contains(module_of(name))) parameters.insert(name);
    for (const std::string& name : parameters) {
        const model::TensorView& tensor = *tuned.at(name);
        extras.whole.push_back(
            model::converted_source(infer::peft_name(name, m.described.sites), tensor, tensor.dtype));
    }
    // PEFT separates tied tables of which it finds only one: both are saved.
    for (const auto& [alias, parameter] : m.composition->architecture().names.ties) {
        const std::string tied(parameter), also(alias);
        if (!parameters.contains(tied) || tuned.contains(also) || !modules.insert(module_of(also)).second) continue;
        const model::TensorView& tensor = *tuned.at(tied);
        extras.whole.push_back(
            model::converted_source(infer::peft_name(also, m.described.sites), tensor, tensor.dtype));
    }
    extras.modules_to_save.assign(modules.begin(), modules.end());
    return extras;
}

json config_of(const Extracted& made) {
    json names = json::array(), ranks = json::object();
    for (const LoraModule& module : made.modules) {
        names.push_back(module.name);
        ranks[module.name] = module.factors.rank();
    }
    return {{"r", 1}, {"target_modules", names}, {"rank_pattern", ranks}, {"bias", made.biases ? "lora_only" : "none"}};
}

void print(const Extracted& made, const LoraExtras& extras, const Arguments& a) {
    if (a.json) {
        const ordered_json j = {
            {"modules", made.table}, {"modules_to_save", extras.modules_to_save}, {"others", made.others}};
        std::printf("%s\n", j.dump(1, ' ', false, ordered_json::error_handler_t::replace).c_str());
        return;
    }
    std::size_t width = 6;
    for (const ordered_json& row : made.table) width = std::max(width, row["name"].get<std::string>().size());
    std::string text =
        fmt::format("{:<{}}  {:>5}  {:>8}  {:>9}  {:>9}\n", "module", width, "rank", "energy", "change", "error");
    double largest = 0.0;
    for (const ordered_json& row : made.table) {
        largest = std::max(largest, row["largest_error"].get<double>());
        text += fmt::format("{:<{}}  {:>5}  {:>7.2f}%  {:>9.3g}  {:>9.3g}\n", row["name"].get<std::string>(), width,
                            row["rank"].get<int64_t>(), 100.0 * row["energy"].get<double>(), row["norm"].get<double>(),
                            row["largest_error"].get<double>());
    }
    for (const std::string& module : extras.modules_to_save) text += fmt::format("saved whole: {}\n", module);
    if (a.others == "drop" && !made.others.empty())
        text += fmt::format("left out: {}\n", names_with_norms(made.others));
    text += fmt::format("{}: {} modules; the largest error of a weight is {:.3g}\n", a.output, made.modules.size(),
                        largest);
    print_foreign(text);
}

Status extract(const Globals& globals, const Arguments& a) {
    if (!(a.energy > 0.0 && a.energy <= 1.0))
        return invalid_argument(fmt::format("--energy is {}; expected above 0 and up to 1, e.g. 0.95", a.energy));
    const plugin::Registry registry = scan_plugins(globals);
    plugin::CompositionSpec spec, tuned_spec;
    HK_ASSIGN(const model::ModelFolder body, open_whole(registry, a.body, spec));
    HK_ASSIGN(const model::ModelFolder tuned, open_whole(registry, a.tuned, tuned_spec));
    if (spec.architecture != tuned_spec.architecture)
        return invalid_argument(fmt::format("{} is a '{}' and {} a '{}'; expected two models of one architecture",
                                            a.body, spec.architecture, a.tuned, tuned_spec.architecture));
    HK_ASSIGN(const WithLora first,
              describe(registry, spec, body, {{"r", 1}, {"target_modules", "all-linear"}}, globals.log()));
    HK_ASSIGN(const plugin::FoundTensors of_body, tensors_of(first, body.weights()));
    HK_ASSIGN(const plugin::FoundTensors of_tuned, tensors_of(first, tuned.weights()));
    const Stored before = by_name(of_body), after = by_name(of_tuned);
    HK_ASSIGN(Extracted made, extract_modules(first, before, after, a));
    if (a.others == "refuse" && !made.others.empty())
        return invalid_argument(
            fmt::format("parameters changed that LoRA's matrices do not: {} (norms of the changes in "
                        "parentheses); `--others save` saves them whole, `--others drop` leaves their "
                        "changes out",
                        names_with_norms(made.others)));
    if (made.modules.empty())
        return invalid_argument(
            fmt::format("no linear layer of {} differs from {}'s: there is nothing to extract", a.tuned, a.body));
    HK_ASSIGN(const WithLora second, describe(registry, spec, body, config_of(made), globals.log()));
    LoraExtras extras;
    if (a.others == "save") { HK_ASSIGN(extras, extras_of(second, after, made)); }
    bool conv1d = false;
    std::size_t wanted = 0;
    for (const plugin::Site& site : second.described.sites) {
        conv1d = conv1d || (site.wanted && site.input_first);
        wanted += site.wanted ? 1 : 0;
    }
    if (wanted != made.modules.size())
        return unsupported(
            fmt::format("the names of the {} modules that changed select {} modules of {}; expected names "
                        "that are not the ends of others",
                        made.modules.size(), wanted, a.body));
    LoraExtras shown;
    shown.modules_to_save = extras.modules_to_save;
    HK_TRY(model::save_folder(a.output, lora_contents(made.modules, body.path(), conv1d, std::move(extras))));
    print(made, shown, a);
    return {};
}

} // namespace adapter_extract

void add_adapter_extract(CLI::App& adapter, const Globals& globals, Verbs& verbs) {
    CLI::App* parser =
        adapter.add_subcommand("extract", "Write the difference of two models as a LoRA adapter of the first.");
    const auto a = std::make_shared<adapter_extract::Arguments>();
    parser->add_option("body", a->body, "folder of the model that the adapter will be for")->required();
    parser->add_option("tuned", a->tuned, "folder of the same model, trained further")->required();
    parser->add_option("-r,--rank", a->rank, "rank of the matrices, at most")
        ->check(CLI::Range(int64_t{1}, int64_t{65536}))
        ->capture_default_str();
    parser->add_option("--energy", a->energy,
                       "choose each module's rank, up to -r: the smallest that keeps this part of the change's squared "
                       "norm (default: 1)");
    parser
        ->add_option("--others", a->others,
                     "what to do if other parameters changed (norms, biases, embeddings): refuse, save them whole, or "
                     "drop their changes")
        ->check(CLI::IsMember({"refuse", "save", "drop"}))
        ->capture_default_str();
    parser->add_option("-o,--output", a->output, "folder to write, as PEFT loads it; it must not exist")->required();
    parser->add_flag("--json", a->json, "print a JSON object");
    parser->footer(
        "Example: hekla adapter extract out/quickstart out/tuned -r 16 --energy 0.95 --others save -o out/extracted");
    verbs.push_back({parser, [&globals, a] {
                         const Status status = adapter_extract::extract(globals, *a);
                         return status.ok() ? kDone : fail(status);
                     }});
}

} // namespace hekla::app
