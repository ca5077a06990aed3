#include "plugin/host_graph.hpp"

#include "plugin/host_error.hpp"

#include <doctest/doctest.h>

using namespace hekla;

namespace {

hk_string text(std::string_view s) { return {s.data(), s.size()}; }

// Asks twice for a parameter of one name; what is said of the second time.
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

TEST_CASE("host graph: a parameter that is asked for twice is one, and both agree on its shape and flags") {
    CHECK(asked_twice(4, HK_INITIALIZE_CONSTANT, 0).empty());
    CHECK(asked_twice(4, HK_INITIALIZE_NORMAL, 0).empty()); // the first one counts
    CHECK(asked_twice(5, HK_INITIALIZE_CONSTANT, 0).find("when it was first asked for") != std::string::npos);
    CHECK(asked_twice(4, HK_INITIALIZE_CONSTANT, HK_PARAMETER_NO_DECAY).find("'w' has other flags") !=
          std::string::npos);
}
