// A cache by name for data that can be made again: compiled kernels, the driver's pipelines, measurements. A name
// contains everything that its entry depends on (device, driver, version, text); readers check that an entry is
// complete.
#pragma once

#include "base/status.hpp"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace hekla {

// A cache. Thread: any, several at once.
class Cache {
public:
    Cache() = default;
    virtual ~Cache() = default;
    Cache(const Cache&) = delete;
    Cache& operator=(const Cache&) = delete;

    // Returns nothing if the entry does not exist.
    virtual Result<std::optional<std::string>> load(const std::string& name) = 0;
    virtual Status store(const std::string& name, std::string_view content) = 0;
    // Returns the name of an entry in messages: the file's path, or the name.
    virtual std::string place(const std::string& name) const { return name; }
};

// Returns a cache with one file per entry, in a folder that is created with the first entry. Null for an empty path.
std::shared_ptr<Cache> folder_cache(const std::filesystem::path& folder);

} // namespace hekla
