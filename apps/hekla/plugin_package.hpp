// A plugin as it is given away: a folder or a zip archive with the built library and its manifest, with sources, or
// both.
#pragma once

#include "base/status.hpp"
#include "base/stop_poll.hpp"
#include "base/temporary_folder.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::app {

// Returns the name of the folder with libraries for this machine: "linux-x86_64".
std::string platform_name();
// The name of the platform of sources in an index.
inline constexpr const char* kSources = "source";
inline constexpr uint64_t kMostArchiveBytes = uint64_t{512} << 20; // of an archive, and of its entries together

// Returns whether plugins can be built against this folder: `cmake --install` wrote it.
bool is_installation(const std::filesystem::path& prefix);

class PluginPackage {
public:
    // Opens FOLDER, or ARCHIVE.zip, which is unpacked into a temporary folder. In it, or in its only folder, are
    // manifests with their libraries, the same for a platform in a folder PLATFORM/, or manifest.json with
    // CMakeLists.txt or build.sh. sha256: of the archive, in hexadecimal; empty: any. Errors: another hash; entries
    // with a path out of the archive, or too many or too large ones; nothing of a plugin; each with the path;
    // cancelled. The archive is read once, so that what is unpacked is what was hashed, whatever becomes of the file.
    static Result<PluginPackage> open(const std::filesystem::path& given, std::string_view sha256,
                                      const StopPoll& stop);
    const std::string& sha256() const { return sha256_; } // of the archive; empty for a folder

    // Returns the manifests next to their libraries for this machine; empty if there are none.
    std::vector<std::filesystem::path> built() const;
    bool has_sources() const;
    // Returns the platforms of its libraries, sorted; kSources comes last if it has sources.
    std::vector<std::string> platforms() const;
    // Returns any of its manifests, of the libraries or of the sources.
    std::filesystem::path manifest() const;

    // Builds the sources, in a copy of a folder, and returns the manifests next to their libraries. prefix: where Hekla
    // is installed; stop: asked while the compiler runs. Errors: what the build printed last.
    Result<std::vector<std::filesystem::path>> build(const std::filesystem::path& prefix,
                                                     const std::function<bool()>& stop);

private:
    explicit PluginPackage(std::filesystem::path given) : given_(std::move(given)), root_(given_) {}
    Status unpack(std::string_view sha256, const StopPoll& stop);
    std::filesystem::path given_, root_;
    std::string sha256_;
    std::optional<TemporaryFolder> unpacked_, copied_;
};

} // namespace hekla::app
