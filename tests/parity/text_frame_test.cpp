// What is computed for texts with what their tokenizers put around them, and transformers' values: prompts and greedy
// texts of models whose texts begin with BOS (tests/fixtures/llama-bos), features and classes (tests/fixtures/framed).
// HEKLA_PROGRAM is the program.
#include "base/file.hpp"
#include "support/program.hpp"
#include "text/tokenizer.hpp"

#include <cmath>
#include <cstdio>
#include <doctest/doctest.h>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

using namespace hekla;
using namespace hekla::test;
using nlohmann::json;
using Ids = std::vector<int32_t>;

namespace {

const std::filesystem::path kFixtures = std::filesystem::path(HEKLA_SOURCE_DIR) / "tests" / "fixtures" / "llama-bos";

json output_of(const std::string& arguments) {
    return json::parse(succeed(shell(".", std::string("'") + HEKLA_PROGRAM + "' " + arguments)).out);
}

json generate(const std::filesystem::path& model, const std::string& options) {
    return output_of("generate '" + model.string() + "' --greedy --max-new-tokens 8 --json " + options);
}

void check_close(const json& made, const json& expected) {
    REQUIRE(made.size() == expected.size());
    for (std::size_t i = 0; i < made.size(); ++i)
        CHECK(std::abs(made[i].get<double>() - expected[i].get<double>()) < 1e-5);
}

json expected_of(const std::filesystem::path& folder) {
    const Result<std::string> expected = read_file(folder / "expected.json");
    REQUIRE_MESSAGE(expected.ok(), expected.message());
    return json::parse(expected.value());
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

TEST_CASE("features and classes are those of texts with the tokens that the tokenizer puts around them") {
    const std::filesystem::path framed = std::filesystem::path(HEKLA_SOURCE_DIR) / "tests" / "fixtures" / "framed";
    const std::filesystem::path bert = framed / "bert", classifier = framed / "gpt2-classifier";
    const json features = expected_of(bert), classes = expected_of(classifier);
    for (const auto& [text, values] : features.items()) {
        CAPTURE(text);
        for (const char* where : {"", " --reference"}) {
            const std::string of = "embed '" + bert.string() + "' '" + text + "'" + where;
            check_close(output_of(of + " --port pooled").at("embedding"), values.at("pooled"));
            for (const char* pooling : {"mean", "first", "last"})
                check_close(output_of(of + " --pooling " + pooling).at("embedding"), values.at(pooling));
        }
    }
    for (const auto& [text, values] : classes.items()) {
        CAPTURE(text);
        for (const char* where : {"", " --reference"})
            check_close(
                output_of("predict '" + classifier.string() + "' --text '" + text + "'" + where).at("probabilities"),
                values);
    }
}
