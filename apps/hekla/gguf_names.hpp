// The names of a decoder's tensors in llama.cpp.
#pragma once

#include "gguf_tensors.hpp"

#include <span>

namespace hekla::app {

// What all decoders have, and what differs: places of norms, the forms of their gains, experts, convolutions.
enum class GgufNames { common, norms_before, norms_after, gemma, gemma_twice, layer_norms, glm4, gpt_oss, lfm2 };

std::span<const Mapping> mappings_of(GgufNames names);

} // namespace hekla::app
