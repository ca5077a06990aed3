// Keys of adapters' configurations: those that change the computation and are not read are refused unless they are
// neutral, also where their null or their absence means something else than the default.
#include "infer/adapters/adapter_folder.hpp"
#include "infer/adapters/read_adapter.hpp"
#include "support.hpp"
#include "support/test_folder.hpp"

#include <tuple>

namespace adapter_keys_test {

using namespace hekla;
using namespace hekla::test;
using nlohmann::json;

namespace {

// An adapter of tests/fixtures/adapters whose configuration is changed.
class Adapter {
public:
    explicit Adapter(const std::string& fixture) {
        const fs::path from = fs::path(HEKLA_SOURCE_DIR) / "tests/fixtures/adapters" / fixture / "adapter";
        fs::copy(from, folder_.path(), fs::copy_options::recursive);
        const Result<std::string> text = read_file(folder_.path() / "adapter_config.json");
        REQUIRE(text.ok());
        config = json::parse(text.value());
        inner = config.contains("config") ? &config["config"] : &config;
    }
    json config;
    json* inner = nullptr; // where the keys of the adapter are

    Result<infer::AdapterFolder> read() {
        REQUIRE(write_file_atomically(folder_.path() / "adapter_config.json", config.dump()).ok());
        return infer::read_adapter_folder(folder_.path());
    }

private:
    TestFolder folder_;
};

} // namespace

TEST_CASE("adapters: a key that changes the computation is refused by name, at any value that is not neutral") {
    const json one = {{"a", 1}};
    for (const auto& [fixture, key, value] : std::vector<std::tuple<std::string, std::string, json>>{
             {"lora-gpt2", "layer_replication", {{0, 1}}},
             {"lora-gpt2", "lora_bias", true},
             {"lora-gpt2", "use_qalora", true},
             {"lora-gpt2", "target_parameters", {"mlp.weight"}},
             {"lora-gpt2", "trainable_token_indices", {7}},
             {"lora-gpt2", "ensure_weight_tying", true},
             {"lora-gpt2", "megatron_config", one},
             {"lora-gpt2", "arrow_config", {{"top_k", 2}}},
             {"lora-gpt2", "use_bdlora", one},
             // An empty object is a configuration with defaults.
             {"lora-gpt2", "kasa_config", json::object()},
             {"lora-gpt2", "monteclora_config", json::object()},
             {"lora-gpt2", "velora_config", json::object()},
             // Of another kind of adapter.
             {"ia3-gpt2", "use_dora", true},
             {"ia3-gpt2", "layers_to_transform", {0}},
             {"prefix-gpt2", "exclude_modules", {"a"}},
             {"poly-llama", "rank_pattern", {{"q_proj", 2}}},
             {"bottleneck-bert-pfeiffer", "phm_layer", true},
             {"bottleneck-bert-pfeiffer", "inv_adapter", "nice"},
             {"bottleneck-bert-pfeiffer", "invertible_adapter", {{"block_type", "nice"}, {"reduction_factor", 2}}},
             {"hub-lora-gpt2", "composition_mode", "scale"},
             {"hub-lora-gpt2", "composition_mode", nullptr},
             {"hub-lora-gpt2", "use_gating", true},
             {"hub-lora-gpt2", "vera_d", 0.1},
             {"hub-prefix-bert", "non_linearity", "relu"},
             {"hub-prefix-bert", "use_gating", true},
             {"hub-prompt-bert", "combine", "prefix_after_bos"},
         }) {
        CAPTURE(fixture);
        CAPTURE(key);
        Adapter adapter(fixture);
        (*adapter.inner)[key] = value;
        const Status status = adapter.read().status();
        CHECK(status.code() == Code::unsupported);
        CHECK_MESSAGE(status.message().find("'" + key + "' is " + value.dump()) != std::string::npos, status.message());
        CHECK(status.message().find("adapter_config.json") != std::string::npos);
        CHECK(status.message().find("expected ") != std::string::npos);
    }
}

TEST_CASE("adapters: neutral values, and keys of training and of names, change nothing") {
    for (const auto& [fixture, key, value] : std::vector<std::tuple<std::string, std::string, json>>{
             {"lora-gpt2", "layer_replication", json::array()},
             {"lora-gpt2", "target_parameters", nullptr},
             {"lora-gpt2", "use_bdlora", false},
             {"lora-gpt2", "eva_config", {{"rho", 2.0}}},
             {"lora-gpt2", "loftq_config", {{"loftq_bits", 4}}},
             {"lora-gpt2", "init_lora_weights", "eva"},
             {"lora-gpt2", "init_lora_weights", nullptr},
             {"lora-gpt2", "layers_pattern", ""},
             {"lora-gpt2", "inference_mode", false},
             {"lora-gpt2", "revision", "main"},
             {"poly-llama", "rank_pattern", json::object()},
             {"bottleneck-bert-pfeiffer", "phm_dim", 8},
             {"bottleneck-bert-pfeiffer", "inv_adapter_reduction_factor", 2},
             {"bottleneck-bert-pfeiffer", "invertible_adapter", nullptr},
             {"hub-lora-gpt2", "init_weights_seed", 7},
             {"hub-prefix-gpt2", "non_linearity", "relu"}, // it is flat
             {"hub-prompt-bert", "prompt_init_text", "a b"},
         }) {
        CAPTURE(fixture);
        CAPTURE(key);
        Adapter adapter(fixture);
        const json before = adapter.read()->config;
        (*adapter.inner)[key] = value;
        const auto read = adapter.read();
        REQUIRE_MESSAGE(read.ok(), read.message());
        CHECK(read->config == before);
    }
}

TEST_CASE("adapters: null and a missing key are what the library takes them for") {
    Adapter ia3("ia3-gpt2"); // the library would choose by the body
    for (const bool missing : {false, true}) {
        ia3.config["feedforward_modules"] = nullptr;
        if (missing) ia3.config.erase("feedforward_modules");
        CHECK(ia3.read().message().find("feedforward_modules") != std::string::npos);
    }
    for (const char* fixture : {"prompt-t5", "prefix-t5"}) { // two parts, by the task
        CAPTURE(fixture);
        Adapter adapter(fixture);
        const json before = adapter.read()->config;
        REQUIRE(adapter.config["task_type"] == "SEQ_2_SEQ_LM");
        adapter.config["num_transformer_submodules"] = nullptr;
        CHECK(adapter.read()->config == before);
    }
    for (const char* key : {"original_ln_after", "residual_before_ln"}) { // true where missing
        CAPTURE(key);
        Adapter adapter("bottleneck-bert-pfeiffer");
        (*adapter.inner)[key] = nullptr;
        CHECK(adapter.read()->config.at(key) == false);
    }
    for (const char* key : {"mh_adapter", "output_adapter", "reduction_factor", "non_linearity"}) {
        CAPTURE(key);
        Adapter adapter("bottleneck-bert-pfeiffer");
        adapter.inner->erase(key);
        CHECK(adapter.read().message().find(std::string("'") + key + "' is missing") != std::string::npos);
    }
    for (const char* key : {"reduction_factor", "scaling", "leave_out"}) {
        CAPTURE(key);
        Adapter adapter("bottleneck-bert-pfeiffer");
        (*adapter.inner)[key] = nullptr;
        CHECK(adapter.read().message().find(std::string("'") + key + "' is null") != std::string::npos);
    }
}

TEST_CASE("adapters: an unknown key may change the computation, and is refused by name unless it is off") {
    for (const char* fixture : {"lora-gpt2", "prefix-gpt2", "bottleneck-bert-pfeiffer", "hub-lora-gpt2"}) {
        CAPTURE(fixture);
        Adapter adapter(fixture);
        (*adapter.inner)["some_null"] = nullptr;
        (*adapter.inner)["some_flag"] = false;
        CHECK(adapter.read().ok());
        (*adapter.inner)["some_option"] = {{"version", 2}};
        const auto read = adapter.read();
        CHECK(read.status().code() == Code::unsupported);
        CHECK_MESSAGE(read.message().find("'some_option' is ") != std::string::npos, read.message());
    }
}

} // namespace adapter_keys_test
