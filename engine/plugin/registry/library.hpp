// Loads a plugin library and checks that its ABI version is supported.
#pragma once

#include "base/log.hpp"
#include "base/shared_library.hpp"
#include "base/status.hpp"
#include "hekla/plugin/entry.h"
#include "plugin/registry/manifest.hpp"

#include <memory>

namespace hekla::plugin {

// An interface that is not stable yet.
struct Draft {
    std::string id;              // "hekla.rollout.draft/1"
    const void* table = nullptr; // the host's table; null for drafts that plugins provide
};

// Returns what is wrong with the memory of an entry; empty if nothing is. [entry.2]
std::string entry_damage(const hk_plugin_entry* entry);

// A loaded plugin library. Its code stays mapped after destruction, since code with thread-local or unique symbols
// cannot be unloaded safely. Contexts of one process that load the same file share it: the first initializes it and the
// last calls deinit(). [entry.8] Its messages are logged by the context that loaded it last.
class Library {
public:
    // Opens the file once, compares its hash with the manifest, loads the same open file hidden from other libraries,
    // checks the entry, calls init, and checks that everything that the manifest declares exists and is complete (for
    // interfaces that this host knows). On an error, which contains what was requested, what is offered and which line
    // to change, nothing of the library is used. drafts: those of this host. Thread: any.
    static Result<std::unique_ptr<Library>> load(const Manifest& manifest, const Log& log,
                                                 const std::vector<Draft>& drafts = {});
    ~Library();
    Library(const Library&) = delete;
    Library& operator=(const Library&) = delete;

    // Returns the plugin's table, or null.
    const void* get_interface(std::string_view interface_id, std::string_view id) const;

private:
    struct Shared;
    struct Process;
    Library() = default;
    Status share(const SharedLibrary* file, const hk_plugin_entry* entry, const Manifest& manifest, const Log& log,
                 const std::vector<Draft>& drafts);
    Status check_promises(const Manifest& manifest) const;
    Shared* shared_ = nullptr;
};

} // namespace hekla::plugin
