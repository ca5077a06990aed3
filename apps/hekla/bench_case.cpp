#include "bench_case.hpp"

#include "composition_estimate.hpp"
#include "infer/adapters/lora_slots.hpp"

#include <algorithm>
#include <iterator>

namespace hekla::app {
namespace {

constexpr BenchCase kBenchCases[] = {
    {"shakespeare-char-cpu", 65, 4, 128, 4, 64, 12},
    {"shakespeare-char", 65, 6, 384, 6, 256, 4},
    {"gpt2-124m-short", 50257, 12, 768, 12, 256, 1},
    {"gpt2-124m", 50257, 12, 768, 12, 1024, 16},
    {"smollm2-135m-lora", 49152, 30, 576, 9, 512, 1, 3, 1536, true},
    {"smollm2-135m-slots", 49152, 30, 576, 9, 128, 16, 3, 1536, true, 16},
    {"tinyllama-1.1b-lora", 32000, 22, 2048, 32, 512, 1, 4, 5632, false},
};

} // namespace

std::vector<std::string> bench_case_names() {
    std::vector<std::string> names;
    for (const BenchCase& c : kBenchCases) names.emplace_back(c.name);
    return names;
}

const BenchCase* find_bench_case(const std::string& name) {
    const auto* const found = std::ranges::find(kBenchCases, name, &BenchCase::name);
    return found == std::end(kBenchCases) ? nullptr : found;
}

Result<std::unique_ptr<plugin::Composition>> compose_case(const plugin::Registry& registry, const BenchCase& c,
                                                          const Log& log, bool recompute_blocks, bool adapters) {
    plugin::CompositionSpec spec;
    spec.recompute = recompute_blocks;
    spec.head = "lm";
    spec.objective = "clm";
    if (c.lora()) {
        spec.architecture = "llama";
        spec.config = {{"vocab_size", c.vocabulary},
                       {"num_hidden_layers", c.layers},
                       {"hidden_size", c.width},
                       {"num_attention_heads", c.heads},
                       {"num_key_value_heads", c.key_value_heads},
                       {"intermediate_size", c.inner},
                       {"max_position_embeddings", 2048},
                       {"tie_word_embeddings", c.tied}};
        if (adapters) {
            nlohmann::json config{{"r", 8}, {"lora_alpha", 16.0}, {"target_modules", "all-linear"}};
            if (c.slots > 0) config.update({{"slots", c.slots}, {"slots_transposed", true}});
            spec.adapter_rows = c.slots;
            spec.adapters = {{"", {"lora", config}}};
        }
        return plugin::Composition::create(registry, spec, nullptr, log);
    }
    spec.architecture = "gpt2";
    spec.config = {{"vocab_size", c.vocabulary}, {"n_positions", c.context}, {"n_embd", c.width}, {"n_layer", c.layers},
                   {"n_head", c.heads},          {"resid_pdrop", 0.0},       {"embd_pdrop", 0.0}, {"attn_pdrop", 0.0}};
    return plugin::Composition::create(registry, spec, nullptr, log);
}

std::set<std::string, std::less<>> frozen_of(const BenchCase& c, const graph::Graph& described) {
    if (!c.lora()) return {};
    return parameters_without_adapters(described);
}

generate::Fields slot_fields(const BenchCase& c, int64_t rows, bool mixed) {
    if (c.slots == 0) return {};
    generate::Fields fields = infer::slot_fields(rows);
    std::vector<double>& slots = fields.at(plugin::kAdapterRows).data;
    for (int64_t row = 0; row < rows; ++row)
        slots[static_cast<std::size_t>(row)] = mixed ? static_cast<double>(row % c.slots) : 0.0;
    return fields;
}

train::TrainSection case_settings() {
    train::TrainSection settings;
    settings.weight_decay = 0.01;
    settings.adam_beta2 = 0.999;
    return settings;
}

program::Storage storage_named(const std::string& type) {
    return type == "f16" ? program::Storage::f16 : type == "bf16" ? program::Storage::bf16 : program::Storage::f32;
}

} // namespace hekla::app
