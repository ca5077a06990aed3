#include "program/lowering/chain_text.hpp"

#include <doctest/doctest.h>

namespace chain_text_test {

using namespace hekla::program;

// Where they are compared inside a loop, drivers keep the comparisons as variables and do not join loads of neighbors:
// tokens take up to 15 times as long.
TEST_CASE("chain: lanes are compared once, before all loops") {
    Dispatch product;
    product.shader = "matmul/uniform.t1x6";
    product.constants.resize(10);
    const Dispatch* const kernels[] = {&product};
    const ChainLoop loops[] = {{.steps = {{}}}};
    const std::string text = chain_text(kernels, loops, 8, true);

    const std::size_t main = text.find("void main() {");
    REQUIRE(main != std::string::npos);
    const std::size_t compared = text.find("compare_lanes();", main);
    CHECK(compared < text.find("do {", main));
    CHECK(text.find("compare_lanes();", compared + 1) == std::string::npos);
    // A kernel begins with HEKLA_BEGIN, which is empty by then.
    const std::size_t empty = text.find("#define HEKLA_BEGIN\n", text.find("#define HEKLA_BEGIN compare_lanes();"));
    CHECK(empty < text.find("HEKLA_GROUP(group, r)"));
}

} // namespace chain_text_test
