// The rules find planted faults.
#include "drivers/assembly.hpp"
#include "drivers/rules.hpp"

#include <doctest/doctest.h>

using namespace hekla::test;
using nlohmann::json;

namespace {

json good() {
    return json::parse(R"({"kernel": "matmul/tiled.t128", "constants": [0, 1, 7, 0], "registers": 96, "spills": 0,
                           "scratch_bytes": 0, "shared_bytes": 8704, "waves": 16, "instructions": 400})");
}

// A loop of 16 multiply-adds with one more instruction in it.
std::string loop_with(const std::string& instruction) {
    std::string text = "BB0:\n\tv_mov_b32_e32 v0, 0 ; 7e000280\nBB1:\n";
    for (int i = 0; i < 8; ++i) text += "\tv_dual_fmac_f32 v1, v2, v3 :: v_dual_fmac_f32 v4, v5, v6 ; c9\n";
    return text + "\t" + instruction + " ; 0\n\ts_cbranch_scc1 BB1 ; bf85\nBB2:\n\ts_endpgm ; bf81\n";
}

bool is_broken(const json& kernel, const std::string& assembly = {}, const char* driver = "radv Mesa") {
    return !broken_rules(kernel, driver, Kernels::training, assembly).empty();
}

} // namespace

TEST_CASE("a kernel without faults breaks no rule") {
    CHECK(!is_broken(good()));
    CHECK(!is_broken(good(), loop_with("ds_load_b128 v[8:11], v12")));
    CHECK(!is_broken(good(), loop_with("global_load_b128 v[8:11], v12, s[0:1]")));
}

TEST_CASE("spills, scratch memory and few waves are found") {
    for (const char* key : {"spills", "scratch_bytes"}) {
        json kernel = good();
        kernel[key] = 4;
        CHECK(is_broken(kernel));
    }
    json few = good();
    few["waves"] = 4;
    CHECK(is_broken(few));
    CHECK(broken_rules(few, "radv Mesa", Kernels::token, "").empty()); // of a generated token
    few["waves"] = 6;
    CHECK(is_broken(few, {}, "radv Mesa 25.0.7"));
    few["kernel"] = "matmul/matrix.t128_f16";
    CHECK(!is_broken(few, {}, "radv Mesa 25.0.7"));
    CHECK(is_broken(few, {}, "radv Mesa 26.2.6"));
    few["waves"] = nullptr; // not reported
    CHECK(!is_broken(few));
    json refused = good();
    refused["error"] = "vkCreateComputePipelines: VK_ERROR_UNKNOWN";
    CHECK(is_broken(refused));
}

TEST_CASE("narrow loads, exchanges between lanes and spilled registers are found in inner loops") {
    CHECK(is_broken(good(), loop_with("global_load_b32 v8, v9, s[0:1]")));
    CHECK(is_broken(good(), loop_with("global_load_u16 v8, v9, s[0:1]")));
    CHECK(is_broken(good(), loop_with("v_readlane_b32 s0, v1, 3")));
    CHECK(is_broken(good(), loop_with("scratch_load_b32 v8, off, off")));
    json odd = good(); // the rows of A have an odd length
    odd["constants"] = {0, 1, 6, 0};
    CHECK(!is_broken(odd, loop_with("global_load_b32 v8, v9, s[0:1]")));
    json row = good(); // a kernel that does not multiply may load floats
    row["kernel"] = "norm/forward";
    CHECK(!is_broken(row, loop_with("global_load_b32 v8, v9, s[0:1]")));
}

TEST_CASE("a matrix kernel without matrix instructions is found") {
    json kernel = good();
    kernel["kernel"] = "matmul/matrix.t128";
    CHECK(is_broken(kernel, loop_with("s_nop 0")));
    CHECK(!is_broken(kernel, loop_with("v_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]")));
}

TEST_CASE("attention by matrix units may exchange fewer values between lanes than it multiplies matrices") {
    const std::string wmma = "v_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7] ; 0\n\t";
    const std::string exchange = "v_readlane_b32 s0, v1, 3";
    json kernel = good();
    kernel["kernel"] = "attention/matrix_forward.f16";
    CHECK(!is_broken(kernel, loop_with(wmma + exchange)));
    CHECK(is_broken(kernel, loop_with(wmma + exchange + " ; 0\n\t" + exchange)));
    kernel["kernel"] = "matmul/matrix.t128_f16";
    CHECK(is_broken(kernel, loop_with(wmma + exchange)));
}

TEST_CASE("the innermost loop is counted, not the one around it") {
    const std::string text = "BB0:\n\tv_readlane_b32 s0, v1, 3 ; 0\nBB1:\n\tv_fmac_f32_e32 v1, v2, v3 ; 0\n"
                             "\ts_cbranch_vccnz BB1 ; 0\nBB2:\n\ts_cbranch_scc0 BB0 ; 0\n";
    const std::vector<LoopCounts> loops = innermost_loops(text);
    REQUIRE(loops.size() == 1);
    CHECK(loops[0].first_block == "BB1");
    CHECK(loops[0].instructions == 2);
    CHECK(loops[0].multiply_adds == 1);
    CHECK(loops[0].cross_lane == 0);
}

TEST_CASE("loops of NVIDIA assembly are counted") {
    const std::string text = R"(block.u 0 L2 [] -> {
  r0 = mov ur2   // delay=4
} -> [1]
block.u 1 L4 [0, 1] -> {
  r1 = ffma r2 r3 r1 // delay=1
  r4 = shfl.idx r5 0x1 // delay=1
  r6 = ld.global.a64.weak.b32 [r8..10], pT // delay=1
  r9 = ld.global.a64.constant.b32 [rZ+ur0..2+0x40], pT // delay=1, a field of the record
  r12..16 = ld.global.a64.constant.b128 [r8..10], pT // delay=1
  bra pT L4 // delay=1
} -> [1, 2]
block.u 2 L5 [1] -> {
  exit // delay=5
} -> []
)";
    const std::vector<LoopCounts> loops = innermost_loops(text);
    REQUIRE(loops.size() == 1);
    CHECK(loops[0].first_block == "1");
    CHECK(loops[0].instructions == 6);
    CHECK(loops[0].multiply_adds == 1);
    CHECK(loops[0].cross_lane == 1);
    CHECK(loops[0].global_loads == 2);
    CHECK(loops[0].narrow_global_loads == 1);
}
