// The special tokens around a language model's text, from the files that name them.
#include "support.hpp"

#include <fmt/format.h>

namespace text_frame_test {

using namespace hekla;
using namespace hekla::text;
using namespace hekla::text::testing;

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
    const TemporaryFolder folder;
    folder.write("tokenizer.json", json);
    folder.write("tokenizer_config.json", config);
    return load_tokenizer(folder.path());
}

TextFrame frame_of(const std::string& json, const std::string& config = "{}") {
    const auto tokenizer = must(load(json, config));
    // The frame round-trips, and is not part of encoding.
    const TemporaryFolder copy;
    must(tokenizer->save(copy.path()));
    const auto again = must(load_tokenizer(copy.path()));
    CHECK(again->frame() == tokenizer->frame());
    CHECK(again->hash() == tokenizer->hash());
    const Ids ids = must(tokenizer->encode("a"));
    CHECK(std::ranges::none_of(ids, [&](int32_t id) { return tokenizer->vocabulary().is_special(id); }));
    std::pmr::monotonic_buffer_resource memory;
    CHECK(must(lying_in(&memory, must(load(json, config))))->frame() == tokenizer->frame());
    return tokenizer->frame();
}

} // namespace

TEST_CASE("frame: a template in tokenizer.json puts its tokens around a text") {
    const std::string begin = template_json(piece("<s>") + "," + kText, defined("<s>", 1));
    CHECK(frame_of(llama_json("null")) == TextFrame());
    CHECK(frame_of(llama_json(begin)) == TextFrame{{1}, {}});
    CHECK(frame_of(llama_json(template_json(piece("<s>") + "," + kText + "," + piece("</s>"),
                                            defined("<s>", 1) + "," + defined("</s>", 2)))) == TextFrame{{1}, {2}});
    // Llama 3: a template inside a sequence.
    const std::string inner = template_json(piece("<|begin|>") + "," + kText, defined("<|begin|>", 2));
    CHECK(frame_of(byte_json(R"({"type":"Sequence","processors":[{"type":"ByteLevel"},)" + inner + "]}")) ==
          TextFrame{{2}, {}});
    CHECK(frame_of(byte_json(R"({"type":"ByteLevel"})")) == TextFrame());
    // T5 ends its texts, but its objectives add the token.
    CHECK(frame_of(llama_json(template_json(kText + "," + piece("</s>"), defined("</s>", 2)))) == TextFrame());
}

TEST_CASE("frame: without a template tokenizer_config.json decides, and Llama's class has its own default") {
    const std::string roles = R"("bos_token":"<s>","eos_token":"</s>")";
    const std::string begin = template_json(piece("<s>") + "," + kText, defined("<s>", 1));
    const auto config = [&](const std::string& more) { return "{" + roles + "," + more + "}"; };
    CHECK(frame_of(llama_json("null"), config(R"("add_bos_token":true)")) == TextFrame{{1}, {}});
    CHECK(frame_of(llama_json("null"), config(R"("add_bos_token":true,"add_eos_token":true)")) == TextFrame{{1}, {2}});
    CHECK(frame_of(llama_json(begin), config(R"("add_bos_token":false)")) == TextFrame{{1}, {}}); // as transformers 5
    CHECK(frame_of(llama_json("null"), config(R"("add_bos_token":null)")) == TextFrame());
    CHECK(frame_of(llama_json("null"), config(R"("tokenizer_class":"LlamaTokenizer")")) == TextFrame{{1}, {}});
    CHECK(frame_of(llama_json("null"), config(R"("tokenizer_class":"LlamaTokenizerFast","add_bos_token":false)")) ==
          TextFrame());
    CHECK(frame_of(llama_json("null"), config(R"("tokenizer_class":"PreTrainedTokenizerFast")")) == TextFrame());
    CHECK(frame_of(byte_json("null"), R"({"bos_token":"<|begin|>","add_bos_token":true})") == TextFrame{{2}, {}});
    // vocab.json and merges.txt, as OPT has.
    const TemporaryFolder folder;
    folder.write("vocab.json", R"({"a":0,"</s>":1})");
    folder.write("merges.txt", "");
    folder.write("tokenizer_config.json", R"({"bos_token":"</s>","eos_token":"</s>","add_bos_token":true})");
    CHECK(must(load_tokenizer(folder.path()))->frame() == TextFrame{{1}, {}});
}

TEST_CASE("frame: encoders' templates are left to the objectives, and hashes without a frame do not change") {
    const std::string bert = template_json(piece("[CLS]") + "," + kText + "," + piece("[SEP]"),
                                           defined("[CLS]", 1) + "," + defined("[SEP]", 2));
    const auto wordpiece = must(load(R"({"pre_tokenizer":{"type":"BertPreTokenizer"},"post_processor":)" + bert +
                                     R"(,"model":{"type":"WordPiece","unk_token":"[UNK]",
"vocab":{"[UNK]":0,"[CLS]":1,"[SEP]":2,"a":3}}})"));
    CHECK(wordpiece->frame() == TextFrame());
    // RoBERTa: its "<s>" starts a text and is used for classification.
    const std::string roberta =
        template_json(piece("<s>") + "," + kText + "," + piece("</s>"), defined("<s>", 1) + "," + defined("</s>", 2));
    CHECK(frame_of(llama_json(roberta), R"({"bos_token":"<s>","cls_token":"<s>","sep_token":"</s>"})") == TextFrame());
    std::string with, without;
    Vocabulary vocabulary;
    must(vocabulary.add(0, "a", "a"));
    vocabulary.append_identity(without);
    must(vocabulary.set_frame({{0}, {}}));
    vocabulary.append_identity(with);
    CHECK(with.starts_with(without));
    CHECK(with != without);
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
    CHECK(has(error("null", R"({"add_bos_token":"yes"})"), "tokenizer_config.json: \"add_bos_token\" is a string"));
    const Status none = load(byte_json("null"), R"({"add_bos_token":true})").status();
    CHECK(has(none.message(), "\"add_bos_token\" is true, and the tokenizer has no bos_token"));
}

} // namespace text_frame_test
