#include "base/host.hpp"
#include "base/shared_library.hpp"
#include "check/elf_file.hpp"
#include "check/tests.hpp"

#include "hekla/plugin/drafts.h"
#include "hekla/plugin/log.h"
#include "hekla/plugin/tokenizer.h"
#include "plugin/host/host_config.hpp"
#include "plugin/host/host_error.hpp"
#include "plugin/host/host_graph.hpp"
#include "plugin/host/host_tokenizer.hpp"
#include "plugin/registry/library.hpp"

#include <chrono>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <thread>

namespace hekla::check {
namespace {

// Opens the library directly. It stays mapped, as in a host.
Result<const hk_plugin_entry*> entry_of(const Trial& trial) {
    const std::string path(trial.manifest().library);
    trial.doing("opening the library");
    std::string reason;
    const SharedLibrary library = SharedLibrary::open(path, reason);
    if (!library) return not_found(fmt::format("it cannot be loaded: {}", reason));
    library.pin();
    void* symbol = library.symbol(HK_ENTRY_SYMBOL);
    if (symbol == nullptr) return not_found(fmt::format("it does not export {}", HK_ENTRY_SYMBOL));
    trial.doing("calling " HK_ENTRY_SYMBOL "()");
    const auto* entry = reinterpret_cast<const hk_plugin_entry* (*)()>(symbol)();
    if (entry == nullptr) return corrupt(HK_ENTRY_SYMBOL "() returned null");
    return entry;
}

const hk_log_interface* silent_log() {
    static const hk_log_interface kTable = {[](const hk_host*, int32_t, hk_string) {}};
    return &kTable;
}

// A host that lacks the interface `without`.
struct PartialHost {
    explicit PartialHost(std::string_view lacking) : without(lacking) {
        host.struct_size = sizeof host;
        host.abi_major = HK_ABI_MAJOR;
        host.abi_minor = HK_ABI_MINOR;
        host.name = {"hekla plugin check", 18};
        host.version = {"0", 1};
        host.get_interface = [](const hk_host* h, hk_string id) -> const void* {
            const auto* self = reinterpret_cast<const PartialHost*>(h);
            const std::string_view wanted(id.data, static_cast<std::size_t>(id.size));
            if (wanted == self->without) return nullptr;
            if (wanted == HK_ERROR_INTERFACE) return plugin::host_error_interface();
            if (wanted == HK_CONFIG_INTERFACE) return plugin::host_config_interface();
            if (wanted == HK_GRAPH_INTERFACE) return plugin::host_graph_interface();
            if (wanted == HK_TOKENIZER_INTERFACE) return plugin::host_tokenizer_interface();
            if (wanted == HK_LOG_INTERFACE) return silent_log();
            return nullptr;
        };
    }
    hk_host host{}; // first member, so that the host's pointer is also this object's
    std::string_view without;
};

hk_string text(std::string_view s) { return {s.data(), s.size()}; }

} // namespace

Status test_exports(Trial& trial) {
    HK_ASSIGN(const ElfFile elf, read_elf(trial.manifest().library));
    if (std::ranges::find(elf.exports, HK_ENTRY_SYMBOL) == elf.exports.end())
        trial.fail(fmt::format("it does not export {}", HK_ENTRY_SYMBOL));
    std::vector<std::string> others = elf.exports;
    std::erase(others, HK_ENTRY_SYMBOL);
    constexpr std::size_t kShown = 8;
    const std::size_t count = others.size();
    if (count > kShown) others.resize(kShown);
    if (count > 0)
        trial.fail(
            fmt::format("it exports {} other name{}: {}{}: hide them (-fvisibility=hidden and the SDK's plugin.map), "
                        "or a function of that name in another library may be called instead",
                        count, count == 1 ? "" : "s", fmt::join(others, ", "), count > kShown ? ", ..." : ""));
    return {};
}

Status test_relocations(Trial& trial) {
    HK_ASSIGN(const ElfFile elf, read_elf(trial.manifest().library));
    if (elf.text_relocations) trial.fail("it has text relocations: compile every file with -fPIC");
    if (elf.executable_stack)
        trial.fail("it needs an executable stack: an assembler file lacks a .note.GNU-stack section");
    for (const std::string& library : elf.needed)
        if (library.starts_with("libhekla") || library.starts_with("libvulkan"))
            trial.fail(fmt::format("it links {}: a plugin must use the host only through its entry", library));
    return {};
}

Status test_opens(Trial& trial) {
    const auto start = std::chrono::steady_clock::now();
    HK_TRY(entry_of(trial).status());
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    constexpr double kMost = 0.5;
    if (seconds > kMost)
        trial.fail(fmt::format("loading it takes {:.2f} s, expected at most {} s: work before init() slows down every "
                               "start",
                               seconds, kMost));
    return {};
}

Status test_entry(Trial& trial) {
    HK_ASSIGN(const hk_plugin_entry* entry, entry_of(trial));
    if (const std::string damage = plugin::entry_damage(entry); !damage.empty())
        return corrupt(fmt::format("its entry is damaged: {}", damage));
    if (entry->struct_size > 4096)
        return corrupt(
            fmt::format("its entry's struct_size is {}, expected {}", entry->struct_size, sizeof(hk_plugin_entry)));
    if (entry->reserved != 0) trial.fail("its entry's reserved member is not 0");
    const plugin::Manifest& m = trial.manifest();
    if (entry->abi_major != m.abi_major || entry->abi_minor_needed != m.abi_minor_needed)
        trial.fail(fmt::format("it needs plugin ABI {}.{}, its manifest has {}.{}", entry->abi_major,
                               entry->abi_minor_needed, m.abi_major, m.abi_minor_needed));
    if (entry->abi_minor_built < entry->abi_minor_needed)
        trial.fail(fmt::format("it was built with minor {} and needs minor {}", entry->abi_minor_built,
                               entry->abi_minor_needed));
    if (entry_of(trial).value() != entry) trial.fail("two calls of " HK_ENTRY_SYMBOL "() give different entries");
    return {};
}

Status test_unknown_ids(Trial& trial) {
    HK_ASSIGN(const hk_plugin_entry* entry, entry_of(trial));
    const std::size_t threads = thread_count();
    PartialHost host("");
    hk_error error;
    trial.doing("init()");
    if (entry->init(&host.host, &error) != HK_OK) return internal_error(fmt::format("init(): {}", error.message));
    const auto ask = [&](std::string_view interface_id, std::string_view id) -> const void* {
        trial.doing(fmt::format("get_interface(\"{}\", \"{}\")", interface_id, id));
        const void* const table = entry->get_interface(text(interface_id), text(id));
        if (!plugin::is_draft(interface_id)) return table;
        if (table != nullptr)
            trial.fail(fmt::format("get_interface() gives the draft {}; null was expected", interface_id));
        const auto* offers =
            static_cast<const hk_draft_offers*>(entry->get_interface(text(HK_DRAFT_OFFERS_INTERFACE), {}));
        return offers != nullptr && offers->get != nullptr ? offers->get(text(interface_id), text(id)) : nullptr;
    };
    for (const plugin::Provided& provided : trial.manifest().provides) {
        const std::string i(provided.interface_id), id(provided.id);
        if (ask(i, id) == nullptr)
            trial.fail(fmt::format("its manifest lists {}, the library does not provide it", name_of(provided)));
        if (ask(i, id) != ask(i, id)) trial.fail(fmt::format("{}: two calls give different tables", name_of(provided)));
        // A string is a pointer and a size; bytes after it must be ignored.
        const std::string longer = id + "tail", longer_interface = i + "0";
        if (ask(i, std::string_view(longer).substr(0, id.size())) == nullptr)
            trial.fail(fmt::format("{}: its id is not found if other letters follow it in memory: strings need not end "
                                   "in 0",
                                   name_of(provided)));
        for (const auto& [other_interface, other] : {std::pair{i, longer},
                                                     {i, id.substr(0, id.size() - 1)},
                                                     {longer_interface, id},
                                                     {i, std::string()},
                                                     {std::string(), id},
                                                     {std::string("hekla.unknown/1"), id}}) {
            const auto listed = [&, &interface_id = other_interface, &made_up = other](const plugin::Provided& p) {
                return p.interface_id == interface_id && p.id == made_up;
            };
            if (std::ranges::any_of(trial.manifest().provides, listed)) continue;
            if (ask(other_interface, other) != nullptr)
                trial.fail(fmt::format("get_interface(\"{}\", \"{}\") gives a table; null was expected",
                                       other_interface, other));
        }
    }
    trial.doing("get_interface() with null strings");
    if (entry->get_interface({nullptr, 0}, {nullptr, 0}) != nullptr)
        trial.fail("get_interface() of null strings gives a table; null was expected");
    trial.doing("deinit()");
    entry->deinit();
    // [entry.7] A joined thread is still listed for a moment.
    for (int tries = 0; tries < 50 && thread_count() > threads; ++tries)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (const std::size_t left = thread_count(); left > threads)
        trial.fail(fmt::format("{} thread{} that it started still run{} after deinit()", left - threads,
                               left - threads == 1 ? "" : "s", left - threads == 1 ? "s" : ""));
    return {};
}

Status test_lifecycle(Trial& trial) {
    HK_ASSIGN(const hk_plugin_entry* entry, entry_of(trial));
    PartialHost first(""), second("");
    hk_error error;
    const auto begin = [&](PartialHost& host, const char* what) {
        trial.doing(what);
        error = {};
        return entry->init(&host.host, &error);
    };
    const auto is_there = [&](const char* when) {
        for (const plugin::Provided& provided : trial.manifest().provides) {
            if (plugin::is_draft(provided.interface_id)) continue; // file.ids tests those
            trial.doing(fmt::format("get_interface() of {} {}", name_of(provided), when));
            if (entry->get_interface(text(provided.interface_id), text(provided.id)) == nullptr)
                trial.fail(fmt::format("get_interface() does not give {} {}", name_of(provided), when));
        }
    };
    if (begin(first, "init()") != HK_OK) return internal_error(fmt::format("init(): {}", error.message));
    const char* const kTwice = "init() of a second host, before deinit()";
    const int32_t taken = begin(second, kTwice);
    if (taken != HK_FAILED_PRECONDITION || error.message.empty()) // [entry.8]
        trial.fail(fmt::format("{}: code {} and {}; HK_FAILED_PRECONDITION and a message were expected", kTwice, taken,
                               error.message.empty() ? "no message" : "a message"));
    is_there("after a second host was refused");
    for (int round = 0; round < 3; ++round) {
        trial.doing("deinit()");
        entry->deinit();
        const char* const kAgain = "init() again, after deinit()";
        if (const int32_t code = begin(round % 2 == 0 ? second : first, kAgain); code != HK_OK) {
            trial.fail(fmt::format("{}: code {}: {}", kAgain, code, error.message));
            return {};
        }
        is_there("after deinit() and another init()");
    }
    trial.doing("deinit()");
    entry->deinit();
    return {};
}

Status test_host_without(Trial& trial, const char* interface_id) {
    HK_ASSIGN(const hk_plugin_entry* entry, entry_of(trial));
    PartialHost host(interface_id);
    hk_error error;
    trial.doing(fmt::format("init() with a host that has no {}", interface_id));
    const int32_t code = entry->init(&host.host, &error);
    // The plugin may work without the interface, or report an error.
    if (code != HK_OK && error.message.empty() && std::string_view(interface_id) != HK_ERROR_INTERFACE)
        trial.fail(
            fmt::format("init() fails with code {} and no message where the host has no {}", code, interface_id));
    if (code != HK_OK) return {};
    for (const plugin::Provided& provided : trial.manifest().provides) {
        trial.doing(fmt::format("get_interface() of {} with a host that has no {}", name_of(provided), interface_id));
        entry->get_interface(text(provided.interface_id), text(provided.id));
    }
    trial.doing("deinit()");
    entry->deinit();
    return {};
}

} // namespace hekla::check
