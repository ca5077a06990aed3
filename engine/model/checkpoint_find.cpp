#include "model/checkpoint.hpp"

#include "base/json.hpp"
#include "model/read_beside_training.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

namespace hekla::model {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "checkpoint-";

// Returns the N of "checkpoint-N": decimal, no sign, no leading zeros, so that a step has only one name.
std::optional<int64_t> step_of(std::string_view name) {
    if (!name.starts_with(kPrefix)) return std::nullopt;
    const std::string_view digits = name.substr(kPrefix.size());
    if (digits.empty() || digits.front() < '0' || digits.front() > '9' || (digits.front() == '0' && digits.size() > 1))
        return std::nullopt;
    int64_t step = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
    if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
    return step;
}

// Returns a non-negative integer.
std::optional<uint64_t> count_in(const nlohmann::json& object, const char* key) {
    const auto value = object.find(key);
    if (value == object.end() || !value->is_number_unsigned()) return std::nullopt;
    return value->get<uint64_t>();
}

Result<Checkpoint> read_manifest(const fs::path& folder) {
    const fs::path path = folder / kManifestName;
    const std::string where = path.string();
    std::error_code error;
    if (!fs::exists(path, error))
        return not_found(fmt::format("{}: has no {}, so it is not complete", folder.string(), kManifestName));
    HK_ASSIGN(const std::string text, read_file(path, kManifestSizeLimit));
    HK_ASSIGN(const nlohmann::json json, parse_json_object(text, where));
    const auto format = json.find("format");
    if (format == json.end() || *format != "hekla.checkpoint/1")
        return corrupt(fmt::format("{}: its format is not \"hekla.checkpoint/1\"", where));
    const auto step = count_in(json, "step");
    const auto expected = step_of(folder.filename().string());
    if (!step || (expected && *step != static_cast<uint64_t>(*expected)))
        return corrupt(fmt::format("{}: its step is not that of the folder's name", where));
    const auto files = json.find("files");
    if (files == json.end() || !files->is_object()) return corrupt(fmt::format("{}: has no \"files\" object", where));
    Checkpoint checkpoint{folder, static_cast<int64_t>(*step), {}};
    for (const auto& [name, entry] : files->items()) {
        if (!is_plain_file_name(name))
            return corrupt(fmt::format("{}: {} is not the name of a file in the folder", where, in_quotes(name)));
        const auto size = entry.is_object() ? count_in(entry, "size") : std::nullopt;
        const auto hash = entry.is_object() ? entry.find("xxh3_128") : entry.end();
        if (!size || hash == entry.end() || !hash->is_string())
            return corrupt(fmt::format("{}: {} has no size and xxh3_128", where, in_quotes(name)));
        const auto& digits = hash->get_ref<const std::string&>();
        FileRecord record{name, *size, {}};
        const auto read = [&digits](std::size_t from, uint64_t& half) {
            const char* end = digits.data() + from + 16;
            const auto [at, failed] = std::from_chars(digits.data() + from, end, half, 16);
            return failed == std::errc() && at == end;
        };
        if (digits.size() != 32 || !read(0, record.hash.high) || !read(16, record.hash.low))
            return corrupt(fmt::format("{}: {}: {} is not a hash of 32 hexadecimal digits", where, in_quotes(name),
                                       in_quotes(digits)));
        checkpoint.files.push_back(std::move(record));
    }
    if (checkpoint.files.empty())
        return corrupt(fmt::format("{}: lists no files, so it proves nothing about the checkpoint", where));
    return checkpoint;
}

Status check_file(const fs::path& path, const FileRecord& expected, Check check) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status)) return corrupt(fmt::format("{}: is missing, but MANIFEST.json lists it", path.string()));
    if (!fs::is_regular_file(status)) return corrupt(fmt::format("{}: is not a regular file", path.string()));
    const uint64_t size = fs::file_size(path, error);
    if (error) return {Code::io, fmt::format("{}: cannot be inspected: {}", path.string(), error.message())};
    if (size != expected.size)
        return corrupt(fmt::format("{}: is {} bytes long, MANIFEST.json has {}", path.string(), size, expected.size));
    if (check == Check::sizes) return {};
    HK_ASSIGN(const FileRecord found, hash_file(path));
    if (found.size != expected.size || found.hash != expected.hash)
        return corrupt(
            fmt::format("{}: its hash is {}, MANIFEST.json has {}: the content has changed since it was written",
                        path.string(), to_hex(found.hash), to_hex(expected.hash)));
    return {};
}

Result<CheckpointSearch> search_once(const fs::path& run_dir) {
    HK_ASSIGN(const std::vector<int64_t> steps, list_checkpoints(run_dir));
    CheckpointSearch search;
    for (auto step = steps.rbegin(); step != steps.rend() && !search.found; ++step) {
        auto checkpoint = verify_checkpoint(checkpoint_path(run_dir, *step));
        if (checkpoint.ok())
            search.found = checkpoint.take();
        else
            search.rejected.push_back(checkpoint.message());
    }
    return search;
}

} // namespace

bool Checkpoint::has(std::string_view name) const {
    return std::any_of(files.begin(), files.end(), [&](const FileRecord& file) { return file.name == name; });
}

fs::path checkpoint_path(const fs::path& run_dir, int64_t step) { return run_dir / fmt::format("{}{}", kPrefix, step); }

Result<std::vector<int64_t>> list_checkpoints(const fs::path& run_dir) {
    std::vector<int64_t> steps;
    std::error_code error;
    if (!fs::exists(run_dir, error) && !error) return steps;
    for (fs::directory_iterator entry(run_dir, error), end; !error && entry != end; entry.increment(error)) {
        std::error_code ignored;
        if (const auto step = step_of(entry->path().filename().string()); step && entry->is_directory(ignored))
            steps.push_back(*step);
    }
    if (error) return Status(Code::io, fmt::format("{}: cannot be listed: {}", run_dir.string(), error.message()));
    std::sort(steps.begin(), steps.end());
    return steps;
}

Result<Checkpoint> verify_checkpoint(const fs::path& folder, Check check) {
    HK_ASSIGN(Checkpoint checkpoint, read_manifest(folder));
    for (const FileRecord& file : checkpoint.files) HK_TRY(check_file(checkpoint.file(file.name), file, check));
    return checkpoint;
}

Result<CheckpointSearch> newest_complete(const fs::path& run_dir) {
    return read_beside_training(
        run_dir, [&] { return search_once(run_dir); },
        [](const Result<CheckpointSearch>& search) { return search.ok() && search.value().rejected.empty(); });
}

Status set_best(const fs::path& run_dir, int64_t step) {
    const fs::path folder = checkpoint_path(run_dir, step);
    HK_TRY(verify_checkpoint(folder, Check::sizes).status());
    return write_file_atomically(run_dir / kBestName, folder.filename().string() + "\n");
}

Result<std::optional<int64_t>> read_best(const fs::path& run_dir) {
    const fs::path path = run_dir / kBestName;
    auto text = read_file(path, 4096);
    if (text.code() == Code::not_found) return std::optional<int64_t>();
    if (!text.ok()) return text.status();
    std::string_view name = text.value();
    while (name.ends_with('\n') || name.ends_with('\r')) name.remove_suffix(1);
    const auto step = step_of(name);
    if (!step)
        return corrupt(fmt::format("{}: holds {}, the name of a checkpoint's folder was expected", path.string(),
                                   in_quotes(name)));
    if (!verify_checkpoint(checkpoint_path(run_dir, *step), Check::sizes).ok()) return std::optional<int64_t>();
    return step;
}

Result<std::vector<int64_t>> prune_checkpoints(const fs::path& run_dir, int64_t limit, int64_t newest_step,
                                               std::optional<int64_t> kept) {
    if (limit < 1) return invalid_argument(fmt::format("save_total_limit is {}, 1 or more was expected", limit));
    const auto newest = verify_checkpoint(checkpoint_path(run_dir, newest_step), Check::sizes);
    if (!newest.ok()) return newest.status().with_context("no older checkpoint was removed");
    // Fail instead of removing the best checkpoint because of a damaged pointer.
    HK_ASSIGN(const std::optional<int64_t> best, read_best(run_dir));
    HK_ASSIGN(const std::vector<int64_t> steps, list_checkpoints(run_dir));
    std::vector<int64_t> complete;
    for (const int64_t step : steps)
        if (step != kept && verify_checkpoint(checkpoint_path(run_dir, step), Check::sizes).ok())
            complete.push_back(step);
    std::vector<int64_t> removed;
    auto left = static_cast<int64_t>(complete.size());
    for (const int64_t step : complete) {
        if (left <= limit) break;
        if (step == newest_step || step == best) continue;
        HK_TRY(remove_folder(checkpoint_path(run_dir, step)));
        removed.push_back(step);
        --left;
    }
    return removed;
}

void remove_stale(const fs::path& run_dir) noexcept {
    try {
        std::error_code error;
        std::vector<std::string> stems;
        for (fs::directory_iterator entry(run_dir, error), end; !error && entry != end; entry.increment(error)) {
            const std::string name = entry->path().filename().string();
            const std::string_view stem = leftover_stem(name);
            if (step_of(stem)) stems.emplace_back(stem);
        }
        for (const std::string& stem : stems) recover_folders(run_dir, stem);
        remove_leftovers(run_dir / kBestName);
    } catch (const std::exception&) { // out of memory: retried next time
    }
}

} // namespace hekla::model
