#include "model/parameter_names.hpp"

#include "base/name_pattern.hpp"

#include "model/weights.hpp"
#include "temporary.hpp"

#include <doctest/doctest.h>

namespace names_test {

using namespace hekla;
using namespace hekla::model;
using namespace hekla::test;

namespace {

// Tensors whose bytes all equal `fill`.
struct Stored {
    std::vector<std::vector<std::byte>> bytes;
    std::vector<TensorView> views;
    void add(const std::string& name, std::vector<int64_t> dims, DType dtype = DType::f32, int fill = 0) {
        const auto size = static_cast<std::size_t>(byte_count(dtype, dims).take());
        bytes.emplace_back(size, static_cast<std::byte>(fill));
        views.push_back({{name, dtype, std::move(dims)}, bytes.back()});
    }
};

std::vector<ParameterSpec> wanted(std::initializer_list<std::pair<const char*, std::vector<int64_t>>> list) {
    std::vector<ParameterSpec> specs;
    for (const auto& [name, dims] : list) specs.push_back({name, DType::f32, dims});
    return specs;
}

const NameRules gpt2{
    {}, {"transformer."}, {"*.attn.bias", "*.attn.masked_bias"}, {{"lm_head.weight", "transformer.wte.weight"}}, {}};

} // namespace

TEST_CASE("wildcards") {
    CHECK(matches("*.attn.bias", "h.0.attn.bias"));
    CHECK_FALSE(matches("*.attn.bias", "h.0.attn.c_attn.bias"));
    CHECK_FALSE(matches("*.attn.bias", "attn.bias"));
    CHECK(matches("*", ""));
    CHECK(matches("a*b*c", "aXbbYbc"));
    CHECK_FALSE(matches("a*b*c", "aXbbYb"));
    CHECK(matches("", ""));
    CHECK_FALSE(matches("", "a"));
    CHECK(matches("abc", "abc"));
    CHECK(matches("**x**", "x"));
    CHECK_FALSE(matches("a?c", "abc"));
    // Not exponential for a hostile name.
    CHECK_FALSE(matches("*a*a*a*a*a*b", std::string(4000, 'a')));
}

TEST_CASE("names as stored, with and without the prefix") {
    const auto parameters = wanted({{"transformer.wte.weight", {4, 2}}, {"transformer.h.0.ln_1.bias", {2}}});
    for (const std::string prefix : {"transformer.", ""}) {
        CAPTURE(prefix);
        Stored stored;
        stored.add(prefix + "h.0.ln_1.bias", {2}, DType::bf16);
        stored.add(prefix + "h.0.attn.bias", {1, 1, 8, 8}, DType::boolean);
        stored.add(prefix + "wte.weight", {4, 2});
        auto resolved = resolve_names(parameters, stored.views, gpt2, "f");
        if (!resolved.ok()) FAIL(resolved.message());
        CHECK(resolved->tensors[0] == &stored.views[2]);
        CHECK(resolved->tensors[1] == &stored.views[0]);
        CHECK(resolved->ignored == std::vector<std::string>{prefix + "h.0.attn.bias"});
    }
    // The opposite direction: a body alone, read from a file of the whole model.
    Stored stored;
    stored.add("transformer.wte.weight", {4, 2});
    CHECK(resolve_names(wanted({{"wte.weight", {4, 2}}}), stored.views, gpt2, "f").ok());
}

TEST_CASE("older spellings") {
    const NameRules bert{{{Rename::Where::suffix, ".gamma", ".weight"},
                          {Rename::Where::suffix, ".beta", ".bias"},
                          {Rename::Where::prefix, "electra.", "bert."},
                          {Rename::Where::anywhere, "selfattn", "self"}},
                         {"bert."},
                         {},
                         {},
                         {}};
    const auto parameters = wanted({{"bert.encoder.layer.0.LayerNorm.weight", {2}},
                                    {"bert.encoder.layer.0.LayerNorm.bias", {2}},
                                    {"bert.a.self.b.self.c", {1}},
                                    {"bert.pooler.weight", {3}}});
    Stored stored;
    stored.add("encoder.layer.0.LayerNorm.gamma", {2});
    stored.add("bert.encoder.layer.0.LayerNorm.beta", {2});
    stored.add("a.selfattn.b.selfattn.c", {1});
    stored.add("electra.pooler.weight", {3});
    auto resolved = resolve_names(parameters, stored.views, bert, "f");
    if (!resolved.ok()) FAIL(resolved.message());
    for (std::size_t i = 0; i < 4; ++i) CHECK(resolved->tensors[i] == &stored.views[i]);

    stored.add("encoder.layer.0.LayerNorm.weight", {2});
    CHECK(resolve_names(parameters, stored.views, bert, "f").message() ==
          "f: \"encoder.layer.0.LayerNorm.gamma\" and \"encoder.layer.0.LayerNorm.weight\" both match the parameter "
          "\"bert.encoder.layer.0.LayerNorm.weight\"");
}

TEST_CASE("ties: either name, both if equal, not if different") {
    const auto parameters = wanted({{"transformer.wte.weight", {2}}});
    Stored only;
    only.add("lm_head.weight", {2});
    auto resolved = resolve_names(parameters, only.views, gpt2, "f");
    REQUIRE(resolved.ok());
    CHECK(resolved->tensors[0] == &only.views[0]);

    Stored both;
    both.add("lm_head.weight", {2}, DType::f32, 3);
    both.add("wte.weight", {2}, DType::f32, 3);
    resolved = resolve_names(parameters, both.views, gpt2, "f");
    REQUIRE(resolved.ok());
    CHECK(resolved->tensors[0] == &both.views[1]);
    CHECK(resolved->ignored == std::vector<std::string>{"lm_head.weight"});

    Stored different;
    different.add("lm_head.weight", {2}, DType::f32, 3);
    different.add("wte.weight", {2}, DType::f32, 4);
    CHECK(resolve_names(parameters, different.views, gpt2, "f")
              .message()
              .find("hold different values, but the model ties them") != std::string::npos);
    // If the model has both as separate parameters, nothing is tied.
    CHECK(resolve_names(wanted({{"transformer.wte.weight", {2}}, {"lm_head.weight", {2}}}), different.views, gpt2, "f")
              .ok());
}

TEST_CASE("mismatches are named") {
    const auto parameters = wanted({{"transformer.h.0.ln_1.weight", {2}}, {"transformer.wte.weight", {4, 2}}});
    Stored stored;
    stored.add("h.0.ln1.weight", {2});
    stored.add("wte.weight", {2, 4});
    auto failed = resolve_names(parameters, stored.views, gpt2, "m.safetensors");
    CHECK(failed.code() == Code::invalid_argument);
    CHECK(failed.message() == "m.safetensors: 3 tensors do not fit the model:\n"
                              "  missing \"transformer.h.0.ln_1.weight\" [2]\n"
                              "  \"wte.weight\" for \"transformer.wte.weight\" is [2, 4], [4, 2] was expected\n"
                              "  tensor \"h.0.ln1.weight\" [2] matches no model parameter");

    Stored near;
    near.add("transformer.h.0.ln1.weight", {2});
    near.add("transformer.wte.weight", {4, 2});
    CHECK(resolve_names(parameters, near.views, gpt2, "m").message() ==
          "m: 2 tensors do not fit the model:\n"
          "  missing \"transformer.h.0.ln_1.weight\" [2]; the file has \"transformer.h.0.ln1.weight\"\n"
          "  tensor \"transformer.h.0.ln1.weight\" [2] matches no model parameter; the nearest is "
          "\"transformer.h.0.ln_1.weight\"");

    Stored integer;
    integer.add("transformer.wte.weight", {4, 2}, DType::i64);
    CHECK(resolve_names(wanted({{"transformer.wte.weight", {4, 2}}}), integer.views, gpt2, "m").message() ==
          "m: \"transformer.wte.weight\" is stored as i64, which cannot be read as f32");
}

TEST_CASE("a new head is allowed") {
    NameRules rules = gpt2;
    rules.may_be_missing = {"score.*"};
    Stored stored;
    stored.add("transformer.wte.weight", {2});
    auto resolved =
        resolve_names(wanted({{"transformer.wte.weight", {2}}, {"score.weight", {3}}}), stored.views, rules, "f");
    REQUIRE(resolved.ok());
    CHECK(resolved->tensors[1] == nullptr);
    CHECK(resolved->missing == std::vector<std::string>{"score.weight"});
}

TEST_CASE("a different model: a few lines, not thousands") {
    std::vector<ParameterSpec> parameters;
    Stored stored;
    for (int i = 0; i < 3000; ++i) {
        parameters.push_back({"layer." + std::to_string(i), DType::f32, {1}});
        stored.add("block." + std::to_string(i), {1});
    }
    const std::string message = resolve_names(parameters, stored.views, {}, "f").message();
    CHECK(message.starts_with("f: 6000 tensors do not fit the model:\n"));
    CHECK(std::count(message.begin(), message.end(), '\n') == 9);
    CHECK(message.ends_with("... and 5992 more"));
}

TEST_CASE("real GPT-2 folders match by the same rules, with and without their prefix") {
    for (const char* name : {"fixtures/models/gpt2-clm", "data/pretrained/capp_gpt2"}) {
        const auto path = shared() / name;
        if (!fs::is_directory(path)) continue;
        CAPTURE(name);
        auto weights = Weights::open(path);
        REQUIRE_MESSAGE(weights.ok(), weights.message());
        for (const bool prefixed : {true, false}) {
            std::vector<ParameterSpec> parameters;
            for (const TensorView& tensor : weights->tensors()) {
                if (tensor.name == "lm_head.weight" || matches("*.attn.bias", tensor.name)) continue;
                std::string bare = tensor.name.starts_with("transformer.") ? tensor.name.substr(12) : tensor.name;
                parameters.push_back({prefixed ? "transformer." + bare : bare, DType::f32, tensor.dims});
            }
            NameRules rules = gpt2;
            if (!prefixed) rules.ties = {{"lm_head.weight", "wte.weight"}};
            auto resolved = weights->resolve(parameters, rules);
            REQUIRE_MESSAGE(resolved.ok(), resolved.message());
            for (const TensorView* tensor : resolved->tensors) CHECK(tensor != nullptr);
        }
    }
}

} // namespace names_test
