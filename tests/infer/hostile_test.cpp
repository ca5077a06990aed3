// Invalid model folders: contradictory configurations, and weights that do not match them. Each is one error, of one
// paragraph, that names the key or the tensor; nothing is allocated for it and nothing crashes.
#include "support.hpp"

#include "infer/open/open_model.hpp"
#include "model/folder.hpp"
#include "support/test_folder.hpp"

#include <functional>
#include <unistd.h>

using namespace hekla;
using namespace hekla::test;
using nlohmann::json;

namespace {

// A copy of a fixture's model with changes to its configuration and tensors.
class Changed {
public:
    explicit Changed(const std::string& name) : name_(name) {
        const Result<std::string> text = read_file(fixture_folder(name) / "config.json");
        REQUIRE(text.ok());
        config = json::parse(text.value());
        Result<model::Weights> opened = model::Weights::open(fixture_folder(name));
        REQUIRE_MESSAGE(opened.ok(), opened.message());
        weights_ = opened.take();
        tensors = weights_->tensors();
    }
    json config;
    std::vector<model::TensorView> tensors;

    Status open() {
        const TestFolder folder;
        model::ModelContents contents;
        contents.config_json = config.dump();
        contents.tensors = model::sources_of(tensors);
        const Status saved = model::save_folder(folder, contents);
        REQUIRE_MESSAGE(saved.ok(), saved.message());
        infer::ModelOptions options;
        options.tokenizer_required = false;
        return infer::open_model(registry(), nullptr, folder, options, {}).status();
    }

private:
    std::string name_;
    std::optional<model::Weights> weights_;
};

struct Case {
    const char* fixture;
    const char* key;
    json value;
    const char* expected; // part of the message
};

TEST_CASE("invalid configurations") {
    const json big = int64_t{1} << 40;
    const std::vector<Case> cases{
        {"gpt2-clm", "n_head", 5, "n_head"},
        {"gpt2-clm", "n_head", 0, "n_head"},
        {"gpt2-clm", "n_embd", -32, "n_embd"},
        {"gpt2-clm", "n_layer", 0, "n_layer"},
        {"gpt2-clm", "n_layer", -1, "n_layer"},
        {"gpt2-clm", "n_layer", "two", "n_layer"},
        {"gpt2-clm", "n_positions", 2.5, "n_positions"},
        {"gpt2-clm", "vocab_size", big, "vocab_size"},
        {"gpt2-clm", "vocab_size", 1 << 27, "wte.weight"},
        {"gpt2-clm", "vocab_size", -1, "vocab_size"},
        {"gpt2-clm", "activation_function", "gelo", "gelo"},
        {"gpt2-clm", "model_type", "gpt3", "gpt3"},
        {"bert-pretraining", "num_attention_heads", 7, "num_attention_heads"},
        {"bert-pretraining", "hidden_size", big, "hidden_size"},
        {"bert-pretraining", "hidden_size", 1 << 19, "word_embeddings.weight"},
        {"bert-pretraining", "intermediate_size", -4, "intermediate_size"},
        {"bert-pretraining", "layer_norm_eps", "small", "layer_norm_eps"},
        {"bert-pretraining", "hidden_dropout_prob", 1.5, "hidden_dropout_prob"},
        {"bert-pretraining", "add_cross_attention", true, "add_cross_attention"},
        {"llama-clm", "num_key_value_heads", 3, "num_key_value_heads"},
        {"llama-clm", "num_key_value_heads", 0, "num_key_value_heads"},
        {"t5-span-corruption", "d_kv", 0, "d_kv"},
        {"t5-span-corruption", "relative_attention_num_buckets", -8, "relative_attention_num_buckets"},
        {"bart-denoising", "decoder_attention_heads", 3, "decoder_attention_heads"},
        {"xlnet-plm", "n_head", 3, "n_head"},
        {"deberta-v2-mlm", "num_attention_heads", 5, "num_attention_heads"},
        {"albert-pretraining", "num_hidden_groups", 0, "num_hidden_groups"},
        {"distilbert-mlm", "n_heads", 5, "n_heads"},
        {"vit-classifier", "patch_size", 0, "patch_size"},
        {"vit-classifier", "patch_size", 7, "patch_size"},
        {"parallel-block-clm", "num_attention_heads", 3, "num_attention_heads"},
        {"gpt-clm", "n_head", 3, "n_head"},
        {"flaubert-mlm", "n_heads", 3, "n_heads"},
    };
    for (const Case& c : cases) {
        CAPTURE(c.fixture);
        CAPTURE(c.key);
        CAPTURE(c.value.dump());
        Changed model(c.fixture);
        model.config[c.key] = c.value;
        if (std::string_view(c.key) == "model_type") model.config.erase("architectures");
        const Status status = model.open();
        CHECK_FALSE(status.ok());
        CHECK_MESSAGE(status.message().find(c.expected) != std::string::npos, status.message());
        CHECK_MESSAGE(status.code() != Code::internal, status.message());
    }
}

TEST_CASE("weights that do not match") {
    for (const char* name :
         {"gpt2-clm", "bert-pretraining", "t5-span-corruption", "bart-denoising", "vit-classifier"}) {
        CAPTURE(name);
        {
            Changed missing(name);
            const std::string gone = missing.tensors[3].name;
            missing.tensors.erase(missing.tensors.begin() + 3);
            const Status status = missing.open();
            CHECK_FALSE(status.ok());
            CHECK_MESSAGE(status.message().find(gone) != std::string::npos, status.message());
        }
        {
            Changed extra(name);
            model::TensorView more = extra.tensors[3];
            more.name = "something.else.weight";
            extra.tensors.push_back(more);
            const Status status = extra.open();
            CHECK_FALSE(status.ok());
            CHECK_MESSAGE(status.message().find(more.name) != std::string::npos, status.message());
        }
        {
            Changed misshapen(name);
            model::TensorView& tensor = misshapen.tensors[3];
            tensor.dims = {static_cast<int64_t>(tensor.bytes.size() / 4)};
            tensor.dims.push_back(1);
            const Status status = misshapen.open();
            CHECK_FALSE(status.ok());
            CHECK_MESSAGE(status.message().find(misshapen.tensors[3].name) != std::string::npos, status.message());
        }
    }
}

} // namespace

TEST_CASE("a key that changes the computation and is not read is refused, unless its value changes nothing") {
    const auto status_with = [](const std::string& fixture, const std::string& key, const json& value) {
        Changed model(fixture);
        model.config[key] = value;
        return model.open();
    };
    for (const auto& [fixture, key, value] :
         {std::tuple<std::string, std::string, json>{"llama-clm", "sliding_window", 3},
          {"llama-clm", "logits_scaling", 8.0},
          {"llama-clm", "final_logit_softcapping", 30.0},
          {"llama-clm", "layer_types", {"full_attention", "sliding_attention"}},
          {"llama-clm", "partial_rotary_factor", 0.5},
          {"llama-clm", "activation_function", "tanh"},
          {"llama-clm", "rotary_emb_base", 500},
          {"gpt2-clm", "alibi", true},
          {"gpt2-clm", "rope_scaling", {{"type", "linear"}, {"factor", 2.0}}},
          {"gpt2-clm", "add_cross_attention", true}, // the manifest lists it as one without an effect
          {"bert-classifier", "position_embedding_type", "relative_key"},
          {"bert-classifier", "embedding_size", 4},
          {"bert-classifier", "is_causal", true},
          {"gpt2-clm", "is_causal", nullptr}, // the reference takes it as false
          {"xlnet-plm", "same_length", true},
          {"xlnet-plm", "d_head", 3},
          {"t5-span-corruption", "num_experts", 4},
          {"t5-span-corruption", "is_causal", false}, // the reference's decoder would see later tokens
          {"bart-denoising", "is_causal", nullptr},
          {"bart-denoising", "add_final_layer_norm", true},
          {"distilbert-mlm", "is_decoder", true},
          {"parallel-block-clm", "head_dim", 3}}) {
        CAPTURE(fixture);
        CAPTURE(key);
        const Status status = status_with(fixture, key, value);
        CHECK(status.code() == Code::unsupported);
        CHECK(status.message().find(key + " is " + value.dump()) != std::string::npos);
        CHECK(status.message().find("config.json") != std::string::npos);
    }
    for (const auto& [fixture, key, value] :
         {std::tuple<std::string, std::string, json>{"llama-clm", "sliding_window", nullptr},
          {"llama-clm", "logits_scaling", 1.0},
          {"llama-clm", "layer_types", {"full_attention", "full_attention"}},
          {"llama-clm", "position_embedding_type", "rope"},
          {"gpt2-clm", "is_decoder", true},
          {"gpt2-clm", "rope_scaling", nullptr},
          {"bert-classifier", "position_embedding_type", "absolute"},
          {"xlnet-plm", "untie_r", true},
          {"gpt2-clm", "transformers_version", "4.0.0"}}) {
        CAPTURE(fixture);
        CAPTURE(key);
        CHECK(status_with(fixture, key, value).message() == "");
    }
}

TEST_CASE("T5: the activation that the reference stores a second time, and reads, must agree with the first") {
    Changed model("t5-span-corruption");
    REQUIRE(model.config["feed_forward_proj"] == "relu");
    model.config["dense_act_fn"] = "relu";
    model.config["is_gated_act"] = nullptr; // false
    CHECK(model.open().message() == "");
    model.config["dense_act_fn"] = "gelu";
    CHECK(model.open().message().find("dense_act_fn is 'gelu'") != std::string::npos);
    model.config["dense_act_fn"] = "relu";
    model.config["is_gated_act"] = true;
    CHECK(model.open().message().find("is_gated_act does not agree") != std::string::npos);
}

TEST_CASE("Marian: an epsilon that the reference does not read is refused, but in models with pre-norm") {
    Changed model("vaswani-seq2seq");
    for (const json& same : {json(), json(1e-5)}) {
        model.config["layer_norm_eps"] = same;
        CHECK(model.open().message() == "");
    }
    model.config["layer_norm_eps"] = 0.1;
    const Status status = model.open();
    CHECK(status.code() == Code::unsupported);
    CHECK_MESSAGE(status.message().find("layer_norm_eps is 0.1") != std::string::npos, status.message());
    model.config["normalize_before"] = true; // then a tensor is missing
    CHECK(model.open().message().find("layer_norm") != std::string::npos);
}

TEST_CASE("rotary positions: unknown members, types and spellings") {
    const auto status_with = [](const json& parameters, const json& scaling) {
        Changed model("llama-clm");
        model.config.erase("rope_theta");
        model.config["rope_parameters"] = parameters;
        model.config["rope_scaling"] = scaling;
        return model.open().message();
    };
    const json plain{{"rope_type", "default"}, {"rope_theta", 10000.0}};
    CHECK(status_with(plain, nullptr) == "");
    CHECK(status_with({{"full_attention", plain}, {"sliding_attention", plain}}, nullptr).find("full_attention") !=
          std::string::npos);
    json one = plain;
    one["partial_rotary_factor"] = 0.5;
    CHECK(status_with(one, nullptr).find("partial_rotary_factor = 0.5") != std::string::npos);
    one = plain;
    one["beta_fast"] = 32.0;
    CHECK(status_with(one, nullptr).find("rope_parameters.beta_fast is 32.0") != std::string::npos);
    CHECK(status_with({{"rope_type", "ntk"}, {"factor", 2.0}}, nullptr).find("'ntk'") != std::string::npos);
    CHECK(status_with({{"rope_type", "yarn"}, {"factor", 0.0}}, nullptr).find("factor") != std::string::npos);
    CHECK(status_with({{"rope_type", "linear"}}, nullptr).find("factor") != std::string::npos);
    // rope_scaling is used where both are there, and the other must say nothing else.
    CHECK(status_with(plain, {{"type", "linear"}, {"factor", 2.0}}) == "");
    CHECK(status_with({{"rope_type", "linear"}, {"factor", 2.0}}, {{"type", "default"}}).find("rope_parameters is") !=
          std::string::npos);
    CHECK(status_with(plain, "linear").find("rope_scaling is \"linear\", expected an object") != std::string::npos);
}

TEST_CASE("model_type decides what a model is, and its class only the head") {
    const auto status_with = [](const json& type, const json& classes) {
        Changed model("llama-clm");
        model.config["model_type"] = type;
        model.config["architectures"] = classes;
        return model.open().message();
    };
    CHECK(status_with("llama", {"LlamaForCausalLM"}) == "");
    CHECK(status_with("llama", json::array()) == "");
    CHECK(status_with("llama", {"LlamaForQuestionAnswering"}) == ""); // the body
    const std::string other = status_with("llama", {"Qwen3ForCausalLM"});
    CHECK(other.find("model_type is \"llama\"") != std::string::npos);
    CHECK(other.find("a class of model_type \"qwen3\"") != std::string::npos);
    CHECK(other.find("LlamaForCausalLM, LlamaForSequenceClassification") != std::string::npos);
    CHECK(status_with("llama", {"UnheardForCausalLM"}).find("not a class of that model_type") != std::string::npos);
    const std::string unknown = status_with("unheard-of", {"LlamaForCausalLM"});
    CHECK(unknown.find("the model_type 'unheard-of' is not supported yet; docs/models.md") != std::string::npos);
    CHECK(unknown.find("did you mean") == std::string::npos);
}

TEST_CASE("null is not the default where the reference has both") {
    // Without the window of layers that are to have one nothing else changes.
    Changed model("qk-norm-clm");
    model.config["use_sliding_window"] = true;
    model.config.erase("layer_types");
    model.config["max_window_layers"] = 0;
    model.config["sliding_window"] = nullptr;
    CHECK(model.open().message() == "");
    model.config["layer_types"] = json::array({"full_attention", "chunked_attention"});
    model.config["num_hidden_layers"] = 2;
    CHECK(model.open().message().find("'chunked_attention', expected full_attention or sliding_attention") !=
          std::string::npos);
}

TEST_CASE("a model without architectures is the body, whose output layer is not tied to anything") {
    Changed model("llama-clm");
    model.config.erase("architectures");
    model.config["tie_word_embeddings"] = false;
    std::vector<float> values;
    for (model::TensorView& tensor : model.tensors)
        if (tensor.name == "model.embed_tokens.weight") {
            values.assign(tensor.bytes.size() / sizeof(float), 0.5f);
            model::TensorView head = tensor;
            head.name = "lm_head.weight";
            head.bytes = std::as_bytes(std::span(values));
            std::erase_if(model.tensors, [](const model::TensorView& one) { return one.name == "lm_head.weight"; });
            model.tensors.push_back(head);
            break;
        }
    REQUIRE_FALSE(values.empty());
    CHECK(model.open().message() == "");
}
