// Reading Vulkan's lists, whose length is queried by a first call.
#pragma once

#include "gpu/result.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace hekla::gpu {

// Returns the items that `call(uint32_t* count, T* items)` writes; it is called again if the list grew in between.
// empty: every item before the call, for structures with sType. Errors: as to_status, naming `what`.
template<class T, class Call>
Result<std::vector<T>> enumerate(const char* what, Call&& call, const T& empty = {}) {
    std::vector<T> items;
    VkResult result = VK_INCOMPLETE;
    while (result == VK_INCOMPLETE) {
        uint32_t count = 0;
        result = call(&count, static_cast<T*>(nullptr));
        if (result != VK_SUCCESS) break;
        items.assign(count, empty);
        result = call(&count, items.data());
        items.resize(std::min<std::size_t>(count, items.size()));
    }
    HK_TRY(to_status(result, what));
    return items;
}

} // namespace hekla::gpu
