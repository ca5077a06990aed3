// The folder of the user's own plugins: NAME.json of each, and its library, whose name contains its hash, so that a
// plugin is replaced by one rename, and programs that run keep the library that they have.
#pragma once

#include "plugin/registry/registry.hpp"

#include <filesystem>
#include <string>

namespace hekla::app {

class InstalledPlugins {
public:
    // The folder is created by the first put().
    explicit InstalledPlugins(std::filesystem::path folder) : folder_(std::move(folder)) {}
    const std::filesystem::path& folder() const { return folder_; }

    // Returns whether this manifest's file is in the folder.
    bool holds(const plugin::Manifest& manifest) const;
    // Copies a plugin's library and manifest into the folder, in place of an earlier one of its name. Either the
    // earlier or the new one is there at any moment. Returns the path of the manifest.
    Result<std::filesystem::path> put(const plugin::Manifest& manifest);
    // Deletes a plugin's manifest and then its library.
    Status remove(const plugin::Manifest& manifest);

private:
    std::filesystem::path folder_;
};

} // namespace hekla::app
