// A folder that appears complete or not at all: written under a temporary name beside its place, synced, renamed.
#pragma once

#include "base/status.hpp"

#include <filesystem>
#include <string>
#include <string_view>

namespace hekla::model {

// While a writer lives it holds a lock on its temporary folder, which the system drops when the process dies: that is
// how a folder left behind is told from one that another process is filling. Thread: one at a time.
class StagedFolder {
public:
    // Makes TARGET.tmp-XXXXXX, and TARGET's parents where they are missing.
    static Result<StagedFolder> create(const std::filesystem::path& target);
    StagedFolder(StagedFolder&& other) noexcept;
    StagedFolder& operator=(StagedFolder&& other) noexcept;
    ~StagedFolder(); // without commit() nothing remains

    const std::filesystem::path& path() const { return path_; } // where to write now
    const std::filesystem::path& target() const { return target_; }

    enum class Existing {
        refuse, // failed_precondition where the target exists and is not an empty folder
        replace // swapped in one step where the file system can; else moved aside first, and back by recover_folders()
    };
    // Syncs the folder, gives it its name, syncs the parent. Files in it must have been synced by their writers.
    // After an error nothing of ours remains and the target is as it was.
    Status commit(Existing existing);

private:
    StagedFolder(std::filesystem::path target, std::filesystem::path path, int lock);
    Status give_name(Existing existing);
    void discard() noexcept;
    std::filesystem::path target_;
    std::filesystem::path path_;
    int lock_ = -1;
};

// Renames the folder away first, so that a half-deleted one never has its name.
Status remove_folder(const std::filesystem::path& folder);

// Is `name` that of a leftover (STEM.tmp-XXXXXX or STEM.old-XXXXXX)? Gives back the STEM, else empty.
std::string_view leftover_stem(std::string_view name);

// Deletes what killed writers of `parent`/`stem` left, and moves a folder back that was aside while its replacement was
// named. Leaves those of living writers alone. Errors are ignored: a leftover does no harm, and is tried again next
// time.
void recover_folders(const std::filesystem::path& parent, std::string_view stem) noexcept;

} // namespace hekla::model
