// Models whose tokenizers begin a text with BOS: prompts and greedy texts are those of transformers
// (tests/fixtures/llama-bos). HEKLA_PROGRAM is the program.
#include "base/file.hpp"
#include "text/tokenizer.hpp"

#include <cstdio>
#include <doctest/doctest.h>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

using namespace hekla;
using nlohmann::json;
using Ids = std::vector<int32_t>;

namespace {

const std::filesystem::path kFixtures = std::filesystem::path(HEKLA_SOURCE_DIR) / "tests" / "fixtures" / "llama-bos";

json generate(const std::filesystem::path& model, const std::string& options) {
    const std::string command = std::string("'") + HEKLA_PROGRAM + "' generate '" + model.string() +
                                "' --greedy --max-new-tokens 8 --json " + options;
    std::FILE* pipe = ::popen(command.c_str(), "r");
    REQUIRE(pipe != nullptr);
    std::string out;
    char buffer[4096];
    for (std::size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) out.append(buffer, n);
    REQUIRE_MESSAGE(::pclose(pipe) == 0, command);
    return json::parse(out);
}

} // namespace

TEST_CASE("a text begins with BOS: the ids of prompts, and greedy continuations") {
    for (const char* name : {"template", "add-bos"}) {
        const std::filesystem::path folder = kFixtures / name;
        const Result<std::string> expected = read_file(folder / "expected.json");
        REQUIRE_MESSAGE(expected.ok(), expected.message());
        const auto tokenizer = text::load_tokenizer(folder);
        REQUIRE_MESSAGE(tokenizer.ok(), tokenizer.message());
        for (const json& one : json::parse(expected.value())) {
            const std::string prompt = one["prompt"].is_null() ? "" : one["prompt"].get<std::string>();
            CAPTURE(name);
            CAPTURE(prompt);
            Ids ids = tokenizer.value()->frame().before;
            const Result<Ids> text = tokenizer.value()->encode(prompt);
            REQUIRE_MESSAGE(text.ok(), text.message());
            ids.insert(ids.end(), text->begin(), text->end());
            CHECK(ids == one["ids"].get<Ids>());
            const std::string given = one["prompt"].is_null() ? "" : "--prompt '" + prompt + "'";
            for (const char* where : {"", " --reference"}) {
                const json written = generate(folder, given + where);
                CHECK(written["rows"][0]["text"] == one["text"]);
                CHECK(written["new_tokens"] == one["new_ids"].size());
            }
        }
    }
}
