// The special tokens around a language model's text, from the files that name them.
#include "support.hpp"

#include "text/text_encoder.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace text_frame_test {

using namespace hekla;
using namespace hekla::text;
using namespace hekla::test;

namespace {

using Ids = std::vector<int32_t>;

// Characters with U+2581 for spaces and Metaspace, as in Llama's. "post" is the post_processor.
std::string llama_json(const std::string& post) {
    return fmt::format(R"({{"added_tokens":[{{"id":0,"content":"<unk>","special":true}},
{{"id":1,"content":"<s>","special":true}},{{"id":2,"content":"</s>","special":true}}],
"normalizer":{{"type":"Sequence","normalizers":[{{"type":"Prepend","prepend":"▁"}},
{{"type":"Replace","pattern":{{"String":" "}},"content":"▁"}}]}},"pre_tokenizer":null,"post_processor":{},
"model":{{"type":"BPE","unk_token":"<unk>","vocab":{{"<unk>":0,"<s>":1,"</s>":2,"▁":3,"a":4,"b":5,"▁a":6}},
"merges":["▁ a"]}}}})",
                       post);
}

std::string byte_json(const std::string& post) {
    return fmt::format(R"({{"added_tokens":[{{"id":2,"content":"<|begin|>","special":true}},
{{"id":3,"content":"<|end|>","special":true}}],"pre_tokenizer":{{"type":"ByteLevel","add_prefix_space":false}},
"post_processor":{},"model":{{"type":"BPE","vocab":{{"a":0,"b":1}},"merges":[]}}}})",
                       post);
}

std::string template_json(const std::string& single, const std::string& special) {
    return fmt::format(R"({{"type":"TemplateProcessing","single":[{}],"pair":[],"special_tokens":{{{}}}}})", single,
                       special);
}
const std::string kText = R"({"Sequence":{"id":"A","type_id":0}})";
std::string piece(const std::string& token) {
    return fmt::format(R"({{"SpecialToken":{{"id":"{}","type_id":0}}}})", token);
}
std::string defined(const std::string& token, int id) {
    return fmt::format(R"("{0}":{{"id":"{0}","ids":[{1}],"tokens":["{0}"]}})", token, id);
}

Result<std::unique_ptr<Tokenizer>> load(const std::string& json, const std::string& config = "{}") {
    const TestFolder folder;
    folder.write("tokenizer.json", json);
    folder.write("tokenizer_config.json", config);
    return load_tokenizer(folder.path());
}

DocumentFrame frame_of(const std::string& json, const std::string& config = "{}") {
    const auto tokenizer = must(load(json, config));
    // The frame round-trips, and is not part of encoding.
    const TestFolder copy;
    must(tokenizer->save(copy.path()));
    const auto again = must(load_tokenizer(copy.path()));
    CHECK(again->frame() == tokenizer->frame());
    CHECK(again->hash() == tokenizer->hash());
    const Ids ids = must(tokenizer->encode("a"));
    CHECK(std::ranges::none_of(ids, [&](int32_t id) { return tokenizer->vocabulary().is_special(id); }));
    std::pmr::monotonic_buffer_resource memory;
    CHECK(must(lying_in(&memory, must(load(json, config))))->frame() == tokenizer->frame());
    return tokenizer->vocabulary().document_frame();
}

} // namespace

TEST_CASE("frame: a template in tokenizer.json puts its tokens around a text") {
    const std::string begin = template_json(piece("<s>") + "," + kText, defined("<s>", 1));
    CHECK(frame_of(llama_json("null")) == DocumentFrame());
    CHECK(frame_of(llama_json(begin)) == DocumentFrame{{1}, {}});
    CHECK(frame_of(llama_json(template_json(piece("<s>") + "," + kText + "," + piece("</s>"),
                                            defined("<s>", 1) + "," + defined("</s>", 2)))) == DocumentFrame{{1}, {2}});
    // Llama 3: a template inside a sequence.
    const std::string inner = template_json(piece("<|begin|>") + "," + kText, defined("<|begin|>", 2));
    CHECK(frame_of(byte_json(R"({"type":"Sequence","processors":[{"type":"ByteLevel"},)" + inner + "]}")) ==
          DocumentFrame{{2}, {}});
    CHECK(frame_of(byte_json(R"({"type":"ByteLevel"})")) == DocumentFrame());
    // T5 ends its texts, but its objectives add the token.
    CHECK(frame_of(llama_json(template_json(kText + "," + piece("</s>"), defined("</s>", 2)))) == DocumentFrame());
}

TEST_CASE("frame: without a template tokenizer_config.json decides, and Llama's class has its own default") {
    const std::string roles = R"("bos_token":"<s>","eos_token":"</s>")";
    const std::string begin = template_json(piece("<s>") + "," + kText, defined("<s>", 1));
    const auto config = [&](const std::string& more) { return "{" + roles + "," + more + "}"; };
    // With a tokenizer.json transformers 5.12 does not read the keys, whatever the class.
    CHECK(frame_of(llama_json("null"), config(R"("add_bos_token":true,"add_eos_token":true)")) == DocumentFrame());
    CHECK(frame_of(llama_json(begin), config(R"("add_bos_token":false)")) ==
          DocumentFrame{{1}, {}}); // as transformers 5
    CHECK(frame_of(llama_json("null"), config(R"("add_bos_token":null)")) == DocumentFrame());
    CHECK(frame_of(llama_json("null"), config(R"("tokenizer_class":"LlamaTokenizer")")) == DocumentFrame());
    CHECK(frame_of(llama_json("null"), config(R"("tokenizer_class":"LlamaTokenizerFast","add_bos_token":false)")) ==
          DocumentFrame());
    CHECK(frame_of(llama_json("null"), config(R"("tokenizer_class":"PreTrainedTokenizerFast")")) == DocumentFrame());
    // vocab.json and merges.txt, as OPT has.
    const TestFolder folder;
    folder.write("vocab.json", R"({"a":0,"</s>":1})");
    folder.write("merges.txt", "");
    folder.write("tokenizer_config.json", R"({"bos_token":"</s>","eos_token":"</s>","add_bos_token":true})");
    CHECK(must(load_tokenizer(folder.path()))->vocabulary().document_frame() == DocumentFrame{{1}, {}});
}

TEST_CASE("frame: encoders' templates are left to the objectives, and hashes without a frame do not change") {
    const std::string bert = template_json(piece("[CLS]") + "," + kText + "," + piece("[SEP]"),
                                           defined("[CLS]", 1) + "," + defined("[SEP]", 2));
    const auto wordpiece = must(load(R"({"pre_tokenizer":{"type":"BertPreTokenizer"},"post_processor":)" + bert +
                                     R"(,"model":{"type":"WordPiece","unk_token":"[UNK]",
"vocab":{"[UNK]":0,"[CLS]":1,"[SEP]":2,"a":3}}})"));
    CHECK(wordpiece->vocabulary().document_frame() == DocumentFrame());
    CHECK(wordpiece->frame().before == Ids{1});
    CHECK(wordpiece->frame().after == Ids{2});
    // RoBERTa: its "<s>" starts a text and is used for classification.
    const std::string roberta =
        template_json(piece("<s>") + "," + kText + "," + piece("</s>"), defined("<s>", 1) + "," + defined("</s>", 2));
    CHECK(frame_of(llama_json(roberta), R"({"bos_token":"<s>","cls_token":"<s>","sep_token":"</s>"})") ==
          DocumentFrame());
    std::string with, without;
    Vocabulary vocabulary;
    must(vocabulary.add(0, "a", "a"));
    vocabulary.append_identity(without);
    TextFrame frame;
    frame.before = {0};
    must(vocabulary.set_frame(frame)); // of an encoder: not around documents
    std::string encoders;
    vocabulary.append_identity(encoders);
    CHECK(encoders == without);
    frame.documents = true;
    must(vocabulary.set_frame(frame));
    vocabulary.append_identity(with);
    CHECK(with.starts_with(without));
    CHECK(with != without);
}

// The ids are those of transformers 5.12.1 for the same files: one text, and a pair with its token types.
TEST_CASE("frame: a tokenizer's class decides where tokenizer.json has no post_processor") {
    const auto json = [](const char* vocabulary) {
        return fmt::format(R"({{"pre_tokenizer":{{"type":"BertPreTokenizer"}},"post_processor":null,
"model":{{"type":"WordPiece","unk_token":"<unk>","vocab":{}}}}})",
                           vocabulary);
    };
    const std::string words = json(R"({"<unk>":0,"[CLS]":1,"[SEP]":2,"</s>":3,"<s>":4,"a":5})");
    struct Case {
        const char *name, *roles;
        Ids before, after, between, pair_after, pair_types;
    };
    const char* bert = R"("cls_token":"[CLS]","sep_token":"[SEP]")";
    const char* roberta = R"("bos_token":"<s>","eos_token":"</s>","cls_token":"<s>","sep_token":"</s>")";
    for (const Case& c : {Case{"BertTokenizer", bert, {1}, {2}, {2}, {2}, {0, 0, 0, 1, 1}},
                          Case{"DebertaV2Tokenizer", bert, {1}, {2}, {2}, {2}, {0, 0, 0, 1, 1}},
                          Case{"XLMRobertaTokenizer", roberta, {4}, {3}, {3, 3}, {3}, {0, 0, 0, 0, 0, 0}},
                          Case{"T5Tokenizer", roberta, {}, {3}, {3}, {3}, {0, 0, 0, 0}},
                          Case{"XLNetTokenizer", bert, {}, {2, 1}, {2}, {2, 1}, {0, 0, 1, 1, 2}},
                          Case{"GPT2Tokenizer", roberta, {}, {}, {}, {}, {}}}) {
        CAPTURE(std::string(c.name));
        const auto tokenizer = must(load(words, fmt::format(R"({{"tokenizer_class":"{}",{}}})", c.name, c.roles)));
        const TextFrame& frame = tokenizer->frame();
        CHECK(frame.before == c.before);
        CHECK(frame.after == c.after);
        CHECK(frame.pair_before == c.before);
        CHECK(frame.pair_between == c.between);
        CHECK(frame.pair_after == c.pair_after);
        CHECK(fmt::format("{}", fmt::join(frame.pair_types, " ")) == fmt::format("{}", fmt::join(c.pair_types, " ")));
        CHECK(tokenizer->vocabulary().document_frame() == DocumentFrame());
    }
}

TEST_CASE("frame: RobertaProcessing, BertProcessing and an end token alone are read, and survive saving") {
    const auto whole = [](const std::string& post, const std::string& config = "{}") {
        const auto tokenizer = must(load(llama_json(post), config));
        const TestFolder copy;
        must(tokenizer->save(copy.path()));
        CHECK(must(load_tokenizer(copy.path()))->frame() == tokenizer->frame());
        return tokenizer->frame();
    };
    const TextFrame roberta = whole(R"({"type":"RobertaProcessing","sep":["</s>",2],"cls":["<s>",1]})");
    CHECK(roberta.pair_between == Ids{2, 2});
    CHECK(!roberta.documents);
    const TextFrame bert = whole(R"({"type":"Sequence","processors":[{"type":"ByteLevel"},
{"type":"BertProcessing","sep":["</s>",2],"cls":["<s>",1]}]})");
    CHECK(bert.pair_types == Ids{0, 0, 0, 1, 1});
    // Qwen3-Embedding ends its texts.
    const TextFrame end = whole(template_json(kText + "," + piece("</s>"), defined("</s>", 2)));
    CHECK(end.after == Ids{2});
    CHECK(!end.documents);
}

TEST_CASE("text encoder: each use has its tokens around a text, and parses special tokens or not") {
    const auto tokenizer = must(load(llama_json(template_json(piece("<s>") + "," + kText, defined("<s>", 1)))));
    const TextEncoder parsing(*tokenizer), plain(*tokenizer, {true, false});
    const Ids parsed = must(parsing.encode(TextUse::row, "a</s>"));
    CHECK(parsed.back() == 2);
    CHECK(must(plain.encode(TextUse::row, "a</s>")).back() != 2);
    CHECK(must(parsing.encode(TextUse::untrusted, "a</s>")).back() != 2);
    CHECK(must(plain.encode(TextUse::prompt, "a</s>")) == Ids{1, 6, 2});
    CHECK(must(plain.encode(TextUse::prompt, "<s>a"))[0] == 1);
    CHECK(must(plain.encode(TextUse::prompt, "<s>a"))[1] != 1); // typed, and not doubled
    CHECK(must(plain.encode(TextUse::features, "a")) == Ids{1, 6});
    CHECK(must(plain.encode(TextUse::continuation, "a")) == Ids{6});
    std::vector<ByteRange> ranges;
    Ids ids;
    must(plain.encode(TextUse::features, "a", ids, &ranges));
    CHECK(ranges == std::vector<ByteRange>{{0, 0}, {0, 1}});
}

TEST_CASE("frame: an invalid frame is one clear error") {
    const auto error = [](const std::string& post, const std::string& config = "{}") {
        const Status status = load(llama_json(post), config).status();
        CHECK(status.code() == Code::corrupt);
        return status.message();
    };
    const auto has = [](const std::string& text, std::string_view part) {
        INFO(text);
        return text.find(part) != std::string::npos;
    };
    CHECK(
        has(error(template_json(piece("<x>") + "," + kText, "")), "uses \"<x>\", which its \"special_tokens\" do not"));
    CHECK(has(error(template_json(piece("<s>") + "," + kText, defined("<s>", 99))), "uses id 99, which no token has"));
    const std::string begin = template_json(piece("<s>") + "," + kText, defined("<s>", 1));
    const Status twice =
        load(llama_json(fmt::format(R"({{"type":"Sequence","processors":[{0},{{"type":"ByteLevel"}},{0}]}})", begin)))
            .status();
    CHECK(twice.code() == Code::unsupported);
    CHECK(has(twice.message(), "tokenizer.json: \"post_processor\": 2 of its steps add tokens"));
    CHECK(has(error("null", R"({"add_bos_token":"yes"})"), "tokenizer_config.json: \"add_bos_token\" is a string"));
    const TestFolder folder;
    folder.write("vocab.json", R"({"a":0})");
    folder.write("merges.txt", "");
    folder.write("tokenizer_config.json", R"({"add_bos_token":true})");
    const Status none = load_tokenizer(folder.path()).status();
    CHECK(has(none.message(), "\"add_bos_token\" is true, and the tokenizer has no bos_token"));
}

} // namespace text_frame_test
