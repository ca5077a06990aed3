// Files from other programs: options of tokenizer.json, folders, and invalid files.
#include "support.hpp"

#include "text/byte_bpe.hpp"
#include "text/tokenizer_trainer.hpp"

#include <fmt/format.h>

namespace files_test {

using namespace hekla;
using namespace hekla::text;
using namespace hekla::test;

namespace {

// Returns a tokenizer.json over the letters a, b, c, Ġ and the merges "a b", "Ġ ab".
std::string small_json(const std::string& pre_tokenizer = R"({"type":"ByteLevel","add_prefix_space":false})",
                       const std::string& added = "[]", const std::string& model_more = "",
                       const std::string& vocab_more = "", const std::string& merges = R"(["a b","Ġ ab"])") {
    return fmt::format(
        R"({{"version":"1.0","added_tokens":{},"normalizer":null,"pre_tokenizer":{},"decoder":{{"type":"ByteLevel"}},
"model":{{"type":"BPE","vocab":{{"a":0,"b":1,"c":2,"Ġ":3,"ab":4,"Ġab":5{}}},"merges":{}{}}}}})",
        added, pre_tokenizer, vocab_more, merges, model_more);
}

Result<std::unique_ptr<Tokenizer>> load(const std::string& json) {
    const TestFolder folder;
    folder.write("tokenizer.json", json);
    return load_tokenizer(folder.path());
}

using Ids = std::vector<int32_t>;

} // namespace

TEST_CASE("tokenizer.json: ByteLevel's options") {
    CHECK(must(must(load(small_json()))->encode("ab ab")) == Ids{4, 5});
    const auto prefixed = must(load(small_json(R"({"type":"ByteLevel","add_prefix_space":true})")));
    std::vector<int32_t> ids;
    std::vector<ByteRange> ranges;
    must(prefixed->encode("abc ab", {}, ids, &ranges));
    CHECK(ids == Ids{5, 2, 5});
    CHECK(ranges == std::vector<ByteRange>{{0, 2}, {2, 3}, {3, 6}});
    CHECK(must(prefixed->encode(" ab")) == Ids{5});
    CHECK(must(prefixed->encode("")) == Ids{});
    // Without the expression "c ab" is one word, and only then is "c Ġ" merged.
    const std::string merges = R"([["c","Ġ"],["a","b"]])";
    const std::string more = R"(,"cĠ":6)";
    CHECK(must(must(load(small_json(R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":false})", "[]", "",
                                    more, merges)))
                   ->encode("c ab")) == Ids{6, 4});
    CHECK(must(must(load(small_json(R"({"type":"ByteLevel","add_prefix_space":false})", "[]", "", more, merges)))
                   ->encode("c ab")) == Ids{2, 3, 4});
    const auto split = must(load(small_json(
        R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"[^a]|a"},"behavior":"Isolated","invert":false},{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]})")));
    CHECK(must(split->encode("ab")) == Ids{0, 1});
    CHECK(must(must(load(small_json(R"({"type":"ByteLevel","add_prefix_space":false})", "[]",
                                    R"(,"ignore_merges":true)", R"(,"abc":6)")))
                   ->encode("abc")) == Ids{6});
}

TEST_CASE("tokenizer.json: added tokens, stripping, longest first, unknown bytes") {
    const std::string added =
        R"([{"id":6,"content":"<x>","special":true,"lstrip":true,"rstrip":false,"single_word":false,"normalized":false},
        {"id":7,"content":"<x>>","special":false,"lstrip":false,"rstrip":true,"single_word":false,"normalized":false},
        {"id":8,"content":"?","special":true,"lstrip":false,"rstrip":false,"single_word":false,"normalized":false}])";
    const auto tokenizer = must(load(
        small_json(R"({"type":"ByteLevel","add_prefix_space":false})", added, R"(,"unk_token":"?","fuse_unk":true)")));
    std::vector<int32_t> ids;
    std::vector<ByteRange> ranges;
    must(tokenizer->encode("ab  <x> ab<x>>  c", {}, ids, &ranges));
    CHECK(ids == Ids{4, 6, 5, 7, 2});
    CHECK(ranges[1] == ByteRange{2, 7});
    CHECK(ranges[3] == ByteRange{10, 16});
    CHECK(must(tokenizer->encode("azzb")) == Ids{0, 8, 1});
    EncodeOptions plain;
    plain.match_special = false;
    CHECK(must(tokenizer->encode("<x>>", plain)) == Ids{7});
    CHECK(tokenizer->special(TokenRole::unk) == 8);
    const auto strict = must(load(small_json()));
    EncodeOptions options;
    options.origin = {"f.txt", 0, 1};
    CHECK(contains(strict->encode("ab\nz", options).message(), "f.txt: line 1, byte offset 2"));

    // All of it round-trips.
    const TestFolder folder;
    must(tokenizer->save(folder.path()));
    const auto again = must(load_tokenizer(folder.path()));
    CHECK(again->hash() == tokenizer->hash());
    CHECK(again->to_json() == tokenizer->to_json());
}

TEST_CASE("tokenizer.json: unsupported options are rejected by name") {
    const auto refused = [](const std::string& json, const char* what) {
        const auto result = load(json);
        CHECK_MESSAGE(result.code() == Code::unsupported, result.message());
        CHECK_MESSAGE(contains(result.message(), what), result.message());
        CHECK_MESSAGE(contains(result.message(), "tokenizer.json"), result.message());
    };
    refused(small_json(R"({"type":"Foo"})"), "pre_tokenizer is \"Foo\"; supported: Sequence, ByteLevel, Split");
    refused(small_json(R"({"type":"Sequence","pretokenizers":[{"type":"Digits"},{"type":"Sequence","pretokenizers":[)"
                       R"({"type":"ByteLevel"},{"type":"UnicodeScripts"}]}]})"),
            "pre_tokenizer.pretokenizers[1].pretokenizers[1] is \"UnicodeScripts\"; supported: ");
    refused(small_json(R"({"type":"ByteLevel","twice":true})"), "pre_tokenizer has the option \"twice\"");
    refused(small_json(R"({"type":"Split","pattern":{"String":"a"},"behavior":"Torn","invert":false})"), "Torn");
    refused(small_json(R"x({"type":"Split","pattern":{"Regex":"(?<a>b)"},"behavior":"Isolated","invert":false})x"),
            "a group of an unknown kind at byte 0");
    refused(small_json(R"({"type":"Split","pattern":{"Regex":"a\\Gb"},"behavior":"Isolated","invert":false})"), "\\G");
    refused(small_json(R"({"type":"Metaspace","prepend_scheme":"last"})"), "last");
    refused(small_json(R"({"type":"ByteLevel"})", "[]", R"(,"dropout":0.1)"), "dropout");
    refused(small_json(R"({"type":"ByteLevel"})", "[]", R"(,"shuffle":true)"), "model has the option \"shuffle\"");
    refused(R"({"model":{"type":"Other","vocab":[]}})", "model is \"Other\"; supported: BPE");
    refused(
        R"({"normalizer":{"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Foo"}]},"model":{"type":"BPE"}})",
        "normalizer.normalizers[1] is \"Foo\"; supported: Sequence, NFC");
    refused(R"({"post_processor":{"type":"Foo"},"model":{"type":"BPE"}})", "post_processor is \"Foo\"");
    refused(R"({"decoder":{"type":"Foo"},"model":{"type":"BPE"}})", "decoder is \"Foo\"");
    refused(R"({"filter":{"type":"Foo"},"model":{"type":"BPE"}})", "has a section \"filter\"");
}

TEST_CASE("vocab.json and merges.txt: roles that no file specifies are those of the models that have such tokens") {
    const auto roles = [](const std::string& vocabulary) {
        const TestFolder folder;
        folder.write("vocab.json", vocabulary);
        folder.write("merges.txt", "#version: 0.2\n");
        return must(load_tokenizer(folder.path()));
    };
    const auto roberta = roles(R"({"<s>":0,"<pad>":1,"</s>":2,"<unk>":3,"a":4,"Ġ":5,"<mask>":6})");
    CHECK(roberta->special(TokenRole::cls) == 0);
    CHECK(roberta->special(TokenRole::separator) == 2);
    CHECK(roberta->special(TokenRole::pad) == 1);
    CHECK(must(roberta->encode("a <mask> a")) == Ids{4, 6, 5, 4});
    const auto deberta = roles(R"({"[PAD]":0,"[CLS]":1,"[SEP]":2,"[UNK]":3,"a":4,"[MASK]":5})");
    CHECK(deberta->special(TokenRole::mask) == 5);
    CHECK(deberta->special(TokenRole::cls) == 1);
    const auto gpt2 = roles(R"({"a":0,"<|endoftext|>":1})");
    CHECK(gpt2->special(TokenRole::eos) == 1);
}

TEST_CASE("tokenizer.json: NFC composes the text first") {
    std::string json = small_json(R"({"type":"ByteLevel","add_prefix_space":false})", "[]", "",
                                  R"(,"Ã":6,"©":7,"Ã©":8)", R"(["Ã ©"])");
    json.replace(json.find("\"normalizer\":null"), 17, R"("normalizer":{"type":"NFC"})");
    const auto tokenizer = must(load(json));
    std::vector<int32_t> ids;
    std::vector<ByteRange> ranges;
    must(tokenizer->encode("ae\xCC\x81"
                           "b\xC3\xA9",
                           {}, ids, &ranges));
    CHECK(ids == Ids{0, 8, 1, 8});
    CHECK(ranges == std::vector<ByteRange>{{0, 1}, {1, 2}, {4, 5}, {5, 7}});
    const TestFolder folder;
    must(tokenizer->save(folder.path()));
    CHECK(must(load_tokenizer(folder.path()))->hash() == tokenizer->hash());
}

TEST_CASE("tokenizer.json: malformed files give one clear error each") {
    const auto corrupted = [](const std::string& json, const char* what) {
        const auto result = load(json);
        CHECK_MESSAGE(result.code() == Code::corrupt, json << " gave " << result.message());
        CHECK_MESSAGE(contains(result.message(), what), result.message());
        CHECK_MESSAGE(contains(result.message(), "tokenizer.json"), result.message());
    };
    const std::string level = R"({"type":"ByteLevel"})";
    corrupted("", "not valid JSON");
    corrupted("[1]", "object");
    corrupted("{\"model\":\"\xFF\"}", "not valid JSON");
    corrupted("{}", "model");
    corrupted(R"({"model":[]})", "model");
    corrupted(R"({"model":{"type":7}})", "type");
    corrupted(R"({"model":{"type":"BPE"},"pre_tokenizer":{"type":"ByteLevel"}})", "vocab");
    corrupted(small_json(level, "[]", "", R"(,"d":-1)"), "-1");
    corrupted(small_json(level, "[]", "", R"(,"d":1.5)"), "integer");
    corrupted(small_json(level, "[]", "", R"(,"d":18446744073709551615)"), "18446744073709551615");
    corrupted(small_json(level, "[]", "", R"(,"d":2147483647)"), "beyond");
    corrupted(small_json(level, "[]", "", R"(,"d":4)"), "given to both");
    corrupted(small_json(level, "[]", "", R"(,"a":6)"), "twice");
    corrupted(small_json(level, "[]", "", R"(,"":6)"), "empty");
    corrupted(small_json(level, "[]", "", R"(,"d":"6")"), "integer");
    corrupted(small_json(level, "[]", "", "", R"(["a z"])"), "not in the vocabulary");
    corrupted(small_json(level, "[]", "", "", R"(["b c"])"), "bc");
    corrupted(small_json(level, "[]", "", "", R"(["a b","a b"])"), "second time");
    corrupted(small_json(level, "[]", "", "", R"(["ab"])"), "merge 0");
    corrupted(small_json(level, "[]", "", "", R"([["a","b","c"]])"), "merge 0");
    corrupted(small_json(level, "[]", "", "", R"([7])"), "merge 0");
    corrupted(small_json(level, "[]", "", "", R"({})"), "merges");
    corrupted(small_json(level, R"([{"id":6}])"), "empty");
    corrupted(small_json(level, R"([{"content":"x"}])"), "integer");
    corrupted(small_json(level, R"([{"id":0,"content":"x"}])"), "given to both");
    corrupted(small_json(level, R"([{"id":6,"content":"x"},{"id":6,"content":"x"}])"), "twice");
    corrupted(small_json(level, R"([{"id":6,"content":"x","special":"yes"}])"), "special");
    corrupted(small_json(level, R"([7])"), "added_tokens");
    corrupted(small_json(level, "[]", R"(,"unk_token":"<unk>")"), "<unk>");
    corrupted(small_json(R"({"type":"ByteLevel","use_regex":1})"), "use_regex");
    corrupted(
        small_json(
            R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"(a"},"behavior":"Isolated","invert":false},{"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]})"),
        "a group that is not closed");
    corrupted("{\"model\":{},\n\"model\":{}}", "line 2, column 7: the key \"model\" occurs twice");
    corrupted("{}]", "line 1, column 3: not valid JSON");
    corrupted(std::string("{}\0{}", 5), "line 1, column 3: not valid JSON: a NUL byte");
}

namespace {

std::string nested(std::size_t depth, const std::string& open, const std::string& close, const std::string& inside) {
    std::string text;
    text.reserve(depth * (open.size() + close.size()) + inside.size());
    for (std::size_t i = 0; i < depth; ++i) text += open;
    text += inside;
    for (std::size_t i = 0; i < depth; ++i) text += close;
    return text;
}

} // namespace

TEST_CASE("tokenizer files nested 100,000 deep are one clear error each") {
    struct Section {
        const char* key;
        const char* list;
    };
    for (const Section& section : {Section{"normalizer", "normalizers"}, Section{"pre_tokenizer", "pretokenizers"},
                                   Section{"post_processor", "processors"}, Section{"decoder", "decoders"}}) {
        for (const char* model :
             {R"("type":"BPE","vocab":{"a":0},"merges":[])", R"("type":"Unigram","unk_id":0,"vocab":[["a",0.0]])",
              R"("type":"WordPiece","unk_token":"a","vocab":{"a":0})",
              R"("type":"WordLevel","unk_token":"a","vocab":{"a":0})"}) {
            CAPTURE(section.key);
            CAPTURE(model);
            const auto file = [&](std::size_t depth) {
                return fmt::format(R"({{"model":{{{}}},"{}":{}}})", model, section.key,
                                   nested(depth, fmt::format(R"({{"type":"Sequence","{}":[)", section.list), "]}",
                                          R"({"type":"Lowercase"})"));
            };
            const Status deep = load(file(50'000)).status(); // each step is an object and a list
            CHECK(deep.code() == Code::corrupt);
            CHECK_MESSAGE(contains(deep.message(), "tokenizer.json: line 1, column "), deep.message());
            CHECK_MESSAGE(contains(deep.message(), "nested deeper than 64 levels"), deep.message());
            // Within the limit the file is read, or rejected for its contents; either result is valid.
            CHECK(load(file(30)).message().size() < 2000);
        }
    }
    const TestFolder folder;
    const std::string deep = R"({"a":)" + nested(100'000, "[", "]", "") + "}";
    folder.write("vocab.json", R"({"a":0})");
    folder.write("merges.txt", "");
    for (const char* name : {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json"}) {
        folder.write(name, deep);
        const Status status = load_tokenizer(folder.path()).status();
        CHECK_MESSAGE(contains(status.message(), std::string(name) + ": line 1, column 69: nested deeper than 64"),
                      status.message());
        folder.write(name, name == std::string("vocab.json") ? R"({"a":0})" : "{}");
    }
    CHECK(load_tokenizer(folder.path()).ok());
}

TEST_CASE("a normalizer of 100,000 steps is read without recursion") {
    std::string steps;
    for (int i = 0; i < 100'000; ++i) steps += R"({"type":"Lowercase"},)";
    steps.pop_back();
    const auto tokenizer = must(load(
        R"({"normalizer":{"type":"Sequence","normalizers":[)" + steps +
        R"(]},"pre_tokenizer":{"type":"Metaspace"},"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0.0],["▁a",-1.0]]}})"));
    CHECK(must(tokenizer->encode("A")) == Ids{1});
}

TEST_CASE("tokenizer.json: truncated anywhere or with any byte changed it never crashes and always explains") {
    const std::string good = small_json(R"({"type":"ByteLevel"})", R"([{"id":6,"content":"<x>","special":true}])");
    for (std::size_t size = 0; size < good.size(); ++size) {
        const auto result = load(good.substr(0, size));
        CHECK(!result.ok());
        CHECK(!result.message().empty());
    }
    RandomStream random(9, 0);
    for (int i = 0; i < 400; ++i) {
        std::string bad = good;
        bad[random.next_below(bad.size())] = static_cast<char>(random.next_below(256));
        const auto result = load(bad);
        if (result.ok()) {
            CHECK(!result.value()->decode(Ids{0, 1, 2, 3, 4, 5, 6, 7}).empty());
        } else {
            CHECK(contains(result.message(), "tokenizer.json"));
        }
    }
}

TEST_CASE("GPT-2's files: malformed ones are named with line and problem") {
    const std::string vocab = R"({"a":0,"b":1,"ab":2,"<|endoftext|>":3})";
    const auto load_files = [](const std::string& vocabulary, const std::string& merges) {
        const TestFolder folder;
        folder.write("vocab.json", vocabulary);
        folder.write("merges.txt", merges);
        return load_tokenizer(folder.path());
    };
    const auto good = must(load_files(vocab, "#version: 0.2\na b\n"));
    CHECK(must(good->encode("ab<|endoftext|>")) == Ids{2, 3});
    CHECK(good->special(TokenRole::bos) == 3);
    CHECK(must(must(load_files(vocab, "a b"))->encode("ab")) == Ids{2}); // no version line, no last newline
    CHECK(must(must(load_files(vocab, "#version: 0.2\r\na b\r\n"))->encode("ab")) == Ids{2});
    CHECK(must(must(load_files(vocab, ""))->encode("ab")) == Ids{0, 1});
    const auto corrupted = [&](const std::string& vocabulary, const std::string& merges, const char* what) {
        const auto result = load_files(vocabulary, merges);
        CHECK_MESSAGE(result.code() != Code::ok, what);
        CHECK_MESSAGE(contains(result.message(), what), result.message());
    };
    corrupted(vocab, "a b\n\na b\n", "merges.txt: line 2");
    corrupted(vocab, "a b c\n", "merges.txt: line 1");
    corrupted(vocab, "a\n", "merges.txt: line 1");
    corrupted(vocab, " b\n", "merges.txt: line 1");
    corrupted(vocab, "a b\na b\n", "merges.txt: line 2");
    corrupted(vocab, "#version: 0.2\na q\n", "merges.txt: line 2: the token \"q\"");
    corrupted(vocab, "a \xFF\n", "merges.txt: line 1, byte offset 2");
    corrupted("{}", "a b\n", "vocab.json: the vocabulary is empty");
    corrupted("[]", "a b\n", "vocab.json");
    corrupted("{\"a\":0", "a b\n", "vocab.json: line 1, column 7: not valid JSON");
}

TEST_CASE("folders: roles from the other files, and folders without a tokenizer") {
    const TestFolder folder;
    folder.write("vocab.json", R"({"a":0,"b":1,"ab":2,"<s>":3,"</s>":4})");
    folder.write("merges.txt", "a b\n");
    folder.write(
        "tokenizer_config.json",
        R"({"bos_token":"<s>","eos_token":{"content":"</s>","lstrip":false},"pad_token":null,"add_prefix_space":false})");
    folder.write("special_tokens_map.json",
                 R"({"bos_token":"</s>","pad_token":"<pad>","additional_special_tokens":["<one>"]})");
    folder.write("added_tokens.json", R"({"<two>":6,"<pad>":5})");
    const auto tokenizer = must(load_tokenizer(folder.path()));
    CHECK(tokenizer->special(TokenRole::bos) == 3); // tokenizer_config.json has priority
    CHECK(tokenizer->special(TokenRole::eos) == 4);
    CHECK(tokenizer->special(TokenRole::pad) == 5);
    CHECK(tokenizer->find("<one>") == 7);
    CHECK(must(tokenizer->encode("<s>ab<two></s>")) == Ids{3, 2, 6, 4});
    const TestFolder copy;
    must(tokenizer->save(copy.path()));
    CHECK(must(load_tokenizer(copy.path()))->hash() == tokenizer->hash());

    for (const char* bad :
         {R"({"bos_token":7})", R"({"bos_token":{}})", R"({"bos_token":""})", "[",
          R"({"added_tokens_decoder":{"x":{}}})", R"({"added_tokens_decoder":[]})", R"({"add_prefix_space":"no"})"}) {
        folder.write("tokenizer_config.json", bad);
        const auto result = load_tokenizer(folder.path());
        CHECK_MESSAGE(contains(result.message(), "tokenizer_config.json"), bad << ": " << result.message());
    }
    const TestFolder empty;
    CHECK(load_tokenizer(empty.path()).code() == Code::not_found);
    CHECK(contains(load_tokenizer(empty.path()).message(), "looked for"));
    CHECK(load_tokenizer(empty.path() / "absent").code() == Code::not_found);
    empty.write("vocab.json", "{}");
    CHECK(contains(load_tokenizer(empty.path()).message(), "merges.txt"));
    const TestFolder other;
    other.write("source.spm", "x");
    other.write("target.spm", "x");
    CHECK(contains(load_tokenizer(other.path()).message(), "source.spm"));
}

} // namespace files_test
