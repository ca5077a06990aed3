// The decoder on the float64 interpreter: slow; the reference for the device's decoder.
#pragma once

#include "generate/decoder_graph.hpp"

#include <memory>

namespace hekla::generate {

// `composition` and `weights` (parameters and buffers by name) must outlive it.
Result<std::unique_ptr<Decoder>>
make_reference_decoder(const plugin::Composition& composition,
                       const std::map<std::string, graph::Tensor, std::less<>>& weights);

} // namespace hekla::generate
