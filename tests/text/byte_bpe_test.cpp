#include "vectors.hpp"

#include "text/byte_bpe.hpp"
#include "text/files/gpt2_files.hpp"
#include "text/files/json_file.hpp"
#include "text/merge_learning.hpp"
#include "text/tidy_spaces.hpp"
#include "text/tokenizer_trainer.hpp"

#include <chrono>
#include <fmt/format.h>
#include <map>
#include <utf8proc.h>

namespace byte_bpe_test {

using namespace hekla;
using namespace hekla::text;
using namespace hekla::test;

namespace {

std::unique_ptr<Tokenizer> train(const std::string& text, ByteBpeTraining options) {
    const auto trainer = make_byte_bpe_trainer(std::move(options));
    must(trainer->add(text, {}));
    return must(trainer->finish());
}

std::vector<std::string> split(std::string_view text, const Splitter& splitter = Splitter::gpt2()) {
    std::vector<std::string> words;
    must(splitter.split(text, [&](std::size_t begin, std::size_t end) {
        words.emplace_back(text.substr(begin, end - begin));
        return Status();
    }));
    return words;
}

// GPT-2's expression in a form that the hand-written splitter does not recognize.
Splitter gpt2_by_pcre2() { return must(Splitter::compile(fmt::format("(?:{})", kGpt2Pattern))); }

// The definition, one merge at a time: the lowest rank anywhere, at its leftmost position.
std::vector<int32_t> merge_plainly(std::vector<int32_t> word, const Merges& merges) {
    for (;;) {
        std::size_t best_rank = merges.list().size();
        std::size_t best_place = 0;
        for (std::size_t i = 0; i + 1 < word.size(); ++i)
            for (std::size_t rank = 0; rank < best_rank; ++rank)
                if (merges.list()[rank].left == word[i] && merges.list()[rank].right == word[i + 1]) {
                    best_rank = rank;
                    best_place = i;
                }
        if (best_rank == merges.list().size()) return word;
        word[best_place] = merges.list()[best_rank].result;
        word.erase(word.begin() + static_cast<std::ptrdiff_t>(best_place) + 1);
    }
}

// The definition: recount everything before each merge.
LearnedMerges learn_plainly(std::vector<std::string> alphabet, std::vector<CountedWord> words, std::size_t target,
                            uint64_t least) {
    LearnedMerges learned;
    learned.symbols = std::move(alphabet);
    while (learned.symbols.size() < target) {
        std::map<std::pair<int32_t, int32_t>, uint64_t> counts;
        for (const CountedWord& word : words)
            for (std::size_t i = 0; i + 1 < word.symbols.size(); ++i)
                counts[{word.symbols[i], word.symbols[i + 1]}] += word.count;
        std::pair<int32_t, int32_t> best;
        uint64_t most = 0;
        for (const auto& [pair, count] : counts)
            if (count > most) {
                most = count;
                best = pair;
            }
        if (most < std::max<uint64_t>(least, 1)) break;
        Merge merge{best.first, best.second, static_cast<int32_t>(learned.symbols.size())};
        const std::string joined = learned.symbols[static_cast<std::size_t>(best.first)] +
                                   learned.symbols[static_cast<std::size_t>(best.second)];
        const auto known = std::find(learned.symbols.begin(), learned.symbols.end(), joined);
        merge.result = static_cast<int32_t>(known - learned.symbols.begin());
        if (known == learned.symbols.end()) learned.symbols.push_back(joined);
        if (std::none_of(learned.merges.begin(), learned.merges.end(),
                         [&](const Merge& m) { return m.left == merge.left && m.right == merge.right; }))
            learned.merges.push_back(merge);
        for (CountedWord& word : words) {
            std::vector<int32_t> out;
            for (std::size_t i = 0; i < word.symbols.size(); ++i) {
                const bool here =
                    i + 1 < word.symbols.size() && word.symbols[i] == merge.left && word.symbols[i + 1] == merge.right;
                out.push_back(here ? merge.result : word.symbols[i]);
                i += here ? 1 : 0;
            }
            word.symbols = out;
        }
    }
    return learned;
}

const std::string kSample =
    "the cat sat on the mat; the cat's hat wasn't there, 123 times they've told us.\n\n  So be it "
    "then, they'll say: caf\xC3\xA9 na\xC3\xAFve \xE4\xB8\xAD\xE6\x96\x87 \xF0\x9F\x98\x80!\n";

} // namespace

TEST_CASE("byte alphabet: each of the 256 bytes has one letter, in GPT-2's order") {
    const ByteAlphabet alphabet;
    CHECK(alphabet.letter(' ') == "\xC4\xA0");  // U+0120
    CHECK(alphabet.letter('\n') == "\xC4\x8A"); // U+010A
    CHECK(alphabet.letter('A') == "A");
    std::string all;
    for (int i = 0; i < 256; ++i) all.push_back(static_cast<char>(i));
    CHECK(alphabet.bytes(alphabet.spell(all)) == all);
    CHECK(!alphabet.bytes("a b"));
    const auto order = alphabet.bytes_in_order();
    CHECK(order[0] == '!');
    CHECK(order[188] == 0);
    CHECK(order[255] == 0xAD);
}

TEST_CASE("splitter: GPT-2's words, by hand-written code and by PCRE2") {
    Splitter splitter = Splitter::gpt2();
    SUBCASE("by hand") { REQUIRE(splitter.is_gpt2()); }
    SUBCASE("by PCRE2") {
        splitter = gpt2_by_pcre2();
        REQUIRE(!splitter.is_gpt2());
    }
    const auto split = [&](std::string_view text) { return byte_bpe_test::split(text, splitter); };
    using Words = std::vector<std::string>;
    CHECK(split("Hello my friend, how's it?") == Words{"Hello", " my", " friend", ",", " how", "'s", " it", "?"});
    CHECK(split("a   b \n") == Words{"a", "  ", " b", " \n"});
    CHECK(split("we'll I'VE 12ab") == Words{"we", "'ll", " I", "'", "VE", " 12", "ab"});
    CHECK(split("") == Words{});
    // U+180E is not white space, U+00A0 and U+3000 are.
    CHECK(split("a\xE1\xA0\x8E"
                "b") == Words{"a", "\xE1\xA0\x8E", "b"});
    CHECK(split("a\xC2\xA0\xE3\x80\x80"
                "b") == Words{"a", "\xC2\xA0", "\xE3\x80\x80", "b"});
    for (uint64_t seed = 0; seed < 100; ++seed) {
        const std::string text = random_text(seed, 300);
        std::string joined;
        for (const std::string& word : split(text)) joined += word;
        CHECK(joined == text);
    }
    const std::string spaces(3'000'000, ' ');
    CHECK(split(spaces + "x") == Words{spaces.substr(1), " x"});
}

TEST_CASE("splitter: the hand-written code finds the same GPT-2 words as the expression") {
    const Splitter expression = gpt2_by_pcre2(), assigned = must(Splitter::compile("a\\P{Cn}|a"));
    for (uint64_t seed = 0; seed < 2000; ++seed) {
        const std::string text = random_text(seed, 1 + seed % 60);
        CHECK(split(text) == split(text, expression));
    }
    // Every character alone, between letters and between spaces. The two libraries may implement different versions of
    // Unicode, so a character that only one of them knows is skipped.
    int newer = 0;
    for (char32_t value = 1; value < 0x40000; ++value) {
        if (value >= 0xD800 && value < 0xE000) continue;
        std::string text = "a";
        append_code_point(text, value);
        const bool here = utf8proc_category(static_cast<utf8proc_int32_t>(value)) != UTF8PROC_CATEGORY_CN;
        if (here != (split(text, assigned).size() == 1)) {
            ++newer;
            continue;
        }
        text += "'s ";
        append_code_point(text, value);
        text += " ";
        if (split(text) != split(text, expression)) FAIL_CHECK("U+" << std::hex << static_cast<uint32_t>(value));
    }
    CHECK(newer < 20'000); // the versions are close
}

TEST_CASE("splitter: a hostile expression is an error, not a hang or a crash") {
    CHECK(Splitter::compile("(a").code() == Code::corrupt);
    const Splitter slow = must(Splitter::compile("(a+)+$"));
    const Status status = slow.split(std::string(60, 'a') + "b", [](std::size_t, std::size_t) { return Status(); });
    CHECK(status.code() == Code::unsupported);
}

TEST_CASE("merge learning: equals the definition on random words") {
    for (uint64_t seed = 0; seed < 60; ++seed) {
        RandomStream random(seed, 2);
        const uint64_t letters = 1 + random.next_below(4);
        std::vector<std::string> alphabet;
        for (uint64_t i = 0; i < letters; ++i) alphabet.push_back(std::string(1, static_cast<char>('a' + i)));
        std::vector<CountedWord> words;
        for (uint64_t i = 0; i < 1 + random.next_below(12); ++i) {
            CountedWord word;
            word.count = 1 + random.next_below(5);
            for (uint64_t k = 0; k < 1 + random.next_below(30); ++k)
                word.symbols.push_back(static_cast<int32_t>(random.next_below(letters)));
            words.push_back(word);
        }
        const uint64_t least = random.next_below(4);
        const LearnedMerges fast = must(learn_merges(alphabet, words, letters + 40, least));
        const LearnedMerges plain = learn_plainly(alphabet, words, letters + 40, least);
        CHECK(fast.symbols == plain.symbols);
        CHECK(fast.merges == plain.merges);
    }
}

TEST_CASE("merges: equal the definition on random words, and long words are fast") {
    const auto tokenizer =
        train(kSample + kSample + random_text(1, 5000) + random_text(1, 5000), {.vocabulary_size = 500});
    const auto& bpe = dynamic_cast<const ByteBpe&>(*tokenizer);
    Merges::Scratch scratch;
    for (uint64_t seed = 0; seed < 200; ++seed) {
        RandomStream random(seed, 3);
        std::vector<Symbol> word;
        std::vector<int32_t> ids;
        for (uint64_t i = 0; i < random.next_below(40); ++i) {
            const auto at = static_cast<std::size_t>(random.next_below(bpe.merges().list().size()));
            ids.push_back(bpe.merges().list()[at].left);
            ids.push_back(bpe.merges().list()[at].right);
        }
        for (const int32_t id : ids) word.push_back({id, 1});
        bpe.merges().apply(word, scratch);
        std::vector<int32_t> merged;
        uint64_t size = 0;
        for (const Symbol& symbol : word) {
            merged.push_back(symbol.id);
            size += symbol.size;
        }
        CHECK(merged == merge_plainly(ids, bpe.merges()));
        CHECK(size == ids.size());
    }
    const std::string one_word(400'000, 't');
    CHECK(tokenizer->decode(must(tokenizer->encode(one_word))) == one_word);
}

TEST_CASE("byte bpe: training is deterministic and within its limits, and every text round-trips") {
    const std::string text = kSample + random_text(5, 4000) + kSample;
    const auto one = train(text, {.vocabulary_size = 400});
    const auto two = train(text, {.vocabulary_size = 400});
    CHECK(one->hash() == two->hash());
    CHECK(one->vocabulary_size() == 400);
    CHECK(one->special(TokenRole::eos) == 399);
    CHECK(one->special(TokenRole::bos) == 399);
    CHECK(!one->special(TokenRole::pad));
    CHECK(train(text, {.vocabulary_size = 401})->hash() != one->hash());
    // In two pieces in reverse order, split between words.
    const auto trainer = make_byte_bpe_trainer({.vocabulary_size = 400});
    const std::size_t cut = one->safe_cut(text, text.size() / 2);
    must(trainer->add(text.substr(cut), {}));
    must(trainer->add(text.substr(0, cut), {}));
    CHECK(must(trainer->finish())->hash() == one->hash());

    CHECK(train("aaaa", {.vocabulary_size = 1000, .min_frequency = 3})->vocabulary_size() == 256 + 1 + 1);
    for (uint64_t seed = 0; seed < 100; ++seed) {
        const std::string other = random_text(seed + 1000, 200);
        std::vector<int32_t> ids;
        std::vector<ByteRange> ranges;
        must(one->encode(other, {}, ids, &ranges));
        CHECK(one->decode(ids) == other);
        REQUIRE(ranges.size() == ids.size());
        uint64_t at = 0;
        for (std::size_t i = 0; i < ids.size(); ++i) {
            CHECK(ranges[i].begin == at);
            CHECK(other.substr(at, ranges[i].end - at) == one->vocabulary().bytes(ids[i]));
            at = ranges[i].end;
        }
        CHECK(at == other.size());
        StreamDecoder stream(*one);
        std::string streamed;
        for (const int32_t id : ids) {
            const std::string piece = stream.push(id);
            CHECK(find_invalid_utf8(piece) == piece.size());
            streamed += piece;
        }
        CHECK(streamed + stream.finish() == other);
    }
}

TEST_CASE("byte bpe: cuts are safe with any text on either side") {
    const std::vector<SpecialToken> special = {{"<|end of text|>", {TokenRole::eos}}, {" x", {}}};
    for (const bool prefix : {false, true}) {
        const auto tokenizer = train(kSample + random_text(7, 3000) + random_text(7, 3000),
                                     {.vocabulary_size = 450, .add_prefix_space = prefix, .special = special});
        for (uint64_t seed = 0; seed < 60; ++seed) {
            RandomStream random(seed, 4);
            std::string text;
            for (int i = 0; i < 8; ++i)
                text += random_text(seed * 8 + static_cast<uint64_t>(i), 12) + (i % 3 == 0 ? "<|end of text|>" : " x ");
            CHECK(encoded_in_parts(*tokenizer, text, random, 30) == must(tokenizer->encode(text)));
        }
    }
}

TEST_CASE("byte bpe: special tokens in the text, and decoding ids that are not text") {
    const auto tokenizer = train(kSample, {.vocabulary_size = 300});
    const int32_t end = *tokenizer->special(TokenRole::eos);
    const std::vector<int32_t> ids = must(tokenizer->encode("a<|endoftext|>b"));
    CHECK(ids == std::vector<int32_t>{*tokenizer->find("a"), end, *tokenizer->find("b")});
    EncodeOptions plain;
    plain.match_special = false;
    const std::vector<int32_t> letters = must(tokenizer->encode("a<|endoftext|>b", plain));
    CHECK(std::find(letters.begin(), letters.end(), end) == letters.end());
    CHECK(tokenizer->decode(letters) == "a<|endoftext|>b");
    CHECK(tokenizer->decode(ids) == "a<|endoftext|>b");
    CHECK(tokenizer->decode(ids, true) == "ab");
    const std::vector<int32_t> odd = {*tokenizer->find("a"), 50'000, -1, *tokenizer->find("b")};
    CHECK(tokenizer->decode(odd) == "a" + std::string(kReplacement) + std::string(kReplacement) + "b");
    CHECK(tokenizer->token(end).value() == "<|endoftext|>");
    CHECK(tokenizer->token(300).code() == Code::not_found);
}

TEST_CASE("byte bpe: training and encoding reject invalid UTF-8 and invalid options") {
    const auto trainer = make_byte_bpe_trainer({});
    const Status bad = trainer->add("good\nb\xFF"
                                    "d",
                                    TextOrigin{"x.txt", 0, 1});
    CHECK(contains(bad.message(), "x.txt: line 2, byte offset 6"));
    CHECK(trainer->finish().code() == Code::invalid_argument);
    const auto small = make_byte_bpe_trainer({.vocabulary_size = 256});
    must(small->add("text", {}));
    CHECK(contains(small->finish().message(), "257"));
    const auto tokenizer = train(kSample, {.vocabulary_size = 300});
    std::vector<int32_t> ids = {1, 2};
    CHECK(!tokenizer->encode("a\xC3", {}, ids).ok());
    CHECK(ids.size() == 2);
}

TEST_CASE("published merges: Hugging Face's trainer and minbpe's example") {
    const std::filesystem::path folder = real_data("tokenizer_vectors/bpe_training");
    if (folder.empty()) return;
    const Json vectors = must(read_json_object(folder / "vectors.json"));
    const Json& trainer = vectors["hf_tokenizers_bpe_trainer"];
    std::map<char, int32_t> letters;
    for (const auto& [word, count] : trainer["word_counts"].items())
        for (const char c : word) letters[c] = 0;
    std::vector<std::string> alphabet;
    for (auto& [letter, id] : letters) {
        id = static_cast<int32_t>(alphabet.size());
        alphabet.push_back(std::string(1, letter));
    }
    std::vector<CountedWord> words;
    for (const auto& [word, count] : trainer["word_counts"].items()) {
        CountedWord counted;
        counted.count = count.get<uint64_t>();
        for (const char c : word) counted.symbols.push_back(letters[c]);
        words.push_back(counted);
    }
    const LearnedMerges learned = must(learn_merges(alphabet, words, 30'000, trainer["min_frequency"].get<uint64_t>()));
    REQUIRE(learned.symbols.size() == trainer["expected_vocab"].size());
    for (std::size_t id = 0; id < learned.symbols.size(); ++id)
        CHECK(trainer["expected_vocab"][learned.symbols[id]] == id);
    REQUIRE(learned.merges.size() == trainer["expected_merges"].size());
    for (std::size_t i = 0; i < learned.merges.size(); ++i) {
        CHECK(trainer["expected_merges"][i][0] == learned.symbols[static_cast<std::size_t>(learned.merges[i].left)]);
        CHECK(trainer["expected_merges"][i][1] == learned.symbols[static_cast<std::size_t>(learned.merges[i].right)]);
    }
    const Json& minbpe = vectors["minbpe_wikipedia"];
    std::vector<std::string> bytes;
    for (int i = 0; i < 256; ++i) bytes.push_back(std::string(1, static_cast<char>(i)));
    CountedWord word;
    word.count = 1;
    for (const char c : minbpe["text"].get<std::string>()) word.symbols.push_back(static_cast<unsigned char>(c));
    const LearnedMerges three =
        must(learn_merges(bytes, {word}, 256 + minbpe["merges_to_learn"].get<std::size_t>(), 1));
    Merges merges;
    for (const Merge& merge : three.merges) merges.add(merge);
    CHECK(merge_plainly(word.symbols, merges) == minbpe["expected_ids"].get<std::vector<int32_t>>());

    const ByteAlphabet spelling;
    for (const Json& test : vectors["hf_byte_level_pretokenize"]["cases"]) {
        const std::string content = test["text"];
        std::vector<std::string> found;
        std::vector<std::vector<std::size_t>> offsets;
        must(Splitter::gpt2().split(content, [&](std::size_t begin, std::size_t end) {
            found.push_back(spelling.spell(std::string_view(content).substr(begin, end - begin)));
            offsets.push_back({begin, end});
            return Status();
        }));
        CHECK(found == test["splits"].get<std::vector<std::string>>());
        CHECK(offsets == test["offsets"].get<std::vector<std::vector<std::size_t>>>());
    }
}

TEST_CASE("GPT-2: every published id") {
    const std::filesystem::path vocabulary = real_data("gpt2_bpe");
    const std::filesystem::path vectors = real_data("tokenizer_vectors");
    if (vocabulary.empty() || vectors.empty()) return;
    const auto tokenizer = must(load_tokenizer(vocabulary));
    CHECK(tokenizer->vocabulary_size() == 50257);
    CHECK(tokenizer->special(TokenRole::eos) == 50256);

    CHECK(check_llama_cpp(*tokenizer, vectors / "llama_cpp/ggml-vocab-gpt-2.gguf", true) == 47);

    const Json js = must(read_json_object(vectors / "transformers_js/vectors.json"));
    int cases = 0;
    for (const auto& [name, test] : js["Xenova/gpt2"].items()) {
        const std::string text = test["text"];
        const std::vector<int32_t> ids = must(tokenizer->encode(text));
        CHECK_MESSAGE(ids == test["ids"].get<std::vector<int32_t>>(), name);
        CHECK(tokenizer->decode(ids) == text);
        CHECK_MESSAGE(tidy_spaces(text) == test["decoded"].get<std::string>(), name);
        for (std::size_t i = 0; i < ids.size(); ++i) CHECK(test["tokens"][i] == tokenizer->token(ids[i]).value());
        ++cases;
    }
    CHECK(cases == 26);
}

TEST_CASE("GPT-2: written files are read again as the same tokenizer") {
    const std::filesystem::path vocabulary = real_data("gpt2_bpe");
    if (vocabulary.empty()) return;
    const auto tokenizer = must(load_tokenizer(vocabulary));
    const auto& bpe = dynamic_cast<const ByteBpe&>(*tokenizer);
    CHECK(gpt2_merges_text(bpe) == must(read_file(vocabulary / "vocab.bpe")));
    const TestFolder folder;
    must(tokenizer->save(folder.path()));
    CHECK(must(load_tokenizer(folder.path()))->hash() == tokenizer->hash());
    std::filesystem::remove(folder.path() / "tokenizer.json");
    CHECK(must(load_tokenizer(folder.path()))->hash() == tokenizer->hash());
    CHECK(must(read_json_object(folder.path() / "vocab.json")) == must(read_json_object(vocabulary / "encoder.json")));
}

TEST_CASE("tiny Shakespeare: trained and encoded in a few seconds") {
    const std::filesystem::path data = real_data("tinyshakespeare");
    if (data.empty()) return;
    const std::string text = must(read_file(data / "input.txt"));
    const auto start = std::chrono::steady_clock::now();
    const auto tokenizer = train(text, {.vocabulary_size = 4096});
    const auto trained = std::chrono::steady_clock::now();
    const std::vector<int32_t> ids = must(tokenizer->encode(text));
    const auto encoded = std::chrono::steady_clock::now();
    CHECK(tokenizer->decode(ids) == text);
    CHECK(tokenizer->vocabulary_size() == 4096);
    CHECK(ids.size() < text.size() / 3);
    MESSAGE("trained in " << std::chrono::duration<double>(trained - start).count() << " s, encoded "
                          << static_cast<double>(text.size()) / 1e6 /
                                 std::chrono::duration<double>(encoded - trained).count()
                          << " MB/s, " << ids.size() << " tokens");
}

} // namespace byte_bpe_test
