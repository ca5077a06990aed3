// Several LoRA adapters as the slots of one (the plugin lora with `slots`), so that each row of a batch computes only
// its own: matrices of one size, in which a smaller rank, and a module that an adapter leaves out, are zeros.
#pragma once

#include "infer/open/tensors.hpp"

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

namespace hekla::plugin {
struct AdapterSpec;
struct ModelTensor;
} // namespace hekla::plugin

namespace hekla::infer {

struct StoredAdapter;

// Returns lora_alpha / r, or lora_alpha / sqrt(r) with use_rslora, for a module, by the adapter's alpha_pattern.
// Error: the pattern is not a regular expression.
Result<double> lora_scale(const nlohmann::json& adapter_config, const std::string& module, int64_t rank);

// What one adapter adds at a module: (x A^T) B^T, with its scale in B.
struct SlotMatrices {
    int64_t rank = 0, in = 0, out = 0;
    std::vector<float> a, b; // [rank, in], [out, rank]
};
struct SlotContent {
    std::string path;                            // of its folder: for messages
    std::string weights;                         // StoredAdapter::weights
    std::map<std::string, SlotMatrices> modules; // by name
    int64_t rank() const;                        // the largest
};

// Returns why an adapter cannot be in a slot; empty if it can.
std::string not_in_a_slot(const StoredAdapter& adapter);
// Errors: it cannot; matrices that are damaged or not finite.
Result<SlotContent> slot_content(const StoredAdapter& adapter);

inline constexpr const char* kAllLinear = "all-linear";
inline constexpr int64_t kSlotRank = 16; // of slots without contents

// Slots that are there whatever is in them first.
struct SlotOptions {
    int64_t count = 0;   // 0: as many as contents
    int64_t rank = 0;    // 0: the largest of the contents'; without any kSlotRank
    std::string targets; // ends of modules' names with commas between, or kAllLinear; "": the contents' modules;
                         // without any kAllLinear
};
// Error: more adapters than slots.
Status check_slot_count(std::size_t adapters, int64_t slots);
// The adapter that has the slots. Errors: more contents than slots.
Result<plugin::AdapterSpec> slots_spec(std::span<const SlotContent> contents, const SlotOptions& options);

// Returns the fields by which rows choose slots, of rows that use none.
Tensors slot_fields(int64_t rows);

// Returns the values of a parameter of the slots, [slots, r, in] or [slots, r, out]. Errors: an adapter whose matrices
// are of another size, or whose rank is larger.
Result<std::vector<float>> slots_values(const plugin::ModelTensor& parameter, std::span<const SlotContent> contents);
// Error: a model has no parameters of slots, since no linear layer is among the targets. folder: of the body.
Status check_slots_exist(const std::string& folder, std::size_t parameters);
// The values of one slot of it. null: zeros.
Result<std::vector<float>> slot_values(const plugin::ModelTensor& parameter, const SlotContent* content);
// Errors: it was trained with another body (weights, "": not compared); a module that is not among `parameters`, those
// of the slots, with the nearest name. folder: of the body, for messages.
Status check_slot(const SlotContent& content, const std::string& weights, const std::string& folder,
                  std::span<const plugin::ModelTensor> parameters);

} // namespace hekla::infer
