#include "support.hpp"

#include "text/tokenizer_trainer.hpp"

namespace character_test {

using namespace hekla;
using namespace hekla::text;
using namespace hekla::test;

namespace {

std::unique_ptr<Tokenizer> train(const std::string& text, std::vector<SpecialToken> special = {}) {
    const auto trainer = make_character_trainer(std::move(special));
    must(trainer->add(text, {}));
    return must(trainer->finish());
}

} // namespace

TEST_CASE("character: ids follow the code points that occur") {
    const auto tokenizer = train("ba\n\xC3\xA9 \xF0\x9F\x98\x80"
                                 "a");
    CHECK(tokenizer->kind() == "character");
    CHECK(tokenizer->vocabulary_size() == 6); // \n, space, a, b, é, 😀
    std::vector<int32_t> ids;
    std::vector<ByteRange> ranges;
    must(tokenizer->encode("\n ab\xC3\xA9\xF0\x9F\x98\x80", {}, ids, &ranges));
    CHECK(ids == std::vector<int32_t>{0, 1, 2, 3, 4, 5});
    CHECK(ranges[4] == ByteRange{4, 6});
    CHECK(ranges[5] == ByteRange{6, 10});
    CHECK(tokenizer->decode(ids) == "\n ab\xC3\xA9\xF0\x9F\x98\x80");
}

TEST_CASE("character: an unknown character is named with its position, unless there is an unknown token") {
    const auto tokenizer = train("abc\n");
    std::vector<int32_t> ids;
    EncodeOptions options;
    options.origin = {"play.txt", 50, 4};
    const Status status = tokenizer->encode("ab\nc\xC3\xA9", options, ids);
    CHECK(status.code() == Code::invalid_argument);
    CHECK(contains(status.message(), "play.txt: line 5, byte offset 54"));
    CHECK(contains(status.message(), "U+00E9"));
    CHECK(contains(status.message(), "4 characters"));
    CHECK(ids.empty());
    const auto forgiving = train("abc\n", {{"<unk>", {TokenRole::unk}}});
    CHECK(must(forgiving->encode("a?b")) == std::vector<int32_t>{1, 4, 2});
}

TEST_CASE("character: a saved and loaded tokenizer is the same, with special tokens and unusual characters") {
    for (const bool special : {false, true}) {
        const std::string text = random_text(3, 2000);
        const auto tokenizer =
            special
                ? train(text, {{"<|end|>", {TokenRole::eos}}, {"<unk>", {TokenRole::unk}}, {"<m>", {TokenRole::mask}}})
                : train(text);
        const TestFolder folder;
        must(tokenizer->save(folder.path()));
        const auto again = must(load_tokenizer(folder.path()));
        CHECK(again->kind() == "character");
        CHECK(again->hash() == tokenizer->hash());
        CHECK(again->special(TokenRole::mask) == tokenizer->special(TokenRole::mask));
        const std::vector<int32_t> ids = must(again->encode(text));
        CHECK(ids == must(tokenizer->encode(text)));
        CHECK(again->decode(ids) == text);
    }
}

TEST_CASE("character: cuts are safe") {
    const auto tokenizer = train(random_text(4, 3000), {{"<|end|>", {TokenRole::eos}}});
    for (uint64_t seed = 0; seed < 40; ++seed) {
        RandomStream random(seed, 5);
        const std::string text = random_text(4, 40) + "<|end|>" + random_text(4, 30) + "<|end|><|end|>";
        CHECK(encoded_in_parts(*tokenizer, text, random, 12) == must(tokenizer->encode(text)));
    }
}

TEST_CASE("character: training without text is an error") {
    CHECK(make_character_trainer()->finish().code() == Code::invalid_argument);
    CHECK(!make_character_trainer()->add("\xFF", {}).ok());
}

TEST_CASE("character: tiny Shakespeare has nanoGPT's 65 characters") {
    const std::filesystem::path data = real_data("tinyshakespeare");
    if (data.empty()) return;
    const std::string text = must(read_file(data / "input.txt"));
    const auto tokenizer = train(text);
    CHECK(tokenizer->vocabulary_size() == 65);
    CHECK(must(tokenizer->encode("\n Az")) == std::vector<int32_t>{0, 1, 13, 64});
    CHECK(must(tokenizer->encode(text)).size() == 1'115'394);
}

} // namespace character_test
