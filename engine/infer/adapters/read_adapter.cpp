#include "infer/adapters/read_adapter.hpp"

#include "base/file.hpp"
#include "base/json.hpp"
#include "infer/adapters/adapter_folder.hpp"
#include "infer/adapters/adapterhub_adapter.hpp"
#include "infer/adapters/peft_adapter.hpp"
#include "model/finite.hpp"

#include <fmt/format.h>

namespace hekla::infer {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {
constexpr const char* kConfigFile = "adapter_config.json";
}

bool is_adapter_folder(const fs::path& folder) {
    std::error_code problem;
    return fs::exists(folder / kConfigFile, problem);
}

Result<AdapterFolder> read_adapter_folder(const fs::path& folder) {
    const std::string file = (folder / kConfigFile).string();
    HK_ASSIGN(const std::string text, read_file(file));
    HK_ASSIGN(const json config, parse_json_object(text, file));
    const bool peft = config.contains("peft_type");
    if (!peft && !config.contains("config"))
        return unsupported(fmt::format("{}: is neither PEFT's, with the key \"peft_type\", nor AdapterHub's, with the "
                                       "key \"config\"",
                                       file));
    Result<AdapterFolder> adapter =
        peft ? read_peft_adapter(folder, config, file) : read_adapterhub_adapter(folder, config, file);
    if (!adapter.ok()) return adapter;
    const std::string weights = adapter->weights.path().string();
    if (adapter->tensors.empty()) return corrupt(fmt::format("{}: contains no tensors", weights));
    for (const model::TensorView& tensor : adapter->tensors) HK_TRY(model::check_finite(tensor).with_context(weights));
    return adapter;
}

Status name_by_sites(AdapterFolder& adapter, const std::vector<plugin::Site>& sites) {
    return adapter.library == kAdapterHub ? name_adapterhub_tensors(adapter, sites) : Status();
}

} // namespace hekla::infer
