// Tables find planted differences.
#include "drivers/tables.hpp"

#include <doctest/doctest.h>

namespace tables_test {

using namespace hekla::test;
using nlohmann::json;

namespace {

json report() {
    return json::parse(R"({"device": "A770", "driver": "ANV Mesa 25.0.7", "kernels": [
        {"kernel": "matmul/tiled.t128", "constants": [0, 1], "registers": 96, "spills": 0, "scratch_bytes": 0,
         "shared_bytes": 8704, "waves": null, "instructions": 1000, "loop_instructions": 200},
        {"kernel": "generated:abc", "constants": [], "registers": 12, "spills": 2}]})");
}

std::string table(const json& of, const char* compiler = "shaderc 2023.2") {
    return header_of(of, compiler) + lines_of(of);
}

} // namespace

TEST_CASE("tables: numbers that differ by more than 3 percent are found, with the kernel and both values") {
    const std::string stored = table(report());
    CHECK(differences(stored, stored).empty());
    json changed = report();
    changed["kernels"][0]["instructions"] = 1030;
    CHECK(differences(stored, table(changed)).empty());
    changed["kernels"][0]["instructions"] = 1040;
    const std::vector<std::string> found = differences(stored, table(changed));
    REQUIRE(found.size() == 1);
    CHECK(found[0] == "matmul/tiled.t128 [0,1]: instructions is 1040, and 1000 in the table (allowed: 3 percent)");
    changed = report();
    changed["kernels"][0]["loop_instructions"] = 150; // fewer, too: the table is to be written again
    CHECK(differences(stored, table(changed)).size() == 1);
    changed["kernels"][0]["loop_instructions"] = nullptr; // was read before
    CHECK(differences(stored, table(changed)).size() == 1);
    changed = report();
    changed["kernels"][0]["spills"] = 1;
    CHECK(differences(stored, table(changed)).size() == 1);
}

TEST_CASE("tables: numbers of another driver or shader compiler are not compared, kernels are") {
    json changed = report();
    changed["kernels"][0]["instructions"] = 2000;
    CHECK(differences(table(report()), table(changed, "shaderc 2024.1")).empty());
    changed["driver"] = "ANV Mesa 26.2.6";
    CHECK(differences(table(report()), table(changed)).empty());
    changed["kernels"][1]["constants"] = {7};
    CHECK(differences(table(report()), table(changed)) == std::vector<std::string>{"it lists other kernels"});
}

TEST_CASE("tables: spills are those of the same versions only") {
    const std::string header = header_of(report(), "shaderc 2023.2");
    const Spills spills{{"matmul/tiled.t128 [0,1]", 7}, {"generated []", 2}};
    CHECK(read_spills(text_of(spills, header), header) == spills);
    CHECK(read_spills(text_of(spills, header), header_of(report(), "shaderc 2024.1")).empty());
    CHECK(key_of(report()["kernels"][1]) == "generated []");
}

TEST_CASE("tables: what Mali's compiler prints, for kernels that lowering asked about first") {
    json numbers = report();
    numbers["kernels"][0]["driver"] = {{"Code Size", 2944.0}};
    numbers["kernels"][1]["driver"] = {{"Code Size", 6656.0}};
    const char* printed =
        "another line\n"
        "SHADER-DB: MESA_SHADER_COMPUTE shader: 400 inst, 21.0 cycles, 200 quadwords, 2 threads, 0 loops, 0:0 "
        "spills:fills\n"
        "SHADER-DB: MESA_SHADER_COMPUTE shader: 819 inst, 105.0 cycles, 416 quadwords, 1 threads, 7 loops, 15:72 "
        "spills:fills\n"
        "SHADER-DB: MESA_SHADER_COMPUTE shader: 357 inst, 21.0 cycles, 184 quadwords, 2 threads, 0 loops, 0:0 "
        "spills:fills\n";
    REQUIRE(add_mali_numbers(numbers, printed));
    CHECK(numbers["kernels"][0]["instructions"] == 357);
    CHECK(numbers["kernels"][0]["registers"] == 32);
    CHECK(numbers["kernels"][0]["spills"] == 0);
    CHECK(numbers["kernels"][1]["instructions"] == 819);
    CHECK(numbers["kernels"][1]["registers"] == 64);
    CHECK(numbers["kernels"][1]["spills"] == 15);
    CHECK(!add_mali_numbers(numbers, "nothing"));
}

} // namespace tables_test
