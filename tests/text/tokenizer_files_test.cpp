// Tokenizers loaded from files in memory equal those loaded from their folder.
#include "text/files/tokenizer_files.hpp"

#include "support.hpp"
#include "text/tokenizer_trainer.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <map>

namespace tokenizer_files_test {

using namespace hekla;
using namespace hekla::text;
using namespace hekla::test;

namespace {

std::unique_ptr<Tokenizer> trained(std::unique_ptr<TokenizerTrainer> trainer) {
    must(trainer->add("The cat sat on the mat. The cats sat, and the mats were flat: \u00e9t\u00e9, caf\u00e9!\n", {}));
    Result<std::unique_ptr<Tokenizer>> made = trainer->finish();
    REQUIRE_MESSAGE(made.ok(), made.message());
    return made.take();
}

// Loads the folder's tokenizer from its files in memory, without those in `leave_out`.
void check_held(const std::filesystem::path& path, const std::vector<std::string>& leave_out = {}) {
    for (const std::string& name : leave_out) std::filesystem::remove(path / name);
    const FilePlace folder(path);
    std::map<std::string, std::string> contents;
    for (const std::string& name : tokenizer_files_in(folder)) {
        const Result<std::string> content = (folder / name).read();
        REQUIRE_MESSAGE(content.ok(), content.message());
        contents[name] = content.value();
    }
    const HeldFiles files(contents.begin(), contents.end());
    const Result<std::unique_ptr<Tokenizer>> by_path = load_tokenizer(path);
    REQUIRE_MESSAGE(by_path.ok(), by_path.message());
    const Result<std::unique_ptr<Tokenizer>> held = load_tokenizer(FilePlace(files, "game.hekla"));
    REQUIRE_MESSAGE(held.ok(), held.message());
    const std::string text = "the cats sat on the caf\u00e9 mat";
    CHECK(held.value()->hash() == by_path.value()->hash());
    CHECK(held.value()->kind() == by_path.value()->kind());
    const Result<std::vector<int32_t>> ids = held.value()->encode(text), expected = by_path.value()->encode(text);
    REQUIRE_MESSAGE(ids.ok(), ids.message());
    CHECK(ids.value() == expected.value());
    for (int32_t role = 0; role < kTokenRoles; ++role)
        CHECK(held.value()->special(static_cast<TokenRole>(role)) ==
              by_path.value()->special(static_cast<TokenRole>(role)));
}

} // namespace

TEST_CASE("a tokenizer loaded from files in memory equals that of its folder") {
    for (const bool json : {true, false}) {
        CAPTURE(json);
        const std::vector<std::string> left =
            json ? std::vector<std::string>() : std::vector{std::string("tokenizer.json")};
        {
            const TestFolder folder;
            must(trained(make_byte_bpe_trainer({.vocabulary_size = 290}))->save(folder.path()));
            check_held(folder.path(), left);
        }
        const TestFolder folder;
        must(trained(make_wordpiece_trainer({.vocabulary_size = 60}))->save(folder.path()));
        check_held(folder.path(), left);
    }
    const TestFolder characters, words;
    must(trained(make_character_trainer())->save(characters.path()));
    check_held(characters.path());
    must(trained(make_word_trainer({}))->save(words.path()));
    check_held(words.path());
}

TEST_CASE("digits are words of their own before anything else is split, as in SmolLM") {
    const auto file = [](const std::string& first, const std::string& prefix = "false") {
        return R"({"added_tokens": [], "normalizer": null, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [)" +
               first + R"(, {"type": "ByteLevel", "add_prefix_space": )" + prefix +
               R"(, "trim_offsets": true, "use_regex": true}]},
  "post_processor": null, "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": {"1": 0, "2": 1, "a": 2,
  "\u0120": 3, "12": 4, "\u01201": 5, "\u0120a": 6}, "merges": ["1 2", "\u0120 1", "\u0120 a"]}})";
    };
    const auto ids = [&](const std::string& first) {
        const std::string text = file(first);
        const HeldFiles files{{"tokenizer.json", text}};
        const std::unique_ptr<Tokenizer> read = must(load_tokenizer(FilePlace(files, "t")));
        const std::string written = read->to_json();
        const HeldFiles again{{"tokenizer.json", written}};
        const std::unique_ptr<Tokenizer> second = must(load_tokenizer(FilePlace(again, "t")));
        CHECK(second->hash() == read->hash());
        return must(second->encode("a 12 a12"));
    };
    using Ids = std::vector<int32_t>;
    CHECK(ids(R"({"type": "Digits", "individual_digits": true})") == Ids{2, 3, 0, 1, 6, 0, 1});
    CHECK(ids(R"({"type": "Digits", "individual_digits": false})") == Ids{2, 3, 4, 6, 4});
    // Each piece gets a space of its own.
    const std::string text = file(R"({"type": "Digits"})", "true");
    const HeldFiles spaced{{"tokenizer.json", text}};
    CHECK(must(must(load_tokenizer(FilePlace(spaced, "t")))->encode("a12")) == Ids{6, 3, 4});
}

TEST_CASE("errors in files in memory name them") {
    const HeldFiles none, broken{{"tokenizer.json", "{"}}, half{{"vocab.json", "{}"}};
    CHECK(
        load_tokenizer(FilePlace(none, "game.hekla")).status().message().starts_with("game.hekla: holds no tokenizer"));
    CHECK(
        load_tokenizer(FilePlace(broken, "game.hekla")).status().message().starts_with("game.hekla/tokenizer.json: "));
    CHECK(load_tokenizer(FilePlace(half, "game.hekla")).status().message().find("not merges.txt") != std::string::npos);
}

} // namespace tokenizer_files_test
