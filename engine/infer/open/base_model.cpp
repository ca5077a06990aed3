#include "infer/open/base_model.hpp"

#include "base/hash.hpp"
#include "infer/open/weights_folder.hpp"
#include "model/folder.hpp"

#include <fmt/format.h>

namespace hekla::infer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string hash_of(const model::Weights& weights) {
    std::string state;
    for (const model::TensorView& tensor : weights.tensors()) state += tensor.name + to_hex(hash128(tensor.pieces()));
    return to_hex(hash128(state));
}

} // namespace

Result<nlohmann::ordered_json> base_of(const fs::path& folder) {
    HK_ASSIGN(const fs::path from, weights_folder(folder));
    HK_ASSIGN(const model::ModelFolder base, model::ModelFolder::open(from));
    std::error_code problem;
    return nlohmann::ordered_json{{"folder", fs::weakly_canonical(from, problem).string()},
                                  {"weights", hash_of(base.weights())}};
}

nlohmann::ordered_json base_from(const nlohmann::ordered_json& base, const fs::path& folder) {
    std::error_code problem;
    const std::string absolute = base.at("folder").get<std::string>();
    const fs::path relative = fs::relative(absolute, folder, problem);
    if (problem || relative.empty()) return base;
    return {{"folder", relative.generic_string()}, {"absolute", absolute}, {"weights", base.at("weights")}};
}

Result<std::optional<model::ModelFolder>> open_base(const json& config, const fs::path& path) {
    const json own = config.value("hekla", json::object());
    const json recorded = own.is_object() ? own.value("base", json()) : json();
    if (!recorded.is_object()) return std::optional<model::ModelFolder>();
    const std::string where = fmt::format("{}: hekla.base.folder", (path / "config.json").string());
    const json folder = recorded.value("folder", json()), weights = recorded.value("weights", json());
    if (!folder.is_string() || !weights.is_string())
        return corrupt(fmt::format(
            "{}: expected the body's folder as a string, and the hash of its weights in \"weights\"", where));
    const json absolute = recorded.value("absolute", json());
    if (!absolute.is_null() && !absolute.is_string())
        return corrupt(fmt::format("{}: expected the other path, \"absolute\", as a string", where));
    std::error_code problem;
    fs::path place = path / folder.get<std::string>();
    if (absolute.is_string() && !fs::is_directory(place, problem)) place = absolute.get<std::string>();
    Result<model::ModelFolder> base = model::ModelFolder::open(fs::weakly_canonical(place, problem));
    if (!base.ok())
        return Status(base.code(), fmt::format("{} = {}: the body that this adapter is of is not there ({}): put it "
                                               "back, or write where it is",
                                               where, folder.dump(), base.message()));
    if (const std::string found = hash_of(base->weights()); found != weights.get<std::string>())
        return corrupt(fmt::format("{} = {}: holds other weights (hash {}) than those that this adapter was trained "
                                   "with ({})",
                                   where, folder.dump(), found, weights.get<std::string>()));
    return std::optional(base.take());
}

Result<std::vector<plugin::StoredTensor>> find_with_base(const graph::Graph& graph, const model::Weights& own,
                                                         const model::Weights& base, const plugin::NameRules& names) {
    const auto is_own = [&](const std::string& name) { return own.find(name) != nullptr; };
    HK_ASSIGN(plugin::FoundTensors found,
              plugin::find_some_tensors(graph, own.tensors(), own.path().string(), plugin::model_rules(names), is_own));
    model::NameRules of_base = plugin::model_rules(names);
    of_base.ignorable.emplace_back("*"); // heads are not used here
    HK_ASSIGN(const plugin::FoundTensors rest,
              plugin::find_some_tensors(graph, base.tensors(), base.path().string(), of_base,
                                        [&](const std::string& name) { return !is_own(name); }));
    found.tensors.insert(found.tensors.end(), rest.tensors.begin(), rest.tensors.end());
    return std::move(found.tensors);
}

} // namespace hekla::infer
