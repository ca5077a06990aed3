#include "plugin/library.hpp"

#include "base/file.hpp"
#include "base/sha256.hpp"
#include "plugin/host_config.hpp"
#include "plugin/host_error.hpp"
#include "plugin/host_graph.hpp"
#include "plugin/host_tokenizer.hpp"

#include "hekla/plugin/architecture.h"
#include "hekla/plugin/head.h"
#include "hekla/plugin/log.h"
#include "hekla/plugin/objective.h"
#include "hekla/plugin/operation.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string_view>

namespace hekla::plugin {

// The host as this one plugin sees it; hk_host is its first member, so that log calls find their way back.
struct Library::Host {
    hk_host host{};
    Log log;
    std::string plugin;
};

namespace {

constexpr const char* kName = "hekla";
constexpr const char* kVersion = "0.1.0";

// Every function of the structs that plugins give, from the description of the ABI.
struct TableSlot {
    std::string_view interface_id;
    std::string_view function;
    std::size_t offset;
    bool may_be_null;
};
constexpr TableSlot kTableSlots[] = {
#define HK_SLOT(interface_id, table, function, may_be_null)                                                            \
    {interface_id, #function, offsetof(table, function), may_be_null},
#include "plugin/table_slots.inc"
#undef HK_SLOT
};

// Why a plugin of that version cannot run here, and which line to change; empty if it can. `said_by`: who asks.
std::string version_problem(uint32_t major, uint32_t minor, const std::string& said_by, const Manifest& manifest) {
    if (major == HK_ABI_MAJOR && minor <= HK_ABI_MINOR) return {};
    const std::string asked = fmt::format("{} asks for plugin ABI {}.{}, this Hekla {} offers {}.{}", said_by, major,
                                          minor, kVersion, HK_ABI_MAJOR, HK_ABI_MINOR);
    if (major != HK_ABI_MAJOR)
        return fmt::format(
            "{}: use a Hekla of ABI {}.x, or build the plugin with this one's headers and \"abi_major\": {} in {}",
            asked, major, HK_ABI_MAJOR, manifest.file.string());
    return fmt::format("{}: update Hekla; or, where the plugin needs nothing newer, set \"abi_minor_needed\": {} in {} "
                       "(HK_TARGET_ABI_MINOR={} for the compiler) and build it again",
                       asked, HK_ABI_MINOR, manifest.file.string(), HK_ABI_MINOR);
}

// What is wrong with an entry as a piece of memory; empty: nothing.
std::string damage(const hk_plugin_entry* entry) {
    if (entry == nullptr) return "it is null";
    if (entry->magic != HK_ENTRY_MAGIC)
        return fmt::format("its magic is {:#x}, expected {:#x}", entry->magic, HK_ENTRY_MAGIC);
    if (entry->struct_size < sizeof(hk_plugin_entry))
        return fmt::format("its struct_size is {}, expected {} or more", entry->struct_size, sizeof(hk_plugin_entry));
    for (const auto& [function, name] :
         {std::pair(reinterpret_cast<const void*>(entry->init), "init"),
          std::pair(reinterpret_cast<const void*>(entry->deinit), "deinit"),
          std::pair(reinterpret_cast<const void*>(entry->get_interface), "get_interface")})
        if (function == nullptr) return fmt::format("its {}() is null", name);
    return {};
}

// The functions that a struct of this interface must have and this one lacks.
std::vector<std::string_view> missing_functions(std::string_view interface_id, const void* table) {
    std::vector<std::string_view> missing;
    for (const TableSlot& slot : kTableSlots) {
        if (slot.interface_id != interface_id || slot.may_be_null) continue;
        const void* function = nullptr;
        std::memcpy(&function, static_cast<const char*>(table) + slot.offset, sizeof function);
        if (function == nullptr) missing.push_back(slot.function);
    }
    return missing;
}

} // namespace

Result<std::unique_ptr<Library>> Library::load(const Manifest& manifest, const Log& log) {
    const std::string path = manifest.library.string();
    const auto refuse = [&](Code code, const std::string& what) {
        return Status(code, fmt::format("plugin {}: {}", path, what));
    };
    if (const std::string problem =
            version_problem(manifest.abi_major, manifest.abi_minor_needed, "its manifest", manifest);
        !problem.empty())
        return refuse(Code::unsupported, problem);
    if (!manifest.sha256.empty()) {
        const Result<MappedFile> file = MappedFile::open(manifest.library);
        if (!file.ok()) return refuse(Code::not_found, fmt::format("cannot be loaded: {}", file.message()));
        if (const std::string found = sha256_hex(file.value().text()); found != manifest.sha256)
            return refuse(
                Code::corrupt,
                fmt::format("is not the file that its manifest was written for: its sha256 is {}, {} says {}: "
                            "build the plugin again (hekla_add_plugin writes both), or, where you changed the "
                            "file, set \"sha256\": \"{}\" there",
                            found, manifest.file.string(), manifest.sha256, found));
    }
    void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        const char* reason = ::dlerror();
        return refuse(Code::not_found,
                      fmt::format("cannot be loaded: {}", reason != nullptr ? reason : "no reason given"));
    }
    void* symbol = ::dlsym(library, HK_ENTRY_SYMBOL);
    if (symbol == nullptr)
        return refuse(Code::unsupported, fmt::format("does not export {}: it is no Hekla plugin", HK_ENTRY_SYMBOL));
    const auto entry_function = reinterpret_cast<const hk_plugin_entry* (*)(void)>(symbol);
    const hk_plugin_entry* entry = nullptr;
    try {
        entry = entry_function();
    } catch (...) { return refuse(Code::internal, "threw an exception out of its entry; plugins must not"); }
    if (const std::string wrong = damage(entry); !wrong.empty())
        return refuse(Code::corrupt, fmt::format("its entry is damaged: {}", wrong));
    if (const std::string problem = version_problem(
            entry->abi_major, entry->abi_minor_needed,
            fmt::format("its code (built with {}.{})", entry->abi_major, entry->abi_minor_built), manifest);
        !problem.empty())
        return refuse(Code::unsupported, problem);
    if (entry->abi_major != manifest.abi_major || entry->abi_minor_needed != manifest.abi_minor_needed)
        return refuse(
            Code::corrupt,
            fmt::format("its code asks for plugin ABI {0}.{1}, its manifest {2} for {3}.{4}: give the compiler "
                        "HK_TARGET_ABI_MINOR={4} (hekla_add_plugin does), or correct \"abi_minor_needed\"",
                        entry->abi_major, entry->abi_minor_needed, manifest.file.string(), manifest.abi_major,
                        manifest.abi_minor_needed));
    if (entry->build_tag != nullptr && entry->build_tag[0] != '\0')
        return refuse(Code::unsupported,
                      fmt::format("was built for the fork '{}', this is upstream Hekla: get a build of it for upstream",
                                  entry->build_tag));

    std::unique_ptr<Library> result(new Library());
    result->host_ = std::make_unique<Host>();
    result->host_->log = log;
    result->host_->plugin = manifest.plugin;
    hk_host& host = result->host_->host;
    host.struct_size = sizeof(hk_host);
    host.abi_major = HK_ABI_MAJOR;
    host.abi_minor = HK_ABI_MINOR;
    host.name = {kName, std::string_view(kName).size()};
    host.version = {kVersion, std::string_view(kVersion).size()};
    host.get_interface = [](const hk_host*, hk_string id) -> const void* {
        static const hk_log_interface log_table = {
            [](const hk_host* h, int32_t severity, hk_string message) {
                const auto* self = reinterpret_cast<const Library::Host*>(h);
                if (severity < HK_LOG_DEBUG || severity > HK_LOG_ERROR || message.data == nullptr) return;
                try {
                    self->log.write(static_cast<Severity>(severity),
                                    fmt::format("{}: {}", self->plugin, view(message)));
                } catch (...) { // a message that cannot be written must not end the host
                }
            },
        };
        const std::string_view wanted = id.data != nullptr ? view(id) : std::string_view();
        if (wanted == HK_ERROR_INTERFACE) return host_error_interface();
        if (wanted == HK_CONFIG_INTERFACE) return host_config_interface();
        if (wanted == HK_GRAPH_INTERFACE) return host_graph_interface();
        if (wanted == HK_TOKENIZER_INTERFACE) return host_tokenizer_interface();
        if (wanted == HK_LOG_INTERFACE) return &log_table;
        return nullptr;
    };
    hk_error error;
    int32_t code = HK_INTERNAL;
    try {
        code = entry->init(&host, &error);
    } catch (...) { return refuse(Code::internal, "threw an exception out of init(); plugins must not"); }
    if (code != HK_OK) return status_of(code, error, fmt::format("plugin {}: init", path));
    result->entry_ = entry; // from here on deinit() is owed
    // All or nothing: what the manifest promises is there and whole, whichever of it is wanted now.
    for (const Provided& provided : manifest.provides) {
        if (!is_known_interface(provided.interface_id)) continue; // of another host; it may be served there
        const void* table = result->get_interface(provided.interface_id, provided.id);
        if (table == nullptr)
            return refuse(
                Code::corrupt,
                fmt::format("its manifest promises {} '{}', its code does not have it: correct \"provides\" in {}",
                            provided.interface_id, provided.id, manifest.file.string()));
        if (const auto missing = missing_functions(provided.interface_id, table); !missing.empty())
            return refuse(Code::corrupt, fmt::format("its {} '{}' lacks functions that may not be null: {}",
                                                     provided.interface_id, provided.id, fmt::join(missing, ", ")));
    }
    return result;
}

bool is_known_interface(std::string_view interface_id) {
    return std::ranges::any_of(kTableSlots, [&](const TableSlot& slot) { return slot.interface_id == interface_id; });
}

Library::~Library() {
    if (entry_ == nullptr) return;
    try {
        entry_->deinit();
    } catch (...) { // it is leaving anyway
    }
}

const void* Library::get_interface(std::string_view interface_id, std::string_view id) const {
    try {
        return entry_->get_interface({interface_id.data(), interface_id.size()}, {id.data(), id.size()});
    } catch (...) { return nullptr; }
}

} // namespace hekla::plugin
