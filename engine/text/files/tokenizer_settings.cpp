#include "text/files/tokenizer_settings.hpp"

#include "base/file.hpp"
#include "text/files/json_file.hpp"
#include "text/files/special_files.hpp"

#include <algorithm>
#include <functional>

namespace hekla::text {
namespace {

using Change = std::function<void(nlohmann::ordered_json&)>;

Status change_config(const std::filesystem::path& saved, const Change& change) {
    const std::filesystem::path path = saved / "tokenizer_config.json";
    HK_ASSIGN(const std::string text, read_file(path));
    HK_ASSIGN(nlohmann::ordered_json config, parse_ordered_json_object(text, path.string()));
    change(config);
    return write_file_atomically(path,
                                 config.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

} // namespace

Status keep_tokenizer_settings(const FilePlace& from, const std::filesystem::path& saved) {
    const FilePlace folder = from.is_file() ? from.parent_path() : from;
    const FilePlace file = folder / "tokenizer_config.json";
    Json given = Json::object();
    if (file.exists()) { HK_ASSIGN(given, read_json_object(file)); }
    HK_ASSIGN(const std::string family, tokenizer_family(folder));
    return change_config(saved, [&](nlohmann::ordered_json& config) {
        for (const char* const key : {"padding_side", "truncation_side", "model_max_length", "model_input_names",
                                      "clean_up_tokenization_spaces"})
            if (const auto found = given.find(key); found != given.end() && !found->is_null()) config[key] = *found;
        constexpr std::string_view kPadLeft[] = {"Llama", "CodeLlama", "Gemma", "XLNet"};
        if (!config.contains("padding_side") && std::ranges::find(kPadLeft, family) != std::end(kPadLeft))
            config["padding_side"] = "left";
    });
}

Status write_token_types(const std::filesystem::path& saved) {
    return change_config(saved, [](nlohmann::ordered_json& config) {
        config["model_input_names"] = {"input_ids", "token_type_ids", "attention_mask"};
    });
}

} // namespace hekla::text
