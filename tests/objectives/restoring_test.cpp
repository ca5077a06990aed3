// Encoder-decoders that restore text, and language models with a prefix or their own prediction order.
#include "bench.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace restoring_test {

using namespace hekla;
using namespace hekla::test;

namespace {

std::vector<int32_t> count_up(std::size_t n) {
    std::vector<int32_t> ids(n);
    for (std::size_t i = 0; i < n; ++i) ids[i] = static_cast<int32_t>(i % 50);
    return ids;
}

// Returns a row without its padding.
std::vector<int32_t> real(const Fields& fields, std::size_t row) {
    std::vector<int32_t> ids = fields.row("input_ids", row);
    const std::vector<int32_t> mask = fields.row("attention_mask", row);
    ids.resize(static_cast<std::size_t>(std::ranges::count(mask, 1)));
    return ids;
}

} // namespace

TEST_CASE("seq2seq: the decoder reads the target shifted by one position, after the start token") {
    const Objective task("seq2seq", json::object(), "t5", "lm");
    const int32_t eos = task.id_of("<eos>"), pad = task.id_of("<pad>");
    batch::DrawnExample drawn;
    drawn.example.columns = {{"source", HK_COLUMN_TOKENS, {1, 2, 3}, {}, {}},
                             {"target", HK_COLUMN_TOKENS, {4, 5}, {}, {}}};
    const Fields fields = collate(task, {drawn}, 2, 5);
    CHECK(fields.row("input_ids", 0) == std::vector<int32_t>{1, 2, 3, eos, pad});
    CHECK(fields.row("labels", 0) == std::vector<int32_t>{4, 5, eos, -100, -100});
    const std::vector<int32_t> decoder = fields.row("decoder_input_ids", 0);
    CHECK(std::vector<int32_t>(decoder.begin() + 1, decoder.end()) == std::vector<int32_t>{4, 5, pad, pad});
    CHECK(fields.row("labels", 1) == std::vector<int32_t>(5, -100));
    // One that is too long is truncated at its end, including the end token.
    const Fields cut = collate(task, {drawn}, 1, 2);
    CHECK(cut.row("labels", 0) == std::vector<int32_t>{4, 5});
}

TEST_CASE("denoising: each transformation alone") {
    const json off{
        {"permute_sentences", 0.0}, {"infilling", 0.0}, {"masking", 0.0}, {"deletion", 0.0}, {"rotation", 0.0}};
    const auto only = [&](const char* key, double value) {
        json config = off;
        config[key] = value;
        return Objective("denoising", config, "bart", "lm");
    };
    const std::vector<int32_t> text = count_up(40);
    SUBCASE("nothing") {
        const Objective none = only("masking", 0.0);
        const Fields fields = collate(none, {example_of(text)}, 1, 42);
        std::vector<int32_t> ids = real(fields, 0);
        CHECK(std::vector<int32_t>(ids.begin() + 1, ids.end() - 1) == text); // <s> text </s>
        std::vector<int32_t> labels = fields.row("labels", 0);
        labels.resize(40);
        CHECK(labels == text);
    }
    SUBCASE("masking") {
        const Objective masking = only("masking", 0.25);
        const std::vector<int32_t> ids = real(collate(masking, {example_of(text)}, 1, 42), 0);
        CHECK(ids.size() == 42);
        CHECK(std::ranges::count(ids, masking.id_of("<mask>")) == 10);
        for (std::size_t i = 0; i < text.size(); ++i)
            CHECK((ids[i + 1] == text[i] || ids[i + 1] == masking.id_of("<mask>")));
    }
    SUBCASE("deletion") {
        const Objective deletion = only("deletion", 0.25);
        const std::vector<int32_t> ids = real(collate(deletion, {example_of(text)}, 1, 42), 0);
        CHECK(ids.size() == 32);
        CHECK(std::is_sorted(ids.begin() + 1, ids.end() - 1)); // the remaining tokens keep their order
    }
    SUBCASE("rotation") {
        const Objective rotation = only("rotation", 1.0);
        std::set<int32_t> first;
        for (uint64_t index = 0; index < 400; ++index) {
            const std::vector<int32_t> ids = real(collate(rotation, {example_of(text, index)}, 1, 42), 0);
            first.insert(ids[1]);
            for (std::size_t i = 2; i + 1 < ids.size(); ++i) CHECK(ids[i] == (ids[i - 1] + 1) % 40);
        }
        CHECK(first.size() == 40);
    }
    SUBCASE("sentence permutation") {
        const Objective permuted = only("permute_sentences", 1.0);
        const std::vector<int32_t> sentences = permuted.ids("one. two! three? four");
        std::set<std::string> seen;
        for (uint64_t index = 0; index < 300; ++index) {
            const std::vector<int32_t> ids = real(collate(permuted, {example_of(sentences, index)}, 1, 40), 0);
            const std::string shown = permuted.text(std::span(ids).subspan(1, ids.size() - 2));
            seen.insert(shown);
            for (const char* part : {"one.", " two!", " three?", " four"}) CHECK(shown.find(part) != std::string::npos);
        }
        CHECK(seen.size() == 24); // every order of four
    }
    SUBCASE("infilling: 30 percent in spans of mean 3, one mask each") {
        const Objective infilling = only("infilling", 0.3);
        const std::vector<int32_t> longer = count_up(50); // distinct tokens, so that the gaps can be determined
        double hidden = 0, spans = 0, empty = 0, rows = 0;
        for (uint64_t index = 0; index < 7000; ++index, ++rows) {
            const std::vector<int32_t> ids = real(collate(infilling, {example_of(longer, index)}, 1, 80), 0);
            int32_t expected = 0;
            double masks = 0;
            for (std::size_t i = 1; i + 1 < ids.size(); ++i) {
                if (ids[i] == infilling.id_of("<mask>")) {
                    ++masks;
                    continue;
                }
                hidden += ids[i] - expected;
                if (masks > 0 && ids[i] == expected) empty += masks; // only empty spans were there
                spans += masks;
                masks = 0;
                expected = ids[i] + 1;
            }
            hidden += 50 - expected;
            spans += masks;
        }
        CHECK(hidden / rows == 15.0); // exactly
        // The last span is shortened, so the mean is a little below 3.
        CHECK(hidden / spans > 2.4);
        CHECK(hidden / spans < 3.0);
        CHECK(empty / spans > 0.5 * std::exp(-3.0));
    }
}

TEST_CASE("span_corruption: T5's layout and sizes") {
    const Objective task("span_corruption", json::object(), "t5", "lm");
    // 568 tokens of text fill 512 tokens of input; 15 percent are 85, in 28 spans (Raffel et al. 2020's own code).
    CHECK(task.composition->tokens_per_example(512).value() == 568);
    auto fields_of = task.composition->batch_fields(1, 512);
    REQUIRE(fields_of.ok());
    for (const plugin::BatchField& field : fields_of.value())
        if (field.name == "labels") CHECK(field.shape[1] == 114);
    const std::vector<int32_t> text = count_up(50);
    const int32_t first = task.id_of("<extra_id_0>"), eos = task.id_of("<eos>");
    const Fields fields = collate(task, {example_of(text, 3)}, 1, 64);
    std::vector<int32_t> source = real(fields, 0), target = fields.row("labels", 0);
    // 8 of 50 tokens (7.5 rounds up), 3 spans.
    CHECK(source.size() == 50 - 8 + 3 + 1);
    CHECK(source.back() == eos);
    CHECK(source.front() == 0); // the row starts with text
    std::erase(target, -100);
    CHECK(target.size() == 8 + 3 + 1);
    CHECK(target.back() == eos);
    // Joined span by span, they give the text.
    std::vector<int32_t> whole;
    for (const int32_t id : source) {
        if (id == eos) break;
        if (id < first) {
            whole.push_back(id);
            continue;
        }
        const auto at = std::ranges::find(target, id);
        REQUIRE(at != target.end());
        for (auto it = at + 1; it != target.end() && *it < first && *it != eos; ++it) whole.push_back(*it);
    }
    CHECK(whole == text);
    CHECK(task.text(std::span(target).first(1)) == "<extra_id_0>");
}

TEST_CASE("span_corruption: spans over many rows: exact shares, every length from 1 on") {
    const Objective task("span_corruption", json::object(), "t5", "lm");
    const int32_t first = task.id_of("<extra_id_0>");
    std::map<std::size_t, uint64_t> lengths;
    for (uint64_t index = 0; index < 4000; ++index) {
        std::vector<int32_t> target = collate(task, {example_of(count_up(100), index)}, 1, 100).row("labels", 0);
        std::erase(target, -100);
        target.pop_back(); // the end token
        std::size_t run = 0;
        uint64_t noise = 0;
        for (std::size_t i = 1; i <= target.size(); ++i) {
            if (i < target.size() && target[i] < first) {
                ++run;
                ++noise;
                continue;
            }
            ++lengths[run];
            run = 0;
        }
        CHECK(noise == 15);
    }
    CHECK(!lengths.contains(0));
    double mean = 0, count = 0;
    for (const auto& [length, n] : lengths) {
        mean += static_cast<double>(length * n);
        count += static_cast<double>(n);
    }
    CHECK(mean / count == 3.0);
    CHECK(lengths.size() == 11); // 15 tokens in 5 parts: 1 to 11
}

TEST_CASE("permutation: predictions see the tokens before them in the order, and nothing of themselves") {
    const Objective task("permutation", json::object(), "xlnet", "lm");
    const int64_t length = 62;
    double predicted_all = 0, rows = 0;
    for (uint64_t index = 0; index < 500; ++index, ++rows) {
        const std::vector<int32_t> text = count_up(60);
        const Fields fields = collate(task, {example_of(text, index)}, 1, length);
        const std::vector<int32_t> ids = fields.row("input_ids", 0), labels = fields.row("labels", 0);
        const std::vector<float> mask = fields.row<float>("perm_mask", 0),
                                 mapping = fields.row<float>("target_mapping", 0);
        CHECK(ids.back() == task.id_of("<cls>")); // tokens, <sep>, <cls>
        CHECK(ids[60] == task.id_of("<sep>"));
        std::vector<std::size_t> predicted;
        for (std::size_t m = 0; m < labels.size(); ++m) {
            if (labels[m] == -100) continue;
            std::size_t ones = 0, place = 0;
            for (std::size_t j = 0; j < static_cast<std::size_t>(length); ++j)
                if (mapping[m * static_cast<std::size_t>(length) + j] == 1.0f) ++ones, place = j;
            CHECK(ones == 1);
            CHECK(labels[m] == ids[place]);
            predicted.push_back(place);
        }
        predicted_all += static_cast<double>(predicted.size());
        const auto hidden = [&](std::size_t i, std::size_t j) {
            return mask[i * static_cast<std::size_t>(length) + j] == 1.0f;
        };
        for (const std::size_t j : predicted) {
            CHECK(hidden(j, j));
            for (std::size_t i = 0; i < static_cast<std::size_t>(length); ++i)
                if (std::ranges::find(predicted, i) == predicted.end()) CHECK(hidden(i, j));
            // Of two predictions exactly one sees the other.
            for (const std::size_t i : predicted)
                if (i != j) CHECK(hidden(i, j) != hidden(j, i));
        }
        for (std::size_t j = 0; j < static_cast<std::size_t>(length); ++j)
            if (std::ranges::find(predicted, j) == predicted.end())
                CHECK(!hidden(predicted.empty() ? 0 : predicted[0], j));
    }
    CHECK(predicted_all / rows > 0.8 * 62 / 6);
    CHECK(predicted_all / rows <= 11);
}

TEST_CASE("prefix_lm and completion: the predicted positions") {
    const Objective prefix("prefix_lm", json::object(), "gpt2", "lm");
    for (uint64_t index = 0; index < 50; ++index) {
        const Fields fields = collate(prefix, {example_of(count_up(9), index)}, 1, 8);
        const int32_t length = fields.row("prefix_length", 0)[0];
        CHECK(length >= 1);
        CHECK(length <= 8);
        const std::vector<int32_t> next = fields.row("next_ids", 0);
        for (int32_t t = 0; t < 8; ++t) CHECK(next[static_cast<std::size_t>(t)] == (t + 1 >= length ? t + 1 : -100));
    }
    const Objective completion("completion", json::object(), "gpt2", "lm");
    batch::DrawnExample drawn;
    drawn.example.columns = {{"prompt", HK_COLUMN_TOKENS, {1, 2, 3}, {}, {}},
                             {"completion", HK_COLUMN_TOKENS, {4, 5}, {}, {}}};
    const int32_t eos = completion.id_of("<eos>"), pad = completion.id_of("<pad>");
    const Fields fields = collate(completion, {drawn}, 1, 7);
    CHECK(fields.row("input_ids", 0) == std::vector<int32_t>{1, 2, 3, 4, 5, pad, pad});
    CHECK(fields.row("next_ids", 0) == std::vector<int32_t>{-100, -100, 4, 5, eos, -100, -100});
    // If the row is too long, the start of the prompt is dropped.
    const Fields cut = collate(completion, {drawn}, 1, 4);
    CHECK(cut.row("input_ids", 0) == std::vector<int32_t>{2, 3, 4, 5});
    CHECK(cut.row("next_ids", 0) == std::vector<int32_t>{-100, 4, 5, eos});
}

} // namespace restoring_test
