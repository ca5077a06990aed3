// Every architecture with every objective and every head: it trains, or is rejected with a reason before anything runs.
#include "bench.hpp"

#include "graph/gradient.hpp"
#include "graph/reference.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace combinations_test {

using namespace hekla;
using namespace hekla::test;

namespace {

// Returns the configuration of a small body of each family; options that a family does not have are omitted.
json small_config(const plugin::Provided& provided, int64_t vocabulary) {
    const std::map<std::string, json> wanted{{"hidden_size", 8},
                                             {"n_embd", 8},
                                             {"d_model", 8},
                                             {"emb_dim", 8},
                                             {"dim", 8},
                                             {"embedding_size", 8},
                                             {"num_hidden_layers", 1},
                                             {"n_layer", 1},
                                             {"n_layers", 1},
                                             {"num_layers", 1},
                                             {"encoder_layers", 1},
                                             {"decoder_layers", 1},
                                             {"num_decoder_layers", 1},
                                             {"num_attention_heads", 2},
                                             {"n_head", 2},
                                             {"n_heads", 2},
                                             {"num_heads", 2},
                                             {"encoder_attention_heads", 2},
                                             {"decoder_attention_heads", 2},
                                             {"num_key_value_heads", 1},
                                             {"head_dim", 4},
                                             {"d_kv", 4},
                                             {"d_head", 4},
                                             {"intermediate_size", 16},
                                             {"d_inner", 16},
                                             {"d_ff", 16},
                                             {"hidden_dim", 16},
                                             {"encoder_ffn_dim", 16},
                                             {"decoder_ffn_dim", 16},
                                             {"ffn_dim", 16},
                                             {"num_hidden_groups", 1},
                                             {"image_size", 8},
                                             {"patch_size", 4},
                                             {"position_buckets", 8},
                                             {"max_position_embeddings", 64},
                                             {"partial_rotary_factor", 0.5},
                                             {"n_positions", 64},
                                             {"vocab_size", vocabulary},
                                             {"source_vocab_size", vocabulary},
                                             {"target_vocab_size", vocabulary},
                                             {"pad_token_id", 1}};
    json config = json::object();
    for (const std::string_view key : provided.parameters)
        if (const auto found = wanted.find(std::string(key)); found != wanted.end()) config[key] = found->second;
    return config;
}

std::vector<std::string> ids_of(const char* interface_id) {
    std::set<std::string> ids;
    for (const plugin::Manifest& manifest : registry().manifests())
        for (const plugin::Provided& provided : manifest.provides)
            if (provided.interface_id == interface_id) ids.emplace(provided.id);
    return {ids.begin(), ids.end()};
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

} // namespace

TEST_CASE("every combination of architecture, objective and head works or is rejected with a reason") {
    const Objective bench("mlm"); // for its tokenizer
    const int64_t vocabulary = bench.tokenizer->vocabulary_size();
    std::vector<std::string> heads = ids_of(HK_HEAD_INTERFACE);
    for (const char* native : {"double_heads", "pair", "mlm+span_boundary", ""}) heads.push_back(native);
    std::map<std::string, std::set<std::string>> works; // objective -> architectures
    std::size_t made = 0, refused = 0;
    for (const std::string& architecture : ids_of(HK_ARCHITECTURE_INTERFACE)) {
        auto entry = registry().find(HK_ARCHITECTURE_INTERFACE, architecture);
        REQUIRE(entry.ok());
        for (const std::string& objective : ids_of(HK_OBJECTIVE_INTERFACE))
            for (const std::string& head : heads) {
                CAPTURE(architecture);
                CAPTURE(objective);
                CAPTURE(head);
                plugin::CompositionSpec spec;
                spec.architecture = architecture;
                spec.config = small_config(*entry->provided, vocabulary);
                spec.head = head;
                spec.objective = objective;
                auto composition = plugin::Composition::create(registry(), spec, bench.tokenizer.get());
                if (!composition.ok()) {
                    ++refused;
                    CHECK_MESSAGE(has(composition.message(), "uses the later ones too"), composition.message());
                    continue;
                }
                auto fields = composition.value()->batch_fields(2, 16);
                REQUIRE_MESSAGE(fields.ok(), fields.message());
                auto described = composition.value()->build(HK_MODE_TRAIN, fields.value());
                if (!described.ok()) {
                    ++refused;
                    CHECK(described.message().size() > 20);
                    CHECK(described.code() != Code::internal);
                    continue;
                }
                ++made;
                works[objective].insert(architecture);
                auto differentiated = graph::differentiate(described.take());
                CHECK_MESSAGE(differentiated.ok(), differentiated.message());
            }
    }
    CHECK(made > 150);
    CHECK(refused > made);
    // Combinations that must work.
    const std::map<std::string, std::vector<std::string>> expected{
        {"mlm", {"albert", "bert", "deberta", "distilbert", "flaubert", "roberta"}},
        {"mlm_nsp", {"albert", "bert", "roberta"}},
        {"classification",
         {"albert", "bart", "bert", "bilstm_lm", "deberta", "distilbert", "flaubert", "openai-gpt", "gpt2", "gpt_neox",
          "llama", "qwen3", "roberta", "t5", "xlnet"}},
        {"tagging", {"bert", "bilstm_lm", "distilbert", "flaubert", "gpt2", "xlnet"}},
        {"clm", {"openai-gpt", "gpt2", "gpt_neox", "llama", "qwen3", "mingru", "retention", "selective_scan"}},
        {"prefix_lm", {"openai-gpt", "gpt2", "gpt_neox", "llama", "qwen3"}},
        {"seq2seq", {"bart", "attention_seq2seq", "t5"}},
        {"denoising", {"bart", "t5"}},
        {"span_corruption", {"bart", "t5"}},
        {"permutation", {"xlnet"}},
        {"bilm", {"bilstm_lm"}},
        {"multiple_choice", {"bert", "gpt2"}},
        {"contrastive", {"bert", "distilbert", "gpt2"}},
        {"orpo", {"openai-gpt", "gpt2", "gpt_neox", "llama", "qwen3"}},
        {"chat", {"openai-gpt", "gpt2", "gpt_neox", "llama", "qwen3", "mingru"}},
        {"extractive_qa", {"bert", "distilbert", "roberta"}},
        {"skip_gram", {"word_vectors"}},
        {"glove", {"word_vectors"}},
    };
    for (const auto& [objective, architectures] : expected)
        for (const std::string& architecture : architectures)
            CHECK_MESSAGE(works[objective].contains(architecture), objective << " with " << architecture);
    // Combinations that would only learn to copy are rejected: the input contains the target.
    for (const char* architecture : {"bert", "bart", "t5", "attention_seq2seq", "bilstm_lm", "xlnet"})
        CHECK(!works["clm"].contains(architecture));
    CHECK(!works["prefix_lm"].contains("bert"));
    CHECK(!works["mlm"].contains("vit"));
}

} // namespace combinations_test
