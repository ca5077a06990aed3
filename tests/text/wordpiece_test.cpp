#include "support.hpp"

#include "text/files/json_file.hpp"
#include "text/tokenizer_trainer.hpp"
#include "text/wordpiece.hpp"
#include "vectors.hpp"

#include <fmt/format.h>

namespace wordpiece_test {

using namespace hekla;
using namespace hekla::text;
using namespace hekla::test;

namespace {

using Ids = std::vector<int32_t>;

const std::string kSmall =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhe\n##llo\nhello\n##l\n##o\ncafe\n\xE4\xB8\xAD\n!\n'\ns\n"
    "\xC3\xA9\nx\n##x\n[\n";

std::unique_ptr<Tokenizer> small(const std::string& config = "") {
    const TestFolder folder;
    folder.write("vocab.txt", kSmall);
    if (!config.empty()) folder.write("tokenizer_config.json", config);
    return must(load_tokenizer(folder.path()));
}

std::string error_of(const std::string& vocabulary) {
    const TestFolder folder;
    folder.write("vocab.txt", vocabulary);
    const auto loaded = load_tokenizer(folder.path());
    REQUIRE(!loaded.ok());
    CHECK(contains(loaded.message(), "vocab.txt"));
    return loaded.message();
}

} // namespace

TEST_CASE("WordPiece: the longest pieces, normalized as in BERT, with their source bytes") {
    const auto tokenizer = small();
    CHECK(tokenizer->kind() == "wordpiece");
    CHECK(tokenizer->special(TokenRole::cls) == 2);
    CHECK(tokenizer->special(TokenRole::separator) == 3);
    CHECK(tokenizer->special(TokenRole::mask) == 4);
    std::vector<int32_t> ids;
    std::vector<ByteRange> ranges;
    // An accent as a combining mark and one as part of its letter; Chinese characters; marks; a token in the text.
    const std::string text = "HeLLo hellolo C\xCC\x81"
                             "af\xC3\x89\xE4\xB8\xAD\xE4\xB8\xAD! [MASK]'s q";
    must(tokenizer->encode(text, {}, ids, &ranges));
    CHECK(ids == Ids{7, 7, 8, 9, 10, 11, 11, 12, 4, 13, 14, 1});
    CHECK(ranges == std::vector<ByteRange>{{0, 5},
                                           {6, 11},
                                           {11, 12},
                                           {12, 13},
                                           {14, 21},
                                           {21, 24},
                                           {24, 27},
                                           {27, 28},
                                           {29, 35},
                                           {35, 36},
                                           {36, 37},
                                           {38, 39}});
    CHECK(tokenizer->decode(ids) == "hello hellolo cafe \xE4\xB8\xAD \xE4\xB8\xAD! [MASK]'s [UNK]");
    CHECK(tokenizer->decode(ids, true) == "hello hellolo cafe \xE4\xB8\xAD \xE4\xB8\xAD!'s");
    CHECK(tokenizer->begins_word(7));
    CHECK(!tokenizer->begins_word(6));
    CHECK(!tokenizer->begins_word(2));
    // Without special tokens "[MASK]" is a bracket, a word, a bracket.
    EncodeOptions plain;
    plain.match_special = false;
    ids.clear();
    must(tokenizer->encode("[MASK]", plain, ids));
    CHECK(ids == Ids{18, 1, 1});
    // Control characters and the like are removed; a word has at most 100 characters.
    CHECK(must(tokenizer->encode(std::string("h\xE2\x80\x8B\x01"
                                             "e\0llo\xEF\xBF\xBD",
                                             13))) == Ids{7});
    CHECK(must(tokenizer->encode(std::string(100, 'x'))).size() == 100);
    CHECK(must(tokenizer->encode(std::string(101, 'x'))) == Ids{1});
    CHECK(must(tokenizer->encode("")) == Ids{});
    CHECK(must(tokenizer->encode(" \t\xE2\x80\x83\n")) == Ids{});
}

TEST_CASE("WordPiece: options of tokenizer_config.json") {
    CHECK(must(small(R"({"do_lower_case": false})")->encode("Hello hello \xC3\xA9")) == Ids{1, 7, 15});
    CHECK(must(small(R"({"do_lower_case": true, "strip_accents": false})")->encode("HELLO \xC3\x89")) == Ids{7, 15});
    CHECK(must(small(R"({"tokenize_chinese_chars": false})")->encode("\xE4\xB8\xAD\xE4\xB8\xAD")) == Ids{1});
}

TEST_CASE("WordPiece: a saved and loaded tokenizer is the same, from either file") {
    for (const char* config : {"", R"({"do_lower_case": false})"}) {
        const auto tokenizer = small(config);
        const TestFolder folder;
        must(tokenizer->save(folder.path()));
        CHECK(must(load_tokenizer(folder.path()))->hash() == tokenizer->hash());
        std::filesystem::remove(folder.path() / "tokenizer.json");
        CHECK(must(load_tokenizer(folder.path()))->hash() == tokenizer->hash());
        CHECK(must(read_file(folder.path() / "vocab.txt")) == kSmall);
        CHECK(must(load_tokenizer(folder.path() / "vocab.txt"))->hash() == tokenizer->hash());
    }
}

TEST_CASE("WordPiece: invalid vocabularies") {
    CHECK(contains(error_of("[UNK]\na\na\n"), "line 3"));
    CHECK(contains(error_of("[UNK]\n\nb\n"), "line 2"));
    CHECK(contains(error_of("a\nb\n"), "[UNK]"));
    CHECK(contains(error_of("[UNK]\n\xFF\n"), "not valid UTF-8"));
    CHECK(!error_of("").empty());
    const auto json = [](const std::string& text) {
        const TestFolder folder;
        folder.write("tokenizer.json", text);
        const auto loaded = load_tokenizer(folder.path());
        REQUIRE(!loaded.ok());
        return loaded.message();
    };
    CHECK(contains(json(R"({"pre_tokenizer":{"type":"BertPreTokenizer"},"model":{"type":"WordPiece","vocab":[]}})"),
                   "model.vocab"));
    const TestFolder folder;
    folder.write("tokenizer.json",
                 R"({"pre_tokenizer":{"type":"BertPreTokenizer"},"model":{"type":"WordPiece","vocab":{"a":0}}})");
    const auto without = must(load_tokenizer(folder.path()));
    CHECK(must(without->encode("a")) == Ids{0});
    CHECK(contains(without->encode("b").message(), "no unknown token"));
}

TEST_CASE("WordPiece: cuts are safe") {
    const auto tokenizer = small();
    for (uint64_t seed = 0; seed < 60; ++seed) {
        RandomStream random(seed, 5);
        const std::string text = random_text(seed, 40) + "[MASK] hello[SEP]" + random_text(seed + 100, 30);
        CHECK(encoded_in_parts(*tokenizer, text, random, 12) == must(tokenizer->encode(text)));
    }
}

TEST_CASE("WordPiece: training") {
    const auto trainer = make_wordpiece_trainer({.vocabulary_size = 24});
    must(trainer->add("low lower lowest low low [MASK] new newer newest newest w\xC3\xA9w", {}));
    const auto tokenizer = must(trainer->finish());
    CHECK(tokenizer->vocabulary_size() == 24);
    CHECK(must(tokenizer->token(0)) == "[PAD]");
    CHECK(must(tokenizer->token(5)) == "e");
    CHECK(tokenizer->find("low"));
    CHECK(tokenizer->decode(must(tokenizer->encode("Low newest"))) == "low newest");
    CHECK(make_wordpiece_trainer({})->finish().code() == Code::invalid_argument);
    const auto tiny = make_wordpiece_trainer({.vocabulary_size = 6});
    must(tiny->add("abc", {}));
    CHECK(contains(tiny->finish().message(), "need at least"));
}

TEST_CASE("words: one token per word, trained, saved and loaded") {
    const auto trainer = make_word_trainer({.vocabulary_size = 8});
    must(trainer->add("The cat, the dog. The end", {}));
    const auto tokenizer = must(trainer->finish());
    CHECK(tokenizer->kind() == "words");
    CHECK(must(tokenizer->token(4)) == "the");
    std::vector<int32_t> ids;
    std::vector<ByteRange> ranges;
    must(tokenizer->encode("THE  cow, \xC3\x89nd</s>", {}, ids, &ranges));
    CHECK(ids == Ids{4, 1, 5, 1, 3});
    CHECK(ranges == std::vector<ByteRange>{{0, 3}, {5, 8}, {8, 9}, {10, 14}, {14, 18}});
    CHECK(tokenizer->decode(ids, true) == "the ,");
    const TestFolder folder;
    must(tokenizer->save(folder.path()));
    CHECK(must(load_tokenizer(folder.path()))->hash() == tokenizer->hash());
    WordTraining split;
    split.normalization.punctuation = false;
    const auto by_space = make_word_trainer(split);
    must(by_space->add("it 's a film , the film", {}));
    const auto spaced = must(by_space->finish());
    CHECK(spaced->find("'s"));
    must(spaced->save(folder.path()));
    CHECK(must(load_tokenizer(folder.path()))->hash() == spaced->hash());
}

TEST_CASE("BERT: every published id") {
    const std::filesystem::path vocabulary = real_data("bert_vocab");
    const std::filesystem::path vectors = real_data("tokenizer_vectors");
    if (vocabulary.empty() || vectors.empty()) return;
    const auto uncased = must(load_tokenizer(vocabulary / "bert_base_uncased_vocab.txt"));
    const auto cased = must(load_tokenizer(vocabulary / "bert_base_cased_vocab.txt"));
    CHECK(uncased->vocabulary_size() == 30522);
    CHECK(cased->vocabulary_size() == 28996);
    CHECK(check_llama_cpp(*uncased, vectors / "llama_cpp/ggml-vocab-bert-bge.gguf") == 47);
    const Json js = must(read_json_object(vectors / "transformers_js/vectors.json"));
    for (const auto& [name, tokenizer, count] :
         {std::tuple("Xenova/bert-base-uncased", uncased.get(), 30),
          std::tuple("Xenova/distilbert-base-cased-distilled-squad", cased.get(), 25)}) {
        int cases = 0;
        for (const auto& [key, test] : js[name].items()) {
            Ids ids = {*tokenizer->special(TokenRole::cls)};
            for (const char* part : {"text", "text_pair"}) {
                if (!test.contains(part)) continue;
                must(tokenizer->encode(test[part].get<std::string>(), {}, ids));
                ids.push_back(*tokenizer->special(TokenRole::separator));
            }
            CHECK_MESSAGE(ids == test["ids"].get<Ids>(), name << " " << key);
            CHECK_MESSAGE(tokenizer->decode(ids) == test["decoded"].get<std::string>(), name << " " << key);
            ++cases;
        }
        CHECK(cases == count);
    }
}

} // namespace wordpiece_test
