#include "infer/adapters/stored_adapter.hpp"

#include "base/json.hpp"
#include "infer/adapters/read_adapter.hpp"
#include "infer/open/weights_folder.hpp"
#include "model/folder.hpp"

#include <fmt/format.h>

namespace hekla::infer {

namespace fs = std::filesystem;
using nlohmann::json;

const std::vector<model::TensorView>& StoredAdapter::tensors() const {
    return own ? own->weights().tensors() : foreign->tensors;
}

Status StoredAdapter::name_tensors(const std::vector<plugin::Site>& sites) {
    return foreign ? name_by_sites(*foreign, sites) : Status();
}

Status check_one_adapter(const json& adapter_config, const fs::path& folder) {
    if (!adapter_config.is_object()) return {};
    const json tasks = adapter_config.value("n_tasks", json(1)), task = adapter_config.value("task", json(-1));
    if (tasks.is_number_integer() && tasks > 1 && (!task.is_number_integer() || task < 0))
        return unsupported(
            fmt::format("{}: is trained for {} tasks, from which the rows of its training chose; give one "
                        "of the folders in {}, or write the number of a task, from 0, as `task` into "
                        "the adapter's configuration",
                        folder.string(), tasks.dump(), (folder / "adapters").string()));
    if (adapter_config.value("slots", json(0)) == 0) return {};
    return unsupported(
        fmt::format("{}: contains several adapters, which the rows of its training chose from; give one of "
                    "the folders in {}",
                    folder.string(), (folder / "adapters").string()));
}

namespace {

// Opens an adapter that Hekla trained.
Result<StoredAdapter> open_own(const fs::path& folder) {
    StoredAdapter adapter;
    HK_ASSIGN(adapter.path, weights_folder(folder));
    HK_ASSIGN(adapter.own, model::ModelFolder::open(adapter.path));
    const std::string file = (adapter.path / "config.json").string();
    HK_ASSIGN(const json config, parse_json_object(adapter.own->config_json(), file));
    const json own = config.value("hekla", json());
    if (!own.is_object() || !own.contains("base"))
        return invalid_argument(
            fmt::format("{}: is not an adapter: expected the folder of a run with [adapter], or one "
                        "with the adapter_config.json of PEFT or AdapterHub",
                        folder.string()));
    if (own.contains("adapters"))
        return unsupported(fmt::format("{}: contains several adapters (hekla.combination = {}); expected the folder of "
                                       "one",
                                       file, own.value("combination", json()).dump()));
    const json base = own.at("base"), id = own.value("adapter", json());
    if (!id.is_string() || !base.is_object() || !base.value("weights", json()).is_string())
        return corrupt(
            fmt::format("{}: expected hekla.adapter, the id of a plugin, and hekla.base.weights, a hash", file));
    adapter.id = id.get<std::string>();
    adapter.config = own.value("adapter_config", json::object());
    HK_TRY(check_one_adapter(adapter.config, adapter.path));
    adapter.weights = base.at("weights").get<std::string>();
    return adapter;
}

} // namespace

Result<StoredAdapter> open_stored_adapter(const fs::path& folder) {
    if (!is_adapter_folder(folder)) return open_newest(folder, open_own);
    StoredAdapter adapter;
    adapter.path = folder;
    HK_ASSIGN(adapter.foreign, read_adapter_folder(folder));
    adapter.id = adapter.foreign->id;
    adapter.config = adapter.foreign->config;
    HK_TRY(check_one_adapter(adapter.config, folder));
    return adapter;
}

} // namespace hekla::infer
