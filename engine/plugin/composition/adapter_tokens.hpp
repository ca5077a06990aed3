// What adapters do with the tokens of a row: virtual tokens before it, and an invocation from which on they act.
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hekla::plugin {

struct AdapterSpec;

// The virtual tokens of adapters: see adapter.h.
struct VirtualTokens {
    int64_t count = 0;
    bool hidden = false;            // heads and objective do not see them
    bool without_positions = false; // the row's own tokens begin at position 0
};

// The tokens from whose last occurrence in a row on an adapter acts, and its field kAdapterStart.
struct Invocation {
    std::string field;
    std::vector<int32_t> tokens;
};
// Returns the adapter's kInvocationTokens; without tokens if it acts everywhere. Errors: they are not a list of ids.
Result<Invocation> invocation_of(const AdapterSpec& adapter);
// Returns the place of the first token of the last occurrence in the row; -1: there is none.
int64_t last_invocation(std::span<const int32_t> row, std::span<const int32_t> tokens);
// The value of kAdapterStart of rows without an occurrence.
inline constexpr int32_t kNeverStarts = 0x7fffffff;

} // namespace hekla::plugin
