// hekla adapter list: a table of the adapters in folders.
#include "adapted_model.hpp"
#include "base/json.hpp"
#include "base/number_text.hpp"
#include "command.hpp"
#include "infer/adapters/adapter_folder.hpp"
#include "infer/adapters/adapter_use.hpp"
#include "infer/adapters/read_adapter.hpp"
#include "infer/open/weights_folder.hpp"
#include "model/folder.hpp"
#include "output.hpp"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

namespace hekla::app {
namespace adapter_list {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

struct Arguments {
    std::vector<std::string> folders;
    std::string body;
    bool json = false;
};

// What is known of an adapter without its body.
struct Listed {
    std::string format, id, base;
    std::vector<model::TensorView> tensors;
};

// Returns a run's config.json if it is an adapter's.
Result<json> run_config(const fs::path& folder) {
    HK_ASSIGN(const fs::path from, infer::weights_folder(folder));
    HK_ASSIGN(const model::ModelFolder opened, model::ModelFolder::open(from));
    HK_ASSIGN(json config, parse_json_object(opened.config_json(), (from / "config.json").string()));
    if (const json own = config.value("hekla", json()); !own.is_object() || !own.contains("base"))
        return invalid_argument(fmt::format("{}: is not an adapter", folder.string()));
    return config;
}

bool is_adapter(const fs::path& folder) { return infer::is_adapter_folder(folder) || run_config(folder).ok(); }

constexpr int kLevels = 2; // below a folder that was given

// Finds adapters in the folder and, up to `levels` below, in those inside it. An adapter's own folders are not
// searched: they are its checkpoints.
Status find_adapters(const fs::path& folder, int levels, std::vector<fs::path>& found) {
    if (is_adapter(folder)) {
        found.push_back(folder);
        return {};
    }
    if (levels == 0) return {};
    std::error_code problem;
    std::vector<fs::path> inside;
    for (fs::directory_iterator at(folder, problem), end; !problem && at != end; at.increment(problem))
        if (std::error_code ignored; at->is_directory(ignored)) inside.push_back(at->path());
    if (problem) return io_error(fmt::format("{}: cannot be read: {}", folder.string(), problem.message()));
    std::ranges::sort(inside);
    for (const fs::path& one : inside) HK_TRY(find_adapters(one, levels - 1, found));
    return {};
}

Result<std::vector<fs::path>> adapters_in(const fs::path& folder) {
    std::error_code problem;
    if (!fs::is_directory(folder, problem))
        return not_found(
            fmt::format("{}: is not a folder; expected an adapter's, or one that contains adapters", folder.string()));
    std::vector<fs::path> found;
    HK_TRY(find_adapters(folder, kLevels, found));
    return found;
}

// The smaller dimension of each matrix A.
std::set<int64_t> ranks_of(const std::vector<model::TensorView>& tensors) {
    std::set<int64_t> ranks;
    for (const model::TensorView& tensor : tensors)
        if (const bool a = tensor.name.find(".lora_A") != std::string::npos ||
                           tensor.name.find(".lora_embedding_A") != std::string::npos;
            a && tensor.dims.size() == 2)
            ranks.insert(std::min(tensor.dims[0], tensor.dims[1]));
    return ranks;
}

ordered_json entry_of(const plugin::Registry& registry, const fs::path& folder, const Arguments& a, const Log& log) {
    ordered_json entry = {{"folder", folder.string()},
                          {"format", nullptr},
                          {"adapter", nullptr},
                          {"ranks", ordered_json::array()},
                          {"parameters", nullptr},
                          {"share", nullptr},
                          {"base", nullptr},
                          {"found", true},
                          {"fits", false},
                          {"problem", nullptr}};
    const auto add_tensors = [&](const std::vector<model::TensorView>& tensors) {
        entry["ranks"] = ranks_of(tensors);
        int64_t parameters = 0;
        for (const model::TensorView& tensor : tensors) {
            const Result<int64_t> count = model::element_count(tensor.dims);
            if (count.ok()) parameters += count.value();
        }
        entry["parameters"] = parameters;
    };
    if (infer::is_adapter_folder(folder)) {
        const Result<infer::AdapterFolder> read = infer::read_adapter_folder(folder);
        if (!read.ok()) {
            entry["problem"] = read.message();
            return entry;
        }
        entry["format"] = read->library;
        entry["adapter"] = read->id;
        entry["base"] = read->base;
        add_tensors(read->tensors);
    } else {
        entry["format"] = "Hekla";
        if (const Result<json> config = run_config(folder); config.ok()) {
            const json& own = config.value()["hekla"];
            entry["adapter"] = own.value("adapter", own.value("combination", json()));
            entry["base"] =
                own["base"].is_object() ? own["base"].value("absolute", own["base"].value("folder", json())) : json();
        }
        if (const Result<fs::path> from = infer::weights_folder(folder); from.ok())
            if (const Result<model::ModelFolder> opened = model::ModelFolder::open(from.value()); opened.ok())
                add_tensors(opened->weights().tensors());
    }
    const Result<AdaptedModel> opened = open_adapted_model(registry, folder, a.body, false, log);
    if (!opened.ok()) {
        entry["found"] = opened.code() != Code::not_found;
        entry["problem"] = opened.message();
        return entry;
    }
    entry["base"] = opened->body.path().string();
    entry["fits"] = true;
    int64_t own = 0, body = 0;
    for (const model::TensorView& tensor : opened->adapter_tensors)
        if (const Result<int64_t> count = model::element_count(tensor.dims); count.ok()) own += count.value();
    entry["parameters"] = own;
    for (const auto& [name, value] : opened->described.graph.parameters())
        if (!name.starts_with(plugin::kAdapter)) body += opened->described.graph.shape(value).elements();
    if (body > 0) entry["share"] = static_cast<double>(own) / static_cast<double>(body);
    return entry;
}

std::string text_of(const ordered_json& list) {
    std::vector<std::vector<std::string>> rows{{"folder", "format", "adapter", "rank", "parameters", "share", "base"}};
    const auto text = [](const ordered_json& value) {
        return value.is_string() ? value.get<std::string>() : value.is_null() ? std::string("-") : value.dump();
    };
    for (const ordered_json& entry : list) {
        const auto ranks = entry["ranks"].get<std::vector<int64_t>>();
        rows.push_back({text(entry["folder"]), text(entry["format"]), text(entry["adapter"]),
                        ranks.empty() ? "-" : fmt::format("{}", fmt::join(ranks, ",")), text(entry["parameters"]),
                        entry["share"].is_null() ? "-" : percent_text(entry["share"].get<double>(), 2),
                        text(entry["base"]) + (entry["fits"].get<bool>()    ? ""
                                               : entry["found"].get<bool>() ? " (does not fit)"
                                                                            : " (not found)")});
    }
    std::vector<std::size_t> widths(rows[0].size());
    for (const auto& row : rows)
        for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    std::string out;
    for (const auto& row : rows) {
        for (std::size_t i = 0; i + 1 < row.size(); ++i) out += fmt::format("{:<{}}  ", row[i], widths[i]);
        out += row.back() + "\n";
    }
    for (const ordered_json& entry : list)
        if (!entry["problem"].is_null()) out += entry["problem"].get<std::string>() + "\n";
    return out;
}

Status list(const Globals& globals, const Arguments& a) {
    const plugin::Registry registry = scan_plugins(globals);
    ordered_json found = ordered_json::array();
    for (const std::string& folder : a.folders) {
        HK_ASSIGN(const std::vector<fs::path> adapters, adapters_in(folder));
        for (const fs::path& one : adapters) found.push_back(entry_of(registry, one, a, globals.log()));
    }
    if (found.empty())
        return not_found(fmt::format("{}: contains no adapter; expected folders of runs with [adapter], or of PEFT or "
                                     "AdapterHub, in it or up to {} levels below",
                                     fmt::join(a.folders, ", "), kLevels));
    const std::string text =
        a.json ? found.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n" : text_of(found);
    print_foreign(text);
    return {};
}

} // namespace adapter_list

void add_adapter_list(CLI::App& adapter, const Globals& globals, Verbs& verbs) {
    CLI::App* parser = adapter.add_subcommand("list", "List the adapters in folders, and whether their bodies fit.");
    const auto a = std::make_shared<adapter_list::Arguments>();
    parser->add_option("folders", a->folders, "folders of adapters, or folders that contain such folders")->required();
    parser->add_option("--body", a->body, "folder of the body (default: the one that each adapter names)");
    parser->add_flag("--json", a->json, "print a JSON array");
    parser->footer("Example: hekla adapter list out");
    verbs.push_back({parser, [&globals, a] {
                         const Status status = adapter_list::list(globals, *a);
                         return status.ok() ? kDone : fail(status);
                     }});
}

} // namespace hekla::app
