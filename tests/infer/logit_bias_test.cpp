#include "infer/texts/logit_bias.hpp"
#include "support.hpp"

#include <limits>

using namespace hekla;
using namespace hekla::test;

namespace logit_bias_test {

TEST_CASE("logit biases are read by id, by text and by quoted text") {
    const auto tokenizer =
        text::load_tokenizer(std::filesystem::path(HEKLA_SOURCE_DIR) / "tests/fixtures/tokenizers/qwen2");
    REQUIRE_MESSAGE(tokenizer.ok(), tokenizer.message());
    const text::Tokenizer& t = *tokenizer.value();
    const auto read = [&](const std::vector<std::string>& biases) {
        const auto all = infer::parse_logit_biases(t, biases);
        REQUIRE_MESSAGE(all.ok(), all.message());
        return all.value();
    };
    const auto id = [&](const char* token) { return t.find(token).value(); };
    CHECK(read({}).empty());
    CHECK(read({"7=-2.5", " the=1e-3", "<|im_end|>=-inf", "\"\\n\"=3", "\"5\"=0", "==4", "-1=1"}) ==
          std::vector<generate::LogitBias>{{7, -2.5f},
                                           {id("Ġthe"), 1e-3f},
                                           {id("<|im_end|>"), -std::numeric_limits<float>::infinity()},
                                           {id("Ċ"), 3.0f},
                                           {id("5"), 0.0f},
                                           {id("="), 4.0f},
                                           {-1, 1.0f}}); // the generation refuses the id

    const auto refused = [&](const std::string& bias) {
        return std::string(infer::parse_logit_biases(t, {"7=1", bias}).message());
    };
    CHECK(refused("the") == "logit bias 'the': expected TOKEN=NUMBER, such as 198=-inf or \" the\"=1.5");
    CHECK(refused("=1").starts_with("logit bias '=1': expected TOKEN=NUMBER"));
    for (const char* bias : {"7=", "7=x", "7=1.5x", "7=inf", "7=nan", "7=1e300", "7=-1e300"})
        CHECK_MESSAGE(refused(bias).find("is not a bias, expected a finite number, or -inf") != std::string::npos,
                      bias);
    CHECK(refused(" the the=1").find("the text is 2 tokens (ids ") != std::string::npos);
    CHECK(refused("\"\"=1").find("the text is 0 tokens") != std::string::npos);
}

} // namespace logit_bias_test
