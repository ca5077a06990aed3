// A decoder whose rows begin with an adapter's virtual tokens: it feeds them before the first token of a row.
#pragma once

#include "generate/decoder.hpp"

#include <memory>

namespace hekla::generate {

// Returns `inner` itself if count, the number of virtual tokens, is 0.
std::unique_ptr<Decoder> with_virtual_tokens(std::unique_ptr<Decoder> inner, int64_t count);

} // namespace hekla::generate
