#include "infer/exported_model.hpp"

#include "plugin/stored_plugins.hpp"
#include "text/files/tokenizer_files.hpp"

#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::infer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// The manifest:
//     version       of the Hekla that exported it
//     architecture  the plugin's id
//     config        config.json
//     length        tokens of the longest row
//     can           what the model can do here: "generate", "embed"
//     both_sides    see PromptStyle
//     begin         the same; absent in files of earlier versions: none
//     source        layout_json(), of one with an encoder
//     heads         [{head, graphs: [{text: a content, and family_json()}]}]; the first is the model's own
//     kernels       Dispatch::shader -> a content, its SPIR-V
//     tokenizer     names of files, each a content "tokenizer/NAME"

// Returns a description of the file's contents, for errors about missing ones.
std::string what_it_holds(const ExportedFile& file) {
    const json& m = file.manifest();
    return fmt::format(
        "it was exported to {}, with rows of up to {} tokens; `hekla export MODEL {} --length N` makes one "
        "for longer rows",
        fmt::join(m.at("can").get<std::vector<std::string>>(), " and "), m.at("length").get<int64_t>(),
        file.path().filename().string());
}

Status read_tokenizer(const ExportedFile& file, std::pmr::memory_resource* memory, Model& m) {
    HeldFiles files;
    for (const std::string& name : file.manifest().at("tokenizer").get<std::vector<std::string>>()) {
        HK_ASSIGN(files[name], file.content("tokenizer/" + name));
    }
    if (files.empty()) {
        m.tokenizer_problem = not_found(file.path().string() + ": was exported from a folder without a tokenizer");
        return {};
    }
    HK_ASSIGN(std::unique_ptr<text::Tokenizer> loaded, text::load_tokenizer(FilePlace(files, file.path())));
    HK_ASSIGN(m.tokenizer, text::lying_in(memory, std::move(loaded)));
    return {};
}

// Returns the requested head, or the model's own.
Result<const json*> find_head(const ExportedFile& file, const std::string& wanted) {
    std::string names;
    for (const json& one : file.manifest().at("heads")) {
        const auto name = one.at("head").get<std::string>();
        if (wanted.empty() || wanted == name) return &one;
        names += fmt::format("{}'{}'", names.empty() ? "" : ", ", name);
    }
    return unsupported(
        fmt::format("{}: has no head '{}'; it was exported with {}", file.path().string(), wanted, names));
}

} // namespace

Result<Model> describe_exported(const plugin::Registry& registry, const fs::path& path, const ModelOptions& options) {
    HK_ASSIGN(const std::shared_ptr<const ExportedFile> file, ExportedFile::open(path));
    const std::string where = path.string();
    return read_manifest(*file, [&](const json& manifest) -> Result<Model> {
        if (options.objective)
            return unsupported(
                fmt::format("{}: this needs a plugin's code (collate, decode), which an exported model does "
                            "not have: use the folder that it was exported from",
                            where));
        if (!options.class_name.empty())
            return unsupported(fmt::format("{}: is exported already: another class ({}) needs the folder that it was "
                                           "exported from",
                                           where, options.class_name));
        HK_ASSIGN(const json* head, find_head(*file, options.head));
        Model m;
        m.path = path;
        m.exported = file;
        m.config = manifest.at("config");
        HK_TRY(read_tokenizer(*file, options.memory, m));
        if (m.tokenizer == nullptr && options.tokenizer_required) return m.tokenizer_problem;
        plugin::StoredGraphs graphs;
        for (const json& one : head->at("graphs")) {
            graphs.families.push_back(plugin::family_from(one));
            HK_ASSIGN(graphs.families.back().text, file->content(one.at("text").get<std::string>()));
        }
        graphs.where = where;
        graphs.missing = what_it_holds(*file);
        m.composition = plugin::Composition::restore(registry, manifest.at("architecture").get<std::string>(),
                                                     head->at("head").get<std::string>(), m.config,
                                                     plugin::make_stored_plugins(std::move(graphs)), m.tokenizer.get());
        return m;
    });
}

Result<std::shared_ptr<const program::CompiledKernels>> exported_kernels(const ExportedFile& file) {
    return read_manifest(file, [&](const json& manifest) -> Result<std::shared_ptr<const program::CompiledKernels>> {
        auto kernels = std::make_shared<program::CompiledKernels>();
        for (const auto& [shader, content] : manifest.at("kernels").items()) {
            HK_ASSIGN(const std::string_view bytes, file.content(content.get<std::string>()));
            std::vector<uint32_t> words(bytes.size() / sizeof(uint32_t));
            std::memcpy(words.data(), bytes.data(), words.size() * sizeof(uint32_t));
            Result<gpu::Shader> made = gpu::Shader::from_words(shader, std::move(words));
            if (!made.ok()) return made.status().with_context(file.path().string());
            kernels->shaders.emplace(shader, made.take());
        }
        kernels->missing =
            fmt::format("Hekla {} exported {} without it: `hekla export` the model again with this version",
                        manifest.at("version").get<std::string>(), file.path().string());
        return std::shared_ptr<const program::CompiledKernels>(std::move(kernels));
    });
}

Result<ExportSummary> exported_summary(const ExportedFile& file) {
    return read_manifest(file, [&](const json& manifest) -> Result<ExportSummary> {
        return ExportSummary{manifest.at("version").get<std::string>(),
                             manifest.at("can").get<std::vector<std::string>>(), manifest.at("length").get<int64_t>()};
    });
}

Result<SourceLayout> exported_source_layout(const ExportedFile& file) {
    return read_manifest(
        file, [&](const json& manifest) -> Result<SourceLayout> { return layout_from(manifest.at("source")); });
}

} // namespace hekla::infer
