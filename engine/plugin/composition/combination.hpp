// How several adapters of one body act together: an expression of their names, such as "stack(language, fusion(a, b))".
#pragma once

#include "base/status.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::plugin {

// The combination that the host does itself: each part sees what the one before it has made of the site's result.
inline constexpr std::string_view kStack = "stack";

struct Combination {
    std::string combiner;           // kStack, or the id of a combiner's plugin; "" for an adapter
    std::size_t adapter = 0;        // number of the adapter, without a combiner
    std::string text;               // as it was written, without spaces
    std::string place;              // "combine", and in it "combine.1" for its second part: unique
    std::vector<Combination> parts; // of a combiner, one or more

    bool is_adapter() const { return combiner.empty(); }
    // The ids of all combiners but stack, each once, in order.
    std::vector<std::string> combiners() const;
};

// names: of the adapters; each is used exactly once. "fuse" is another name of "fusion". Errors: what is wrong and at
// which character.
Result<Combination> parse_combination(std::string_view text, std::span<const std::string> names);

// An adapter's name: letters, digits, '_' and '-', but not "combine", under which combiners have their parameters.
Status check_adapter_name(std::string_view name);

} // namespace hekla::plugin
