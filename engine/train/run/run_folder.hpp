// The folder of a run, locked by the training that uses it. If the training does not start, nothing is left in it.
#pragma once

#include "base/file_handle.hpp"
#include "base/status.hpp"

#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace hekla::train {

class RunFolder {
public:
    // Creates `path` and missing parent folders, takes RUN/.lock and removes temporary files of a killed training.
    // failed_precondition if another process, named in the error, trains in it; io if the folder cannot be created or
    // written to.
    static Result<RunFolder> own(const std::filesystem::path& path);

    RunFolder() = default; // owns nothing
    RunFolder(RunFolder&& other) noexcept;
    RunFolder& operator=(RunFolder&& other) noexcept;
    ~RunFolder(); // releases the lock; without keep(), new files are removed first

    bool owned() const { return lock_.is_open(); }
    // Keeps the files from now on, because the training starts.
    void keep() { kept_ = true; }

private:
    Status take_lock();
    void forget() noexcept;

    std::filesystem::path path_;
    std::vector<std::filesystem::path> made_; // folders created by own(), the outermost first
    std::set<std::string> before_;            // names that were already in the folder
    FileHandle lock_;
    bool kept_ = false;
};

} // namespace hekla::train
