#include "support.hpp"

#include "text/files/json_file.hpp"
#include "text/files/sentencepiece_files.hpp"
#include "text/sentencepiece.hpp"
#include "text/tidy_spaces.hpp"
#include "text/tokenizer_trainer.hpp"
#include "text/unicode/charsmap.hpp"
#include "vectors.hpp"

#include <cmath>
#include <dlfcn.h>
#include <fmt/format.h>

namespace sentencepiece_test {

using namespace hekla;
using namespace hekla::text;
using namespace hekla::test;

namespace {

using Ids = std::vector<int32_t>;
using Type = SpieceModel::Type;

const std::string kMark(kSpacePiece);

// Returns a small unigram model: <pad> </s> <unk> then pieces.
SpieceModel small_model() {
    SpieceModel model;
    model.pieces = {{"<pad>", 0, Type::control},
                    {"</s>", 0, Type::control},
                    {"<unk>", 0, Type::unknown},
                    {kMark, -4, Type::normal},
                    {kMark + "he", -3, Type::normal},
                    {"llo", -3, Type::normal},
                    {kMark + "hello", -5, Type::normal},
                    {"l", -6, Type::normal},
                    {"o", -6, Type::normal},
                    {"a", -6, Type::normal},
                    {kMark + "a", -5, Type::normal}};
    model.unk_id = 2;
    model.eos_id = 1;
    model.pad_id = 0;
    model.bos_id = -1;
    return model;
}

std::unique_ptr<Tokenizer> load(const std::string& spiece, const std::string& config = "") {
    const TestFolder folder;
    folder.write("spiece.model", spiece);
    if (!config.empty()) folder.write("tokenizer_config.json", config);
    return must(load_tokenizer(folder.path()));
}

std::string error_of(const std::string& file, const std::string& content) {
    const TestFolder folder;
    folder.write(file, content);
    const auto loaded = load_tokenizer(folder.path());
    REQUIRE(!loaded.ok());
    CHECK(contains(loaded.message(), file));
    return loaded.message();
}

} // namespace

TEST_CASE("SentencePiece: pieces, spaces, unknown characters, and their source bytes") {
    const auto tokenizer = load(write_spiece_model(small_model()));
    CHECK(tokenizer->kind() == "sentencepiece");
    CHECK(tokenizer->special(TokenRole::eos) == 1);
    CHECK(tokenizer->special(TokenRole::pad) == 0);
    CHECK(tokenizer->special(TokenRole::unk) == 2);
    std::vector<int32_t> ids;
    std::vector<ByteRange> ranges;
    must(tokenizer->encode("  hello  helloa\xC3\xA9\xC3\xA9</s>a ", {}, ids, &ranges));
    CHECK(ids == Ids{6, 6, 9, 2, 1, 10});
    CHECK(ranges == std::vector<ByteRange>{{2, 7}, {9, 14}, {14, 15}, {15, 19}, {19, 23}, {23, 24}});
    CHECK(tokenizer->decode(ids) == "hello helloa<unk></s> a");
    CHECK(tokenizer->decode(ids, true) == "hello helloa a");
    CHECK(dlsym(RTLD_DEFAULT, "hekla_sentencepiece_interface") == nullptr); // the module does not export its symbols
    CHECK(tokenizer->begins_word(6));
    CHECK(!tokenizer->begins_word(5));
    CHECK(!tokenizer->begins_word(1));
    CHECK(must(tokenizer->encode("")) == Ids{});
    CHECK(must(tokenizer->encode("  ")) == Ids{});
    EncodeOptions plain;
    plain.match_special = false;
    ids.clear();
    must(tokenizer->encode("</s>", plain, ids));
    CHECK(ids == Ids{3, 2}); // "</s>" is text: a space, and characters without a piece
}

TEST_CASE("SentencePiece: a saved and loaded tokenizer is the same, from either file") {
    for (const SpieceModel::Kind kind : {SpieceModel::Kind::unigram, SpieceModel::Kind::bpe}) {
        SpieceModel model = small_model();
        model.kind = kind;
        if (kind == SpieceModel::Kind::bpe)
            for (const char* piece : {"h", "e", "lo", "he"})
                model.pieces.push_back({piece, -static_cast<float>(model.pieces.size()), Type::normal});
        const auto tokenizer = load(write_spiece_model(model));
        const TestFolder folder;
        must(tokenizer->save(folder.path()));
        const std::string text = "hello he llo aloha " + random_text(3, 200);
        if (kind == SpieceModel::Kind::unigram) CHECK(must(load_tokenizer(folder.path()))->hash() == tokenizer->hash());
        CHECK(must(must(load_tokenizer(folder.path()))->encode(text)) == must(tokenizer->encode(text)));
        std::filesystem::remove(folder.path() / "tokenizer.json");
        CHECK(must(load_tokenizer(folder.path()))->hash() == tokenizer->hash());
    }
}

TEST_CASE("SentencePiece: T5's sentinels come after the pieces, the last one first") {
    const auto tokenizer = load(write_spiece_model(small_model()), R"({"tokenizer_class": "T5Tokenizer"})");
    CHECK(tokenizer->vocabulary_size() == 111);
    CHECK(tokenizer->sentinel(0) == 110);
    CHECK(tokenizer->sentinel(99) == 11);
    CHECK(!tokenizer->sentinel(100));
    CHECK(must(tokenizer->encode("hello <extra_id_0> a")) == Ids{6, 110, 10});
    CHECK(load(write_spiece_model(small_model()), R"({"extra_ids": 3})")->sentinel(2) == 11);
}

TEST_CASE("SentencePiece: Marian's two models share one vocabulary") {
    const TestFolder folder;
    folder.write("source.spm", write_spiece_model(small_model()));
    SpieceModel target = small_model();
    target.pieces[6].text = kMark + "salut";
    folder.write("target.spm", write_spiece_model(target));
    folder.write(
        "vocab.json",
        fmt::format(R"({{"</s>":0,"<unk>":1,"{0}":2,"{0}hello":3,"{0}salut":4,"a":5,"é":6,"<pad>":7}})", kMark));
    const auto source = must(load_tokenizer(folder.path()));
    CHECK(source->special(TokenRole::pad) == 7);
    CHECK(must(source->encode("hello helloa\xC3\xA9</s>")) ==
          Ids{3, 3, 5, 6, 0});                                  // the vocabulary has tokens that the model lacks
    CHECK(must(source->encode("salut")) == Ids{2, 1, 5, 1, 1}); // l and others are pieces without an id
    CHECK(source->decode(Ids{3, 4, 0}, true) == "hello salut");
    const auto other = must(load_tokenizer(folder.path() / "target.spm"));
    CHECK(must(other->encode("salut salut")) == Ids{4, 4});
    const TestFolder saved;
    must(source->save(saved.path()));
    CHECK(must(load_tokenizer(saved.path()))->hash() == source->hash());
    CHECK(must(load_tokenizer(saved.path() / "target.spm"))->hash() == other->hash());
    std::filesystem::remove(folder.path() / "vocab.json");
    CHECK(contains(load_tokenizer(folder.path()).message(), "vocab.json"));
}

TEST_CASE("SentencePiece: DeBERTa 2's mask comes after the pieces") {
    const TestFolder folder;
    folder.write("spm.model", write_spiece_model(small_model()));
    folder.write("config.json", R"({"model_type": "deberta-v2"})");
    const auto tokenizer = must(load_tokenizer(folder.path()));
    CHECK(tokenizer->special(TokenRole::mask) == 11);
    CHECK(must(tokenizer->encode("a [MASK]")) == Ids{10, 11});
}

TEST_CASE("SentencePiece: invalid files") {
    const std::string sound = write_spiece_model(small_model());
    for (std::size_t kept = 0; kept < sound.size(); ++kept) { // truncated it is an error or another valid model
        const Result<SpieceModel> cut = read_spiece_model(std::string_view(sound).substr(0, kept), "m");
        if (cut.ok()) CHECK(cut.value().pieces.size() >= 3);
    }
    CHECK(contains(error_of("spiece.model", sound.substr(0, sound.size() / 2)), "it is truncated"));
    CHECK(contains(error_of("spiece.model", ""), "no pieces"));
    CHECK(!error_of("spiece.model", "hello").empty());
    const auto changed = [&](auto change) {
        SpieceModel model = small_model();
        change(model);
        return error_of("tokenizer.model", write_spiece_model(model));
    };
    CHECK(contains(changed([](SpieceModel& m) { m.pieces[5].text = "l"; }), "two pieces are \"l\""));
    CHECK(contains(changed([](SpieceModel& m) { m.pieces[5].text = ""; }), "piece 5 is empty"));
    CHECK(contains(changed([](SpieceModel& m) { m.pieces[5].text = "\xFF"; }), "piece 5 is not UTF-8"));
    CHECK(contains(changed([](SpieceModel& m) { m.pieces[5].text = std::string("a\0b", 3); }), "NUL"));
    CHECK(contains(changed([](SpieceModel& m) { m.pieces[5].score = NAN; }), "not a finite number"));
    CHECK(contains(changed([](SpieceModel& m) { m.pieces[2].type = Type::control; }), "0 unknown pieces"));
    CHECK(contains(changed([](SpieceModel& m) { m.pieces[7].type = Type::byte; }), "not spelt as one"));
    CHECK(contains(changed([](SpieceModel& m) { m.charsmap = "abc"; }), "normalizer_spec is damaged"));
    // A trie of 256 units whose first one points far outside.
    std::string map(4 + 1024 + 1, '\0');
    map[1] = 4;
    CHECK(Charsmap::is_sound(map));
    map[4 + 3] = 0x7F;
    CHECK(!Charsmap::is_sound(map));
    CHECK(contains(changed([&](SpieceModel& m) { m.charsmap = map; }), "normalizer_spec is damaged"));
    // Any changed bytes never cause a crash.
    for (uint64_t seed = 0; seed < 300; ++seed) {
        RandomStream random(seed, 9);
        std::string broken = sound;
        for (int i = 0; i < 3; ++i)
            broken[random.next_below(broken.size())] =
                static_cast<char>(static_cast<unsigned char>(random.next_below(256)));
        const TestFolder folder;
        folder.write("spiece.model", broken);
        const auto loaded = load_tokenizer(folder.path());
        if (loaded.ok()) (void)loaded.value()->encode("hello he llo aloha \xC3\xA9");
    }
    const auto json = [](const std::string& text) { return error_of("tokenizer.json", text); };
    const std::string metaspace = R"("pre_tokenizer":{"type":"Metaspace","replacement":"▁"},)";
    CHECK(contains(json("{" + metaspace + R"("model":{"type":"Unigram","unk_id":5,"vocab":[["a",0]]}})"), "unk_id"));
    CHECK(contains(json("{" + metaspace + R"("model":{"type":"Unigram","unk_id":0,"vocab":[["a"]]}})"), "entry 0"));
    CHECK(contains(json("{" + metaspace +
                        R"("normalizer":{"type":"Precompiled","precompiled_charsmap":"AAAA"},)"
                        R"("model":{"type":"Unigram","unk_id":0,"vocab":[["a",0]]}})"),
                   "damaged"));
}

TEST_CASE("SentencePiece: training, cuts, and BPE with bytes") {
    std::string text;
    for (uint64_t seed = 0; seed < 60; ++seed)
        text += fmt::format("the cat number {} sat on the mat, and the hat was not there.\n", seed * 7919);
    for (const bool bpe : {false, true}) {
        const auto trainer = make_sentencepiece_trainer(
            {.bpe = bpe, .vocabulary_size = 60, .byte_fallback = false, .control_symbols = {"[MASK]"}});
        must(trainer->add(text, {}));
        const auto tokenizer = must(trainer->finish());
        CHECK(tokenizer->vocabulary_size() <= 60);
        CHECK(tokenizer->special(TokenRole::bos) == 3);
        CHECK(tokenizer->special(TokenRole::mask) == 4);
        const Ids ids = must(tokenizer->encode("the cat [MASK] sat"));
        CHECK(tokenizer->decode(ids) == "the cat[MASK] sat");
        for (uint64_t seed = 0; seed < 30; ++seed) {
            RandomStream random(seed, 5);
            const std::string sample = "the cat  sat \n" + random_text(seed, 60) + " the [MASK] mat";
            CHECK(encoded_in_parts(*tokenizer, sample, random, 20) == must(tokenizer->encode(sample)));
        }
    }
    CHECK(make_sentencepiece_trainer({})->finish().code() == Code::invalid_argument);
    const auto tiny = make_sentencepiece_trainer({.vocabulary_size = 5});
    must(tiny->add(text, {}));
    CHECK(!tiny->finish().ok());
    const auto bytes = make_sentencepiece_trainer({.bpe = true, .vocabulary_size = 300, .byte_fallback = true});
    must(bytes->add(text, {}));
    const auto tokenizer = must(bytes->finish());
    CHECK(tokenizer->decode(must(tokenizer->encode("the \xF0\x9F\x98\x80!"))) == "the \xF0\x9F\x98\x80!");
    CHECK(must(tokenizer->encode("\xF0\x9F\x98\x80")).size() == 5);
}

TEST_CASE("SentencePiece: every published id") {
    const std::filesystem::path vectors = real_data("tokenizer_vectors");
    if (vectors.empty()) return;
    for (const char* stem : {"t5/spiece", "albert/spiece", "sentencepiece/test_model", "hf_fixtures/test_sentencepiece",
                             "hf_fixtures/test_sentencepiece_bpe"}) {
        CAPTURE(std::string(stem));
        // In a separate folder, so that no other file has an effect.
        const auto tokenizer = load(must(read_file((vectors / stem).string() + ".model")));
        const std::string lines = must(read_file((vectors / stem).string() + ".sp_vectors.jsonl"));
        EncodeOptions raw;
        raw.match_special = false;
        int cases = 0;
        for (std::size_t at = 0; at < lines.size();) {
            const std::size_t end = std::min(lines.find('\n', at), lines.size());
            const Json test = must(parse_json(std::string_view(lines).substr(at, end - at), stem));
            at = end + 1;
            const std::string text = test["text"];
            std::vector<int32_t> ids;
            std::vector<ByteRange> ranges;
            must(tokenizer->encode(text, raw, ids, &ranges));
            CHECK_MESSAGE(ids == test["ids"].get<Ids>(), text);
            std::string decoded = test["decoded"];
            for (std::size_t mark; (mark = decoded.find(" \xE2\x81\x87 ")) != std::string::npos;)
                decoded.replace(mark, 5, "<unk>"); // the library's text for unknown pieces
            CHECK_MESSAGE(tokenizer->decode(ids) == decoded, text);
            uint64_t before = 0;
            for (const ByteRange& range : ranges) {
                CHECK(range.begin >= before);
                CHECK(range.end >= range.begin);
                CHECK(range.end <= text.size());
                before = range.begin;
            }
            ++cases;
        }
        CHECK(cases == 675);
        const TestFolder folder;
        must(tokenizer->save(folder.path()));
        std::filesystem::remove(folder.path() / "spiece.model");
        const auto again = must(load_tokenizer(folder.path()));
        const std::string sample = must(read_file(vectors / "hf_fixtures/sample_text.txt"));
        CHECK(must(again->encode(sample)) == must(tokenizer->encode(sample)));
    }
}

TEST_CASE("T5 and ALBERT: every id of the tokenizers with their models") {
    const std::filesystem::path vectors = real_data("tokenizer_vectors");
    if (vectors.empty()) return;
    const Json js = must(read_json_object(vectors / "transformers_js/vectors.json"));
    const auto t5 = load(must(read_file(vectors / "t5/spiece.model")), R"({"tokenizer_class": "T5Tokenizer"})");
    CHECK(t5->vocabulary_size() == 32100);
    CHECK(t5->sentinel(0) == 32099);
    const auto albert =
        load(must(read_file(vectors / "albert/spiece.model")), R"({"tokenizer_class": "AlbertTokenizer"})");
    // T5's newer form: spaces stay, several are merged into one mark, and only the start of a text gets one.
    Json file = must(parse_json(t5->to_json(), "t5"));
    file["normalizer"]["normalizers"].push_back(
        must(parse_json(R"({"type":"Replace","pattern":{"Regex":" {2,}"},"content":"▁"})", "step")));
    file["pre_tokenizer"] =
        must(parse_json(R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":true})", "step"));
    const TestFolder folder;
    folder.write("tokenizer.json", file.dump());
    const auto newer = must(load_tokenizer(folder.path()));
    for (const auto& [name, tokenizer, count] :
         {std::tuple("Xenova/t5-small", t5.get(), 29), std::tuple("Xenova/t5-tokenizer-new", newer.get(), 8),
          std::tuple("Xenova/albert-base-v2", albert.get(), 29)}) {
        int cases = 0;
        for (const auto& [key, test] : js[name].items()) {
            Ids ids;
            if (tokenizer == albert.get()) ids.push_back(*tokenizer->special(TokenRole::cls));
            must(tokenizer->encode(test["text"].get<std::string>(), {}, ids));
            ids.push_back(tokenizer == albert.get() ? *tokenizer->special(TokenRole::separator)
                                                    : *tokenizer->special(TokenRole::eos));
            CHECK_MESSAGE(ids == test["ids"].get<Ids>(), name << " " << key << " " << test.dump());
            CHECK_MESSAGE(tidy_spaces(tokenizer->decode(ids)) == test["decoded"].get<std::string>(),
                          name << " " << key << " " << test.dump());
            ++cases;
        }
        CHECK(cases == count);
    }
}

} // namespace sentencepiece_test
