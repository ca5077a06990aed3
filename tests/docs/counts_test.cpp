// Numbers in the documents that are counts of something in the repository.
#include "base/file.hpp"

#include <doctest/doctest.h>
#include <filesystem>
#include <fmt/format.h>
#include <string>
#include <tuple>

namespace counts_test {
namespace {

namespace fs = std::filesystem;
const fs::path kRoot = HEKLA_SOURCE_DIR;

} // namespace

TEST_CASE("documents: the number of models that are compared with their references is that of the fixtures") {
    std::size_t models = 0;
    for (const fs::directory_entry& entry : fs::directory_iterator(kRoot / "tests/fixtures/models"))
        models += fs::exists(entry.path() / "expected.safetensors") ? 1 : 0;
    for (const auto& [document, words, times] :
         {std::tuple{"README.md", "models compared with their reference implementations", 2},
          std::tuple{"docs/limits.md", "fixture models agree with their reference implementation", 1},
          std::tuple{"tests/fixtures/README.md", "tiny models of the reference implementations", 1}}) {
        const std::string text = hekla::read_file(kRoot / document).value(),
                          expected = fmt::format("{} {}", models, words);
        int found = 0;
        for (std::size_t at = text.find(expected); at != std::string::npos; at = text.find(expected, at + 1)) ++found;
        CHECK_MESSAGE(found == times, fmt::format("{}: needed {} times: {}", document, times, expected));
    }
}

} // namespace counts_test
