#include "plugin/registry/library.hpp"

#include "plugin/host/host_adapter.hpp"
#include "plugin/host/host_config.hpp"
#include "plugin/host/host_error.hpp"
#include "plugin/host/host_graph.hpp"
#include "plugin/host/host_tokenizer.hpp"
#include "plugin/instances/table_slots.hpp"
#include "plugin/registry/library_file.hpp"
#include "plugin/trace/trace.hpp"

#include "hekla/plugin/adapter.h"
#include "hekla/plugin/architecture.h"
#include "hekla/plugin/drafts.h"
#include "hekla/plugin/head.h"
#include "hekla/plugin/log.h"
#include "hekla/plugin/objective.h"
#include "hekla/plugin/operation.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <mutex>
#include <string_view>
#include <vector>

namespace hekla::plugin {

// State shared by all Library objects of one file. hk_host is its first member, so that a call with it finds this.
struct Library::Shared {
    hk_host host{};
    std::string plugin;
    const hk_plugin_entry* entry = nullptr;
    std::vector<Draft> drafts; // those listed in its manifest
    std::mutex lock;
    std::vector<std::pair<const Library*, Log>> users;

    static const void* get_interface(const hk_host* host, hk_string id);
    static void log(const hk_host* host, int32_t severity, hk_string message);
    static const void* draft(const hk_host* host, hk_string id);
    Log newest_log() {
        const std::scoped_lock hold(lock);
        return users.empty() ? Log() : users.back().second;
    }
};

// The initialized files. Global, like the loaded libraries.
struct Library::Process {
    std::mutex lock;
    std::map<const SharedLibrary*, std::unique_ptr<Shared>> shared;
    static Process& get() {
        static Process* process = new Process(); // never destroyed, since static destructors may still use it
        return *process;
    }
};

namespace {

constexpr const char* kName = "hekla";
constexpr const char* kVersion = "0.1.0";

// Returns why a plugin of that version cannot run here, and which line to change; empty if it can. `source`: where the
// version was read.
std::string version_problem(uint32_t major, uint32_t minor, const std::string& source, const Manifest& manifest) {
    if (major == HK_ABI_MAJOR && minor <= HK_ABI_MINOR) return {};
    const std::string asked = fmt::format("{} asks for plugin ABI {}.{}, this Hekla {} offers {}.{}", source, major,
                                          minor, kVersion, HK_ABI_MAJOR, HK_ABI_MINOR);
    if (major != HK_ABI_MAJOR)
        return fmt::format(
            "{}: use a Hekla of ABI {}.x, or build the plugin with this one's headers and \"abi_major\": {} in {}",
            asked, major, HK_ABI_MAJOR, manifest.file);
    return fmt::format("{}: update Hekla; or, where the plugin needs nothing newer, set \"abi_minor_needed\": {} in {} "
                       "(HK_TARGET_ABI_MINOR={} for the compiler) and build it again",
                       asked, HK_ABI_MINOR, manifest.file, HK_ABI_MINOR);
}

// Returns the required functions of this interface that the table lacks.
std::vector<std::string_view> missing_functions(std::string_view interface_id, const void* table) {
    std::vector<std::string_view> missing;
    for (const TableSlot& slot : table_slots()) {
        if (slot.interface_id != interface_id || slot.may_be_null) continue;
        const void* function = nullptr;
        std::memcpy(&function, static_cast<const char*>(table) + slot.offset, sizeof function);
        if (function == nullptr) missing.push_back(slot.function);
    }
    return missing;
}

// Checks what the manifest states about the file, and loads it.
Result<const SharedLibrary*> load_file(const Manifest& manifest) {
    if (const std::string problem =
            version_problem(manifest.abi_major, manifest.abi_minor_needed, "its manifest", manifest);
        !problem.empty())
        return unsupported(problem);
    HK_ASSIGN(LibraryFile file, LibraryFile::open(std::string(manifest.library)));
    if (!manifest.sha256.empty()) {
        HK_ASSIGN(const std::string found, file.sha256());
        if (found != manifest.sha256)
            return corrupt(
                fmt::format("is not the file that its manifest was written for: its sha256 is {0}, \"sha256\" "
                            "in {1} is {2}; build the plugin again (hekla_add_plugin writes both) or, if you "
                            "changed the file on purpose, set \"sha256\": \"{0}\" there",
                            found, manifest.file, manifest.sha256));
    }
    return std::move(file).load();
}

// Returns the checked entry of a library.
Result<const hk_plugin_entry*> find_entry(const SharedLibrary& library, const Manifest& manifest) {
    void* symbol = library.symbol(HK_ENTRY_SYMBOL);
    if (symbol == nullptr)
        return unsupported(fmt::format("does not export {}: it is not a Hekla plugin", HK_ENTRY_SYMBOL));
    const auto entry_function = reinterpret_cast<const hk_plugin_entry* (*)()>(symbol);
    const hk_plugin_entry* entry = nullptr;
    try {
        entry = entry_function();
    } catch (...) { return internal_error("threw an exception out of its entry; plugins must not"); }
    if (const std::string damage = entry_damage(entry); !damage.empty())
        return corrupt(fmt::format("its entry is damaged: {}", damage));
    if (const std::string problem = version_problem(
            entry->abi_major, entry->abi_minor_needed,
            fmt::format("its code (built with {}.{})", entry->abi_major, entry->abi_minor_built), manifest);
        !problem.empty())
        return unsupported(problem);
    if (entry->abi_major != manifest.abi_major || entry->abi_minor_needed != manifest.abi_minor_needed)
        return corrupt(fmt::format(
            "its code asks for plugin ABI {0}.{1}, its manifest {2} for {3}.{4}: give the compiler "
            "HK_TARGET_ABI_MINOR={4} (hekla_add_plugin does), or correct \"abi_minor_needed\"",
            entry->abi_major, entry->abi_minor_needed, manifest.file, manifest.abi_major, manifest.abi_minor_needed));
    if (entry->reserved != 0) return corrupt("its entry is damaged: its reserved member is not 0");
    if (const std::string_view fork = view(entry->build_tag); !fork.empty())
        return unsupported(
            fmt::format("was built for the fork '{}', this is upstream Hekla: get a build of it for upstream", fork));
    return entry;
}

Status check_drafts(const Manifest& manifest, const std::vector<Draft>& drafts) {
    for (const std::string_view draft : manifest.drafts)
        if (std::ranges::none_of(drafts, [&](const Draft& d) { return d.id == draft; }))
            return unsupported(fmt::format("its manifest asks for the draft {}, this Hekla {} has {}; drafts change "
                                           "with every release: get a build of the plugin for this one",
                                           draft, kVersion, drafts.empty() ? "none" : "others"));
    return {};
}

} // namespace

std::string entry_damage(const hk_plugin_entry* entry) {
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

void Library::Shared::log(const hk_host* host, int32_t severity, hk_string message) {
    auto* self = reinterpret_cast<Shared*>(const_cast<hk_host*>(host));
    if (severity < HK_LOG_DEBUG || severity > HK_LOG_ERROR || message.data == nullptr) return;
    try {
        self->newest_log().write(static_cast<Severity>(severity), fmt::format("{}: {}", self->plugin, view(message)));
    } catch (...) { // failing to write a message must not end the host
    }
}

const void* Library::Shared::draft(const hk_host* host, hk_string id) {
    const auto* self = reinterpret_cast<const Shared*>(host);
    const auto found = std::ranges::find(self->drafts, view(id), &Draft::id);
    return found != self->drafts.end() ? traced_host_table(found->id, found->table) : nullptr;
}

const void* Library::Shared::get_interface(const hk_host* host, hk_string id) {
    static const hk_log_interface kLogTable = {log};
    static const hk_drafts_interface kDraftsTable = {draft};
    const auto* self = reinterpret_cast<const Shared*>(host);
    const std::string_view wanted = view(id);
    trace_entry(self->plugin, "host.get_interface", wanted);
    const void* table = wanted == HK_ERROR_INTERFACE          ? static_cast<const void*>(host_error_interface())
                        : wanted == HK_CONFIG_INTERFACE       ? host_config_interface()
                        : wanted == HK_GRAPH_INTERFACE        ? host_graph_interface()
                        : wanted == HK_TOKENIZER_INTERFACE    ? host_tokenizer_interface()
                        : wanted == HK_LOG_INTERFACE          ? static_cast<const void*>(&kLogTable)
                        : wanted == HK_ADAPTER_HOST_INTERFACE ? static_cast<const void*>(host_adapter_interface())
                        : wanted == HK_DRAFTS_INTERFACE && !self->drafts.empty()
                            ? static_cast<const void*>(&kDraftsTable)
                            : nullptr;
    return traced_host_table(wanted, table);
}

Result<std::unique_ptr<Library>> Library::load(const Manifest& manifest, const Log& log,
                                               const std::vector<Draft>& drafts) {
    const std::string path(manifest.library);
    const auto load = [&]() -> Result<std::unique_ptr<Library>> {
        HK_ASSIGN(const SharedLibrary* file, load_file(manifest));
        HK_ASSIGN(const hk_plugin_entry* entry, find_entry(*file, manifest));
        HK_TRY(check_drafts(manifest, drafts));
        std::unique_ptr<Library> library(new Library());
        HK_TRY(library->share(file, entry, manifest, log, drafts));
        HK_TRY(library->check_promises(manifest));
        return library;
    };
    Result<std::unique_ptr<Library>> loaded = load();
    if (!loaded.ok()) return Status(loaded.code(), fmt::format("plugin {}: {}", path, loaded.message()));
    return loaded;
}

// Joins the users of the library in this process. The first one initializes it.
Status Library::share(const SharedLibrary* file, const hk_plugin_entry* entry, const Manifest& manifest, const Log& log,
                      const std::vector<Draft>& drafts) {
    Process& process = Process::get();
    const std::scoped_lock hold(process.lock);
    std::unique_ptr<Shared>& place = process.shared[file];
    const bool first = place == nullptr;
    if (first) {
        place = std::make_unique<Shared>();
        place->plugin = manifest.plugin;
        place->entry = entry;
        for (const Draft& draft : drafts)
            if (std::ranges::find(manifest.drafts, draft.id) != manifest.drafts.end()) place->drafts.push_back(draft);
        hk_host& host = place->host;
        host.struct_size = sizeof(hk_host);
        host.abi_major = HK_ABI_MAJOR;
        host.abi_minor = HK_ABI_MINOR;
        host.name = {kName, std::string_view(kName).size()};
        host.version = {kVersion, std::string_view(kVersion).size()};
        host.get_interface = Shared::get_interface;
    }
    {
        const std::scoped_lock users(place->lock);
        place->users.emplace_back(this, log);
    }
    if (first) {
        hk_error error;
        int32_t code = HK_INTERNAL;
        bool threw = false;
        trace_entry(manifest.plugin, "init", manifest.library);
        try {
            code = entry->init(&place->host, &error);
        } catch (...) { threw = true; }
        if (code != HK_OK) process.shared.erase(file);
        if (threw) return internal_error("threw an exception out of init(); plugins must not");
        HK_TRY(status_of(code, error, "init"));
    }
    shared_ = place.get(); // from here on deinit() must be called
    return {};
}

// Checks that everything that the manifest declares exists and is complete, even if it is not used now.
Status Library::check_promises(const Manifest& manifest) const {
    for (const Provided& provided : manifest.provides) {
        if (!is_known_interface(provided.interface_id) && !is_draft(provided.interface_id))
            continue; // for another host
        const void* table = get_interface(provided.interface_id, provided.id);
        if (table == nullptr)
            return corrupt(
                fmt::format("its manifest promises {} '{}', and its code does not have it: correct \"provides\" in {}",
                            provided.interface_id, provided.id, manifest.file));
        if (const auto missing = missing_functions(provided.interface_id, table); !missing.empty())
            return corrupt(fmt::format("its {} '{}' lacks functions that must not be null: {}", provided.interface_id,
                                       provided.id, fmt::join(missing, ", ")));
    }
    return {};
}

Library::~Library() {
    if (shared_ == nullptr) return;
    Process& process = Process::get();
    const std::scoped_lock hold(process.lock);
    {
        const std::scoped_lock users(shared_->lock);
        if (shared_->users.size() > 1) {
            std::erase_if(shared_->users, [&](const auto& user) { return user.first == this; });
            return;
        }
    }
    trace_entry(shared_->plugin, "deinit", "");
    try {
        shared_->entry->deinit();
    } catch (...) { // the library is not used afterwards
    }
    std::erase_if(process.shared, [&](const auto& one) { return one.second.get() == shared_; });
}

const void* Library::get_interface(std::string_view interface_id, std::string_view id) const {
    const auto text = [](std::string_view s) { return hk_string{s.data(), s.size()}; };
    try {
        if (!is_draft(interface_id))
            return traced_plugin_table(shared_->plugin, interface_id, id,
                                       shared_->entry->get_interface(text(interface_id), text(id)));
        const auto* offers =
            static_cast<const hk_draft_offers*>(shared_->entry->get_interface(text(HK_DRAFT_OFFERS_INTERFACE), {}));
        if (offers == nullptr || offers->get == nullptr) return nullptr;
        return traced_plugin_table(shared_->plugin, interface_id, id, offers->get(text(interface_id), text(id)));
    } catch (...) { return nullptr; }
}

} // namespace hekla::plugin
