// Invalid model folders: contradictory configurations, and weights that do not match them. Each is one error, of one
// paragraph, that names the key or the tensor; nothing is allocated for it and nothing crashes.
#include "support.hpp"

#include "infer/open_model.hpp"
#include "model/folder.hpp"

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
        const fs::path folder = fs::temp_directory_path() / ("hekla-hostile-" + std::to_string(::getpid()));
        fs::remove_all(folder);
        model::ModelContents contents;
        contents.config_json = config.dump();
        contents.tensors = model::sources_of(tensors);
        const Status saved = model::save_folder(folder, contents);
        REQUIRE_MESSAGE(saved.ok(), saved.message());
        infer::ModelOptions options;
        options.tokenizer_required = false;
        const Status status = infer::open_model(registry(), nullptr, folder, options, {}).status();
        fs::remove_all(folder);
        return status;
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
