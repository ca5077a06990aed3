// The models of `hekla bench` and `hekla doctor --kernels --case`: GPT-2 in four sizes, and LoRA on Llamas.
#pragma once

#include "base/log.hpp"
#include "generate/decoder.hpp"
#include "plugin/composition/compose.hpp"
#include "program/lowering/compile_options.hpp"
#include "train/recipe/recipe.hpp"

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace hekla::app {

// A step is `batch` rows of `context` tokens.
struct BenchCase {
    const char* name;
    int64_t vocabulary, layers, width, heads, context, batch;
    // A Llama, frozen, with LoRA of rank 8 on its seven projections; key_value_heads 0: a GPT-2 that is trained whole.
    int64_t key_value_heads = 0, inner = 0;
    bool tied = false; // the head is the embedding
    int64_t slots = 0; // LoRA: adapters in one batch, of which row i has number i modulo slots; 0: one adapter

    bool lora() const { return key_value_heads > 0; }
};
std::vector<std::string> bench_case_names();
const BenchCase* find_bench_case(const std::string& name); // null if it does not exist

// Returns the model of a case with the objective clm and without dropout. recompute_blocks: blocks' activations are
// computed again for the gradients. adapters: false: a case with LoRA has none.
Result<std::unique_ptr<plugin::Composition>> compose_case(const plugin::Registry& registry, const BenchCase& c,
                                                          const Log& log, bool recompute_blocks = false,
                                                          bool adapters = true);
// Returns the names of the parameters that a case does not train.
std::set<std::string, std::less<>> frozen_of(const BenchCase& c, const graph::Graph& described);
// Returns the fields by which `rows` rows choose their adapter and its scale: row i has number i modulo slots, with
// `mixed` false all have number 0. Empty without slots.
generate::Fields slot_fields(const BenchCase& c, int64_t rows, bool mixed = true);
// AdamW with clipping at 1.
train::TrainSection case_settings();
// `f16`, `bf16`; anything else is f32.
program::Storage storage_named(const std::string& type);

} // namespace hekla::app
