#include "model/folder.hpp"

#include "base/json.hpp"
#include "base/name_pattern.hpp"
#include "base/system_file.hpp"
#include "model/auxiliary_files.hpp"
#include "model/model_path.hpp"
#include "model/staged_folder.hpp"
#include "model/text_part.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace hekla::model {
namespace {

namespace fs = std::filesystem;

bool is_weights_file(std::string_view name) {
    return matches("model.safetensors", name) || matches("model-*-of-*.safetensors", name) ||
           matches("model.safetensors.index.json", name);
}

struct Entry {
    fs::path path;
    std::string name;
    bool folder;
};

Result<std::vector<Entry>> list(const fs::path& folder) {
    std::vector<Entry> entries;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
        std::error_code ignored;
        entries.push_back({entry->path(), entry->path().filename().string(), entry->is_directory(ignored)});
    }
    if (error) return Status(Code::io, fmt::format("{}: cannot be listed: {}", folder.string(), error.message()));
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
    return entries;
}

std::set<std::string> names_of(const std::vector<FileRecord>& records) {
    std::set<std::string> names;
    for (const FileRecord& record : records) names.insert(record.name);
    return names;
}

} // namespace

Result<ModelFolder> ModelFolder::open(const fs::path& given) {
    HK_ASSIGN(const fs::path path, find_model_folder(given));
    std::error_code error;
    if (!fs::is_directory(path, error))
        return not_found(fmt::format("{}: is not a folder; a model's folder with config.json and model.safetensors was "
                                     "expected",
                                     path.string()));
    ModelFolder folder;
    folder.path_ = path;
    const fs::path config = path / "config.json";
    if (!fs::exists(config, error))
        return not_found(fmt::format("{}: has no config.json, which names the model type", path.string()));
    HK_ASSIGN(folder.config_json_, read_file(config, kConfigSizeLimit));
    HK_TRY(check_not_pointer(config, folder.config_json_));
    HK_ASSIGN(nlohmann::json json, parse_json_object(folder.config_json_, config.string()));
    if (std::optional<nlohmann::json> text = text_part(json)) {
        json = std::move(*text);
        folder.config_json_ = json.dump();
    }
    if (const auto type = json.find("model_type"); type != json.end()) {
        if (!type->is_string())
            return corrupt(fmt::format("{}: model_type is {}, text was expected", config.string(), type->type_name()));
        folder.model_type_ = type->get<std::string>();
    }
    HK_TRY(check_not_quantized(json, config));
    HK_ASSIGN(folder.weights_, Weights::open(path));
    folder.auxiliary_files_ = auxiliary_files_in(path);
    for (const fs::path& file : folder.auxiliary_files_) {
        HK_ASSIGN(const MappedFile content, MappedFile::open(file));
        HK_TRY(check_not_pointer(file, content.text()));
    }
    return folder;
}

Result<FileRecord> write_copied_file(const fs::path& from, const fs::path& to) {
    HK_ASSIGN(const MappedFile source, MappedFile::open(from));
    HK_TRY(check_auxiliary(from, source.text()));
    HK_ASSIGN(HashedFile file, HashedFile::create(to));
    HK_TRY(file.write(source.bytes()));
    return file.commit();
}

Result<FileRecord> write_text_file(const fs::path& to, std::string_view content) {
    HK_ASSIGN(HashedFile file, HashedFile::create(to));
    HK_TRY(file.write(content));
    return file.commit();
}

Result<std::vector<FileRecord>> write_model_files(const fs::path& folder, const ModelContents& contents) {
    // Check names first: two sources for one file are a caller's mistake, which must not be found after gigabytes were
    // written.
    std::set<std::string> names{contents.config_name};
    const auto add_name = [&names](const std::string& name) -> Status {
        if (!is_plain_file_name(name))
            return invalid_argument(in_quotes(name) + " is not the name of a file in the folder");
        if (is_weights_file(name)) return invalid_argument(name + " is the weights' name; they are given as tensors");
        if (!names.insert(name).second) return invalid_argument(name + " was given twice");
        return {};
    };
    for (const NamedText& text : contents.texts) HK_TRY(add_name(text.name));
    for (const fs::path& copy : contents.copies) HK_TRY(add_name(copy.filename().string()));
    const auto config = parse_json_object(contents.config_json, contents.config_name);
    if (!config.ok()) return invalid_argument(config.message());

    std::vector<FileRecord> written;
    HK_ASSIGN(FileRecord record, write_text_file(folder / contents.config_name, contents.config_json));
    written.push_back(std::move(record));
    for (const NamedText& text : contents.texts) {
        HK_ASSIGN(FileRecord one, write_text_file(folder / text.name, text.content));
        written.push_back(std::move(one));
    }
    for (const fs::path& copy : contents.copies) {
        HK_ASSIGN(FileRecord one, write_copied_file(copy, folder / copy.filename()));
        written.push_back(std::move(one));
    }
    HK_ASSIGN(const std::vector<FileRecord> weights, write_sharded(folder, contents.weights_stem, contents.tensors,
                                                                   contents.metadata, contents.max_shard_bytes));
    written.insert(written.end(), weights.begin(), weights.end());
    return written;
}

Status save_folder(const fs::path& target, const ModelContents& contents, OnExisting existing) {
    std::error_code error;
    const bool there = fs::exists(target, error);
    if (there && !fs::is_directory(target, error))
        return failed_precondition(target.string() + ": exists and is not a folder");
    std::vector<Entry> old;
    if (there) {
        HK_ASSIGN(old, list(target));
        if (existing == OnExisting::refuse && !old.empty())
            return failed_precondition(target.string() + ": exists and is not empty; choose another folder");
        for (const Entry& entry : old)
            if (entry.folder)
                return failed_precondition(
                    fmt::format("{}: holds the folder {}, so it is not only a model's folder and is "
                                "not replaced",
                                target.string(), in_quotes(entry.name)));
    }
    HK_ASSIGN(StagedFolder staged, StagedFolder::create(target));
    recover_folders(staged.target().has_parent_path() ? staged.target().parent_path() : ".",
                    staged.target().filename().string());
    HK_ASSIGN(const std::vector<FileRecord> written, write_model_files(staged.path(), contents));
    const std::set<std::string> names = names_of(written);
    for (const Entry& entry : old) {
        if (names.contains(entry.name) || is_weights_file(entry.name)) continue;
        if (!fs::is_symlink(entry.path, error)) {
            HK_TRY(write_copied_file(entry.path, staged.path() / entry.name).status());
            continue;
        }
        fs::copy_symlink(entry.path, staged.path() / entry.name, error); // its target is not moved
        if (error) return io_error(fmt::format("{}: cannot be copied: {}", entry.path.string(), error.message()));
    }
    return staged.commit(existing == OnExisting::replace ? StagedFolder::Existing::replace
                                                         : StagedFolder::Existing::refuse);
}

Status save_into_folder(const fs::path& folder, const ModelContents& contents) {
    constexpr const char* kStage = ".model";
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) return {Code::io, fmt::format("{}: cannot create the folder: {}", folder.string(), error.message())};
    HK_ASSIGN(StagedFolder staged, StagedFolder::create(folder / kStage));
    recover_folders(folder, kStage);
    HK_ASSIGN(const std::vector<FileRecord> written, write_model_files(staged.path(), contents));
    const std::set<std::string> names = names_of(written);
    for (const FileRecord& record :
         written) { // weights were written last, so they are moved last; an index after its shards
        const fs::path from = staged.path() / record.name;
        const fs::path to = folder / record.name;
        if (const std::error_code refused = rename_path(from, to))
            return {Code::io, fmt::format("{}: cannot rename a new file to it: {}", to.string(), refused.message())};
    }
    HK_ASSIGN(const std::vector<Entry> now, list(folder));
    for (const Entry& entry : now)
        if (!entry.folder && is_weights_file(entry.name) && !names.contains(entry.name)) fs::remove(entry.path, error);
    return sync_path(folder);
}

} // namespace hekla::model
