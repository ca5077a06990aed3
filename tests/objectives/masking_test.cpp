// Masked language models: which tokens are predicted, and what replaces them in the input.
#include "bench.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace masking_test {

using namespace hekla;
using namespace hekla::test;

namespace {

constexpr int64_t kLength = 66; // 64 tokens between [CLS] and [SEP]

std::vector<int32_t> letters(std::size_t n) {
    std::vector<int32_t> ids(n);
    for (std::size_t i = 0; i < n; ++i) ids[i] = static_cast<int32_t>(i % 50);
    return ids;
}

} // namespace

TEST_CASE("mlm: one row by hand") {
    const Objective mlm("mlm");
    CHECK(mlm.composition->tokens_per_example(12).value() == 10);
    const std::vector<int32_t> text = mlm.ids("abcdefghij");
    const Fields fields = collate(mlm, {example_of(text)}, 2, 12);
    const std::vector<int32_t> ids = fields.row("input_ids", 0), places = fields.row("masked_positions", 0),
                               labels = fields.row("labels", 0);
    CHECK(ids.front() == mlm.id_of("<cls>"));
    CHECK(ids.back() == mlm.id_of("<sep>"));
    CHECK(fields.row("attention_mask", 0) == std::vector<int32_t>(12, 1));
    CHECK(fields.row("token_type_ids", 0) == std::vector<int32_t>(12, 0));
    // 15 percent of 10 is 2 (1.5 rounds up).
    REQUIRE(places.size() == 2);
    for (std::size_t p = 0; p < 2; ++p) {
        CHECK(places[p] >= 1);
        CHECK(places[p] <= 10);
        CHECK(labels[p] == text[static_cast<std::size_t>(places[p] - 1)]);
    }
    CHECK(places[0] < places[1]);
    for (std::size_t i = 0; i < 10; ++i)
        if (std::ranges::find(places, static_cast<int32_t>(i + 1)) == places.end()) CHECK(ids[i + 1] == text[i]);
    // A row without an example: padding, and nothing to predict.
    CHECK(fields.row("labels", 1) == std::vector<int32_t>(2, -100));
    CHECK(fields.row("input_ids", 1) == std::vector<int32_t>(12, mlm.id_of("<pad>")));
}

TEST_CASE("mlm: shares over 100,000 predicted tokens") {
    const Objective mlm("mlm");
    const std::vector<int32_t> text = letters(64);
    const int32_t mask = mlm.id_of("<mask>");
    uint64_t asked = 0, masked = 0, kept = 0, other = 0;
    std::vector<uint64_t> of_place(64, 0);
    std::set<int32_t> random_tokens;
    for (uint64_t index = 0; asked < 100000; ++index) {
        const Fields fields = collate(mlm, {example_of(text, index)}, 1, kLength);
        const std::vector<int32_t> ids = fields.row("input_ids", 0), places = fields.row("masked_positions", 0);
        REQUIRE(places.size() == 10);
        for (const int32_t place : places) {
            const auto at = static_cast<std::size_t>(place - 1);
            ++asked;
            ++of_place[at];
            const int32_t now = ids[at + 1];
            ++(now == mask ? masked : now == text[at] ? kept : other);
            if (now != mask && now != text[at]) random_tokens.insert(now);
        }
    }
    const auto share = [&](uint64_t n) { return static_cast<double>(n) / static_cast<double>(asked); };
    const double vocabulary = mlm.tokenizer->vocabulary_size();
    CHECK(share(masked) == doctest::Approx(0.8 + 0.1 / vocabulary).epsilon(0.01));
    CHECK(share(kept) == doctest::Approx(0.1 + 0.1 / vocabulary).epsilon(0.03));
    CHECK(share(other) == doctest::Approx(0.1 * (1 - 2 / vocabulary)).epsilon(0.03));
    CHECK(random_tokens.size() > static_cast<std::size_t>(vocabulary * 0.9));
    // Every position is equally frequent.
    for (const uint64_t n : of_place) CHECK(share(n) == doctest::Approx(1.0 / 64).epsilon(0.1));
}

TEST_CASE("mlm: the same seed, epoch and example give the same row, whatever the rest of the batch") {
    const Objective mlm("mlm");
    const std::vector<int32_t> text = letters(64);
    const Fields together =
        collate(mlm, {example_of(text, 7, 2), example_of(text, 8, 2), example_of(text, 7, 3)}, 4, kLength, 5);
    const Fields alone = collate(mlm, {example_of(text, 8, 2)}, 1, kLength, 5);
    for (const char* name : {"input_ids", "masked_positions", "labels", "attention_mask"})
        CHECK(together.row(name, 1) == alone.row(name, 0));
    // Another example, epoch or seed gives other masks.
    CHECK(together.row("masked_positions", 0) != together.row("masked_positions", 1));
    CHECK(together.row("masked_positions", 0) != together.row("masked_positions", 2));
    CHECK(collate(mlm, {example_of(text, 8, 2)}, 1, kLength, 6).row("masked_positions", 0) !=
          alone.row("masked_positions", 0));
}

TEST_CASE("span_mlm: lengths, boundaries and offsets over many spans") {
    const Objective spans("span_mlm", {{"span_success", 0.2}, {"longest_span", 10}}, "bert", "mlm+span_boundary");
    const std::vector<int32_t> text = letters(254);
    std::map<std::size_t, double> lengths;
    double count = 0, asked = 0, rows = 0;
    for (uint64_t index = 0; index < 4000; ++index, ++rows) {
        const Fields fields = collate(spans, {example_of(text, index)}, 1, 256);
        const std::vector<int32_t> ids = fields.row("input_ids", 0), places = fields.row("masked_positions", 0),
                                   labels = fields.row("labels", 0), left = fields.row("span_left", 0),
                                   right = fields.row("span_right", 0), offset = fields.row("span_offset", 0);
        for (std::size_t p = 0; p < places.size(); ++p) {
            if (labels[p] == -100) continue;
            ++asked;
            CHECK(left[p] + 1 + offset[p] == places[p]);
            CHECK(right[p] > places[p]);
            // The tokens on both sides are not masked.
            if (left[p] > 0)
                CHECK(ids[static_cast<std::size_t>(left[p])] == text[static_cast<std::size_t>(left[p] - 1)]);
            if (offset[p] != 0) continue;
            ++count;
            ++lengths[static_cast<std::size_t>(right[p] - left[p] - 1)];
        }
    }
    // 15 percent of 254 is 38; the last span may be cut.
    CHECK(asked / rows == doctest::Approx(38).epsilon(0.02));
    // Geometric with p = 0.2, cut at 10: the distribution's mean is 3.8; a length that no longer fits is drawn again,
    // so short ones are a little more frequent.
    double mean = 0;
    for (const auto& [length, n] : lengths) mean += static_cast<double>(length) * n / count;
    CHECK(mean > 3.2);
    CHECK(mean < 4.3);
    CHECK(lengths.rbegin()->first == 10);
    CHECK(lengths[1] / count == doctest::Approx(0.2).epsilon(0.25));
    CHECK(lengths[2] / lengths[1] == doctest::Approx(0.8).epsilon(0.12));
}

TEST_CASE("mlm: whole words are predicted completely or not at all") {
    // Byte-level BPE: a word begins with its space.
    text::ByteBpeTraining training;
    using enum text::TokenRole;
    training.special = {{"<s>", {cls}}, {"<pad>", {pad}}, {"</s>", {separator}}, {"<mask>", {mask}}};
    training.vocabulary_size = 256 + 4; // no merges: one token per byte
    const auto trainer = text::make_byte_bpe_trainer(training);
    REQUIRE(trainer->add("two words and three more words here", {}).ok());
    auto trained = trainer->finish();
    REQUIRE_MESSAGE(trained.ok(), trained.message());
    const std::unique_ptr<text::Tokenizer> tokenizer = with_frame_of("bert", trained.take());
    plugin::CompositionSpec spec;
    spec.architecture = "bert";
    spec.config = {{"vocab_size", 260}};
    spec.objective = "mlm";
    spec.objective_config = {
        {"whole_words", true}, {"mask_probability", 0.3}, {"random_share", 0.0}, {"mask_share", 1.0}};
    auto composition = plugin::Composition::create(registry(), spec, tokenizer.get());
    REQUIRE_MESSAGE(composition.ok(), composition.message());
    const std::string text = "two words and three more words here";
    auto ids = tokenizer->encode(text);
    REQUIRE(ids.ok());
    REQUIRE(ids->size() == text.size());
    uint64_t words_asked = 0;
    for (uint64_t index = 0; index < 300; ++index) {
        std::vector<data::Field> made;
        const std::vector<batch::DrawnExample> examples{example_of(ids.value(), index)};
        REQUIRE(batch::make_fields(*composition.value(), examples, nullptr, 1, 1, 40, made).ok());
        const Fields fields{std::move(made)};
        const std::vector<int32_t> row = fields.row("input_ids", 0);
        std::string shown = text;
        for (std::size_t i = 0; i < text.size(); ++i)
            if (row[i + 1] == tokenizer->find("<mask>").value()) shown[i] = '_';
        std::size_t begin = 0;
        for (std::size_t i = 1; i <= text.size(); ++i) {
            if (i < text.size() && text[i] != ' ') continue;
            const std::string word = shown.substr(begin, i - begin);
            const auto hidden = static_cast<std::size_t>(std::ranges::count(word, '_'));
            CHECK_MESSAGE((hidden == 0 || hidden == word.size()), shown);
            words_asked += hidden > 0 ? 1 : 0;
            begin = i;
        }
    }
    CHECK(words_asked > 300);
}

} // namespace masking_test
