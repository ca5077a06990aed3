// Checks of what a host gives to a call. Each error contains the argument or member, the value, and what was expected.
#pragma once

#include "api/checks.hpp"

#include <fmt/format.h>

namespace hekla::api {

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
