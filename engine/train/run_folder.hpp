// The folder of a run, locked by the training that uses it. A training that never started leaves nothing in it.
#pragma once

#include "base/status.hpp"

#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace hekla::train {

class RunFolder {
public:
    // Makes `path` and the folders above it where they are missing, takes RUN/.lock and removes what a killed training
    // left half-written. failed_precondition where another process trains in it (named); io where the folder cannot be
    // made or written to.
    static Result<RunFolder> own(const std::filesystem::path& path);

    RunFolder() = default; // owns nothing
    RunFolder(RunFolder&& other) noexcept;
    RunFolder& operator=(RunFolder&& other) noexcept;
    ~RunFolder(); // releases the lock; without keep(), new files are removed first

    bool owned() const { return lock_ >= 0; }
    // The training starts: from now on its files stay.
    void keep() { kept_ = true; }

private:
    Status take_lock();
    void forget() noexcept;

    std::filesystem::path path_;
    std::vector<std::filesystem::path> made_; // folders made by own(), the outermost first
    std::set<std::string> before_;            // what was in the folder
    int lock_ = -1;
    bool kept_ = false;
};

} // namespace hekla::train
