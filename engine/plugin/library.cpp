#include "plugin/library.hpp"

#include "plugin/host_config.hpp"
#include "plugin/host_error.hpp"
#include "plugin/host_graph.hpp"
#include "plugin/host_tokenizer.hpp"

#include "hekla/plugin/log.h"

#include <dlfcn.h>
#include <fmt/format.h>
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

} // namespace

Result<std::unique_ptr<Library>> Library::load(const Manifest& manifest, const Log& log) {
    const std::string path = manifest.library.string();
    const auto refuse = [&](Code code, const std::string& what) {
        return Status(code, fmt::format("plugin {}: {}", path, what));
    };
    if (manifest.abi_major != HK_ABI_MAJOR || manifest.abi_minor_needed > HK_ABI_MINOR)
        return refuse(
            Code::unsupported,
            fmt::format(
                "its manifest asks for plugin ABI {}.{}, this Hekla has {}.{}: update Hekla, or build the plugin with "
                "HK_TARGET_ABI_MINOR {} or less",
                manifest.abi_major, manifest.abi_minor_needed, HK_ABI_MAJOR, HK_ABI_MINOR, HK_ABI_MINOR));
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
    if (entry == nullptr || entry->magic != HK_ENTRY_MAGIC || entry->struct_size < sizeof(hk_plugin_entry) ||
        entry->init == nullptr || entry->deinit == nullptr || entry->get_interface == nullptr)
        return refuse(Code::corrupt, "its entry is damaged (null, wrong magic, size or functions)");
    if (entry->abi_major != HK_ABI_MAJOR || entry->abi_minor_needed > HK_ABI_MINOR)
        return refuse(
            Code::unsupported,
            fmt::format(
                "needs plugin ABI {}.{} (built with {}.{}), this Hekla has {}.{}: update Hekla, or build the plugin "
                "with HK_TARGET_ABI_MINOR {} or less",
                entry->abi_major, entry->abi_minor_needed, entry->abi_major, entry->abi_minor_built, HK_ABI_MAJOR,
                HK_ABI_MINOR, HK_ABI_MINOR));
    if (entry->build_tag != nullptr && entry->build_tag[0] != '\0')
        return refuse(Code::unsupported,
                      fmt::format("was built for the fork '{}', this is upstream Hekla", entry->build_tag));

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
    result->entry_ = entry;
    return result;
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
