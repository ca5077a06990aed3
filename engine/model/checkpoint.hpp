// Checkpoints of a run: RUN/checkpoint-N/, complete or absent, each with a manifest of its files' hashes.
//
// A checkpoint is written to RUN/checkpoint-N.tmp-XXXXXX/, every file synced, MANIFEST.json last, the folder synced,
// then renamed and RUN synced. A process killed or a disk full at any point leaves the older checkpoints and, at most,
// a folder with a temporary name, which the next run removes. The newest whose manifest and hashes agree wins.
#pragma once

#include "model/folder.hpp"
#include "model/staged_folder.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace hekla::model {

inline constexpr const char* manifest_name = "MANIFEST.json";
inline constexpr const char* best_name = "best";
inline constexpr uint64_t manifest_size_limit = 16'000'000;

// A checkpoint being written. Thread: one at a time (a background saver may own it). After an error destroy it: the
// destructor removes its files.
class CheckpointWriter {
public:
    // Creates RUN where it is missing, and removes what killed writers left. `step` >= 0: the number of applied
    // updates.
    static Result<CheckpointWriter> create(const std::filesystem::path& run_dir, int64_t step);

    int64_t step() const { return step_; }

    // Each file is synced when the call returns. Names are plain, used once, and not MANIFEST.json.
    Status add_text(const std::string& name, std::string_view content);
    Status add_tensors(const std::string& name, std::span<const TensorSource> tensors,
                       const Metadata& metadata = {{"format", "pt"}}, TensorOrder order = TensorOrder::huggingface);
    // `stem`.safetensors, or shards with an index where they do not fit one file of `max_shard_bytes`.
    Status add_sharded(const std::string& stem, std::span<const TensorSource> tensors,
                       const Metadata& metadata = {{"format", "pt"}}, uint64_t max_shard_bytes = default_shard_bytes);
    Status add_copy(const std::filesystem::path& from); // under its own name

    // Writes the manifest and renames the folder; replaces a checkpoint of the same step. Returns its path.
    Result<std::filesystem::path> commit();

private:
    CheckpointWriter(StagedFolder staged, int64_t step) : staged_(std::move(staged)), step_(step) {}
    Status check_name(const std::string& name) const;
    Status record(Result<FileRecord> written);
    StagedFolder staged_;
    int64_t step_;
    std::vector<FileRecord> files_;
};

struct Checkpoint {
    std::filesystem::path path;
    int64_t step = 0;
    std::vector<FileRecord> files; // of the manifest, by name

    bool has(std::string_view name) const;
    std::filesystem::path file(std::string_view name) const { return path / name; }
};

enum class Check {
    sizes, // the manifest is valid, and every file exists with its size: costs nothing
    hashes // and the content of every file has its hash: reads everything
};

// One checkpoint folder. Errors: not_found (no manifest: not complete), corrupt (which file, what was found and
// expected).
Result<Checkpoint> verify_checkpoint(const std::filesystem::path& folder, Check check = Check::hashes);

struct CheckpointSearch {
    std::optional<Checkpoint> found;   // the newest that is complete and undamaged
    std::vector<std::string> rejected; // why each newer one was rejected, newest first
};

// Searches RUN's checkpoints from the newest on, checking hashes. A run folder that does not exist has none.
Result<CheckpointSearch> newest_complete(const std::filesystem::path& run_dir);

// Returns the steps of the checkpoint-N folders, ascending, complete or not.
Result<std::vector<int64_t>> list_checkpoints(const std::filesystem::path& run_dir);
std::filesystem::path checkpoint_path(const std::filesystem::path& run_dir, int64_t step);

// RUN/best holds the name of the best checkpoint's folder. set_best refuses a step whose checkpoint is not complete.
// read_best returns none where the file is missing, or names a checkpoint that is not complete.
Status set_best(const std::filesystem::path& run_dir, int64_t step);
Result<std::optional<int64_t>> read_best(const std::filesystem::path& run_dir);

// Removes the oldest complete checkpoints until at most `limit` (>= 1) are left, never `newest_step` (the one just
// written) and never the best, so that 2 can remain under a limit of 1. Incomplete ones are neither counted nor
// touched, and nothing is removed unless `newest_step` is complete. Returns the steps removed.
Result<std::vector<int64_t>> prune_checkpoints(const std::filesystem::path& run_dir, int64_t limit,
                                               int64_t newest_step);

// Removes what killed writers left in RUN (temporary folders, a half-written RUN/best), not what living writers use.
void remove_stale(const std::filesystem::path& run_dir) noexcept;

} // namespace hekla::model
