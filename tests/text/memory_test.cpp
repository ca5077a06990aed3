// Tokenizers whose tables use another memory resource.
#include "counting_resource.hpp"
#include "support.hpp"

#include "text/tokenizer_trainer.hpp"

namespace memory_test {

using namespace hekla;
using namespace hekla::text;
using namespace hekla::test;

namespace {

std::vector<std::unique_ptr<TokenizerTrainer>> trainers() {
    std::vector<std::unique_ptr<TokenizerTrainer>> all;
    all.push_back(make_character_trainer());
    all.push_back(make_byte_bpe_trainer({.vocabulary_size = 400}));
    all.push_back(make_wordpiece_trainer({.vocabulary_size = 200}));
    all.push_back(make_sentencepiece_trainer({.vocabulary_size = 80}));
    all.push_back(make_word_trainer({}));
    return all;
}

} // namespace

TEST_CASE("a tokenizer with another memory resource is the same, and releases its memory") {
    std::string text;
    for (int i = 0; i < 300; ++i)
        text += "the " + std::to_string(i * i % 71) + " words, of some Texts: wörter " +
                std::string(1, static_cast<char>('a' + i % 26)) + "\n";
    for (const std::unique_ptr<TokenizerTrainer>& trainer : trainers()) {
        must(trainer->add(text, {}));
        std::unique_ptr<Tokenizer> tokenizer = must(trainer->finish());
        CAPTURE(tokenizer->kind());
        const Hash128 hash = tokenizer->hash();
        const std::vector<int32_t> ids = must(tokenizer->encode(text));
        const std::string decoded = tokenizer->decode(ids);
        test::CountingResource memory;
        tokenizer = must(lying_in(&memory, std::move(tokenizer)));
        CHECK(memory.live() > static_cast<std::size_t>(tokenizer->vocabulary_size()) * sizeof(int32_t));
        CHECK(tokenizer->hash() == hash);
        CHECK(must(tokenizer->encode(text)) == ids);
        CHECK(tokenizer->decode(ids) == decoded);
        const Tokenizer* const before = tokenizer.get();
        tokenizer = must(lying_in(&memory, std::move(tokenizer)));
        CHECK(tokenizer.get() == before); // it uses that memory already
        const std::size_t live = memory.live();
        const auto more = must(add_special_tokens(*tokenizer, std::vector<SpecialToken>{{"<new>", {}}}));
        CHECK(more->vocabulary().memory() == std::pmr::new_delete_resource()); // a copy uses the default resource
        CHECK(memory.live() == live);
        tokenizer.reset();
        CHECK(memory.live() == 0);
    }
}

} // namespace memory_test
