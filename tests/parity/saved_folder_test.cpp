// What a run writes for other programs: settings of generation, and how batches of texts are made. HEKLA_PROGRAM is the
// program.
#include "base/file.hpp"
#include "support/program.hpp"

#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

using namespace hekla;
using namespace hekla::test;
using nlohmann::json;

namespace saved_folder_test {
namespace {

namespace fs = std::filesystem;
const fs::path kFixtures = fs::path(HEKLA_SOURCE_DIR) / "tests" / "fixtures";

json read_json(const fs::path& path) {
    const Result<std::string> text = read_file(path);
    REQUIRE_MESSAGE(text.ok(), text.message());
    return json::parse(text.value());
}

void train(const fs::path& folder, const std::string& recipe) {
    const std::string common = "train = {max_steps = 1, context_length = 8, eval_steps = 0, save_steps = 0}\n"
                               "output.dir = '" +
                               (folder / "run").string() + "'\n";
    REQUIRE(write_file_atomically(folder / "r.toml", recipe + common).ok());
    succeed(run(folder, {"train", "r.toml"}));
}

std::string data(const char* file) {
    return "data = {train = '" + (kFixtures / "old-runs" / file).string() + "', valid_fraction = 0.0}\n";
}

} // namespace

TEST_CASE("a language model that is trained from nothing has settings of generation") {
    const TestFolder folder;
    train(folder.path(),
          "model = {architecture = 't5', d_model = 8, d_kv = 4, d_ff = 16, num_layers = 1, num_heads = 2}\n"
          "objective.id = 'span_corruption'\nhead.id = 'lm'\ntokenizer = {kind = 'words', vocab_size = 140}\n" +
              data("text.txt"));
    const fs::path run = folder.path() / "run";
    const json config = read_json(run / "config.json"), settings = read_json(run / "generation_config.json");
    for (const char* key : {"eos_token_id", "pad_token_id", "decoder_start_token_id"}) {
        CAPTURE(key);
        REQUIRE(config.at(key).is_number_integer());
        CHECK(settings.at(key) == config.at(key));
    }
    CHECK(settings.at("decoder_start_token_id") == settings.at("pad_token_id"));
    CHECK(read_json(run / "tokenizer.json").at("post_processor").at("single").size() == 2); // the text and </s>
}

TEST_CASE("a saved tokenizer says on which side rows are padded, and whether they have types") {
    const TestFolder folder;
    const std::string classifier = "objective.id = 'classification'\nhead.id = 'classifier'\n" + data("rows.jsonl");
    train(folder.path(), "model = {architecture = 'xlnet', d_model = 8, n_layer = 1, n_head = 2, d_inner = 16}\n"
                         "tokenizer = {kind = 'words', vocab_size = 40}\n" +
                             classifier);
    const json config = read_json(folder.path() / "run/tokenizer_config.json");
    CHECK(config.at("padding_side") == "left");
    CHECK(config.at("model_input_names") == json{"input_ids", "token_type_ids", "attention_mask"});
    CHECK(!fs::exists(folder.path() / "run/generation_config.json"));
}

TEST_CASE("a tokenizer that was read is saved with its settings") {
    const TestFolder folder;
    const auto saved = [&](const std::string& family) {
        fs::remove_all(folder.path() / "run");
        train(folder.path(),
              "model = {architecture = 'llama', hidden_size = 8, num_hidden_layers = 1, num_attention_heads = 2, "
              "intermediate_size = 16}\nobjective.id = 'clm'\nhead.id = 'lm'\ntokenizer.from = '" +
                  (kFixtures / "text-uses" / family).string() + "'\n" + data("text.txt"));
        return read_json(folder.path() / "run/tokenizer_config.json");
    };
    const json given = read_json(kFixtures / "text-uses/qwen-embedding/tokenizer_config.json");
    const json kept = saved("qwen-embedding");
    CHECK(given.at("padding_side") == "left");
    CHECK(kept.at("padding_side") == "left");
    CHECK(kept.at("model_max_length") == given.at("model_max_length"));
    CHECK(kept.at("tokenizer_class") == given.at("tokenizer_class"));
    // The default of a class that is not kept.
    const json llama = saved("llama");
    CHECK(llama.at("tokenizer_class") == "PreTrainedTokenizerFast");
    CHECK(llama.at("padding_side") == "left");
    CHECK(llama.at("clean_up_tokenization_spaces") == false);
    // Without a template, and a decoder: nothing is added.
    CHECK(!saved("gpt2").contains("padding_side"));
}

} // namespace saved_folder_test
