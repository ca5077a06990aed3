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

TEST_CASE("a kernel may spill as often as its table states, not more often") {
    json kernel = good();
    kernel["spills"] = 7;
    kernel["scratch_bytes"] = 64;
    const auto breaks = [&](double allowed) {
        return !broken_rules(kernel, "Intel open-source Mesa driver Mesa 25.0.7", Kernels::training, "", allowed)
                    .empty();
    };
    CHECK(breaks(0));
    CHECK(breaks(6));
    CHECK(!breaks(7));
    CHECK(!breaks(8));
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

TEST_CASE("loops of Intel assembly are counted") {
    const std::string text = R"(Push constant ranges:
    RANGE0 (512B): Vulkan push constants and API params

mov(16)         g54<1>UD        g0.1<0,1,0>UD                   { align1 WE_all 1H compacted };
send(1)         g3UD            g32UD           nullUD          0x0240f500                0x00000000
                            ugm MsgDesc: ( load, a32, d32, V64, transpose, L1STATE_L3MOCS flat )  { align1 };

LABEL11:
send(16)        g4UD            g6UD            nullUD          0x02204580                0x00000000
                            slm MsgDesc: ( load, a32, d32, V4, L1STATE_L3MOCS flat )  { align1 1H };
send(16)        g4UD            g6UD            nullUD          0x02204580                0x00000000
                            ugm MsgDesc: ( load, a64, d32, V4, L1STATE_L3MOCS flat )  { align1 1H };
mad(16)         g4<1>F          g6<8,8,1>F      g8<8,8,1>F      g10<1,1,1>F { align1 1H };
dpas.8x8(16)    g48<1>F         g8<1,1,0>F      g24<1,1,0>HF    g68<1,1,0>HF { align1 WE_all 1H $14 };
(-f0.0) break(16) JIP:  LABEL7        UIP:  LABEL7              { align1 1H };

LABEL7:
(-f0.0) while(16)       JIP:  LABEL11                           { align1 1H };
send(16)        nullUD          g6UD            g8UD            0x02204580                0x00000000
                            slm MsgDesc: ( fence, a32, local, none, normal_routing flat )  { align1 1H };
send(16)        nullUD          g6UD            g8UD            0x02204580                0x00000000
                            slm MsgDesc: ( store, a32, d32, V1, L1STATE_L3MOCS flat )  { align1 1H };
)";
    const std::vector<LoopCounts> loops = innermost_loops(text);
    REQUIRE(loops.size() == 1);
    CHECK(loops[0].first_block == "LABEL11");
    CHECK(loops[0].instructions == 6);
    CHECK(loops[0].multiply_adds == 1);
    CHECK(loops[0].matrix == 1);
    CHECK(loops[0].shared == 1);
    CHECK(loops[0].global_loads == 1);
    CHECK(shared_instructions(text) == 2);
    CHECK(has_matrix_in_loop(text));
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
