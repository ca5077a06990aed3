#include "plugin/host/host_config.hpp"

#include "plugin/composition/part_config.hpp"
#include "plugin/host/host_error.hpp"

#include <doctest/doctest.h>

namespace host_config_test {

using namespace hekla;
using namespace hekla::plugin;

namespace {

hk_string text(std::string_view s) { return {s.data(), s.size()}; }

struct Writer {
    hk_config_writer writer;
    hk_error error;
    const hk_config_interface& api = *host_config_interface();

    int32_t array(std::string_view key, uint64_t count) { return api.set_array(&writer, text(key), count, &error); }
    int32_t integer(std::string_view key, int64_t value) { return api.set_integer(&writer, text(key), value, &error); }
    int32_t string(std::string_view key, std::string_view value) {
        return api.set_text(&writer, text(key), text(value), &error);
    }
};

} // namespace

TEST_CASE("arrays of a configuration are written element by element") {
    Writer w;
    CHECK(w.array("kinds", 2) == HK_OK);
    CHECK(w.string("kinds.1", "full") == HK_OK);
    CHECK(written_json(w.writer).status().message() == "'kinds.0' is an element of an array and was not written");
    CHECK(w.string("kinds.0", "sliding") == HK_OK);
    CHECK(written_json(w.writer).ok());
    CHECK(w.array("none", 0) == HK_OK);
    CHECK(w.array("deep.list", 2) == HK_OK);
    CHECK(w.integer("deep.list.0.size", 4) == HK_OK);
    CHECK(w.array("deep.list.1", 1) == HK_OK);
    CHECK(written_json(w.writer).status().message().find("'deep.list.1.0'") == 0);
    CHECK(w.integer("deep.list.1.0", 7) == HK_OK);
    CHECK(written_json(w.writer).ok());
    CHECK(written_json(w.writer).value().dump() == R"({"kinds":["sliding","full"],"none":[],"deep":{"list":[{"size":4},[7]]}})");
}

TEST_CASE("an index outside of an array is rejected") {
    Writer w;
    REQUIRE(w.array("a", 2) == HK_OK);
    for (const char* key : {"a.2", "a.x", "a.-1", "a.", "a.0x", "a.99999999999999999999"}) {
        CAPTURE(key);
        CHECK(w.integer(key, 1) == HK_INVALID_ARGUMENT);
        CHECK(w.error.message.find("is not an index of an array of 2") != std::string::npos);
    }
    CHECK(w.integer("a.0", 1) == HK_OK);
    CHECK(w.integer("a.0.b", 1) == HK_INVALID_ARGUMENT);
    CHECK(w.error.message.find("passes through a key that is not an object") != std::string::npos);
    CHECK(w.array("b", uint64_t{1} << 60) == HK_INVALID_ARGUMENT);
    CHECK(w.error.message.find("at most 1048576 are possible") != std::string::npos);
}

TEST_CASE("null is a value of its own, and marks its key as read") {
    hk_config config;
    config.values = {{"none", nullptr}, {"some", 1}, {"nested", {{"none", nullptr}}}};
    const hk_config_interface& api = *host_config_interface();
    CHECK(api.is_null(&config, text("none")) == 1);
    CHECK(api.has(&config, text("none")) == 0); // as for a missing key, which plugins of ABI 1.0 and 1.1 rely on
    CHECK(api.is_null(&config, text("some")) == 0);
    CHECK(api.is_null(&config, text("missing")) == 0);
    CHECK(api.is_null(&config, text("nested.none")) == 1);
    CHECK(api.is_null(&config, text("nested.missing")) == 0);
    CHECK(unread_keys(config).empty());
}

TEST_CASE("null keeps a parameter from its default only where the manifest has \"null\": true") {
    Provided provided;
    provided.defaults.text = R"({"window": 4096, "heads": 8})";
    const std::string_view nullable[] = {"window"};
    const nlohmann::json given = {{"window", nullptr}, {"heads", nullptr}, {"other", nullptr}};
    CHECK(with_defaults(provided, given).dump() == R"({"heads":8,"other":null,"window":4096})");
    provided.nullable = nullable;
    CHECK(with_defaults(provided, given).dump() == R"({"heads":8,"other":null,"window":null})");
    CHECK(with_defaults(provided, nlohmann::json::object()).dump() == R"({"heads":8,"window":4096})");
}

} // namespace host_config_test
