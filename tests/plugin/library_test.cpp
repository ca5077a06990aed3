#include "plugin/registry/library.hpp"

#include "base/file.hpp"
#include "base/sha256.hpp"
#include "plugin/composition/compose.hpp"
#include "plugin/registry/processor.hpp"
#include "plugin/registry/registry.hpp"

#include <atomic>
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <filesystem>
#include <fmt/format.h>
#include <thread>

namespace library_test {

using namespace hekla;

namespace {

namespace fs = std::filesystem;

// A folder with one plugin built from refused.c and its manifest; deleted by the destructor.
class PluginFolder {
public:
    explicit PluginFolder(const std::string& wrong, const std::string& minor = "0", const std::string& major = "",
                          const std::string& interface = HK_HEAD_INTERFACE)
        : path(fs::temp_directory_path() / fmt::format("hekla_refused_{}_{}", wrong, static_cast<const void*>(this))) {
        fs::create_directories(path);
        fs::copy_file(fs::path(HEKLA_REFUSED_FOLDER) / (wrong + ".so"), path / "p.so",
                      fs::copy_options::overwrite_existing);
        REQUIRE(
            write_file_atomically(
                path / "p.json",
                fmt::format(R"({{"plugin": "p", "library": "p.so", "version": "1", "licence": "MIT", "abi_major": {},
                        "abi_minor_needed": {}, "provides": [{{"interface": "{}", "id": "h"}}]}})",
                            major.empty() ? std::to_string(HK_ABI_MAJOR) : major, minor, interface))
                .ok());
    }
    ~PluginFolder() { fs::remove_all(path); }
    PluginFolder(const PluginFolder&) = delete;
    PluginFolder& operator=(const PluginFolder&) = delete;

    fs::path path;
};

// Returns the error for using the head 'h' in that folder; empty if it can be used.
std::string load_error(const PluginFolder& folder) {
    const plugin::Registry registry = plugin::Registry::scan({folder.path});
    CHECK(registry.warnings().empty());
    const Result<plugin::Registry::Entry> entry = registry.find(HK_HEAD_INTERFACE, "h");
    if (!entry.ok()) return entry.message();
    const Result<const void*> table = registry.load(entry.value());
    if (table.ok()) return {};
    // The second error is the same, since the library is not loaded twice.
    CHECK(registry.load(entry.value()).message() == table.message());
    return table.message();
}

} // namespace

TEST_CASE("library: a rejection contains what was requested, what is provided and which line to change") {
    const std::string here = fmt::format("this Hekla 0.1.0 offers {}.{}", HK_ABI_MAJOR, HK_ABI_MINOR);
    const auto refused = [&](const PluginFolder& folder, const std::string& expected) {
        const std::string start = fmt::format("plugin {}: ", (folder.path / "p.so").string());
        CHECK(load_error(folder) == start + expected);
    };
    const auto manifest = [](const PluginFolder& folder) { return (folder.path / "p.json").string(); };

    CHECK(load_error(PluginFolder("nothing")).empty());
    {
        const PluginFolder f("nothing", "98");
        refused(f, fmt::format("its manifest asks for plugin ABI {0}.98, {1}: update Hekla; or, where the plugin needs "
                               "nothing newer, set \"abi_minor_needed\": {2} in {3} (HK_TARGET_ABI_MINOR={2} for the "
                               "compiler) and build it again",
                               HK_ABI_MAJOR, here, HK_ABI_MINOR, manifest(f)));
    }
    {
        const PluginFolder f("newer");
        refused(f, fmt::format("its code (built with {0}.99) asks for plugin ABI {0}.99, {1}: update Hekla; or, where "
                               "the plugin needs nothing newer, set \"abi_minor_needed\": {2} in {3} "
                               "(HK_TARGET_ABI_MINOR={2} for the compiler) and build it again",
                               HK_ABI_MAJOR, here, HK_ABI_MINOR, manifest(f)));
    }
    {
        const PluginFolder f("nothing", "0", "77");
        refused(f,
                fmt::format("its manifest asks for plugin ABI 77.0, {}: use a Hekla of ABI 77.x, or build the plugin "
                            "with this one's headers and \"abi_major\": {} in {}",
                            here, HK_ABI_MAJOR, manifest(f)));
    }
    CHECK(load_error(PluginFolder("other_major")).find("asks for plugin ABI 77.0") != std::string::npos);
    refused(PluginFolder("fork"),
            "was built for the fork 'spoon', this is upstream Hekla: get a build of it for upstream");
    {
        const PluginFolder f("nothing", "0", "", "hekla.head/7");
        CHECK(load_error(f) ==
              fmt::format("plugin p provides the head 'h' as hekla.head/7, this Hekla uses {}: build it against "
                          "that one (\"interface\" in {}), or update Hekla where the plugin's is the newer",
                          HK_HEAD_INTERFACE, manifest(f)));
    }
}

TEST_CASE("library: a library of another processor is named as that, with both processors") {
    const PluginFolder folder("nothing");
    std::string content = read_file(folder.path / "p.so").value();
    REQUIRE(content.size() > plugin::kElfHeaderSize);
    REQUIRE(plugin::other_processor(content).empty());
    const std::string own = plugin::own_processor();
    const auto built_for = [&](uint8_t bits, uint8_t machine, const std::string& name) {
        content[4] = static_cast<char>(bits);
        content[18] = static_cast<char>(machine);
        content[19] = 0;
        CHECK(plugin::other_processor(content) == name);
        REQUIRE(write_file_atomically(folder.path / "p.so", content).ok());
        CHECK(load_error(folder) == fmt::format("plugin {}: cannot be loaded: it was built for {}, and this process "
                                                "runs on {}: install a build for {}, or build it here from its sources",
                                                (folder.path / "p.so").string(), name, own, own));
    };
    constexpr uint8_t k32 = 1, k64 = 2;
    built_for(k32, 3, "x86 (32 bits)");
    built_for(k64, 243, "RISC-V");
    built_for(k64, 99, "processor 99 of the ELF format (64 bits)");
    if (own != "AArch64") built_for(k64, 183, "AArch64");
    CHECK(plugin::other_processor("no ELF file, and longer than a header").empty());
    CHECK(plugin::other_processor("\177ELF").empty());
}

TEST_CASE("library: a file that does not match its manifest's hash is rejected") {
    const PluginFolder folder("nothing");
    const auto file = folder.path / "p.json", library = folder.path / "p.so";
    const std::string manifest = read_file(file).value();
    const auto with = [&](const std::string& hash) {
        std::string text = manifest;
        const std::string key = "\"library\": \"p.so\"";
        text.replace(text.find(key), key.size(), key + ", \"sha256\": \"" + hash + "\"");
        REQUIRE(write_file_atomically(file, text).ok());
    };
    const std::string right = sha256_hex(read_file(library).value());
    with(right);
    CHECK(load_error(folder).empty());
    const std::string other(64, '0');
    with(other);
    CHECK(
        load_error(folder) ==
        fmt::format("plugin {0}: is not the file that its manifest was written for: its sha256 is {1}, \"sha256\" in "
                    "{2} is {3}; build the plugin again (hekla_add_plugin writes both) or, if you changed the file on "
                    "purpose, set \"sha256\": \"{1}\" there",
                    library.string(), right, file.string(), other));
    with("abc");
    const plugin::Registry registry = plugin::Registry::scan({folder.path});
    REQUIRE(registry.warnings().size() == 1);
    CHECK(registry.warnings().front() ==
          fmt::format("{}: sha256: \"abc\" is not 64 digits of 0 to 9 and a to f", file.string()));
}

TEST_CASE("library: the hashed file is the one that is loaded, even if the path changes all the time") {
    const PluginFolder good("nothing"), other("no_table");
    const fs::path library = good.path / "p.so", next = good.path / "next";
    fs::copy_file(library, good.path / "good.so");
    fs::copy_file(other.path / "p.so", good.path / "other.so");
    std::string text = read_file(good.path / "p.json").value();
    text.replace(text.find("\"version\""), 0,
                 fmt::format("\"sha256\": \"{}\", ", sha256_hex(read_file(library).value())));
    REQUIRE(write_file_atomically(good.path / "p.json", text).ok());
    ReadOnlyArena kept;
    const Result<plugin::Manifest> manifest = plugin::read_manifest(good.path / "p.json", kept);
    REQUIRE_MESSAGE(manifest.ok(), manifest.message());
    std::atomic<bool> over = false;
    std::thread exchanging([&] {
        for (bool turn = false; !over; turn = !turn) {
            fs::create_symlink(good.path / (turn ? "other.so" : "good.so"), next);
            fs::rename(next, library);
        }
    });
    std::size_t loaded = 0, refused = 0;
    std::string wrong; // the other file was loaded, which lacks what the manifest lists
    for (int i = 0; i < 20000 && (i < 1000 || loaded == 0 || refused == 0); ++i) {
        const auto one = plugin::Library::load(manifest.value(), {});
        const bool hashed =
            !one.ok() && one.message().find("is not the file that its manifest was written for") != std::string::npos;
        (one.ok() ? loaded : refused) += one.ok() || hashed ? 1 : 0;
        if (!one.ok() && !hashed) wrong = one.message();
    }
    over = true;
    exchanging.join();
    CHECK(wrong == "");
    CHECK(loaded > 0);
    CHECK(refused > 0);
}

TEST_CASE("library: debuggers and dladdr() see a library under its path") {
    const PluginFolder folder("nothing");
    ReadOnlyArena kept;
    const Result<plugin::Manifest> manifest = plugin::read_manifest(folder.path / "p.json", kept);
    REQUIRE(manifest.ok());
    const auto library = plugin::Library::load(manifest.value(), {});
    REQUIRE_MESSAGE(library.ok(), library.message());
    Dl_info info{};
    REQUIRE(dladdr(library.value()->get_interface(HK_HEAD_INTERFACE, "h"), &info) != 0);
    CHECK(std::string(info.dli_fname) == (folder.path / "p.so").string());
}

TEST_CASE("registry: the first folder with a name is used, every time, and the others are reported") {
    const PluginFolder first("nothing"), second("nothing");
    const plugin::Registry registry = plugin::Registry::scan({second.path, first.path});
    const auto entry = registry.find(HK_HEAD_INTERFACE, "h");
    REQUIRE(entry.ok());
    CHECK(entry.value().manifest->library == (second.path / "p.so").string());
    REQUIRE(registry.warnings().size() == 1);
    CHECK(registry.warnings().front() == fmt::format("head 'h' of {} is hidden by {}", (first.path / "p.json").string(),
                                                     (second.path / "p.json").string()));
}

TEST_CASE("library: damaged or incomplete tables are rejected as a whole") {
    const auto refused = [&](const char* wrong, const std::string& expected) {
        const PluginFolder folder(wrong);
        CHECK(load_error(folder) == fmt::format("plugin {}: {}", (folder.path / "p.so").string(), expected));
    };
    refused("magic", "its entry is damaged: its magic is 0x7, expected 0x4c504b48");
    refused("size", "its entry is damaged: its struct_size is 8, expected 64 or more");
    refused("no_init", "its entry is damaged: its init() is null");
    refused("init_fails", "init: not today");
    const PluginFolder folder("no_table");
    CHECK(load_error(folder) ==
          fmt::format("plugin {}: its manifest promises {} 'h', and its code does not have it: correct "
                      "\"provides\" in {}",
                      (folder.path / "p.so").string(), HK_HEAD_INTERFACE, (folder.path / "p.json").string()));
    refused("no_destroy", fmt::format("its {} 'h' lacks functions that must not be null: destroy", HK_HEAD_INTERFACE));
}

TEST_CASE("library: a create() that reports success must return an instance") {
    const auto columns = [](const char* wrong) {
        const PluginFolder folder(wrong, "0", "", HK_OBJECTIVE_INTERFACE);
        const plugin::Registry registry = plugin::Registry::scan({folder.path});
        return plugin::objective_columns(registry, "h", nlohmann::json::object()).status();
    };
    CHECK(columns("nothing").ok());
    CHECK(columns("no_instance").message() == "objective 'h': create() returned HK_OK and no instance");
}

TEST_CASE("library: loaded twice it is initialized once, and stays until the last user is destroyed") {
    const PluginFolder folder("nothing"); // its init() rejects a second call without a deinit()
    ReadOnlyArena kept;
    const Result<plugin::Manifest> manifest = plugin::read_manifest(folder.path / "p.json", kept);
    REQUIRE(manifest.ok());
    std::vector<std::string> first_log, second_log;
    const auto log_into = [](std::vector<std::string>& lines) {
        return Log([&lines](Severity, std::string_view line) { lines.emplace_back(line); });
    };
    auto first = plugin::Library::load(manifest.value(), log_into(first_log));
    auto second = plugin::Library::load(manifest.value(), log_into(second_log));
    REQUIRE(first.ok());
    REQUIRE(second.ok());
    const void* table = first.value()->get_interface(HK_HEAD_INTERFACE, "h");
    CHECK(table != nullptr);
    CHECK(second.value()->get_interface(HK_HEAD_INTERFACE, "h") == table);
    first.value().reset();
    CHECK(second.value()->get_interface(HK_HEAD_INTERFACE, "h") == table); // deinit() was not called
    second.value().reset();
    CHECK(plugin::Library::load(manifest.value(), {}).ok()); // now it was
    CHECK(first_log == std::vector<std::string>{"p: init"});
    CHECK(second_log == std::vector<std::string>{"p: deinit"}); // received by the last user
}

TEST_CASE("library: drafts use a separate interface, for plugins that name them") {
    constexpr const char* kDraft = "hekla.experiment.draft/1";
    CHECK(plugin::is_draft(kDraft));
    CHECK_FALSE(plugin::is_draft("hekla.rollout/1"));
    CHECK_FALSE(plugin::is_draft("hekla.draft-offers/1"));
    const PluginFolder folder("drafts");
    const fs::path file = folder.path / "p.json";
    ReadOnlyArena kept;
    const auto manifest = [&](const std::string& drafts, const std::string& interface) {
        REQUIRE(write_file_atomically(
                    file, fmt::format(
                              R"({{"plugin": "p", "library": "p.so", "version": "1", "licence": "MIT", "abi_major": {},
                        "abi_minor_needed": 0, {} "provides": [{{"interface": "{}", "id": "h"}}]}})",
                              HK_ABI_MAJOR, drafts, interface))
                    .ok());
        return plugin::read_manifest(file, kept);
    };
    const std::string named = fmt::format("\"drafts\": [\"{}\"],", kDraft);
    // A plugin without drafts in its manifest cannot provide a draft.
    CHECK(
        manifest("", kDraft).message() ==
        fmt::format("{}: provides: {} 'h' is a draft, and the manifest claims to be stable; add \"drafts\": [\"{}\"], "
                    "and the plugin loads where that very draft is",
                    file.string(), kDraft, kDraft));
    CHECK(manifest("\"drafts\": [\"hekla.head/1\"],", HK_HEAD_INTERFACE)
              .message()
              .find("\"hekla.head/1\" is not the id of a draft") != std::string::npos);
    // So it is with an interface that is newer than what the manifest asks for.
    CHECK(manifest("", "hekla.adapter/1")
              .message()
              .find("hekla.adapter/1 'h' exists from plugin ABI 1.1 on, and the manifest asks for 1.0: set "
                    "\"abi_minor_needed\": 1") != std::string::npos);
    // A host without exactly this draft rejects it.
    {
        const auto there = manifest(named, kDraft);
        REQUIRE(there.ok());
        const auto refused = plugin::Library::load(there.value(), {});
        CHECK(refused.message().find("asks for the draft hekla.experiment.draft/1, this Hekla 0.1.0 has none") !=
              std::string::npos);
        CHECK_FALSE(plugin::Library::load(there.value(), {}, {{"hekla.experiment.draft/2", nullptr}}).ok());
    }
    static const int table = 7;
    const std::vector<plugin::Draft> drafts{{kDraft, &table}};
    // Otherwise the plugin gets the host's table through hekla.drafts, and returns its own in the same way.
    {
        const auto there = manifest(named, kDraft);
        const auto library = plugin::Library::load(there.value(), {}, drafts);
        REQUIRE(library.ok());
        // It returns the table that it received, which tests both directions.
        CHECK(library.value()->get_interface(kDraft, "h") == &table);
        CHECK(library.value()->get_interface(kDraft, "unknown") == nullptr);
    }
    // A plugin that names no draft does not get any, even if the host has some.
    {
        const auto there = manifest("", HK_HEAD_INTERFACE);
        REQUIRE(there.ok());
        const auto library = plugin::Library::load(there.value(), {}, drafts);
        REQUIRE(library.ok());
        CHECK(library.value()->get_interface(kDraft, "h") == nullptr);
        CHECK(library.value()->get_interface(HK_HEAD_INTERFACE, "h") != nullptr);
    }
}

} // namespace library_test
