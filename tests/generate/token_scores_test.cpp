#include "generate/generator.hpp"
#include "generate/token_scores.hpp"

#include "support.hpp"

#include <cmath>
#include <limits>

using namespace hekla;
using namespace hekla::generate;
using test::HistoryDecoder;
using test::Ids;

namespace token_scores_test {

TEST_CASE("token scores: log probabilities, the most likely first, and of equal ones the lower id") {
    const std::vector<float> logits{1.5f,   -2.0f, -std::numeric_limits<float>::infinity(), 1.5f, 1000.0f - 998.0f,
                                    -90.0f, 0.0f};
    double sum = 0.0;
    for (const float x : logits) sum += std::exp(static_cast<double>(x));
    const auto expected = [&](std::size_t id) { return logits[id] - std::log(sum); };
    for (const std::size_t likeliest : {0, 1, 3, 7, 100}) {
        CAPTURE(likeliest);
        const std::vector<TokenScore> scores = score_tokens(logits, 1, likeliest);
        REQUIRE(scores.size() == 1 + std::min<std::size_t>(likeliest, logits.size()));
        CHECK(scores[0].token == 1);
        const Ids order{4, 0, 3, 6, 1, 5, 2};
        for (std::size_t i = 1; i < scores.size(); ++i) CHECK(scores[i].token == order[i - 1]);
        for (const TokenScore& score : scores)
            if (score.token != 2)
                CHECK(std::abs(score.log_probability - expected(static_cast<std::size_t>(score.token))) < 1e-12);
            else
                CHECK(score.log_probability == -std::numeric_limits<double>::infinity());
    }
    CHECK(score_tokens(std::vector<float>{-3e38f}, 0, 2)[1].log_probability == 0.0);
    CHECK(score_tokens(std::vector<float>{3e38f, -3e38f}, 0, 0)[0].log_probability == 0.0);
}

TEST_CASE("generator: the scores that a token is chosen from are the model's, whatever changes them afterwards") {
    Options o;
    o.max_new_tokens = 7;
    o.sample = true;
    o.temperature = 0.3;
    o.min_p = 0.2;
    o.repetition_penalty = 1.7;
    o.logit_bias = {{3, 4.0f}, {11, -std::numeric_limits<float>::infinity()}};
    HistoryDecoder decoder(13);
    Request request;
    request.prompts = {{1, 2, 3}, {4}};
    std::vector<Ids> texts = request.prompts;
    request.chosen_from = [&](std::size_t row, std::span<const float> logits, int32_t token) {
        CHECK(std::vector<float>(logits.begin(), logits.end()) == test::scores_after(texts[row], 13));
        texts[row].push_back(token);
    };
    const auto output = generate::generate(decoder, request, o);
    REQUIRE_MESSAGE(output.ok(), output.message());
    for (std::size_t row = 0; row < 2; ++row) CHECK(output->rows[row].ids == texts[row]);
    request.chosen_from = {};
    const auto again = generate::generate(decoder, request, o);
    REQUIRE(again.ok());
    for (std::size_t row = 0; row < 2; ++row) CHECK(again->rows[row].ids == texts[row]);

    o.logit_bias = {{13, 1.0f}};
    CHECK(generate::generate(decoder, request, o).message() == "logit_bias has the token 13; the model knows 0 to 12");
}

} // namespace token_scores_test
