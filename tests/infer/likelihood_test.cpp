// Likelihoods of rows: equal to PyTorch's and transformers' (tests/fixtures/likelihood), the same bits in any company,
// and rows that do not fit.
#include "harness/continuation.hpp"
#include "infer/passes/likelihood.hpp"
#include "program/runtime.hpp"
#include "support.hpp"

#include <cmath>
#include <cstring>
#include <fmt/format.h>

using namespace hekla;
using namespace hekla::test;
using infer::LikelihoodRow;
using infer::RowLikelihood;
using nlohmann::json;

namespace {

constexpr const char* kModels[] = {"gpt2-clm", "llama-clm", "t5-span-corruption", "bart-denoising"};

json expected_of(const std::string& name) {
    const Result<std::string> text =
        read_file(fs::path(HEKLA_SOURCE_DIR) / "tests" / "fixtures" / "likelihood" / (name + ".json"));
    REQUIRE_MESSAGE(text.ok(), text.message());
    return json::parse(text.value());
}

LikelihoodRow row_of(const json& object) {
    return {object.at("ids"), object.at("from"), object.value("source", std::vector<int32_t>())};
}

std::unique_ptr<infer::Likelihood> likelihood_of(const infer::Model& model, infer::LikelihoodOptions options = {}) {
    Result<std::unique_ptr<infer::Likelihood>> made =
        infer::Likelihood::create(infer::network_of(model), std::move(options));
    REQUIRE_MESSAGE(made.ok(), made.message());
    return made.take();
}

std::vector<RowLikelihood> score(infer::Likelihood& likelihood, std::span<const LikelihoodRow> rows) {
    Result<std::vector<RowLikelihood>> results = likelihood.run(rows);
    REQUIRE_MESSAGE(results.ok(), results.message());
    REQUIRE(results->size() == rows.size());
    return results.take();
}

// Returns `count` rows of pseudo-random lengths and ids, the same ones every time.
std::vector<LikelihoodRow> many_rows(std::size_t count, bool encodes) {
    uint32_t state = 12345;
    const auto draw = [&](uint32_t range) {
        state = state * 1664525U + 1013904223U;
        return static_cast<int32_t>((state >> 8) % range);
    };
    std::vector<LikelihoodRow> rows(count);
    for (LikelihoodRow& row : rows) {
        for (int32_t left = 2 + draw(29); left > 0; --left) row.ids.push_back(3 + draw(120));
        row.from = static_cast<std::size_t>(1 + draw(static_cast<uint32_t>(row.ids.size()) - 1));
        for (int32_t left = encodes ? 1 + draw(20) : 0; left > 0; --left) row.source.push_back(3 + draw(120));
    }
    return rows;
}

bool same_bits(const RowLikelihood& a, const RowLikelihood& b) {
    return a.log_probabilities.size() == b.log_probabilities.size() && a.greedy == b.greedy && a.cut == b.cut &&
           std::memcmp(a.log_probabilities.data(), b.log_probabilities.data(), a.log_probabilities.size() * 4) == 0 &&
           std::memcmp(&a.sum, &b.sum, sizeof a.sum) == 0;
}

TEST_CASE("log probabilities equal those of transformers, on the device and in the interpreter") {
    for (const char* name : kModels) {
        CAPTURE(name);
        const json cases = expected_of(name);
        for (program::Runtime* runtime : {static_cast<program::Runtime*>(nullptr), &device()}) {
            const infer::Model model = open_fixture(name, runtime);
            for (const double temperature : {1.0, 0.7}) {
                std::vector<LikelihoodRow> rows;
                std::vector<json> expected;
                for (const json& one : cases) {
                    if (one.at("temperature") != temperature) continue;
                    rows.push_back(row_of(one));
                    expected.push_back(one);
                }
                REQUIRE(!rows.empty());
                const auto likelihood = likelihood_of(model, {.temperature = temperature});
                const std::vector<RowLikelihood> results = score(*likelihood, rows);
                for (std::size_t i = 0; i < rows.size(); ++i) {
                    CAPTURE(i);
                    const std::vector<double> logp = expected[i].at("logp");
                    REQUIRE(results[i].log_probabilities.size() == logp.size());
                    double sum = 0.0;
                    for (std::size_t t = 0; t < logp.size(); ++t) {
                        CHECK(results[i].log_probabilities[t] == doctest::Approx(logp[t]).epsilon(1e-5));
                        CHECK((results[i].greedy[t] != 0) == expected[i].at("greedy")[t].get<bool>());
                        sum += logp[t];
                    }
                    CHECK(results[i].sum == doctest::Approx(sum).epsilon(1e-5));
                    CHECK(results[i].cut == 0);
                }
            }
        }
    }
}

TEST_CASE("a row has the same bits alone, among 7 and among 64") {
    const bool slow = std::getenv("HEKLA_TEST_KERNELS") != nullptr; // kernels of GPUs on a CPU
    for (const std::string name : kModels) {
        CAPTURE(name);
        if (slow && name != "gpt2-clm" && name != "t5-span-corruption") continue;
        const infer::Model model = open_fixture(name, &device());
        for (const double temperature : {1.0, 0.7}) {
            if (slow && temperature != 1.0) continue;
            const auto likelihood = likelihood_of(model, {.temperature = temperature});
            const std::vector<LikelihoodRow> rows = many_rows(64, likelihood->encoder_decoder());
            const std::vector<RowLikelihood> together = score(*likelihood, rows);
            for (const std::size_t batch : {std::size_t{1}, std::size_t{7}})
                for (std::size_t begin = 0; begin < rows.size(); begin += batch) {
                    const std::size_t count = std::min(batch, rows.size() - begin);
                    const std::vector<RowLikelihood> some = score(*likelihood, std::span(rows).subspan(begin, count));
                    for (std::size_t i = 0; i < count; ++i) CHECK(same_bits(some[i], together[begin + i]));
                }
        }
    }
}

TEST_CASE("a row has the same bits at every place of a pass, and from another instance") {
    const infer::Model model = open_fixture("gpt2-clm", &device());
    const std::vector<LikelihoodRow> rows = many_rows(64, false);
    const auto first = likelihood_of(model), second = likelihood_of(model);
    const std::vector<LikelihoodRow> copies(64, rows[3]);
    const std::vector<RowLikelihood> results = score(*first, copies);
    const RowLikelihood alone = score(*second, std::span(&rows[3], 1))[0];
    for (const RowLikelihood& one : results) CHECK(same_bits(one, alone));
}

TEST_CASE("a row longer than the model loses the left of its context") {
    for (program::Runtime* runtime : {static_cast<program::Runtime*>(nullptr), &device()}) {
        const infer::Model model = open_fixture("gpt2-clm", runtime); // 32 positions
        const auto likelihood = likelihood_of(model);
        LikelihoodRow row;
        for (int32_t i = 0; i < 50; ++i) row.ids.push_back(3 + i);
        row.from = 45;
        LikelihoodRow tail{{row.ids.end() - 33, row.ids.end()}, 28};
        const std::vector<RowLikelihood> both = score(*likelihood, std::array{row, tail});
        CHECK(both[0].cut == 17);
        CHECK(both[1].cut == 0);
        CHECK(both[0].log_probabilities == both[1].log_probabilities);
        CHECK(both[0].log_probabilities.size() == 5);
        row.from = 10;
        const Result<std::vector<RowLikelihood>> refused = likelihood->run(std::span(&row, 1));
        CHECK(refused.message() ==
              "row 1: 40 tokens to score exceed the model's 32 positions; score the text in parts");
        CHECK(likelihood->longest(1000).value() == 32);
    }
    const infer::Model model = open_fixture("bart-denoising", &device());
    const auto likelihood = likelihood_of(model);
    const int64_t positions = likelihood->longest(4096).value();
    LikelihoodRow row{{5, 6, 7}, 0, std::vector<int32_t>(static_cast<std::size_t>(positions) + 9, 11)};
    CHECK(score(*likelihood, std::span(&row, 1))[0].cut == 9);
}

TEST_CASE("rows and options that cannot be scored are errors") {
    const infer::Model model = open_fixture("gpt2-clm", nullptr);
    const auto likelihood = likelihood_of(model);
    const auto message = [&](const LikelihoodRow& row) {
        return likelihood->run(std::array{LikelihoodRow{{5, 6}}, row}).status().message();
    };
    CHECK(message({{5}, 1}) == "row 2 has 1 tokens and is scored from token 2 on: nothing to score");
    CHECK(message({{5, 6}, 0}) == "row 2 is scored from its first token on: a language model needs a token before it");
    CHECK(message({{5, 128}, 1}) == "row 2: token 2 is 128, expected a token id of the model, 0 to 127");
    CHECK(infer::Likelihood::create(infer::network_of(model), {.temperature = 0.0}).status().message() ==
          "temperature is 0, expected a number above 0");
    for (const char* name : {"bert-pretraining", "xlnet-plm", "bilstm-lm"}) {
        CAPTURE(name);
        const infer::Model other = open_fixture(name, nullptr);
        CHECK(!infer::Likelihood::create(infer::network_of(other)).ok());
    }
    const infer::Model recurrent = open_fixture("rnn-attention-dot", nullptr); // its encoder alone reads both ways
    CHECK(likelihood_of(recurrent)->encoder_decoder());
    bool called = false;
    const auto stopped = likelihood_of(model, {.stop = StopPoll([&] { return std::exchange(called, true); })});
    CHECK(stopped->run(many_rows(3, false)).status().code() == Code::cancelled);
    std::vector<std::size_t> progress;
    const auto told =
        likelihood_of(model, {.progress = [&](std::size_t done, std::size_t) { progress.push_back(done); }});
    score(*told, many_rows(3, false));
    CHECK(progress == std::vector<std::size_t>{1, 2, 3});
}

TEST_CASE("a context and its continuation are tokenized together") {
    infer::ModelOptions options;
    options.head = "lm";
    const Result<infer::Model> model = infer::open_model(
        registry(), nullptr, fs::path(HEKLA_SOURCE_DIR) / "tests/fixtures/llama-bos/add-bos", options, {});
    REQUIRE_MESSAGE(model.ok(), model.message());
    const Result<harness::ContinuationEncoder> encoder =
        harness::ContinuationEncoder::create(registry(), model.value());
    REQUIRE_MESSAGE(encoder.ok(), encoder.message());
    const auto encode = [&](const std::string& text) { return model->tokenizer->encode(text).value(); };
    const harness::TextPair pairs[] = {{"the cat", " sat"}, {"the cat ", "sat"}, {"the ca", "t sat"}, {"", "the cat"}};
    const Result<harness::EncodedPairs> encoded = encoder->pairs(pairs);
    REQUIRE_MESSAGE(encoded.ok(), encoded.message());
    std::vector<int32_t> whole = encode("the cat sat");
    whole.insert(whole.begin(), 1); // BOS
    CHECK(encoded->rows[0].ids == whole);
    CHECK(encoded->rows[0].from == 1 + encode("the cat").size());
    CHECK(encoded->rows[1].ids == encoded->rows[0].ids); // the space belongs to the continuation
    CHECK(encoded->rows[1].from == encoded->rows[0].from);
    CHECK(encoded->rows[2].ids == whole);
    CHECK(encoded->rows[2].from == 1 + encode("the ca").size());
    CHECK(encoded->joined == (encode("the ca").back() == encode("the cat")[encode("the ca").size() - 1] ? 0 : 1));
    CHECK(encoded->rows[3].from == 1);
    const harness::TextPair nothing[] = {{"the", " cat"}, {"the cat", ""}};
    CHECK(encoder->pairs(nothing).status().message() ==
          "continuation 2 (\"\") has no tokens of its own; give a text with at least one");

    // Every token of a text is scored once, after the token before it.
    const std::string text = "the cat sat on the mat. we walk to the shop.";
    const std::vector<int32_t> tokens = encode(text);
    for (const int64_t longest : {5, 8, 1000}) {
        const Result<std::vector<LikelihoodRow>> rows = encoder->rolling(text, longest);
        REQUIRE_MESSAGE(rows.ok(), rows.message());
        std::vector<int32_t> scored;
        for (const LikelihoodRow& row : rows.value()) {
            CHECK(row.ids.size() <= static_cast<std::size_t>(longest) + 1);
            CHECK(row.from >= 1);
            scored.insert(scored.end(), row.ids.begin() + static_cast<std::ptrdiff_t>(row.from), row.ids.end());
        }
        CHECK(scored == tokens);
        CHECK(rows.value()[0].ids[0] == 1);
        if (rows->size() > 1) CHECK(rows->back().ids.size() == static_cast<std::size_t>(longest) + 1);
    }
}

} // namespace
