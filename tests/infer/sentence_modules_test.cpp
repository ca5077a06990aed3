// Modules of folders of sentence-transformers: values computed by sentence-transformers 5.2 (its Pooling, Dense and
// Normalize in float64), and errors.
#include "infer/open/sentence_modules.hpp"
#include "model/safetensors.hpp"
#include "support/test_folder.hpp"

#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>

namespace sentence_modules_test {

using namespace hekla;
using namespace hekla::test;
using infer::SentenceModules;
namespace fs = std::filesystem;

namespace {

// Four tokens of three values, the first two of a prompt.
const std::vector<double> kTokens{0.5, -1.0, 2.0, 1.5, 0.25, -0.75, -2.0, 3.0, 0.125, 4.0, -0.5, 1.0};

class Folder : public TestFolder {
public:
    void write_pooling(const std::string& config) const { write("1_Pooling/config.json", config); }
    // Writes modules.json: a transformer, a pooling, and others.
    void write_modules(const std::vector<std::string>& others) const {
        std::string list = R"([{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"})";
        std::size_t number = 2;
        for (const std::string& type : others) {
            list += fmt::format(
                R"(, {{"idx": {0}, "name": "{0}", "path": "{0}_{1}", "type": "sentence_transformers.models.{1}"}})",
                number, type);
            ++number;
        }
        write("modules.json", list + "]");
    }
    void write_dense(const std::string& activation, bool bias = true) const {
        write(
            "2_Dense/config.json",
            fmt::format(
                R"({{"in_features": 3, "out_features": 2, "bias": {}, "activation_function": "torch.nn.modules.{}"}})",
                bias, activation));
        const std::vector<float> weight{0.5f, -0.25f, 1.0f, -1.0f, 0.75f, 0.125f}, added{0.1f, -0.2f};
        std::vector<model::TensorSource> tensors{
            model::source_of({{"linear.weight", model::DType::f32, {2, 3}}, std::as_bytes(std::span(weight))})};
        if (bias)
            tensors.push_back(
                model::source_of({{"linear.bias", model::DType::f32, {2}}, std::as_bytes(std::span(added))}));
        REQUIRE(model::write_safetensors_file(path() / "2_Dense/model.safetensors", tensors).ok());
    }
    SentenceModules read() const {
        Result<std::optional<SentenceModules>> modules = infer::read_sentence_modules(path());
        REQUIRE_MESSAGE(modules.ok(), modules.message());
        REQUIRE(modules.value().has_value());
        return *std::move(modules.value());
    }
    std::string refusal() const { return infer::read_sentence_modules(path()).message(); }
};

void check(const SentenceModules& modules, const std::vector<double>& expected, double tolerance = 1e-15) {
    const Result<std::vector<double>> made = modules.vector_of(kTokens, 3, 2);
    REQUIRE_MESSAGE(made.ok(), made.message());
    REQUIRE(made.value().size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(std::abs(made.value()[i] - expected[i]) <= tolerance);
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

} // namespace

TEST_CASE("sentence modules: every kind of pooling, with and without the prompt") {
    struct Case {
        const char *key, *mode;
        std::vector<double> whole, without_prompt;
    };
    const Case cases[] = {
        {"cls_token", "cls", {0.5, -1.0, 2.0}, {0.5, -1.0, 2.0}},
        {"max_tokens", "max", {4.0, 3.0, 2.0}, {4.0, 3.0, 1.0}},
        {"mean_tokens", "mean", {1.0, 0.4375, 0.59375}, {1.0, 1.25, 0.5625}},
        {"mean_sqrt_len_tokens",
         "mean_sqrt_len_tokens",
         {2.0, 0.875, 1.1875},
         {1.414213562373095, 1.7677669529663687, 0.795495128834866}},
        {"weightedmean_tokens", "weightedmean", {1.35, 0.65, 0.4875}, {1.4285714285714286, 1.0, 0.625}},
        {"lasttoken", "lasttoken", {4.0, -0.5, 1.0}, {4.0, -0.5, 1.0}}};
    for (const Case& one : cases) {
        CAPTURE(one.mode);
        const Folder folder;
        folder.write_modules({});
        const bool is_mean = one.mode == std::string_view("mean"); // the default
        folder.write_pooling(fmt::format(R"({{"word_embedding_dimension": 3, "pooling_mode_{}": true{}}})", one.key,
                                         is_mean ? "" : R"(, "pooling_mode_mean_tokens": false)"));
        check(folder.read(), one.whole);
        folder.write_pooling(fmt::format(R"({{"pooling_mode": "{}", "include_prompt": false}})", one.mode));
        check(folder.read(), one.without_prompt);
    }
    const Folder folder;
    folder.write_modules({});
    folder.write_pooling(
        R"({"pooling_mode_cls_token": true, "pooling_mode_lasttoken": true})"); // the mean is the default
    check(folder.read(), {0.5, -1.0, 2.0, 1.0, 0.4375, 0.59375, 4.0, -0.5, 1.0});
}

TEST_CASE("sentence modules: dense layers and normalization") {
    const std::pair<const char*, std::vector<double>> cases[] = {
        {"linear.Identity", {0.8055369464486593, -0.5925455492248423}},
        {"activation.Tanh", {0.7680416680276412, -0.6403998720903357}},
        {"activation.ReLU", {1.0, 0.0}},
        {"activation.Sigmoid", {0.9234523048644837, 0.38371322708563543}},
        {"activation.SiLU", {0.9563255406527673, -0.29230371242116004}},
        {"activation.GELU", {0.9839078278900382, -0.17867676462457904}}};
    const Folder folder;
    folder.write_modules({"Dense", "Normalize"});
    folder.write_pooling("{}");
    for (const auto& [activation, expected] : cases) {
        CAPTURE(activation);
        folder.write_dense(activation);
        check(folder.read(), expected, 1e-8); // the biases are float32
    }
    folder.write_dense("linear.Identity", false);
    const double length = std::hypot(0.984375, -0.59765625);
    check(folder.read(), {0.984375 / length, -0.59765625 / length});
    folder.write_pooling(R"({"pooling_mode_cls_token": true})"); // and the mean: six values for a layer of three
    CHECK(has(folder.read().vector_of(kTokens, 3, 0).message(), "takes 3 values and is given 6"));
}

TEST_CASE("sentence modules: prompts and the transformer's own settings") {
    const Folder folder;
    CHECK_FALSE(infer::read_sentence_modules(folder.path()).value().has_value());
    folder.write_modules({});
    folder.write_pooling("{}");
    CHECK(folder.read().prompt("").take().empty());
    CHECK(has(folder.read().prompt("query").message(), "the model has no prompts"));
    folder.write("config_sentence_transformers.json",
                 R"({"prompts": {"query": "query: ", "document": ""}, "default_prompt_name": "query"})");
    folder.write("sentence_bert_config.json", R"({"max_seq_length": 256, "do_lower_case": true})");
    const SentenceModules modules = folder.read();
    CHECK(modules.prompt("").take() == "query: ");
    CHECK(modules.prompt("document").take().empty());
    CHECK(has(modules.prompt("passage").message(), "expected one of document, query"));
    CHECK(modules.longest == 256);
    CHECK(modules.lower_case);
    CHECK(modules.model == folder.path());
}

TEST_CASE("sentence modules: what cannot be computed is named") {
    const Folder folder;
    folder.write_pooling("{}");
    folder.write("modules.json", "{}");
    CHECK(has(folder.refusal(), "modules.json: is object, expected a list"));
    folder.write("modules.json", R"([{"path": ""}])");
    CHECK(has(folder.refusal(), "module 0 has no \"type\""));
    folder.write("modules.json", R"([{"path": "", "type": "sentence_transformers.models.StaticEmbedding"}])");
    CHECK(has(folder.refusal(), "module 0 is sentence_transformers.models.StaticEmbedding; supported: Transformer"));
    folder.write_modules({"LayerNorm"});
    CHECK(has(folder.refusal(), "module 2 is sentence_transformers.models.LayerNorm"));
    // Who pools by other means does not need them.
    CHECK(infer::read_sentence_modules(folder.path(), false).value()->model == folder.path());
    folder.write("modules.json", R"([{"path": "../x", "type": "a.Transformer"}])");
    CHECK(has(folder.refusal(), "leaves the folder"));
    folder.write_modules({"Dense"});
    CHECK(has(folder.refusal(), "2_Dense/config.json"));
    folder.write_dense("activation.Hardtanh");
    CHECK(has(folder.refusal(), "\"torch.nn.modules.activation.Hardtanh\"; supported: Identity, Tanh"));
    folder.write_dense("linear.Identity");
    folder.write("2_Dense/config.json",
                 R"({"in_features": 4, "out_features": 2, "activation_function": "a.Identity"})");
    CHECK(has(folder.refusal(), "\"linear.weight\" is [2, 3], and"));
    folder.write_modules({});
    folder.write_pooling(R"({"pooling_mode_mean_tokens": false})");
    CHECK(has(folder.refusal(), "none of the kinds of pooling"));
    folder.write_pooling(R"({"pooling_mode": "attention"})");
    CHECK(has(folder.refusal(), "\"pooling_mode\" is \"attention\""));
    folder.write_pooling("{}");
    folder.write("config_sentence_transformers.json", R"({"prompts": {}, "default_prompt_name": "query"})");
    CHECK(has(folder.refusal(), "expected a name of \"prompts\""));
}

} // namespace sentence_modules_test
