// Pairs of texts: next sentence, sentence order, classification, multiple choice.
#include "bench.hpp"

#include <algorithm>

namespace pairs_test {

using namespace hekla;
using namespace hekla::test;

namespace {

// Returns an example of sentences: `document` distinguishes them, ids count up from 10 times it.
data::EncodedExample sentences(uint64_t document, std::initializer_list<int> sizes) {
    data::EncodedExample example;
    example.document = document;
    data::EncodedColumn text{"text", HK_COLUMN_TOKENS, {}, {}, {}};
    for (const int size : sizes) {
        text.parts.push_back(text.ids.size());
        for (int i = 0; i < size; ++i) text.ids.push_back(static_cast<int32_t>(document * 10 + text.ids.size() % 10));
    }
    example.columns.push_back(std::move(text));
    return example;
}

} // namespace

TEST_CASE("mlm_nsp: half of the second texts are from elsewhere, with about the same length") {
    const Objective nsp("mlm_nsp", {{"mask_share", 0.0}, {"random_share", 0.0}});
    data::StoredExamples corpus;
    for (uint64_t document = 0; document < 5; ++document) REQUIRE(corpus.add(sentences(document, {4, 3, 3})).ok());
    uint64_t follows = 0, rows = 0;
    const int32_t separator = nsp.id_of("<sep>");
    for (uint64_t epoch = 0; epoch < 2000; ++epoch) {
        batch::DrawnExample drawn;
        drawn.epoch = epoch;
        corpus.get(epoch % 5, drawn.example);
        const Fields fields = collate(nsp, {drawn}, 1, 16, 3, &corpus);
        const std::vector<int32_t> ids = fields.row("input_ids", 0), types = fields.row("token_type_ids", 0);
        const int32_t label = fields.row("next_sentence_label", 0)[0];
        ++rows;
        follows += label == 0 ? 1 : 0;
        const auto first_separator = std::ranges::find(ids, separator);
        REQUIRE(first_separator != ids.end());
        const auto a = static_cast<std::size_t>(first_separator - ids.begin());
        CHECK((a == 5 || a == 8)); // split after the first sentence (4 tokens) or the second (7)
        const uint64_t document = drawn.example.document;
        for (std::size_t i = 1; i < a; ++i) CHECK(static_cast<uint64_t>(ids[i] / 10) == document);
        CHECK(types[a] == 0);
        CHECK(types[a + 1] == 1);
        const auto second = static_cast<uint64_t>(ids[a + 1] / 10);
        CHECK((second == document) == (label == 0));
        if (label == 0) CHECK(ids[a + 1] == ids[a - 1] + 1); // the next sentence
    }
    CHECK(static_cast<double>(follows) / static_cast<double>(rows) == doctest::Approx(0.5).epsilon(0.05));
}

TEST_CASE("mlm_nsp: an example that cannot be read is named by the host's own message") {
    struct Broken final : data::EncodedExamples {
        uint64_t size() const override { return 3; }
        void get(uint64_t, data::EncodedExample&) const override { throw std::runtime_error("the file ended"); }
    };
    const Objective nsp("mlm_nsp", {});
    const Broken corpus;
    std::string message;
    for (uint64_t epoch = 0; epoch < 20 && message.empty(); ++epoch) {
        batch::DrawnExample drawn;
        drawn.epoch = epoch;
        drawn.example = sentences(0, {4, 3, 3});
        std::vector<data::Field> fields;
        message = batch::make_fields(*nsp.composition, std::span(&drawn, 1), &corpus, 3, 1, 16, fields).message();
    }
    CHECK(message.find("an example for a random next sentence could not be read: the file ended") != std::string::npos);
}

TEST_CASE("mlm_sop: half of the pairs are swapped") {
    const Objective sop("mlm_sop", {{"mask_share", 0.0}, {"random_share", 0.0}});
    uint64_t turned = 0;
    for (uint64_t epoch = 0; epoch < 2000; ++epoch) {
        batch::DrawnExample drawn;
        drawn.epoch = epoch;
        drawn.example = sentences(0, {4, 5});
        const Fields fields = collate(sop, {drawn}, 1, 12);
        const int32_t label = fields.row("sentence_order_label", 0)[0];
        CHECK(fields.row("input_ids", 0)[1] == (label == 0 ? 0 : 4));
        turned += label == 1 ? 1 : 0;
    }
    CHECK(static_cast<double>(turned) / 2000.0 == doctest::Approx(0.5).epsilon(0.05));
}

TEST_CASE("classification: a pair, truncated if it is too long, and a row without a label") {
    const Objective task("classification");
    const int32_t cls = task.id_of("<cls>"), sep = task.id_of("<sep>"), pad = task.id_of("<pad>");
    data::EncodedColumn label{"label", HK_COLUMN_CLASSES, {1}, {}, {}};
    const Fields fields = collate(task,
                                  {row_of({tokens("text", {1, 2}), tokens("text_b", {3}), label}),
                                   row_of({tokens("text", {1, 2, 3, 4, 5, 6}), tokens("text_b", {7, 8})}),
                                   row_of({tokens("text", {9}), label})},
                                  4, 8);
    CHECK(fields.row("input_ids", 0) == std::vector<int32_t>{cls, 1, 2, sep, 3, sep, pad, pad});
    CHECK(fields.row("token_type_ids", 0) == std::vector<int32_t>{0, 0, 0, 0, 1, 1, 0, 0});
    CHECK(fields.row("attention_mask", 0) == std::vector<int32_t>{1, 1, 1, 1, 1, 1, 0, 0});
    CHECK(fields.row("labels", 0)[0] == 1);
    // Five positions for six and two tokens: the longer one is truncated at its end.
    CHECK(fields.row("input_ids", 1) == std::vector<int32_t>{cls, 1, 2, 3, sep, 7, 8, sep});
    CHECK(fields.row("labels", 1)[0] == -100);
    CHECK(fields.row("input_ids", 2) == std::vector<int32_t>{cls, 9, sep, pad, pad, pad, pad, pad});
    CHECK(fields.row("labels", 3)[0] == -100); // not an example
}

TEST_CASE("classification: the special tokens around texts are the family's own") {
    const auto row = [](const Objective& task) {
        return collate(task, {row_of({tokens("text", {1, 2}), tokens("text_b", {3})})}, 1, 9).row("input_ids", 0);
    };
    const Objective roberta("classification", json::object(), "roberta");
    const int32_t cls = roberta.id_of("<cls>"), sep = roberta.id_of("<sep>"), pad = roberta.id_of("<pad>"),
                  eos = roberta.id_of("<eos>");
    CHECK(row(roberta) == std::vector<int32_t>{cls, 1, 2, sep, sep, 3, sep, pad, pad});
    const Objective gpt("classification", json::object(), "gpt2");
    CHECK(row(gpt) == std::vector<int32_t>{1, 2, 3, pad, pad, pad, pad, pad, pad}); // its tokenizer's: none
    const Objective extracts("classification", json{{"layout", "gpt"}}, "gpt2");    // [START] a [DELIM] b [EXTRACT]
    CHECK(row(extracts) == std::vector<int32_t>{cls, 1, 2, sep, 3, cls, pad, pad, pad});
    const Objective t5("classification", json::object(), "t5");
    CHECK(row(t5) == std::vector<int32_t>{1, 2, eos, 3, eos, pad, pad, pad, pad});
    const Objective xlnet("classification", json::object(), "xlnet");
    CHECK(row(xlnet) == std::vector<int32_t>{pad, pad, pad, 1, 2, sep, 3, sep, cls});
}

TEST_CASE("regression: rows without an example have no weight") {
    const Objective task("regression");
    data::EncodedColumn score{"score", HK_COLUMN_NUMBERS, {}, {2.5f}, {}};
    const Fields fields = collate(task, {row_of({tokens("text", {1}), score}), row_of({tokens("text", {2})})}, 3, 4);
    CHECK(fields.row<float>("labels", 0) == std::vector<float>{2.5f});
    CHECK(fields.row<float>("row_weight", 0) == std::vector<float>{1.0f});
    CHECK(fields.row<float>("row_weight", 1) == std::vector<float>{0.0f});
    CHECK(fields.row<float>("row_weight", 2) == std::vector<float>{0.0f});
}

TEST_CASE("tagging: the label is at a word's first token; truncated words have none") {
    const Objective task("tagging");
    batch::DrawnExample drawn = row_of({{"words", HK_COLUMN_WORDS, {1, 2, 3, 4, 5, 6}, {}, {0, 2, 3}},
                                        {"tags", HK_COLUMN_CLASSES, {7, 8, 9}, {}, {}}});
    const Fields fields = collate(task, {drawn}, 1, 6);
    CHECK(fields.row("labels", 0) == std::vector<int32_t>{-100, 7, -100, 8, 9, -100});
    CHECK(fields.row("word_numbers", 0) == std::vector<int32_t>{-1, 0, -1, 1, 2, -1});
    const Fields shorter = collate(task, {drawn}, 1, 5);
    CHECK(shorter.row("labels", 0) == std::vector<int32_t>{-100, 7, -100, 8, -100});
}

TEST_CASE("double_heads: every choice has the same prompt, and only the correct one is language modeling") {
    const Objective task("double_heads", {{"layout", "gpt"}}, "gpt2", "double_heads");
    const int32_t cls = task.id_of("<cls>"), sep = task.id_of("<sep>"), pad = task.id_of("<pad>");
    batch::DrawnExample drawn = row_of({tokens("text", {1}),
                                        {"choices", HK_COLUMN_CHOICES, {2, 3, 4}, {}, {0, 1}},
                                        {"choice", HK_COLUMN_NUMBERS, {}, {1.0f}, {}}});
    const Fields fields = collate(task, {drawn}, 1, 7);
    CHECK(fields.row("input_ids", 0) ==
          std::vector<int32_t>{cls, 1, sep, 2, cls, pad, pad, cls, 1, sep, 3, 4, cls, pad});
    CHECK(fields.row("mc_token_ids", 0) == std::vector<int32_t>{4, 5});
    CHECK(fields.row("mc_labels", 0)[0] == 1);
    CHECK(fields.row("labels", 0) ==
          std::vector<int32_t>{-100, -100, -100, -100, -100, -100, -100, cls, 1, sep, 3, 4, cls, -100});
}

TEST_CASE("contrastive: the second texts come after all first texts") {
    const Objective task("contrastive", json::object(), "bert", "pooler");
    const int32_t cls = task.id_of("<cls>"), sep = task.id_of("<sep>"), pad = task.id_of("<pad>");
    const Fields fields = collate(task, {row_of({tokens("text", {1}), tokens("text_b", {2})})}, 2, 4);
    CHECK(fields.row("input_ids", 0) == std::vector<int32_t>{cls, 1, sep, pad});
    CHECK(fields.row("input_ids", 2) == std::vector<int32_t>{cls, 2, sep, pad});
    CHECK(fields.row("pair_labels", 0)[0] == 0);
    CHECK(fields.row("pair_labels", 1)[0] == -100);
}

TEST_CASE("extractive_qa: positions of an answer, the allowed positions, and a truncated answer") {
    const Objective qa("extractive_qa");
    const auto answer = [](int32_t first, int32_t end) {
        data::EncodedColumn column;
        column.name = "answer";
        column.kind = HK_COLUMN_SPANS;
        column.ids = {first, end};
        return column;
    };
    const std::vector<batch::DrawnExample> rows{
        row_of({tokens("question", qa.ids("ab")), tokens("context", qa.ids("cdefg")), answer(1, 3)}),
        row_of({tokens("question", qa.ids("ab")), tokens("context", qa.ids("cdefghijkl")), answer(8, 10)}),
        row_of({tokens("question", qa.ids("ab")), tokens("context", qa.ids("cd"))})};
    const Fields fields = collate(qa, rows, 4, 12); // <cls> a b <sep> c d e f g <sep>
    CHECK(qa.text(fields.row("input_ids", 0)) == "<cls>ab<sep>cdefg<sep><pad><pad>");
    CHECK(fields.row("start_positions", 0)[0] == 5);
    CHECK(fields.row("end_positions", 0)[0] == 6);
    CHECK(fields.row("in_context", 0) == std::vector<int32_t>{0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0});
    for (const std::size_t row : {1, 2, 3}) {
        CHECK(fields.row("start_positions", row)[0] == -100);
        CHECK(fields.row("end_positions", row)[0] == -100);
    }
    CHECK(fields.row("in_context", 3) == std::vector<int32_t>(12, 0));
}

} // namespace pairs_test
