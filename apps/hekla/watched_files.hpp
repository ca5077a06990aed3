// The files whose change makes `hekla plugin dev` build again: a plugin's sources, build files, manifests and recipe,
// but not the output of builds, trainings and editors.
#pragma once

#include <filesystem>
#include <map>

namespace hekla::app {

struct FileState {
    std::filesystem::file_time_type written;
    uintmax_t bytes = 0;
    bool operator==(const FileState&) const = default;
};
using FileStates = std::map<std::filesystem::path, FileState>;

// folder: the plugin's; recipe: may be outside of it. Folders named build, target or out, hidden folders, and those
// with a run (train_log.jsonl or checkpoints) are not searched.
FileStates watched_files(const std::filesystem::path& folder, const std::filesystem::path& recipe);

} // namespace hekla::app
