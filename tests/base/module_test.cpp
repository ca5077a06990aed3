#include "base/module.hpp"

#include <doctest/doctest.h>

using namespace hekla;

namespace {

struct Interface {
    uint32_t struct_size;
};

} // namespace

TEST_CASE("module: the error for a module that cannot be opened lists every path that was tried") {
    const ModuleName name{"libhekla_none.so", "hekla_none_interface", 1, "a module of none", "there is no module"};
    const auto absent = Module<Interface>::open(name);
    CHECK(absent.code() == Code::unsupported);
    CHECK(absent.message().starts_with("there is no module. Tried:\n  "));
    CHECK(absent.message().find("/lib/libhekla_none.so") != std::string::npos); // next to the program's folder
    const auto other = Module<Interface>::open(name, "libm.so.6");              // a library that is not a module
    CHECK(other.code() == Code::unsupported);
    CHECK(other.message() == "there is no module. Tried:\n  libm.so.6: is not a module of none of this version");
}
