// Which published models train and run on this device: their shapes are described and planned, with nothing allocated.
#include "base/number_text.hpp"
#include "base/stopwatch.hpp"
#include "composition_estimate.hpp"
#include "device_test/device_facts.hpp"
#include "device_test/test_stages.hpp"
#include "generate/decoder.hpp"
#include "plugin/composition/compose.hpp"
#include "program/estimate.hpp"
#include "program/lowering/half.hpp"
#include "program/runtime.hpp"
#include "train/recipe/recipe.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::app {
namespace {

using nlohmann::json;

// The shape of a published model.
struct PublishedShape {
    const char* name;
    const char* architecture;
    int64_t vocabulary, width, inner, layers, heads, key_value_heads, head_dim;
    bool tied; // the head is the embedding
};
constexpr PublishedShape kShapes[] = {
    {"1B", "llama", 128256, 2048, 8192, 16, 32, 8, 64, true},     // Llama 3.2
    {"3B", "llama", 128256, 3072, 8192, 28, 24, 8, 128, true},    // Llama 3.2
    {"7B", "llama", 32768, 4096, 14336, 32, 32, 8, 128, false},   // Mistral 0.3
    {"8B", "llama", 128256, 4096, 14336, 32, 32, 8, 128, false},  // Llama 3.1
    {"14B", "qwen3", 151936, 5120, 17408, 40, 40, 8, 128, false}, // Qwen3
};
constexpr int64_t kContexts[] = {512, 2048, 8192};
constexpr int64_t kRowsAt = 512; // tokens of the rows that are counted
constexpr int64_t kMostRows = 64;

enum class Trained { lora, full };

Result<std::unique_ptr<plugin::Composition>> compose_shape(const plugin::Registry& registry,
                                                           const PublishedShape& shape, bool lora, const Log& log) {
    plugin::CompositionSpec spec;
    spec.recompute = true;
    spec.architecture = shape.architecture;
    spec.head = "lm";
    spec.objective = "clm";
    spec.config = {{"vocab_size", shape.vocabulary},     {"hidden_size", shape.width},
                   {"intermediate_size", shape.inner},   {"num_hidden_layers", shape.layers},
                   {"num_attention_heads", shape.heads}, {"num_key_value_heads", shape.key_value_heads},
                   {"head_dim", shape.head_dim},         {"max_position_embeddings", 8192},
                   {"tie_word_embeddings", shape.tied}};
    if (lora) spec.adapters = {{"", {"lora", json{{"r", 16}, {"lora_alpha", 32.0}, {"target_modules", "all-linear"}}}}};
    return plugin::Composition::create(registry, spec, nullptr, log);
}

// Returns the bytes of a training with AdamW, 16-bit products and recomputed blocks; frozen matrices are stored in 16
// bits.
Result<uint64_t> training_bytes(const plugin::Composition& composition, const program::Target& target, Trained use,
                                program::Storage precision, int64_t rows, int64_t context) {
    HK_ASSIGN(const program::Estimate estimate, estimate_step(composition, target,
                                                              {.rows = rows,
                                                               .context = context,
                                                               .adapters_only = use == Trained::lora,
                                                               .precision = precision,
                                                               .frozen_weights = precision},
                                                              train::TrainSection()));
    return estimate.total();
}

// Returns the bytes of a generation of one row.
Result<uint64_t> generation_bytes(const plugin::Composition& composition, const program::Target& target,
                                  program::Storage weights, int64_t context) {
    generate::DecodeBatch batch;
    batch.length = context;
    HK_ASSIGN(const program::Estimate estimate, estimate_token(composition, target, weights, batch));
    return estimate.total();
}

// Returns the bytes of weights, gradients and moments of a training of all parameters.
uint64_t least_bytes(const PublishedShape& s) {
    const int64_t attention = 2 * s.width * s.heads * s.head_dim + 2 * s.width * s.key_value_heads * s.head_dim;
    const int64_t parameters =
        s.layers * (attention + 3 * s.width * s.inner) + (s.tied ? 1 : 2) * s.vocabulary * s.width;
    return static_cast<uint64_t>(parameters) * 4 * sizeof(float);
}

// The largest of kContexts at which one row fits in memory. 0: none does. A tensor that is larger than an allocation
// may be fits as little.
struct MemoryFit {
    int64_t context = 0, rows = 0;
    uint64_t bytes = 0; // of one row of the smallest context
};

template<class Bytes>
Result<MemoryFit> largest_fit(uint64_t available, const Bytes& bytes_of) {
    MemoryFit fit;
    for (const int64_t context : kContexts) {
        const Result<uint64_t> bytes = bytes_of(int64_t{1}, context);
        if (!bytes.ok() && bytes.code() != Code::out_of_memory) return bytes.status();
        if (fit.bytes == 0 && bytes.ok()) fit.bytes = bytes.value();
        if (!bytes.ok() || bytes.value() > available) break;
        fit.context = context;
        if (context == kRowsAt) fit.rows = 1;
    }
    return fit;
}

// Sets the rows of kRowsAt tokens that fit: memory grows equally with each row.
template<class Bytes>
Status count_rows(uint64_t available, const Bytes& bytes_of, MemoryFit& fit) {
    if (fit.rows == 0) return {};
    const Result<uint64_t> more = bytes_of(int64_t{3}, kRowsAt);
    if (!more.ok()) return more.code() == Code::out_of_memory ? Status() : more.status();
    const uint64_t row = std::max<uint64_t>(1, (more.value() - std::min(more.value(), fit.bytes)) / 2);
    fit.rows = std::clamp<int64_t>(static_cast<int64_t>((available - fit.bytes) / row) + 1, 1, kMostRows);
    return {};
}

} // namespace

Result<StageOutcome> plan_stage(const StageInput& input) {
    const auto begin = std::chrono::steady_clock::now();
    HK_ASSIGN(const auto runtime, stage_runtime(input));
    const plugin::Registry registry = scan_plugins(input.globals);
    const program::Target target = program::target_of(*runtime);
    const gpu::MemoryUsage usage = runtime->gpu().memory->usage();
    const uint64_t available = usage.heap_budget_bytes > 0
                                   ? usage.heap_budget_bytes - std::min(usage.heap_budget_bytes, usage.heap_usage_bytes)
                                   : runtime->gpu().capabilities().device_memory_bytes;
    const program::Storage precision =
        runtime->device_limits().storage16 ? program::Storage::bf16 : program::Storage::f32;
    StageOutcome outcome;
    outcome.result["available_bytes"] = available;
    outcome.result["precision"] = program::storage_name(precision);
    std::vector<std::string> runs, lora, full, late;
    // What is asked most often first: on a slow processor time may run out.
    for (const PublishedShape& shape : kShapes) {
        HK_ASSIGN(const auto whole, compose_shape(registry, shape, false, input.globals.log()));
        HK_ASSIGN(const MemoryFit fits, largest_fit(available, [&](int64_t, int64_t context) {
                      return generation_bytes(*whole, target, precision, context);
                  }));
        outcome.result["models"][shape.name]["generates"] = {{"context", fits.context}, {"bytes", fits.bytes}};
        if (fits.context > 0) runs.push_back(fmt::format("{} ({} tokens)", shape.name, fits.context));
    }
    for (const Trained use : {Trained::lora, Trained::full})
        for (const PublishedShape& shape : kShapes) {
            if (seconds_since(begin) > input.seconds) {
                late.emplace_back(fmt::format("{} {}", shape.name, use == Trained::lora ? "LoRA" : "whole"));
                continue;
            }
            HK_ASSIGN(const auto model, compose_shape(registry, shape, use == Trained::lora, input.globals.log()));
            const auto bytes_of = [&](int64_t rows, int64_t context) {
                return training_bytes(*model, target, use, precision, rows, context);
            };
            MemoryFit fits{.bytes = use == Trained::full ? least_bytes(shape) : 0};
            if (fits.bytes <= available) { HK_ASSIGN(fits, largest_fit(available, bytes_of)); }
            HK_TRY(count_rows(available, bytes_of, fits));
            outcome.result["models"][shape.name][use == Trained::lora ? "trains_lora" : "trains_all"] = {
                {"context", fits.context}, {"rows_of_512", fits.rows}, {"bytes_of_one_row", fits.bytes}};
            if (fits.context > 0)
                (use == Trained::lora ? lora : full)
                    .push_back(fmt::format("{} ({} x {}, 1 x {})", shape.name, fits.rows, kRowsAt, fits.context));
        }
    const auto list = [](const std::vector<std::string>& names) {
        return names.empty() ? std::string("none") : fmt::format("{}", fmt::join(names, ", "));
    };
    outcome.text = fmt::format("of 1B to 14B, in {} free: generate {}; train with LoRA {}; train whole {}",
                               size_text(available), list(runs), list(lora), list(full));
    if (!late.empty()) outcome.text += fmt::format("; not planned for lack of time: {}", fmt::join(late, ", "));
    return outcome;
}

} // namespace hekla::app
