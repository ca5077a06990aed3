#include "plugin/host/host_graph.hpp"

#include "graph/operations/buffer_update.hpp"
#include "graph/passes/taps.hpp"
#include "plugin/host/host_error.hpp"

#include <doctest/doctest.h>
#include <functional>
#include <limits>

namespace host_graph_test {

using namespace hekla;

namespace {

hk_string text(std::string_view s) { return {s.data(), s.size()}; }

// Requests a parameter of the same name twice, and returns the second call's error.
std::string asked_twice(int64_t size, int32_t initializer, uint32_t flags) {
    plugin::Joint joint;
    hk_builder view(joint, 1);
    const hk_graph_interface& graph = *plugin::host_graph_interface();
    const int64_t first[] = {4}, second[] = {size};
    const hk_value one = graph.parameter(&view, text("w"), first, 1, HK_INITIALIZE_CONSTANT, 0, 0, 0);
    const hk_value two = graph.parameter(&view, text("w"), second, 1, initializer, 0, 0, flags);
    CHECK(one != 0);
    hk_error error;
    CHECK((graph.status(&view, &error) == HK_OK) == (two != 0));
    return error.message;
}

} // namespace

TEST_CASE("host graph: a parameter requested twice is the same one, and shape and flags must match") {
    CHECK(asked_twice(4, HK_INITIALIZE_CONSTANT, 0).empty());
    CHECK(asked_twice(4, HK_INITIALIZE_NORMAL, 0).empty()); // the first initializer is used
    CHECK(asked_twice(5, HK_INITIALIZE_CONSTANT, 0).find("when it was first asked for") != std::string::npos);
    CHECK(asked_twice(4, HK_INITIALIZE_CONSTANT, HK_PARAMETER_NO_DECAY).find("'w' has other flags") !=
          std::string::npos);
}

TEST_CASE("host graph: a buffer is updated in mode train alone") {
    const hk_graph_interface& g = *plugin::host_graph_interface();
    for (const int32_t mode : {HK_MODE_TRAIN, HK_MODE_EVALUATE, HK_MODE_DECODE}) {
        plugin::Joint joint;
        joint.mode = mode;
        hk_builder view(joint, 1);
        const int64_t dims[] = {2};
        const double values[] = {1.0, 2.0};
        const hk_value inputs[] = {g.buffer(&view, text("mean"), HK_KIND_FLOAT, dims, 1, values),
                                   g.fill(&view, HK_KIND_FLOAT, dims, 1, 3.0)};
        hk_value y = 0;
        CHECK(g.emit(&view, text("buffer_update"), 1, inputs, 2, nullptr, 0, &y, 1) == HK_OK);
        CHECK(y != 0);
        CHECK(graph::buffer_updates(joint.builder.graph()).size() == (mode == HK_MODE_TRAIN ? 1 : 0));
        const hk_value wrong[] = {inputs[0], g.fill(&view, HK_KIND_FLOAT, dims, 0, 3.0)};
        CHECK(g.emit(&view, text("buffer_update"), 1, wrong, 2, nullptr, 0, &y, 1) != HK_OK);
    }
}

TEST_CASE("host graph: what a newer revision of an operation has is refused in an older one") {
    const hk_graph_interface& g = *plugin::host_graph_interface();
    const auto emitted = [&](uint32_t revision, bool with_sinks, bool with_cap) {
        plugin::Joint joint;
        hk_builder view(joint, 1);
        const int64_t dims[] = {1, 2, 3, 4}, heads[] = {2};
        hk_value inputs[19] = {};
        for (hk_value* input : {inputs, inputs + 1, inputs + 2}) *input = g.fill(&view, HK_KIND_FLOAT, dims, 4, 0.5);
        inputs[18] = g.fill(&view, HK_KIND_FLOAT, heads, 1, 1.0);
        hk_attribute cap{};
        cap.struct_size = sizeof cap;
        cap.name = text("softcap");
        cap.type = HK_ATTRIBUTE_REAL;
        cap.real = 2.0;
        hk_value y = 0;
        g.emit(&view, text("attention"), revision, inputs, with_sinks ? 19 : 18, &cap, with_cap ? 1 : 0, &y, 1);
        hk_error error;
        CHECK((g.status(&view, &error) == HK_OK) == (y != 0));
        return error.message;
    };
    CHECK(emitted(1, false, false).empty());
    CHECK(emitted(2, true, true).empty());
    CHECK(emitted(1, true, false) == "attention: input sinks needs revision 2, 1 was asked for");
    CHECK(emitted(1, false, true) == "attention: attribute softcap needs revision 2, 1 was asked for");
    CHECK(emitted(3, false, false).find("this host has 1 to 2") != std::string::npos);
}

TEST_CASE("host graph: positions are counted by the length, by the cache, and with virtual tokens") {
    const hk_graph_interface& g = *plugin::host_graph_interface();
    const auto count = [&](int32_t mode, int64_t capacity, int64_t shift, int64_t length) {
        plugin::Joint joint;
        joint.mode = mode;
        joint.cache_capacity = capacity;
        joint.position_shift = shift;
        hk_builder view(joint, 1);
        return g.position_count(&view, length);
    };
    constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();
    CHECK(count(HK_MODE_TRAIN, 0, 0, 7) == 7);
    CHECK(count(HK_MODE_EVALUATE, 64, 0, 7) == 7);
    CHECK(count(HK_MODE_EVALUATE, 0, 3, 7) == 10);
    CHECK(count(HK_MODE_EVALUATE, 0, -3, 7) == 4);
    CHECK(count(HK_MODE_EVALUATE, 0, -9, 7) == 1); // positions are 0 at least
    CHECK(count(HK_MODE_DECODE, 64, 0, 7) == 64);
    CHECK(count(HK_MODE_DECODE, 64, 3, 7) == 67);
    CHECK(count(HK_MODE_DECODE, 64, -3, 7) == 61);
    CHECK(count(HK_MODE_DECODE, 0, 0, 7) == kUnknown);
    CHECK(count(HK_MODE_DECODE, kUnknown, 3, 7) == kUnknown);
    plugin::Joint joint;
    hk_builder view(joint, 1);
    CHECK(g.position_count(&view, -1) == 0);
    CHECK(joint.builder.status().message() == "position_count: the length -1 is below 0");
}

TEST_CASE("host graph: the taps of a part have its prefix, and a name is used once") {
    const hk_graph_interface& g = *plugin::host_graph_interface();
    plugin::Joint joint;
    hk_builder view(joint, 1);
    const auto tapped = [&](std::string_view name) {
        hk_attribute attribute{};
        attribute.struct_size = sizeof attribute;
        attribute.type = HK_ATTRIBUTE_TEXT;
        attribute.name = text("name");
        attribute.text = text(name);
        const hk_value x = g.iota(&view, 3, 0, 1);
        hk_value y = 0;
        g.emit(&view, text("tap"), 1, &x, 1, &attribute, 1, &y, 1);
        return y;
    };
    CHECK(tapped("hidden") != 0);
    joint.prefix = "teacher.";
    CHECK(tapped("hidden") != 0);
    joint.prefix.clear();
    CHECK(graph::tap_names(joint.builder.graph()) == std::vector<std::string>{"hidden", "teacher.hidden"});
    CHECK(tapped("hidden") == 0);
    hk_error error;
    g.status(&view, &error);
    CHECK(error.message.find("tap: the name 'hidden' is used twice; expected another one for every value") !=
          std::string::npos);
}

TEST_CASE("host graph: invalid calls are rejected with a message, and the first error is kept") {
    const hk_graph_interface& g = *plugin::host_graph_interface();
    const auto refusal = [&](const std::function<void(hk_builder*)>& f) {
        plugin::Joint joint;
        hk_builder view(joint, 1);
        f(&view);
        hk_error error;
        CHECK(g.status(&view, &error) != HK_OK);
        // All later calls do nothing, and the reason is kept.
        CHECK(g.iota(&view, 3, 0, 1) == 0);
        CHECK(g.has_port(&view, text("hidden")) == 0);
        hk_error again;
        g.fail(&view, HK_UNSUPPORTED, text("another"));
        g.status(&view, &again);
        CHECK(again.message == error.message);
        return error.message;
    };
    const auto has = [](const std::string& message, const char* part) {
        CAPTURE(message);
        CHECK(message.find(part) != std::string::npos);
    };
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const int64_t two[] = {2}, negative[] = {3, -1}, huge[] = {int64_t{1} << 40, int64_t{1} << 40};
    const int64_t seven[] = {1, 1, 1, 1, 1, 1, 1};
    const double values[] = {1, nan};
    // [graph.4]
    has(refusal([&](hk_builder* b) { g.fill(b, HK_KIND_FLOAT, negative, 2, 0); }), "dimension 1 is -1");
    has(refusal([&](hk_builder* b) { g.fill(b, HK_KIND_FLOAT, huge, 2, 0); }), "2^46");
    has(refusal([&](hk_builder* b) { g.fill(b, HK_KIND_FLOAT, seven, 7, 0); }), "at most 6");
    has(refusal([&](hk_builder* b) { g.fill(b, 9, two, 1, 0); }), "kind 9");
    // [graph.5]
    has(refusal([&](hk_builder* b) { g.parameter(b, text(""), two, 1, 0, 0, 0, 0); }),
        "the name is empty or not UTF-8");
    has(refusal([&](hk_builder* b) { g.step_scalar(b, text("\xff"), 0); }), "the name is empty or not UTF-8");
    has(refusal([&](hk_builder* b) { g.parameter(b, text("value.w"), two, 1, 0, 0, 0, 0); }),
        "parameter 'value.w': names that begin with 'value.' are those of another network");
    has(refusal([&](hk_builder* b) { g.buffer(b, text("teacher.w"), HK_KIND_FLOAT, two, 1, values); }),
        "buffer 'teacher.w': names that begin with 'teacher.'");
    // [graph.6]
    has(refusal([&](hk_builder* b) { g.parameter(b, text("w"), two, 1, 0, nan, 0, 0); }), "not finite");
    has(refusal([&](hk_builder* b) { g.constant(b, HK_KIND_FLOAT, two, 1, values); }), "NaN");
    has(refusal([&](hk_builder* b) { g.buffer(b, text("w"), HK_KIND_FLOAT, two, 1, values); }), "NaN");
    // [graph.2]
    has(refusal([&](hk_builder* b) { g.fail(b, HK_UNSUPPORTED, text("the author's own")); }), "the author's own");
    // [graph.9]
    has(refusal([&](hk_builder* b) {
            for (int i = 0; i <= 1 << 18; ++i)
                if (g.iota(b, 1, i, 1) == 0) break;
        }),
        "more than 262144 values");
}

} // namespace host_graph_test
