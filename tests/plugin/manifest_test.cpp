#include "plugin/registry/manifest.hpp"

#include "base/file.hpp"
#include "plugin/registry/registry.hpp"
#include "support/test_folder.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <filesystem>
#include <map>
#include <memory_resource>
#include <unistd.h>

namespace manifest_test {

using namespace hekla;
using namespace hekla::test;
namespace fs = std::filesystem;

namespace {

using nlohmann::json;

// A memory resource that knows its allocations.
class Given final : public std::pmr::memory_resource {
public:
    bool holds(const void* at, std::size_t bytes) const {
        const auto* const first = static_cast<const std::byte*>(at);
        return bytes == 0 || std::ranges::any_of(blocks_, [&](const auto& block) {
                   return first >= block.first && first + bytes <= block.first + block.second;
               });
    }
    std::size_t blocks() const { return blocks_.size(); }
    std::size_t most = SIZE_MAX; // blocks, over all sizes

private:
    void* do_allocate(std::size_t bytes, std::size_t alignment) override {
        if (blocks_.size() >= most) throw std::bad_alloc();
        void* const memory = std::pmr::new_delete_resource()->allocate(bytes, alignment);
        blocks_.emplace(static_cast<std::byte*>(memory), bytes);
        return memory;
    }
    void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override {
        CHECK(blocks_.at(static_cast<std::byte*>(memory)) == bytes);
        blocks_.erase(static_cast<std::byte*>(memory));
        std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment);
    }
    bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }
    std::map<std::byte*, std::size_t> blocks_;
};

// A comparison of the stored manifest with the file.
struct Compared {
    const Given& memory;

    void list(const auto& kept) const { CHECK(memory.holds(kept.data(), kept.size_bytes())); }
    void text(std::string_view kept, const json& object, const char* key) const {
        CHECK(memory.holds(kept.data(), kept.size()));
        CHECK(kept == object.value(key, ""));
    }
    void texts(plugin::Texts kept, const json& object, const char* key) const {
        list(kept);
        CHECK(std::vector<std::string>(kept.begin(), kept.end()) == object.value(key, std::vector<std::string>()));
        for (const std::string_view one : kept) CHECK(memory.holds(one.data(), one.size()));
    }
    void pairs(plugin::TextPairs kept, const json& object, const char* key) const {
        list(kept);
        json there = json::array(), wanted = object.value(key, json::array());
        for (const auto& [from, to] : kept) {
            CHECK(memory.holds(from.data(), from.size()));
            CHECK(memory.holds(to.data(), to.size()));
            there.push_back({from, to});
        }
        if (wanted.is_object()) {
            const json named = std::exchange(wanted, json::array());
            for (const auto& [from, to] : named.items()) wanted.push_back({from, to});
        }
        CHECK(there == wanted);
    }
    void object(const plugin::JsonText& kept, const json& wanted) const {
        if (!wanted.empty()) CHECK(memory.holds(kept.text.data(), kept.text.size()));
        CHECK(kept.parse() == wanted);
    }
    void provided(const plugin::Provided& kept, const json& wanted) const {
        text(kept.interface_id, wanted, "interface");
        text(kept.id, wanted, "id");
        text(kept.about, wanted, "about");
        text(kept.causal, wanted, "causal");
        texts(kept.ignored, wanted, "ignored");
        texts(kept.roles, wanted, "roles");
        texts(kept.model_types, wanted, "model_types");
        object(kept.check, wanted.value("check", json::object()));
        json keys = json::array(), defaults = json::object(), ranges = json::object(), kept_ranges = json::object();
        for (const json& parameter : wanted.value("parameters", json::array())) {
            const auto key = parameter.at("key").get<std::string>();
            keys.push_back(key);
            if (parameter.contains("default")) defaults[key] = parameter["default"];
            for (const char* end : {"minimum", "maximum"})
                if (parameter.contains(end)) ranges[key][end] = parameter[end].get<double>();
        }
        texts(kept.parameters, {{"keys", keys}}, "keys");
        object(kept.defaults, defaults);
        list(kept.ranges);
        for (const auto& [key, minimum, maximum] : kept.ranges) {
            CHECK(memory.holds(key.data(), key.size()));
            if (minimum) kept_ranges[key]["minimum"] = *minimum;
            if (maximum) kept_ranges[key]["maximum"] = *maximum;
        }
        CHECK(kept_ranges == ranges);
        const json names = wanted.value("names", json::object()), ancestors = wanted.value("begins_as", json::array()),
                   classes = wanted.value("classes", json::array());
        text(kept.names.prefix, names, "prefix");
        pairs(kept.names.renames, names, "renames");
        texts(kept.names.ignore, names, "ignore");
        texts(kept.names.stacks, names, "stacks");
        CHECK(kept.segments == wanted.value("segments", false));
        pairs(kept.names.ties, names, "ties");
        list(kept.begins_as);
        REQUIRE(kept.begins_as.size() == ancestors.size());
        for (std::size_t i = 0; i < ancestors.size(); ++i) {
            text(kept.begins_as[i].model_type, ancestors[i], "model_type");
            pairs(kept.begins_as[i].keys, ancestors[i], "keys");
            pairs(kept.begins_as[i].names, ancestors[i], "names");
            texts(kept.begins_as[i].ignore, ancestors[i], "ignore");
        }
        list(kept.classes);
        REQUIRE(kept.classes.size() == classes.size());
        for (std::size_t i = 0; i < classes.size(); ++i) {
            text(kept.classes[i].name, classes[i], "class");
            text(kept.classes[i].head, classes[i], "head");
            text(kept.classes[i].objective, classes[i], "objective");
            pairs(kept.classes[i].outputs, classes[i], "outputs");
            object(kept.classes[i].head_config, classes[i].value("head_config", json::object()));
            object(kept.classes[i].objective_config, classes[i].value("objective_config", json::object()));
        }
    }
};

bool has(const std::string& text, std::string_view part) {
    INFO(text.substr(0, 500));
    return text.find(part) != std::string::npos;
}

// Returns a manifest of one architecture with this names.ties.
std::string manifest_with_ties(const std::string& ties) {
    return R"({"plugin": "p", "library": "p.so", "version": "1", "licence": "MIT", "abi_major": 1,
        "abi_minor_needed": 0, "provides": [{"interface": "hekla.architecture/1", "id": "a", "names": {"ties": )" +
           ties + "}}]}";
}

} // namespace

TEST_CASE("manifest: begins_as maps to keys of the architecture itself") {
    const auto file = std::filesystem::temp_directory_path() / "hekla_manifest_ancestor_test.json";
    ReadOnlyArena kept;
    const auto read = [&](const std::string& ours) {
        REQUIRE(write_file_atomically(file, R"({"plugin": "p", "library": "p.so", "version": "1", "licence": "MIT",
            "abi_major": 0, "abi_minor_needed": 1, "provides": [{"interface": "hekla.architecture/1", "id": "a",
            "parameters": [{"key": "width"}], "begins_as": [{"model_type": "b", "keys": [["size", ")" +
                                                ours + R"("]], "names": [["b.", "a."]]}]}]})")
                    .ok());
        return plugin::read_manifest(file, kept);
    };
    const Result<plugin::Manifest> good = read("width");
    REQUIRE(good.ok());
    CHECK(good->provides[0].ancestor("b") != nullptr);
    CHECK(good->provides[0].ancestor("a") == nullptr);
    CHECK(read("widht").status().message().find(
              "begins_as[0].keys: \"widht\" on the right is not a key of \"parameters\"") != std::string::npos);
    std::filesystem::remove(file);
}

TEST_CASE("manifest: JSON that is damaged, repeats a key or nests 100,000 deep is one error with its line") {
    const auto file = std::filesystem::temp_directory_path() / "hekla_manifest_json_test.json";
    ReadOnlyArena kept;
    const auto error = [&](const std::string& content) {
        REQUIRE(write_file_atomically(file, content).ok());
        const Status status = plugin::read_manifest(file, kept).status();
        CHECK(!status.ok());
        return status.message();
    };
    const auto with_default = [](const std::string& value) {
        return R"({"plugin": "p", "library": "p.so", "version": "1", "licence": "MIT", "abi_major": 1, "abi_minor_needed": 0,
"provides": [{"interface": "hekla.objective/1", "id": "a", "about": "b", "parameters": [{"key": "k", "default": )" +
               value + "}]}]}";
    };
    const std::string arrays = with_default(std::string(100'000, '[') + std::string(100'000, ']'));
    CHECK(has(error(arrays), file.string() + ": line 2, column "));
    CHECK(has(error(arrays), "nested deeper than 64 levels"));
    std::string objects;
    for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
    CHECK(has(error(with_default(objects + "1" + std::string(100'000, '}'))), "nested deeper than 64 levels"));
    CHECK(has(error("{\n  \"plugin\": \"p\",\n  \"plugin\": \"q\"}"),
              "line 3, column 10: the key \"plugin\" occurs twice"));
    CHECK(has(error("{\"plugin\": }"), "line 1, column 12: not valid JSON"));
    std::filesystem::remove(file);
}

TEST_CASE("manifest: a cycle of ties is rejected") {
    const auto file = std::filesystem::temp_directory_path() / "hekla_manifest_test.json";
    ReadOnlyArena kept;
    const auto read = [&](const std::string& ties) {
        REQUIRE(write_file_atomically(file, manifest_with_ties(ties)).ok());
        return plugin::read_manifest(file, kept).status();
    };
    CHECK(read(R"([["head.weight", "decoder.weight"], ["decoder.weight", "shared.weight"]])").ok());
    const Status itself = read(R"([["x", "y"], ["a", "a"]])");
    CHECK(itself.message().find("names.ties: 'a' -> 'a' is a cycle") != std::string::npos);
    const Status circle = read(R"([["z", "a"], ["a", "b"], ["b", "c"], ["c", "a"]])");
    CHECK(circle.message().find("'a' -> 'b' -> 'c' -> 'a' is a cycle") != std::string::npos);
    CHECK(circle.message().find(file.string()) != std::string::npos);
    std::filesystem::remove(file);
}

TEST_CASE("manifest: mistakes are rejected by key, with the given and the expected value, and reported once") {
    const TestFolder folder;
    const fs::path file = folder.path() / "p.json";
    const std::string good = R"({"plugin": "p", "library": "p.so", "version": "1", "licence": "MIT", "abi_major": 1,
        "abi_minor_needed": 0, "provides": [{"interface": "hekla.architecture/1", "id": "a",
        "check": {"config": {"width": 8}, "waive": {"train.bfloat16": "chooses the largest"}},
        "parameters": [{"key": "width", "default": 8, "minimum": 1, "maximum": 16}, {"key": "rate", "default": null,
        "minimum": 0}, {"key": "sizes", "default": [4, 4], "minimum": 1}, {"key": "kind", "default": "fast"}]}]})";
    // Returns the warning after replacing `from` in the manifest by `to`; empty: none.
    const auto report = [&](const std::string& from, const std::string& to) {
        std::string content = good;
        REQUIRE(content.find(from) != std::string::npos);
        content.replace(content.find(from), from.size(), to);
        REQUIRE(write_file_atomically(file, content).ok());
        const plugin::Registry registry = plugin::Registry::scan({folder.path(), folder.path()});
        if (registry.warnings().empty()) return std::string();
        CHECK(registry.warnings().size() == 1); // although the folder is listed twice
        std::string message(registry.warnings()[0]);
        CHECK(message.starts_with(file.string() + ": "));
        return message.substr(std::min(message.size(), file.string().size() + 2));
    };
    CHECK(report("\"p\"", "\"p\"") == "");
    CHECK(report("\"licence\"", "\"license\"") == "the key 'licence' is missing");
    CHECK(report("\"version\": \"1\"", "\"version\": \"1\", \"librari\": \"q.so\"") ==
          "a manifest has no key 'librari'; did you mean 'library'?");
    CHECK(report("\"maximum\": 16", "\"maximun\": 16") ==
          "provides[0].parameters[0] has no key 'maximun'; did you mean 'maximum'?");
    CHECK(report("\"config\"", "\"confg\"") == "provides[0].check has no key 'confg'; did you mean 'config'?");
    CHECK(report("\"chooses the largest\"", "true") ==
          "provides[0].check.waive: \"train.bfloat16\" needs the reason as a string, found true");
    CHECK(report("\"default\": 8", "\"default\": 0") == "provides[0].parameters[0].default: 0 is below the minimum 1");
    CHECK(report("\"default\": 8", "\"default\": 17") ==
          "provides[0].parameters[0].default: 17 is above the maximum 16");
    CHECK(report("\"default\": 8", "\"default\": \"8\"") ==
          "provides[0].parameters[0].default: \"8\" is not a number, and the parameter has a range");
    CHECK(report("\"minimum\": 1", "\"minimum\": 20") ==
          "provides[0].parameters[0].minimum: 20 is above the maximum 16");
    CHECK(report("\"key\": \"kind\"", "\"key\": \"width\"") ==
          "provides[0].parameters[3].key: the parameter \"width\" is listed twice");
    CHECK(report("\"abi_major\": 1", "\"abi_major\": -1") == "abi_major: -1 is outside 0 to 4294967295");
    CHECK(report("\"id\": \"a\"", "\"id\": 7") == "provides[0].id: is 7, expected a string");
    CHECK(report("\"minimum\": 0", "\"minimum\": 0, \"null\": 1") ==
          "provides[0].parameters[1].null: is 1, expected true or false");
    CHECK(report("\"minimum\": 0", "\"minimum\": 0, \"null\": true") ==
          "provides: \"null\" of the parameter \"rate\" exists from plugin ABI 1.2 on: set \"abi_minor_needed\": 2 and "
          "build the plugin again");
    CHECK(
        report("\"id\": \"a\"", "\"id\": \"a\", \"segments\": true") ==
        "provides: \"segments\" exists from plugin ABI 1.2 on: set \"abi_minor_needed\": 2 and build the plugin again");
    // A duplicate key, and a syntax error with its line.
    CHECK(report("\"version\": \"1\"", "\"version\": \"1\", \"version\": \"2\"").find("version") != std::string::npos);
    CHECK(report("\"abi_minor_needed\": 0,", "\"abi_minor_needed\": 0").find("line 2, column") != std::string::npos);
    const std::string deep = std::string(100000, '[') + std::string(100000, ']');
    CHECK(report("\"default\": 8", "\"default\": " + deep).find("64") != std::string::npos);
    // Names that a newer ABI or another host may define are accepted.
    CHECK(report("\"abi_minor_needed\": 0", "\"abi_minor_needed\": 9, \"newer\": 1") == "");
    CHECK(report("\"hekla.architecture/1\", \"id\"", "\"acme.sound/1\", \"volume\": 3, \"id\"") == "");
}

TEST_CASE("registry: folders, parent folders, manifests and libraries that others can write to are not used") {
    const TestFolder top;
    const fs::path folder = top.path() / "shared" / "plugins", manifest = folder / "p.json", library = folder / "p.so";
    fs::create_directories(folder);
    REQUIRE(write_file_atomically(manifest, manifest_with_ties("[]")).ok());
    REQUIRE(write_file_atomically(library, "no library is opened here").ok());
    const auto warnings = [&] {
        const plugin::Registry registry = plugin::Registry::scan({folder});
        return std::vector<std::string>(registry.warnings().begin(), registry.warnings().end());
    };
    CHECK(warnings().empty());
    for (const fs::path& open : {folder, folder.parent_path(), manifest, library}) {
        CAPTURE(open.string());
        const fs::perms before = fs::status(open).permissions();
        fs::permissions(open, fs::perms::others_write, fs::perm_options::add);
        const std::vector<std::string> reported = warnings();
        REQUIRE(reported.size() == 1);
        CHECK(reported[0].find(open.string()) != std::string::npos);
        CHECK(reported[0].find("can be written by everyone: not used (chmod go-w") != std::string::npos);
        CHECK(plugin::Registry::scan({folder}).manifests().empty());
        fs::permissions(open, before);
    }
    if (::geteuid() == 0) // only root can give a file to another user
        for (const fs::path& given : {folder, manifest, library}) {
            CAPTURE(given.string());
            REQUIRE(::chown(given.c_str(), 12345, static_cast<gid_t>(-1)) == 0);
            const std::vector<std::string> reported = warnings();
            REQUIRE(reported.size() == 1);
            CHECK(reported[0].find("can be written by its owner, another user: not used (chown it") !=
                  std::string::npos);
            REQUIRE(::chown(given.c_str(), 0, static_cast<gid_t>(-1)) == 0);
        }
    // Like /tmp: anyone may write there, but not rename other users' files.
    fs::permissions(folder.parent_path(), fs::perms::others_write | fs::perms::sticky_bit, fs::perm_options::add);
    CHECK(warnings().empty());
    CHECK(plugin::Registry::scan({folder}).manifests().size() == 1);
}

TEST_CASE("registry: manifests and warnings are stored in the given memory, with the files' contents") {
    const TestFolder more; // a damaged manifest, and one with a hidden entry
    REQUIRE(write_file_atomically(more.path() / "damaged.json", "{\"plugin\": 7}").ok());
    REQUIRE(write_file_atomically(more.path() / "hidden.json", R"({"plugin": "p", "library": "p.so", "version": "1",
        "licence": "MIT", "abi_major": 1, "abi_minor_needed": 0, "provides": [
        {"interface": "hekla.architecture/1", "id": "gpt2"}, {"interface": "hekla.head/1", "id": "another"}]})")
                .ok());
    const std::vector<fs::path> folders{HEKLA_PLUGIN_FOLDER, more.path()};
    Given memory;
    std::size_t blocks = 0;
    {
        plugin::Registry made = plugin::Registry::scan(folders, {}, &memory);
        blocks = memory.blocks();
        CHECK(blocks < 20);
        const plugin::Registry registry = std::move(made); // and it stays there
        CHECK(memory.blocks() == blocks);
        const Compared compared{memory};
        compared.list(registry.manifests());
        REQUIRE(registry.manifests().size() > 30);
        for (const plugin::Manifest& manifest : registry.manifests().first(registry.manifests().size() - 1)) {
            CAPTURE(manifest.file);
            const json file = json::parse(read_file(manifest.file).value());
            CHECK(memory.holds(manifest.file.data(), manifest.file.size()));
            CHECK(memory.holds(manifest.library.data(), manifest.library.size()));
            CHECK(manifest.library == (fs::path(manifest.file).parent_path() / file["library"]).string());
            compared.text(manifest.plugin, file, "plugin");
            compared.text(manifest.version, file, "version");
            compared.text(manifest.licence, file, "licence");
            compared.text(manifest.sha256, file, "sha256");
            compared.texts(manifest.drafts, file, "drafts");
            compared.list(manifest.provides);
            REQUIRE(manifest.provides.size() == file["provides"].size());
            for (std::size_t i = 0; i < manifest.provides.size(); ++i)
                compared.provided(manifest.provides[i], file["provides"][i]);
        }
        const std::span<const plugin::Provided> half = registry.manifests().back().provides;
        compared.list(half);
        REQUIRE(half.size() == 1);
        CHECK(half[0].id == "another");
        compared.list(registry.warnings());
        REQUIRE(registry.warnings().size() == 2);
        for (const std::string_view warning : registry.warnings()) CHECK(memory.holds(warning.data(), warning.size()));
        CHECK(registry.find("hekla.architecture/1", "gpt2").ok());
        CHECK(registry.find("hekla.head/1", "another").ok());
    }
    CHECK(memory.blocks() == 0);
    for (memory.most = 0; memory.most < blocks; ++memory.most) {
        CHECK_THROWS_AS(plugin::Registry::scan(folders, {}, &memory), std::bad_alloc);
        CHECK(memory.blocks() == 0);
    }
}

} // namespace manifest_test
