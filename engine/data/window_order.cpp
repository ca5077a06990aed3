#include "data/window_order.hpp"

#include "base/hash.hpp"
#include "base/philox.hpp"
#include "data/permutation.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::data {

Result<WindowOrder> WindowOrder::create(const WindowOrderOptions& options) {
    if (options.window == 0) return invalid_argument("a window of 0 tokens; at least 1 was expected");
    if (options.tokens < options.window)
        return invalid_argument(
            fmt::format("{} is shorter than one example: {} tokens, and a window is {}; give more text, or "
                        "make the context {} shorter",
                        options.name, options.tokens, options.window, options.window - options.tokens));
    WindowOrder order;
    order.options_ = options;
    if (options.stride == 0) order.options_.stride = std::max<uint64_t>(options.window - 1, 1);
    order.windows_ = (options.tokens - options.window) / order.options_.stride + 1;
    return order;
}

Position WindowOrder::at(uint64_t number) const {
    Position position;
    position.number = number;
    position.epoch = number / windows_;
    const uint64_t index = number % windows_;
    // Distinct keys, so that no other user of the seed draws the same numbers.
    switch (options_.order) {
    case Order::random:
        position.begin = RandomStream(hash64("data.sampler.random", options_.seed), number)
                             .next_below(options_.tokens - options_.window + 1);
        break;
    case Order::shuffle: {
        const uint64_t key = RandomStream(hash64("data.sampler.shuffle", options_.seed), position.epoch).next_u64();
        position.begin = Permutation(windows_, key)(index) * options_.stride;
        break;
    }
    case Order::sequential: position.begin = index * options_.stride; break;
    }
    return position;
}

} // namespace hekla::data
