// Checks of the structs that a host fills in, when a call gets them. Each error contains the struct, the member, the
// value, and what was expected.
#pragma once

#include "base/status.hpp"
#include "hekla/capture.h"
#include "hekla/device.h"
#include "hekla/hekla.h"
#include "hekla/model.h"
#include "hekla/plan.h"
#include "hekla/session.h"

#include <fmt/format.h>

namespace hekla::api {

// Check a struct that the host fills in, with everything it points to. Null is an error.
Status check(const hk_cache* cache);
Status check(const hk_allocator* allocator);
Status check(const hk_context_options* options);
Status check(const hk_context_callbacks* callbacks);
Status check(const hk_physical_device* physical);
Status check(const hk_vulkan_device* device);
Status check(const hk_memory_range* range);
Status check(const hk_train_options* options);
Status check(const hk_communicator* communicator);
Status check(const hk_evaluate_options* options);
Status check(const hk_predict_options* options);
Status check(const hk_generate_options* options);
Status check(const hk_embed_options* options);
Status check(const hk_plan_options* options);
Status check(const hk_device_limits* limits);
Status check(const hk_session_options* options);
Status check(const hk_forward_options* options);
Status check(const hk_buffer* buffer);
Status check(const hk_session_callbacks* callbacks);
Status check(const hk_advance* advance);

// Check arguments that are not part of a struct.
Status check_text(const char* name, hk_string text);
Status check_texts(const char* name, const hk_string* texts, const char* count_name, uint64_t count);
// Checks token ids: 0 to vocabulary - 1, or 0 and above if `vocabulary` is 0. name(i) is the name of id i in messages.
template<class Name>
Status check_ids(const int32_t* ids, uint64_t count, int64_t vocabulary, const Name& name) {
    for (uint64_t i = 0; i < count; ++i) {
        if (ids[i] >= 0 && (vocabulary == 0 || ids[i] < vocabulary)) continue;
        const std::string expected = vocabulary == 0 ? "0 or more" : fmt::format("0 to {}", vocabulary - 1);
        return invalid_argument(
            fmt::format("{} is {}, expected a token id of the model, {}", name(i), ids[i], expected));
    }
    return {};
}

} // namespace hekla::api
