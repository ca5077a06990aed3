#include "ollama_model.hpp"

#include "base/file.hpp"
#include "base/file_place.hpp"
#include "base/json.hpp"
#include "generate/settings.hpp"
#include "gguf_model.hpp"
#include "model/staged_folder.hpp"
#include "ollama_template.hpp"
#include "text/tokenizer.hpp"

#include <cctype>
#include <fmt/format.h>

namespace hekla::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Returns a value of a Modelfile in quotes.
std::string modelfile_text(std::string_view text) {
    return text.find('"') == std::string_view::npos ? fmt::format("\"{}\"", text) : fmt::format("\"\"\"{}\"\"\"", text);
}

// Returns the lines of a conversation: TEMPLATE and the texts that end an answer.
Result<std::string> conversation_lines(const fs::path& folder, const Log& log) {
    Result<std::unique_ptr<text::Tokenizer>> loaded = text::load_tokenizer(folder);
    if (!loaded.ok()) return std::string(); // write_gguf_model() has warned of it
    const text::Tokenizer& tokenizer = *loaded.value();
    HK_ASSIGN(const std::optional<text::ChatTemplateSource> source, text::find_chat_template(FilePlace(folder)));
    if (!source) return std::string("TEMPLATE \"{{ .Prompt }}\"\n");
    HK_ASSIGN(const text::ChatTemplate chat, text::ChatTemplate::parse(source->text, source->name));
    std::string lines;
    const bool begins_text = !tokenizer.frame().before.empty();
    const Result<OllamaTemplate> written = ollama_template(chat, tokenizer.vocabulary(), begins_text);
    if (written.ok())
        lines += fmt::format("TEMPLATE \"\"\"{}\"\"\"\n", written.value().text);
    else
        log.warning(fmt::format(
            "{}: has no equivalent in Ollama's language: {}. The Modelfile has no TEMPLATE, and Ollama takes "
            "the one that it knows for this chat template, if any",
            source->name, written.status().message()));
    std::string end = written.ok() ? written.value().turn_end : std::string();
    if (const Result<int32_t> token = chat.turn_end(tokenizer); token.ok())
        end = tokenizer.vocabulary().token(token.value());
    if (!end.empty()) lines += fmt::format("PARAMETER stop {}\n", modelfile_text(end));
    return lines;
}

// Returns the lines of generation_config.json's settings that Ollama has, too.
Result<std::string> drawing_lines(const fs::path& folder, const json& config) {
    HK_ASSIGN(const generate::FolderSettings settings, generate::settings_of(folder, config));
    std::string lines;
    if (!settings.published) return lines;
    constexpr std::pair<const char*, const char*> kNames[] = {{"temperature", "temperature"},
                                                              {"top_k", "top_k"},
                                                              {"top_p", "top_p"},
                                                              {"min_p", "min_p"},
                                                              {"repetition_penalty", "repeat_penalty"}};
    if (settings.values.value("do_sample", json()) == false) return std::string("PARAMETER temperature 0\n");
    for (const auto& [name, theirs] : kNames)
        if (const json value = settings.values.value(name, json()); value.is_number())
            lines += fmt::format("PARAMETER {} {}\n", theirs, value.dump());
    return lines;
}

// Returns a name that `ollama create` takes: of small letters, digits, '-', '_' and '.'.
std::string model_name(const fs::path& folder) {
    std::string name = folder.filename().string();
    for (char& c : name) {
        const auto letter = static_cast<unsigned char>(c);
        c = std::isalnum(letter) != 0 ? static_cast<char>(std::tolower(letter)) : c == '.' || c == '_' ? c : '-';
    }
    return name;
}

} // namespace

Result<std::string> write_ollama_model(const StoredModel& m, const fs::path& to, std::optional<model::DType> dtype,
                                       const Log& log) {
    const fs::path given = to.lexically_normal();
    const fs::path target = given.has_filename() ? given : given.parent_path(); // "out/" is the folder "out"
    model::recover_folders(target.has_parent_path() ? target.parent_path() : fs::path("."), target.filename().string());
    HK_ASSIGN(const std::string conversation, conversation_lines(m.folder.path(), log));
    HK_ASSIGN(const json config, parse_json_object(m.folder.config_json(), (m.folder.path() / "config.json").string()));
    HK_ASSIGN(const std::string drawing, drawing_lines(m.folder.path(), config));
    HK_ASSIGN(model::StagedFolder staged, model::StagedFolder::create(target));
    HK_TRY(write_gguf_model(m, staged.path() / "model.gguf", dtype, log));
    HK_TRY(write_file_atomically(staged.path() / "Modelfile", "FROM ./model.gguf\n" + conversation + drawing));
    HK_TRY(staged.commit(model::StagedFolder::Existing::refuse));
    const std::string name = model_name(target), folder = target.string();
    return fmt::format("  ollama create {0} -f {1}/Modelfile             as stored\n"
                       "  ollama create -q q4_K_M {0} -f {1}/Modelfile   in 4 bits\n"
                       "  ollama run {0}\n"
                       "  llama-cli -m {1}/model.gguf\n",
                       name, folder);
}

} // namespace hekla::app
