// GPT's tokenizer, and a feature of all kinds: special tokens that are added later.
#include "support.hpp"

#include "text/suffix_bpe.hpp"
#include "text/tokenizer_trainer.hpp"

namespace suffix_bpe_test {

using namespace hekla;
using namespace hekla::text;
using namespace hekla::test;

namespace {

using Ids = std::vector<int32_t>;

const std::string kVocabulary =
    R"({"<unk>":0,"l":1,"o":2,"w":3,"w</w>":4,"e":5,"r</w>":6,"lo":7,"low</w>":8,"low":9,"er</w>":10,"!</w>":11})";
const std::string kMerges = "#version: 0.2\nl o\nlo w</w>\nlo w\ne r</w>\n";

std::unique_ptr<Tokenizer> small() {
    const TestFolder folder;
    folder.write("vocab.json", kVocabulary);
    folder.write("merges.txt", kMerges);
    return must(load_tokenizer(folder.path()));
}

} // namespace

TEST_CASE("BPE with an end-of-word mark: merges, unknown characters, source bytes") {
    const auto tokenizer = small();
    CHECK(tokenizer->kind() == "suffix_bpe");
    std::vector<int32_t> ids;
    std::vector<ByteRange> ranges;
    must(tokenizer->encode("LOW lower! x", {}, ids, &ranges));
    CHECK(ids == Ids{8, 9, 10, 11, 0});
    CHECK(ranges == std::vector<ByteRange>{{0, 3}, {4, 7}, {7, 9}, {9, 10}, {11, 12}});
    CHECK(tokenizer->decode(Ids{8, 9, 10, 11}) == "low lower !");
    const TestFolder folder;
    must(tokenizer->save(folder.path()));
    CHECK(must(load_tokenizer(folder.path()))->hash() == tokenizer->hash());
    std::filesystem::remove(folder.path() / "tokenizer.json");
    CHECK(must(load_tokenizer(folder.path()))->hash() == tokenizer->hash());
}

TEST_CASE("folders with an unsupported tokenizer are rejected by name") {
    const TestFolder folder;
    folder.write("vocab.json", kVocabulary);
    folder.write("merges.txt", kMerges);
    folder.write("config.json", R"({"model_type": "flaubert"})");
    const auto loaded = load_tokenizer(folder.path());
    CHECK(loaded.code() == Code::unsupported);
    CHECK(contains(loaded.message(), "Moses"));
}

TEST_CASE("special tokens are added after the ids of every kind") {
    const auto with_special = [](std::unique_ptr<TokenizerTrainer> trainer) {
        must(trainer->add("the cat sat on the mat and the hat sat there, the end of the cat.", {}));
        const auto before = must(trainer->finish());
        const int32_t size = before->vocabulary_size();
        const std::vector<SpecialToken> more = {{"[DELIM]", {TokenRole::separator}}, {"[EXTRACT]", {TokenRole::cls}}};
        const auto after = must(add_special_tokens(*before, more));
        CHECK(after->vocabulary_size() == size + 2);
        CHECK(after->special(TokenRole::separator) == size);
        CHECK(after->special(TokenRole::cls) == size + 1);
        CHECK(after->hash() != before->hash());
        Ids expected = must(before->encode("the cat"));
        expected.push_back(size);
        CHECK(must(after->encode("the cat[DELIM]")) == expected);
        // Adding them again changes nothing.
        CHECK(must(add_special_tokens(*after, more))->hash() == after->hash());
        const TestFolder folder;
        must(after->save(folder.path()));
        const auto again = must(load_tokenizer(folder.path()));
        CHECK(again->hash() == after->hash());
        CHECK(must(again->encode("the cat[DELIM]")) == expected);
    };
    with_special(make_byte_bpe_trainer({.vocabulary_size = 270}));
    with_special(make_character_trainer());
    with_special(make_wordpiece_trainer({.vocabulary_size = 60}));
    with_special(make_word_trainer({.vocabulary_size = 20}));
    with_special(make_sentencepiece_trainer({.vocabulary_size = 30}));
}

} // namespace suffix_bpe_test
