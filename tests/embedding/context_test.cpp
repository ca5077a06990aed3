// hekla.h: invalid options are rejected with a message, before a device is created.
#include "hekla/hekla.h"

#include <doctest/doctest.h>
#include <limits>
#include <string>

namespace context_test {

namespace {

// Returns the error for a context with these options.
std::string creation_error(const hk_context_options& options) {
    hk_error* error = hk_error_create();
    hk_context context{};
    CHECK(hk_context_create(&options, &context, error) == HK_INVALID_ARGUMENT);
    CHECK(context.id == 0);
    const hk_string message = hk_error_message(error);
    std::string text(message.data, message.size);
    hk_error_destroy(error);
    return text;
}

hk_context_options plain() {
    hk_context_options options{};
    options.struct_size = sizeof options;
    return options;
}

} // namespace

TEST_CASE("context: plugin description modes and timeouts are validated") {
    hk_context_options options = plain();
    options.describe = 7;
    CHECK(creation_error(options) == "hk_context_options.describe is 7, expected 0 to 2");
    options = plain();
    options.describe = HK_DESCRIBE_AUTOMATIC - 1;
    CHECK(creation_error(options) == "hk_context_options.describe is -1, expected 0 to 2");
    options = plain();
    options.describe_seconds = -1;
    CHECK(creation_error(options) == "hk_context_options.describe_seconds is -1, expected 0 to 1000000");
    options.describe_seconds = std::numeric_limits<double>::quiet_NaN();
    CHECK(creation_error(options) == "hk_context_options.describe_seconds is nan, expected 0 to 1000000");
    options = plain();
    options.struct_size = 8;
    CHECK(creation_error(options).find("hk_context_options.struct_size is 8, expected ") == 0);
}

} // namespace context_test
