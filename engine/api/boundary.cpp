#include "api/boundary.hpp"

#include "plugin/host_error.hpp"

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

} // namespace hekla::api

using hekla::api::view;

extern "C" {

hk_error* hk_error_create(void) { return new (std::nothrow) hk_error(); }
void hk_error_destroy(hk_error* error) { delete error; }
int32_t hk_error_code(const hk_error* error) { return error != nullptr ? error->code : HK_OK; }
hk_string hk_error_message(const hk_error* error) { return error != nullptr ? view(error->message) : hk_string{"", 0}; }

} // extern "C"
