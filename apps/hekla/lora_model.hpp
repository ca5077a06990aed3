// A LoRA adapter as matrices by module, and the folder that PEFT loads for such matrices.
#pragma once

#include "adapted_model.hpp"
#include "lora/low_rank.hpp"
#include "model/folder.hpp"

#include <string>
#include <vector>

namespace hekla::app {

struct LoraModule {
    std::string name;       // of the module: "transformer.h.0.attn.c_attn"
    bool embedding = false; // its matrices are named lora_embedding_A, lora_embedding_B
    lora::LowRank factors;
    double scale = 1.0; // of B A
};

// Returns the modules of a LoRA adapter, in the order of the model. Errors: another kind of adapter; unsupported types.
Result<std::vector<LoraModule>> lora_modules(const AdaptedModel& m);

// What is saved with the matrices.
struct LoraExtras {
    bool lora_only_biases = false;            // `whole` has the biases of all modules with matrices
    std::vector<std::string> modules_to_save; // names
    std::vector<model::TensorSource> whole;   // tensors of these, with PEFT's names
};

// Returns the contents of PEFT's folder. The matrices are stored in float32, with r = lora_alpha for each module:
// scales must be 1. body: the folder of the model; conv1d: the modules' weights are stored as [in, out].
model::ModelContents lora_contents(const std::vector<LoraModule>& modules, const std::filesystem::path& body,
                                   bool conv1d, LoraExtras extras = {});

} // namespace hekla::app
