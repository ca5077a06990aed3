#include "bench_case.hpp"

#include <algorithm>
#include <iterator>

namespace hekla::app {
namespace {

constexpr BenchCase kBenchCases[] = {
    {"shakespeare-char-cpu", 65, 4, 128, 4, 64, 12},
    {"shakespeare-char", 65, 6, 384, 6, 256, 4},
    {"gpt2-124m-short", 50257, 12, 768, 12, 256, 1},
    {"gpt2-124m", 50257, 12, 768, 12, 1024, 16},
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
                                                          const Log& log) {
    plugin::CompositionSpec spec;
    spec.architecture = "gpt2";
    spec.config = {{"vocab_size", c.vocabulary}, {"n_positions", c.context}, {"n_embd", c.width}, {"n_layer", c.layers},
                   {"n_head", c.heads},          {"resid_pdrop", 0.0},       {"embd_pdrop", 0.0}, {"attn_pdrop", 0.0}};
    spec.head = "lm";
    spec.objective = "clm";
    return plugin::Composition::create(registry, spec, nullptr, log);
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
