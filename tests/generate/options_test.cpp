#include "generate/options.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace hekla;
using namespace hekla::generate;
using nlohmann::json;

TEST_CASE("options: ids of a configuration are defaults, arguments of the call override them, null removes them") {
    const json config = {{"model_type", "bart"},        {"vocab_size", 128},        {"eos_token_id", 2},
                         {"decoder_start_token_id", 2}, {"forced_eos_token_id", 2}, {"pad_token_id", 1}};
    auto o = options_from(config, {{"max_new_tokens", 8}, {"forced_eos_token_id", nullptr}, {"num_beams", 3}}, 1);
    REQUIRE_MESSAGE(o.ok(), o.message());
    CHECK(o->eos == std::vector<int32_t>{2});
    CHECK(o->forced_eos.empty());
    CHECK(o->decoder_start == 2);
    CHECK(o->pad == 1);
    CHECK(o->beams == 3);
    CHECK(o->max_new_tokens == 8);
    o = options_from(config, {{"eos_token_id", json::array({4, 5})}, {"max_length", 12}, {"early_stopping", "never"}},
                     4);
    REQUIRE_MESSAGE(o.ok(), o.message());
    CHECK(o->eos == std::vector<int32_t>{4, 5});
    CHECK(o->max_new_tokens == 8);
    CHECK(o->early_stopping == EarlyStopping::never);
    o = options_from({}, {{"do_sample", true}}, 1);
    REQUIRE(o.ok());
    CHECK(o->top_k == 50); // the reference's default
}

TEST_CASE("options: unknown keys, wrong types and values out of range are named") {
    const auto refused = [](const json& arguments, const char* word) {
        const auto o = options_from({}, arguments, 1);
        REQUIRE(!o.ok());
        CHECK_MESSAGE(o.message().find(word) != std::string::npos, o.message());
    };
    refused({{"penalty_alpha", 0.6}}, "penalty_alpha");
    refused({{"top_k", "many"}}, "top_k");
    refused({{"top_p", 0.0}}, "top_p");
    refused({{"min_p", 1.5}}, "min_p is 1.5, expected 0 to 1 (0: off)");
    refused({{"min_p", -0.1}}, "min_p");
    refused({{"temperature", 0.0}}, "temperature");
    refused({{"max_new_tokens", 0}}, "max_new_tokens");
    refused({{"max_new_tokens", INT64_MAX}}, "max_new_tokens is 9223372036854775807, expected 1 to 2147483647");
    refused({{"num_beams", int64_t{1} << 40}}, "num_beams is 1099511627776, expected 1 to 2147483647");
    refused({{"num_beams", 2}, {"num_return_sequences", 3}}, "num_return_sequences");
    refused({{"num_return_sequences", 2}}, "num_return_sequences");
    refused({{"num_beams", 2}, {"do_sample", true}}, "beams");
    refused({{"repetition_penalty", -1.0}}, "repetition_penalty");
    refused({{"early_stopping", 3}}, "early_stopping");
}

TEST_CASE("options: settings that are not options here are named unless they are neutral") {
    CHECK(unsupported_settings({{"do_sample", true},
                                {"temperature", 0.6},
                                {"min_p", 0.1},
                                {"eos_token_id", json::array({1, 2})},
                                {"transformers_version", "5.12.1"},
                                {"_from_model_config", true},
                                {"typical_p", 1.0},
                                {"guidance_scale", nullptr},
                                {"epsilon_cutoff", 0.0},
                                {"bad_words_ids", json::array()},
                                {"remove_invalid_values", false},
                                {"num_assistant_tokens", 20},
                                {"assistant_confidence_threshold", 0.4}})
              .empty());
    CHECK(unsupported_settings({{"typical_p", 0.9}, {"stop_strings", json::array({"END"})}, {"top_h", 0.4}}) ==
          std::vector<std::string>{"stop_strings = [\"END\"]", "top_h = 0.4", "typical_p = 0.9"});
    CHECK(unsupported_settings(nullptr).empty());
}

TEST_CASE("options: biases are finite or forbid their token, which has one") {
    Options o;
    o.logit_bias = {{3, -std::numeric_limits<float>::infinity()}, {4, -2.5f}};
    CHECK(check(o).ok());
    o.logit_bias.push_back({3, 1.0f});
    CHECK(check(o).message() == "logit_bias has token 3 twice, expected one number for a token");
    o.logit_bias = {{5, std::numeric_limits<float>::infinity()}};
    CHECK(check(o).message() == "logit_bias of token 5 is inf, expected a finite number, or -inf to forbid the token");
    o.logit_bias = {{5, std::nanf("")}};
    CHECK(!check(o).ok());
}

TEST_CASE("options: what is wrong in a folder's file is reported with the file, unless an argument takes its place") {
    const std::string file = "m/generation_config.json";
    const auto refused = [&](const json& settings, const json& arguments) {
        return std::string(options_from(settings, arguments, 1, file).message());
    };
    CHECK(refused({{"top_k", "many"}}, {}).starts_with("m/generation_config.json: top_k"));
    CHECK(refused({{"temperature", 0.0}}, {}).starts_with("m/generation_config.json: temperature is 0, expected"));
    CHECK(refused({{"temperature", 0.0}}, {{"temperature", 0.5}}).empty());
    CHECK(refused({{"temperature", 0.5}}, {{"temperature", 0.0}}).starts_with("temperature is 0, expected"));
    CHECK(refused({{"top_p", 0.5}}, {{"top_p", "much"}}).starts_with("top_p"));
}
