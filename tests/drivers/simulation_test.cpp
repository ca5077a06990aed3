// The simulators give the order that was measured, so that their predictions for variants that were not measured can
// be believed.
#include "drivers/simulation.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace simulation_test {

using namespace drivers;

// The kernels of engine/program/lowering/matmul_kernels.cpp on NVIDIA, with TFLOP/s of [4096, 4096] x [4096, 4096] in
// bfloat16 on an H200 (shaders/TRIED.md).
struct Measured {
    const char* name;
    MatrixTile tile;
    uint32_t tn, nn, nt; // wavefronts
    double tflops_tn, tflops_nn, tflops_nt;
};
constexpr Measured kMeasured[] = {
    {"t128", {128, 128, 32, 128, 64, 64}, 384, 448, 512, 292, 262, 219},
    {"t128k64", {128, 128, 64, 256, 64, 32}, 512, 512, 512, 241, 240, 238},
    {"t128x2", {128, 128, 32, 256, 64, 32}, 512, 576, 640, 182, 163, 152},
    {"t64", {64, 64, 32, 64, 32, 64}, 640, 768, 896, 168, 157, 142},
};

TEST_CASE("simulation: wavefronts of the matrix kernels have the order of their measured speeds") {
    for (const Measured& kernel : kMeasured) {
        CAPTURE(kernel.name);
        const uint32_t tn = wavefronts(kernel.tile, false, false), nn = wavefronts(kernel.tile, true, false),
                       nt = wavefronts(kernel.tile, true, true);
        CHECK(tn == kernel.tn);
        CHECK(nn == kernel.nn);
        CHECK(nt == kernel.nt);
        // Equal counts: within 2 percent; otherwise more wavefronts are slower.
        CHECK((tn < nn) == (kernel.tflops_tn > kernel.tflops_nn * 1.02));
        CHECK((nn < nt) == (kernel.tflops_nn > kernel.tflops_nt * 1.02));
    }
}

TEST_CASE("simulation: wavefronts of a kernel by its name and constants") {
    // [16384, 768] x [768, 2304] in float16 on an H200: subgroups of 32 with 64 x 64, of 128 threads.
    const std::vector<uint32_t> nn{32, 64, 64, 16, 16, 16, 0, 0, 52, 128, 0, 0, 0, 21};
    CHECK(wavefronts("matmul/matrix.t128_f16", nn) == 448u);
    std::vector<uint32_t> tn = nn;
    tn[6] = 1;
    CHECK(wavefronts("matmul/matrix.t128_f16", tn) == 384u);
    CHECK(!wavefronts("matmul/tiled.t128", nn));
    CHECK(!wavefronts("matmul/matrix.t128_f16", {}));
}

TEST_CASE("simulation: rows that are four apart have no conflicts") {
    for (const Measured& kernel : kMeasured) {
        if (kernel.tile.step != 32) continue;
        CAPTURE(kernel.name);
        const uint32_t least = wavefronts(kernel.tile, false, false);
        CHECK(wavefronts(kernel.tile, true, false, Stores::four_apart) == least);
        CHECK(wavefronts(kernel.tile, true, true, Stores::four_apart) == least);
    }
}

TEST_CASE("simulation: one wavefront serves eight lanes unless they share banks") {
    const uint32_t neighbors[] = {0, 1, 2, 3, 4, 5, 6, 7}, same[] = {3, 3, 3, 3, 3, 3, 3, 3};
    const uint32_t pairs[] = {0, 1, 2, 3, 8, 9, 10, 11}, column[] = {0, 8, 16, 24, 32, 40, 48, 56};
    CHECK(wavefronts_of(neighbors) == 1);
    CHECK(wavefronts_of(same) == 1);
    CHECK(wavefronts_of(pairs) == 2);
    CHECK(wavefronts_of(column) == 8);
}

TEST_CASE("simulation: the kernel still places its units as they are simulated") {
    std::ifstream file(std::string(HEKLA_SOURCE_DIR) + "/shaders/matmul/matrix.comp", std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    for (const char* line :
         {"return i / line * stride + i % line;", "const uint kStrideA = kLineA + 1, kStrideB = kLineB + 1;",
          "const uint kLineA = (kMajorA ? BK : BM) / 8, kLineB = (kMajorB ? BK : BN) / 8;"})
        CHECK_MESSAGE(text.str().find(line) != std::string::npos,
                      "matrix.comp has changed: change simulation.cpp too: ", line);
}

TEST_CASE("simulation: a wide product reads a factor once for each row of tiles that the cache cannot hold") {
    const Product logits{16384, 50257, 768}; // GPT-2's, 16 rows of 1,024 tokens
    const double once = (16384.0 + 50304.0) * 768 * 2, table = 50304.0 * 768 * 2;
    const Device misses{256, 50u << 20}, holds{256, 96u << 20};
    CHECK(static_cast<double>(bytes_read(logits, holds, 1)) == doctest::Approx(once));
    CHECK(static_cast<double>(bytes_read(logits, misses, 1)) > 0.98 * 128 * table);
    // Super-tiles read it once for `height` rows.
    for (const uint64_t height : {4, 8, 16}) {
        CAPTURE(height);
        const auto read = static_cast<double>(bytes_read(logits, misses, height));
        CHECK(read < 1.1 * 128 / static_cast<double>(height) * table + once);
        CHECK(read > table);
    }
    // A product that fits needs no order.
    const Product small{4096, 4096, 4096};
    CHECK(bytes_read(small, misses, 1) == bytes_read(small, misses, 8));
}

} // namespace simulation_test
