#include "fine_tuning/model_facts.hpp"

#include "base/json.hpp"
#include "base/number_text.hpp"
#include "base/path_text.hpp"
#include "hekla/plugin/architecture.h"
#include "infer/open/weights_folder.hpp"
#include "model/folder.hpp"
#include "plugin/composition/named_model.hpp"

#include <fmt/format.h>
#include <map>

namespace hekla::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

int64_t longest_row(const json& config) {
    for (const char* key : {"max_position_embeddings", "n_positions", "n_ctx"})
        if (const auto found = config.find(key); found != config.end() && found->is_number_integer())
            return found->get<int64_t>();
    return 0;
}

bool is_causal(std::string_view causal, const json& config) {
    if (causal.empty() || causal == "yes") return causal == "yes";
    const auto key = config.find(std::string(causal));
    return key != config.end() && key->is_boolean() && key->get<bool>();
}

// Returns the folder that config.json of a trained adapter names as its model.
std::string folder_of_base(const json& base) {
    const auto named = base.is_object() ? base.find("absolute") : base.end();
    return named != base.end() && named->is_string() ? named->get<std::string>() : std::string();
}

Status check_is_model(const std::string& folder, const fs::path& path) {
    std::error_code problem;
    if (!fs::exists(path, problem))
        return not_found(
            fmt::format("--model {}: no such folder; name a folder with config.json, weights and tokenizer, "
                        "as `hf download NAME --local-dir FOLDER` makes it",
                        folder));
    if (fs::is_directory(path, problem) && fs::exists(path / "adapter_config.json", problem) &&
        !fs::exists(path / "config.json", problem))
        return unsupported(
            fmt::format("--model {}: an adapter without its model; name the model's folder. adapter.from "
                        "in a recipe continues an adapter",
                        folder));
    return {};
}

} // namespace

std::string ModelFacts::text() const {
    return fmt::format("model: {}: {}, {} parameters ({}), {}, {}", folder, architecture,
                       grouped(static_cast<double>(parameters)), model::name_of(stored),
                       positions > 0 ? fmt::format("rows of at most {} tokens", grouped(static_cast<double>(positions)))
                                     : std::string("rows of any length"),
                       !causal ? std::string("reads in both directions")
                       : chat  ? fmt::format("chat template {}", chat->name())
                               : std::string("no chat template"));
}

Result<ModelFacts> look_at_model(const plugin::Registry& registry, const std::string& given) {
    ModelFacts facts;
    facts.folder = given;
    const fs::path path = path_of(given);
    HK_TRY(check_is_model(given, path));
    const Result<fs::path> from = infer::weights_folder(path);
    HK_ASSIGN(const model::ModelFolder folder, model::ModelFolder::open(from.ok() ? from.value() : path));
    const std::string file = (folder.path() / "config.json").string();
    HK_ASSIGN(const json config, parse_json_object(folder.config_json(), file));
    if (const auto own = config.find("hekla"); own != config.end() && own->is_object() && own->contains("base"))
        return unsupported(
            fmt::format("--model {}: a trained adapter without its model; name the model's folder, \"{}\"", given,
                        folder_of_base(own->at("base"))));
    if (const auto two = config.find("is_encoder_decoder"); two != config.end() && *two == true)
        return unsupported(
            fmt::format("--model {}: an encoder-decoder, for which no recipe is written; docs/recipes.md "
                        "has the objective seq2seq",
                        given));
    HK_ASSIGN(const plugin::NamedModel named, plugin::named_model(registry, config, file));
    facts.architecture = named.architecture.provided->id;
    facts.causal = is_causal(named.architecture.provided->causal, config);
    facts.positions = longest_row(config);
    std::map<model::DType, int64_t> stored;
    for (const model::TensorView& tensor : folder.weights().tensors()) {
        const auto numbers = static_cast<int64_t>(tensor.byte_size() / model::size_of(tensor.dtype));
        if (!model::is_floating(tensor.dtype)) continue;
        facts.parameters += numbers;
        stored[tensor.dtype] += numbers;
    }
    for (const auto& [dtype, numbers] : stored)
        if (numbers > stored[facts.stored]) facts.stored = dtype;
    Result<std::unique_ptr<text::Tokenizer>> tokenizer = text::load_tokenizer(folder.path());
    if (!tokenizer.ok()) return tokenizer.status().with_context(fmt::format("--model {}: its tokenizer", given));
    facts.tokenizer = tokenizer.take();
    HK_ASSIGN(std::optional<text::ChatTemplateSource> chat, text::find_chat_template(FilePlace(folder.path())));
    if (chat && facts.causal) {
        HK_ASSIGN(text::ChatTemplate parsed, text::ChatTemplate::parse(std::move(chat->text), std::move(chat->name)));
        facts.chat = std::move(parsed);
    }
    return facts;
}

} // namespace hekla::app
