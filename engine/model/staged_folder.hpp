// A folder that appears atomically: written under a temporary name in the same parent, synced, renamed.
#pragma once

#include "base/file_handle.hpp"
#include "base/status.hpp"

#include <filesystem>
#include <string>
#include <string_view>

namespace hekla::model {

// A writer holds a lock on its temporary folder, which the system releases when the process ends. The lock
// distinguishes a leftover from a folder that another process is writing. Thread: one at a time.
class StagedFolder {
public:
    // Creates TARGET.tmp-XXXXXX, and TARGET's parents if they are missing.
    static Result<StagedFolder> create(const std::filesystem::path& target);
    StagedFolder(StagedFolder&& other) noexcept;
    StagedFolder& operator=(StagedFolder&& other) noexcept;
    ~StagedFolder(); // without commit(), removes everything

    const std::filesystem::path& path() const { return path_; } // the temporary folder
    const std::filesystem::path& target() const { return target_; }

    enum class Existing {
        refuse, // failed_precondition if the target exists and is not an empty folder
        replace // exchanged in one step if the file system supports it; otherwise moved aside first, and restored by
                // recover_folders()
    };
    // Syncs the folder, renames it to the target, syncs the parent. Its files must have been synced by their writers.
    // After an error the temporary folder is removed, and the target is unchanged.
    Status commit(Existing existing);

private:
    StagedFolder(std::filesystem::path target, std::filesystem::path path, FileHandle lock);
    Status give_name(Existing existing);
    void discard() noexcept;
    std::filesystem::path target_;
    std::filesystem::path path_;
    FileHandle lock_;
};

// Removes a folder. Renames it first, so that a half-deleted one never has its name.
Status remove_folder(const std::filesystem::path& folder);

// Returns the STEM if `name` is that of a leftover (STEM.tmp-XXXXXX or STEM.old-XXXXXX), otherwise an empty text.
std::string_view leftover_stem(std::string_view name);

// Deletes leftovers of killed writers of `parent`/`stem`, and restores a folder that had been moved aside for a
// replacement. Does not touch folders of running writers. Errors are ignored, because a leftover does no harm and is
// tried again next time.
void recover_folders(const std::filesystem::path& parent, std::string_view stem) noexcept;

} // namespace hekla::model
