#include "api/boundary.hpp"

#include "plugin/host/host_error.hpp"

#include <cstring>

namespace hekla::api {

std::vector<std::string> texts(const hk_string* strings, uint64_t count) {
    std::vector<std::string> result;
    for (uint64_t i = 0; i < count && strings != nullptr; ++i) result.push_back(string_of(strings[i]));
    return result;
}

int32_t refuse(hk_error* error, int32_t code, std::string_view message) noexcept {
    plugin::host_error_interface()->set(error, code, view(message));
    return code;
}

Status check_size(const void* given, std::size_t size, std::size_t alignment, bool input, const char* type) {
    if (given == nullptr) return invalid_argument(fmt::format("{} is null", type));
    constexpr uint32_t kPage = 4096;
    uint32_t struct_size = 0; // the first member of every struct
    std::memcpy(&struct_size, given, sizeof struct_size);
    if (struct_size < size || struct_size > kPage || struct_size % alignment != 0)
        return invalid_argument(
            fmt::format("{}.struct_size is {}, expected {}: set it to sizeof({})", type, struct_size, size, type));
    if (!input) return {};
    const auto* bytes = static_cast<const unsigned char*>(given);
    if (std::any_of(bytes + size, bytes + struct_size, [](unsigned char byte) { return byte != 0; }))
        return invalid_argument(
            fmt::format("{}.struct_size is {}, but this libhekla knows {} bytes of it and the others "
                        "are not zero: link the version that the header belongs to",
                        type, struct_size, size));
    return {};
}

} // namespace hekla::api

using hekla::api::view;

extern "C" {

hk_error* hk_error_create(void) { return new (std::nothrow) hk_error(); }
void hk_error_destroy(hk_error* error) { delete error; }
int32_t hk_error_code(const hk_error* error) { return error != nullptr ? error->code : HK_OK; }
hk_string hk_error_message(const hk_error* error) { return error != nullptr ? view(error->message) : hk_string{"", 0}; }

} // extern "C"
