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

// A loaded plugin. Its code stays mapped after destruction (unloading code that has thread-local or unique symbols does
// not work, and pretending is worse); deinit is called.
class Library {
public:
    // Opens by absolute path with RTLD_NOW | RTLD_LOCAL, checks the entry, calls init, and sees that everything that
    // the manifest promises of interfaces that this host knows is there and whole. The error says what was asked, what
    // is offered and which line to change; after one nothing of the library is used.
    static Result<std::unique_ptr<Library>> load(const Manifest& manifest, const Log& log);
    ~Library();
    Library(const Library&) = delete;
    Library& operator=(const Library&) = delete;

    // The plugin's table, or null.
    const void* get_interface(std::string_view interface_id, std::string_view id) const;

private:
    struct Host;
    Library() = default;
    std::unique_ptr<Host> host_;
    const hk_plugin_entry* entry_ = nullptr;
};

} // namespace hekla::plugin
