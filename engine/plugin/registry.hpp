// Which plugins there are, from folders that were named explicitly: manifests are read, libraries are loaded on first
// use.
#pragma once

#include "base/log.hpp"
#include "plugin/library.hpp"

#include <map>
#include <mutex>

namespace hekla::plugin {

class Registry {
public:
    // Reads the manifests (*.json) of each folder, in order; an id that an earlier folder has wins, and `warnings` says
    // so. A damaged manifest is a warning, not an end: the others still work. Folders that do not exist or that others
    // may write to are refused with a warning.
    static Registry scan(const std::vector<std::filesystem::path>& folders, Log log = {});
    Registry(Registry&&) noexcept;
    Registry& operator=(Registry&&) noexcept;
    ~Registry();

    struct Entry {
        const Manifest* manifest = nullptr;
        const Provided* provided = nullptr;
    };

    // The error names the nearest id, and those there are. Thread: any.
    Result<Entry> find(std::string_view interface_id, std::string_view id) const;
    Result<Entry> find_model_type(std::string_view model_type) const;
    // The architecture whose manifest knows this class of the reference implementation, and the class.
    Result<std::pair<Entry, const ReferenceClass*>> find_class(std::string_view class_name) const;

    // The plugin's table (hk_architecture, hk_objective, hk_head); loads the library if needed. Thread: any.
    Result<const void*> load(const Entry& entry) const;

    const std::vector<Manifest>& manifests() const { return *manifests_; }
    const std::vector<std::string>& warnings() const { return warnings_; }

private:
    Registry() = default;
    std::vector<Entry> entries(std::string_view interface_id) const;
    std::unique_ptr<std::vector<Manifest>> manifests_; // behind a pointer: entries point into it
    std::vector<std::string> warnings_;
    Log log_;
    mutable std::unique_ptr<std::mutex> lock_;
    mutable std::map<std::filesystem::path, Result<std::unique_ptr<Library>>> libraries_;
};

} // namespace hekla::plugin
