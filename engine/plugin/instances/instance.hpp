// One plugin of a composition with its table and its instance, and calls of its functions: exceptions are caught,
// reported, and may disable the plugin.
#pragma once

#include "plugin/host/host_config.hpp"
#include "plugin/host/host_error.hpp"
#include "plugin/registry/registry.hpp"

#include <fmt/format.h>
#include <set>
#include <string>
#include <utility>

namespace hekla::plugin {

template<class Table>
struct Instance {
    std::string what; // "head 'lm'": for messages
    const Manifest* manifest = nullptr;
    const Provided* provided = nullptr;
    const Table* table = nullptr;
    void* self = nullptr;
};

template<class Table>
void destroy_instance(Instance<Table>& instance) {
    if (instance.self != nullptr) instance.table->destroy(instance.self);
    instance.self = nullptr;
}

// Finds and loads the plugin. Errors: those of the registry.
template<class Table>
Status open_instance(const Registry& registry, const char* interface_id, const std::string& id,
                     Instance<Table>& instance) {
    HK_ASSIGN(const Registry::Entry entry, registry.find(interface_id, id));
    HK_ASSIGN(const void* table, registry.load(entry));
    instance.manifest = entry.manifest;
    instance.provided = entry.provided;
    instance.table = static_cast<const Table*>(table);
    return {};
}

// Calls a function of a plugin, f(hk_error*), and returns its code. An exception is an error.
template<class Table, class F>
Result<int32_t> code_of(const Registry& registry, const Instance<Table>& instance, const std::string& what,
                        const char* function, hk_error& error, F&& f) {
    const Registry::Within within(registry, instance.manifest, function);
    const int32_t code = guarded(error, [&] { return f(&error); });
    if (!error.threw || instance.manifest == nullptr) return code;
    registry.disable_plugin(*instance.manifest, fmt::format("it threw an exception in {}()", function));
    return Status(Code::internal, fmt::format("{}: {} in {}() of plugin '{}' ({})", what, error.message, function,
                                              instance.manifest->plugin, instance.manifest->library));
}
template<class Table, class F>
Status call(const Registry& registry, const Instance<Table>& instance, const std::string& what, const char* function,
            F&& f) {
    hk_error error;
    HK_ASSIGN(const int32_t code, code_of(registry, instance, what, function, error, f));
    return status_of(code, error, what);
}

// Makes the instance by create(const hk_config*, void** self, hk_error*). read: gets the keys that it has read. Errors:
// its own; no instance in spite of HK_OK; out_of_memory if the keys that it has read are not known.
template<class Table, class F>
Status create_instance(const Registry& registry, Instance<Table>& instance, const nlohmann::json& values,
                       std::set<std::string>& read, F&& create) {
    hk_config config;
    config.values = values;
    void* made = nullptr; // not an instance if the call failed
    HK_TRY(call(registry, instance, instance.what, "create", [&](hk_error* e) { return create(&config, &made, e); }));
    if (made == nullptr) return corrupt(fmt::format("{}: create() returned HK_OK and no instance", instance.what));
    instance.self = made;
    if (config.unnoted)
        return Status(Code::out_of_memory, fmt::format("{}: no memory to note the keys that it reads", instance.what));
    read = std::move(config.read);
    return {};
}

} // namespace hekla::plugin
