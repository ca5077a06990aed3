#include "plugin/host/joint.hpp"

#include <atomic>
#include <fmt/format.h>

namespace hekla::plugin {
namespace {

using graph::kNone;
using graph::ValueId;

constexpr uint32_t kNumberBits = 20; // a handle is tag << 20 | number: a million values a view, 4,095 views
constexpr uint32_t kNumberMask = (1u << kNumberBits) - 1;
// A model of a thousand blocks has some 50,000; a configuration that means more than this is a mistake that should not
// take all of the memory before it is told.
constexpr std::size_t kMostValues = 1u << 18;

hk_value refuse(hk_builder* b, Status status) {
    b->joint.builder.fail(std::move(status));
    return 0;
}

} // namespace

uint32_t next_tag() {
    static std::atomic<uint32_t> counter{0};
    return counter.fetch_add(1, std::memory_order_relaxed) % 4095 + 1;
}

hk_value handle_of(hk_builder* b, ValueId value) {
    if (value == kNone) return 0;
    if (b->values.size() >= kMostValues)
        return refuse(b, unsupported(fmt::format("one plugin described more than {} values", kMostValues)));
    b->values.push_back(value);
    return b->tag << kNumberBits | static_cast<uint32_t>(b->values.size() - 1);
}

// The value of a handle; kNone with an error for one that is not this view's.
ValueId value_of(hk_builder* b, hk_value handle, const char* what) {
    if (handle == 0) return kNone;
    if (handle >> kNumberBits != b->tag || (handle & kNumberMask) >= b->values.size()) {
        refuse(b, invalid_argument(
                      fmt::format("{}: a value of another graph was passed (values die with their build call)", what)));
        return kNone;
    }
    return b->values[handle & kNumberMask];
}

} // namespace hekla::plugin
