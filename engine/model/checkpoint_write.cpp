#include "base/json.hpp"
#include "model/checkpoint.hpp"
#include "model/folder.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::model {
namespace {

namespace fs = std::filesystem;

Result<std::string> manifest_of(const std::vector<FileRecord>& files, int64_t step) {
    nlohmann::json json;
    json["format"] = "hekla.checkpoint/1";
    json["step"] = step;
    nlohmann::json& map = json["files"] = nlohmann::json::object();
    for (const FileRecord& file : files) map[file.name] = {{"size", file.size}, {"xxh3_128", to_hex(file.hash)}};
    return dump_json(json);
}

} // namespace

Result<CheckpointWriter> CheckpointWriter::create(const fs::path& run_dir, int64_t step) {
    if (step < 0) return invalid_argument(fmt::format("a checkpoint's step is {}, 0 or more was expected", step));
    remove_stale(run_dir);
    HK_ASSIGN(StagedFolder staged, StagedFolder::create(checkpoint_path(run_dir, step)));
    return CheckpointWriter(std::move(staged), step);
}

Status CheckpointWriter::check_name(const std::string& name) const {
    if (!is_plain_file_name(name) || name == kManifestName)
        return invalid_argument(fmt::format("{} cannot be the name of a checkpoint's file", in_quotes(name)));
    if (std::any_of(files_.begin(), files_.end(), [&](const FileRecord& file) { return file.name == name; }))
        return invalid_argument(name + " was given twice");
    return {};
}

Status CheckpointWriter::record(Result<FileRecord> written) {
    HK_TRY(written.status());
    files_.push_back(written.take());
    return {};
}

Status CheckpointWriter::add_text(const std::string& name, std::string_view content) {
    HK_TRY(check_name(name));
    return record(write_text_file(staged_.path() / name, content));
}

Status CheckpointWriter::add_tensors(const std::string& name, std::span<const TensorSource> tensors,
                                     const Metadata& metadata, TensorOrder order) {
    HK_TRY(check_name(name));
    return record(write_safetensors_file(staged_.path() / name, tensors, metadata, order));
}

Status CheckpointWriter::add_sharded(const std::string& stem, std::span<const TensorSource> tensors,
                                     const Metadata& metadata, uint64_t max_shard_bytes) {
    HK_TRY(check_name(stem + ".safetensors"));
    HK_ASSIGN(const std::vector<FileRecord> written,
              write_sharded(staged_.path(), stem, tensors, metadata, max_shard_bytes));
    for (const FileRecord& file : written) {
        HK_TRY(check_name(file.name));
        files_.push_back(file);
    }
    return {};
}

Status CheckpointWriter::add_copy(const fs::path& from) {
    const std::string name = from.filename().string();
    HK_TRY(check_name(name));
    return record(write_copied_file(from, staged_.path() / name));
}

Result<fs::path> CheckpointWriter::commit() {
    HK_ASSIGN(const std::string manifest, manifest_of(files_, step_));
    HK_TRY(write_file_atomically(staged_.path() / kManifestName, manifest));
    HK_TRY(staged_.commit(StagedFolder::Existing::replace));
    return staged_.target();
}

} // namespace hekla::model
