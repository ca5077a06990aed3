#include "infer/exported/exported_model.hpp"

#include "infer/adapters/adapter_use.hpp"
#include "plugin/composition/compose.hpp"
#include "plugin/process/stored_plugins.hpp"
#include "program/runtime.hpp"
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
//     heads         [{head, graphs: [{text: a content, and family_json()}]}]; the first is the model's own; with
//                   slots: {count, rank, targets}, graphs for rows that choose slots
//     weights       with slots: base_of()'s hash of the body's weights
//     kernels       Dispatch::shader -> a content, its SPIR-V
//     tokenizer     names of files, each a content "tokenizer/NAME"
//     modules_left_out  true for a folder of sentence-transformers: modules.json is not in the file

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
        if (one.contains("slots")) continue;
        const auto name = one.at("head").get<std::string>();
        if (wanted.empty() || wanted == name) return &one;
        names += fmt::format("{}'{}'", names.empty() ? "" : ", ", name);
    }
    return unsupported(
        fmt::format("{}: has no head '{}'; it was exported with {}", file.path().string(), wanted, names));
}

// Returns the head with slots. Errors: the file has none, or others than the options ask for.
Result<const json*> find_slots(const ExportedFile& file, const SlotOptions& asked) {
    const std::string where = file.path().string();
    for (const json& one : file.manifest().at("heads")) {
        if (!one.contains("slots")) continue;
        const json& slots = one.at("slots");
        const auto check = [&](const char* what, const char* option, const auto& given, const auto& none) -> Status {
            const auto has = slots.at(what).get<std::decay_t<decltype(given)>>();
            if (given == none || given == has) return {};
            return invalid_argument(fmt::format("{}: its adapter slots were exported with {} {}, not {}: give that "
                                                "or nothing, or export the model again",
                                                where, option, has, given));
        };
        HK_TRY(check("count", "--adapter-slots", asked.count, int64_t{0}));
        HK_TRY(check("rank", "--adapter-rank", asked.rank, int64_t{0}));
        HK_TRY(check("targets", "--adapter-targets", asked.targets, std::string()));
        return &one;
    }
    return unsupported(fmt::format("{}: was exported without adapter slots: `hekla export MODEL {} --adapter-slots N` "
                                   "writes it with them; or give the model's folder",
                                   where, file.path().filename().string()));
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
        const bool slots = options.slots.count > 0 || options.adapters_by_row;
        if (!slots && !options.adapters.each.empty())
            return unsupported(fmt::format("{}: is an exported file, where adapters are in slots that the rows of a "
                                           "generation choose (--adapter-rows); otherwise give the model's folder",
                                           where));
        HK_ASSIGN(const json* head, slots ? find_slots(*file, options.slots) : find_head(*file, options.head));
        Model m;
        m.path = path;
        m.exported = file;
        if (slots) {
            HK_ASSIGN(UsedAdapters used, read_slot_adapters(options.adapters));
            HK_TRY(check_slot_count(used.slots.size(), head->at("slots").at("count").get<int64_t>()));
            m.adapters = std::move(used.adapters);
            m.slots = std::move(used.slots);
            m.has_slots = m.rows_choose = true;
            m.body_weights = manifest.at("weights").get<std::string>();
        }
        m.config = manifest.at("config");
        m.generation = {manifest.value("generation", m.config), m.path.string(), manifest.contains("generation")};
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
