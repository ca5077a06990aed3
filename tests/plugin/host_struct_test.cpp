#include "plugin/host/host_struct.hpp"

#include "plugin/host/host_error.hpp"
#include "plugin/host/host_graph.hpp"

#include <array>
#include <cstring>
#include <doctest/doctest.h>
#include <vector>

namespace host_struct_test {

using namespace hekla;
using namespace hekla::plugin;

namespace {
hk_string letters(const char* s) { return {s, std::strlen(s)}; }
} // namespace

TEST_CASE("data structs are read up to their size, and arrays with the size of their first struct") {
    hk_column_need need{sizeof(hk_column_need), HK_COLUMN_CLASSES, letters("label"), HK_COLUMN_TARGET, 0};
    CHECK(struct_of(&need)->kind == HK_COLUMN_CLASSES);
    CHECK_FALSE(struct_of<hk_column_need>(nullptr));
    for (const uint32_t size : {0u, 8u, static_cast<uint32_t>(kFirstSize<hk_column_need>) - 8, 33u, 37u}) {
        need.struct_size = size;
        CHECK_FALSE(struct_of(&need));
    }
    // Longer structs of a later version, in an array.
    struct Longer {
        hk_attribute known;
        uint64_t later;
    };
    Longer many[3]{};
    for (int i = 0; i < 3; ++i) {
        many[i].known.struct_size = sizeof(Longer);
        many[i].known.integer = i;
        many[i].later = 77;
    }
    for (int i = 0; i < 3; ++i) CHECK(struct_at(&many[0].known, static_cast<std::size_t>(i))->integer == i);
    many[1].known.struct_size = sizeof(hk_attribute);
    CHECK_FALSE(struct_at(&many[0].known, 1)); // its size differs from the first one's
    CHECK(struct_at(&many[0].known, 2)->integer == 2);
}

TEST_CASE("structs for a plugin to fill in are filled up to their size") {
    hk_example full{sizeof(hk_example), 0, nullptr, 1, 2, 3};
    struct {
        hk_example example;
        uint64_t fence;
    } room{{}, 77};
    room.example.struct_size = sizeof(hk_example) + 8; // of a later version
    CHECK(fill_struct(&room.example, full));
    CHECK(room.example.document == 3);
    CHECK(room.example.struct_size == sizeof(hk_example) + 8);
    CHECK(room.fence == 77);
    room.example.struct_size = 8;
    CHECK_FALSE(fill_struct(&room.example, full));
}

TEST_CASE("attributes of a plugin with longer structs are read with its stride") {
    Joint joint;
    hk_builder view(joint, 1);
    const hk_graph_interface& g = *host_graph_interface();
    const int64_t dims[] = {2, 5};
    const hk_value x = g.fill(&view, HK_KIND_FLOAT, dims, 2, 1.0);
    struct Longer {
        hk_attribute known;
        uint64_t later;
    };
    std::array<Longer, 3> attributes{};
    const char* names[] = {"axis", "start", "length"};
    const int64_t values[] = {1, 1, 3};
    for (std::size_t i = 0; i < 3; ++i)
        attributes[i].known = {
            sizeof(Longer), HK_ATTRIBUTE_INT, letters(names[i]), values[i], 0, {}, nullptr, nullptr, 0};
    hk_value y = 0;
    CHECK(g.emit(&view, letters("slice"), 1, &x, 1, &attributes[0].known, 3, &y, 1) == HK_OK);
    int64_t out[HK_MAX_RANK];
    uint32_t rank = 0;
    CHECK(g.shape(&view, y, out, &rank) == HK_KIND_FLOAT);
    CHECK(rank == 2);
    CHECK(out[1] == 3);
}

TEST_CASE("reserved bits and members are rejected") {
    Joint joint;
    hk_builder view(joint, 1);
    const hk_graph_interface& g = *host_graph_interface();
    const int64_t dims[] = {2};
    CHECK(g.parameter(&view, letters("w"), dims, 1, HK_INITIALIZE_CONSTANT, 0, 0, 6) == 0);
    hk_error error;
    g.status(&view, &error);
    CHECK(error.message.find("flags 0x6") != std::string::npos);
}

} // namespace host_struct_test
