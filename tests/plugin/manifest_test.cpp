#include "plugin/manifest.hpp"

#include "base/file.hpp"
#include "base/temporary_folder.hpp"
#include "plugin/registry.hpp"

#include <doctest/doctest.h>
#include <filesystem>

using namespace hekla;
namespace fs = std::filesystem;

namespace {

// A manifest of one architecture whose names.ties are these.
std::string manifest_with_ties(const std::string& ties) {
    return R"({"plugin": "p", "library": "p.so", "version": "1", "licence": "MIT", "abi_major": 1,
        "abi_minor_needed": 0, "provides": [{"interface": "hekla.architecture/1", "id": "a", "names": {"ties": )" +
           ties + "}}]}";
}

} // namespace

TEST_CASE("manifest: what an architecture may begin with is given in its own keys") {
    const auto file = std::filesystem::temp_directory_path() / "hekla_manifest_ancestor_test.json";
    const auto read = [&](const std::string& ours) {
        REQUIRE(write_file_atomically(file, R"({"plugin": "p", "library": "p.so", "version": "1", "licence": "MIT",
            "abi_major": 0, "abi_minor_needed": 1, "provides": [{"interface": "hekla.architecture/1", "id": "a",
            "parameters": [{"key": "width"}], "begins_as": [{"model_type": "b", "keys": [["size", ")" +
                                                ours + R"("]], "names": [["b.", "a."]]}]}]})")
                    .ok());
        return plugin::read_manifest(file);
    };
    const Result<plugin::Manifest> good = read("width");
    REQUIRE(good.ok());
    CHECK(good->provides[0].ancestor("b") != nullptr);
    CHECK(good->provides[0].ancestor("a") == nullptr);
    CHECK(read("widht").status().message().find("begins_as[0].keys: expected keys of `parameters` on the right") !=
          std::string::npos);
    std::filesystem::remove(file);
}

TEST_CASE("manifest: ties that go in a circle are refused") {
    const auto file = std::filesystem::temp_directory_path() / "hekla_manifest_test.json";
    const auto read = [&](const std::string& ties) {
        REQUIRE(write_file_atomically(file, manifest_with_ties(ties)).ok());
        return plugin::read_manifest(file).status();
    };
    CHECK(read(R"([["head.weight", "decoder.weight"], ["decoder.weight", "shared.weight"]])").ok());
    const Status itself = read(R"([["x", "y"], ["a", "a"]])");
    CHECK(itself.message().find("names.ties: 'a' -> 'a' is a circle") != std::string::npos);
    const Status circle = read(R"([["z", "a"], ["a", "b"], ["b", "c"], ["c", "a"]])");
    CHECK(circle.message().find("'a' -> 'b' -> 'c' -> 'a' is a circle") != std::string::npos);
    CHECK(circle.message().find(file.string()) != std::string::npos);
    std::filesystem::remove(file);
}

TEST_CASE("registry: what others may write to is not used, whether folder, folder above it, manifest or library") {
    const TemporaryFolder top = TemporaryFolder::make().take();
    const fs::path folder = top.path() / "shared" / "plugins", manifest = folder / "p.json", library = folder / "p.so";
    fs::create_directories(folder);
    REQUIRE(write_file_atomically(manifest, manifest_with_ties("[]")).ok());
    REQUIRE(write_file_atomically(library, "no library is opened here").ok());
    const auto warnings = [&] { return plugin::Registry::scan({folder}).warnings(); };
    CHECK(warnings().empty());
    for (const fs::path& open : {folder, folder.parent_path(), manifest, library}) {
        CAPTURE(open.string());
        const fs::perms before = fs::status(open).permissions();
        fs::permissions(open, fs::perms::others_write, fs::perm_options::add);
        const std::vector<std::string> said = warnings();
        REQUIRE(said.size() == 1);
        CHECK(said[0].find(open.string()) != std::string::npos);
        CHECK(said[0].find("can be written by everyone: not used (chmod go-w") != std::string::npos);
        CHECK(plugin::Registry::scan({folder}).manifests().empty());
        fs::permissions(open, before);
    }
    // As /tmp is: whoever may write there may not rename what is another's.
    fs::permissions(folder.parent_path(), fs::perms::others_write | fs::perms::sticky_bit, fs::perm_options::add);
    CHECK(warnings().empty());
    CHECK(plugin::Registry::scan({folder}).manifests().size() == 1);
}
