// Loading one plugin library and agreeing with it on a version.
#pragma once

#include "base/log.hpp"
#include "base/status.hpp"
#include "hekla/plugin/entry.h"
#include "plugin/manifest.hpp"

#include <memory>

namespace hekla::plugin {

// Whether this host can use what plugins give under this id, eg: "hekla.architecture/1".
bool is_known_interface(std::string_view interface_id);

// An interface that is not stable yet.
struct Draft {
    std::string id;              // "hekla.adapter.draft/1"
    const void* table = nullptr; // the host's; null where plugins give it
};

// A loaded plugin. Its code stays mapped after destruction (unloading code that has thread-local or unique symbols does
// not work, and pretending is worse). A file that is loaded twice, by two contexts of a process, is one: it is
// initialized by the first and ends with the last. [entry.8] What it logs goes to the one that came last.
class Library {
public:
    // Opens by absolute path with RTLD_NOW | RTLD_LOCAL, checks the entry, calls init, and sees that everything that
    // the manifest promises of interfaces that this host knows is there and whole. The error says what was asked, what
    // is offered and which line to change; after one nothing of the library is used.
    // drafts: those that this host has. Thread: any.
    static Result<std::unique_ptr<Library>> load(const Manifest& manifest, const Log& log,
                                                 const std::vector<Draft>& drafts = {});
    ~Library();
    Library(const Library&) = delete;
    Library& operator=(const Library&) = delete;

    // The plugin's table, or null.
    const void* get_interface(std::string_view interface_id, std::string_view id) const;

private:
    struct Shared;
    struct Process;
    Library() = default;
    Shared* shared_ = nullptr;
};

} // namespace hekla::plugin
