// An error that ends the program, or a panel's work, with a message; thrown, and caught where it can be displayed.
#pragma once

#include <stdexcept>
#include <string>
#include <vulkan/vulkan.h>

namespace observatory {

class Failure : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

// Throws a Failure that names the call and the code.
inline void require(VkResult result, const char* call) {
    if (result < 0) throw Failure(std::string(call) + " failed: VkResult " + std::to_string(result));
}

} // namespace observatory
