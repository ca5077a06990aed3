// Checkpoints of a run: RUN/checkpoint-N/, complete or absent, each with a manifest of its files' hashes.
//
// A checkpoint is written to RUN/checkpoint-N.tmp-XXXXXX/, every file synced, MANIFEST.json last, the folder synced,
// then renamed and RUN synced. If the process is killed or the disk is full at any point, the older checkpoints are
// intact, and at most a folder with a temporary name is left, which the next run removes. The newest checkpoint with a
// matching manifest and hashes is used.
#pragma once

#include "model/sharded.hpp"
#include "model/staged_folder.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace hekla::model {

inline constexpr const char* kManifestName = "MANIFEST.json";
inline constexpr const char* kBestName = "best";
inline constexpr uint64_t kManifestSizeLimit = 16'000'000;

// A checkpoint being written. Thread: one at a time (a background saver may own it). After an error destroy it: the
// destructor removes its files.
class CheckpointWriter {
public:
    // Creates RUN if it is missing, and removes leftovers of killed writers. `step` >= 0: the number of applied
    // updates.
    static Result<CheckpointWriter> create(const std::filesystem::path& run_dir, int64_t step);

    int64_t step() const { return step_; }

    // Each file is synced on return. Names are plain, used once, and not MANIFEST.json.
    Status add_text(const std::string& name, std::string_view content);
    Status add_tensors(const std::string& name, std::span<const TensorSource> tensors,
                       const Metadata& metadata = {{"format", "pt"}}, TensorOrder order = TensorOrder::huggingface);
    // Writes `stem`.safetensors, or shards with an index if they do not fit one file of `max_shard_bytes`.
    Status add_sharded(const std::string& stem, std::span<const TensorSource> tensors,
                       const Metadata& metadata = {{"format", "pt"}}, uint64_t max_shard_bytes = kDefaultShardBytes);
    Status add_copy(const std::filesystem::path& from); // under the same name

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
    sizes, // the manifest is valid, and every file exists with its size: cheap
    hashes // and the content of every file has its hash: reads everything
};

// Checks one checkpoint folder. Errors: not_found (no manifest: not complete), corrupt (the file, the value found and
// the one expected).
Result<Checkpoint> verify_checkpoint(const std::filesystem::path& folder, Check check = Check::hashes);

struct CheckpointSearch {
    std::optional<Checkpoint> found;   // the newest one that is complete and undamaged
    std::vector<std::string> rejected; // why each newer one was rejected, newest first
};

// Searches RUN's checkpoints from the newest on, checking hashes, and again where its training removed one meanwhile. A
// run folder that does not exist has none.
Result<CheckpointSearch> newest_complete(const std::filesystem::path& run_dir);

// Returns the steps of the checkpoint-N folders, ascending, complete or not.
Result<std::vector<int64_t>> list_checkpoints(const std::filesystem::path& run_dir);
std::filesystem::path checkpoint_path(const std::filesystem::path& run_dir, int64_t step);

// RUN/best contains the name of the best checkpoint's folder. set_best refuses a step without a complete checkpoint.
// read_best returns nothing if the file is missing, or its checkpoint is not complete.
Status set_best(const std::filesystem::path& run_dir, int64_t step);
Result<std::optional<int64_t>> read_best(const std::filesystem::path& run_dir);

// Removes the oldest complete checkpoints until at most `limit` (>= 1) are left, but never `newest_step` (the one just
// written) and never the best, so that 2 can remain with a limit of 1. Incomplete ones are neither counted nor removed,
// and nothing is removed unless `newest_step` is complete. Returns the removed steps.
// kept: another step that is neither counted nor removed.
Result<std::vector<int64_t>> prune_checkpoints(const std::filesystem::path& run_dir, int64_t limit, int64_t newest_step,
                                               std::optional<int64_t> kept = {});

// Removes leftovers of killed writers in RUN (temporary folders, a half-written RUN/best), but not files of running
// writers. For the run's own training: who only reads a run changes nothing in it.
void remove_stale(const std::filesystem::path& run_dir) noexcept;

} // namespace hekla::model
