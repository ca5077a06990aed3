// What was made once and can be made again, by name: compiled kernels, the driver's pipelines, what was measured. A
// name says all that an entry depends on (device, driver, version, text), and an entry says itself whether it is whole.
#pragma once

#include "base/status.hpp"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace hekla {

// Thread: any, several at once.
class Cache {
public:
    Cache() = default;
    virtual ~Cache() = default;
    Cache(const Cache&) = delete;
    Cache& operator=(const Cache&) = delete;

    // Nothing where there is no such entry.
    virtual Result<std::optional<std::string>> load(const std::string& name) = 0;
    virtual Status store(const std::string& name, std::string_view content) = 0;
    // For messages: the file's path, or the name.
    virtual std::string place(const std::string& name) const { return name; }
};

// A file an entry in a folder that is made when the first is stored. Null for an empty path: nothing is kept.
std::shared_ptr<Cache> folder_cache(const std::filesystem::path& folder);

} // namespace hekla
