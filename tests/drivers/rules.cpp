#include "drivers/rules.hpp"

#include "drivers/assembly.hpp"

#include <fmt/format.h>

namespace hekla::test {
namespace {

// Fewer waves than these cannot hide the time that memory takes. AMD's driver counts waves of 32 lanes a SIMD unit, of
// which a wave of 64 is two; NVIDIA's counts warps an SM.
constexpr double kLeastWaves32 = 8.0;

// Kernels for odd sizes and rare options (DeBERTa's distances) need more registers than those of common sizes: they may
// have this many waves on AMD, and on GPUs with few registers (Adreno, Apple) they may spill.
constexpr double kLeastWavesOfRare = 6.0;

// Gradients of attention by matrix units have the sums of 16 rows in registers, the least that the units allow: on GPUs
// with small register files (RX 7600, integrated Radeons) two waves of 64.
constexpr double kLeastWavesOfMatrixGradients = 4.0;

// Mesa 25's compiler gives kernels with matrix units more registers than Mesa 26's does: three waves of 64.
constexpr double kLeastWavesOfMatrixOnMesa25 = 6.0;

// Loads of single floats in a loop of an attention's gradient: lse and delta of four rows, where the compiler does not
// move them out of the loop over columns.
constexpr int64_t kMostRowLoads = 4;
// Of fields of the record, which NVK reads again in the loop over blocks of attention by matrix units.
constexpr int64_t kMostRecordLoads = 12;

double number(const nlohmann::json& kernel, const char* key) {
    const auto found = kernel.find(key);
    return found != kernel.end() && found->is_number() ? found->get<double>() : 0.0;
}

// Whether both operands of a tiled product are loaded in vectors: constant 2 tells (shaders/matmul/record.h). Rows of
// an odd length cannot be.
bool loads_vectors(const std::string& name, const nlohmann::json& kernel) {
    if (!name.starts_with("matmul/tiled")) return true;
    constexpr uint32_t kBoth = 3; // kVectorsOfA | kVectorsOfB
    const nlohmann::json constants = kernel.value("constants", nlohmann::json::array());
    return constants.size() < 3 || (constants[2].get<uint32_t>() & kBoth) == kBoth;
}

} // namespace

std::vector<std::string> broken_rules(const nlohmann::json& kernel, std::string_view driver, Kernels kind,
                                      std::string_view assembly, double allowed_spills) {
    std::vector<std::string> broken;
    const std::string name = kernel.value("kernel", "");
    const auto add = [&](const std::string& what) {
        broken.push_back(
            fmt::format("{} {}: {}", name, kernel.value("constants", nlohmann::json::array()).dump(), what));
    };
    if (kernel.contains("error")) add(kernel.value("error", ""));
    const bool rare = kind == Kernels::any_size;
    const bool tolerated = rare && (driver.starts_with("Honeykrisp") || driver.starts_with("turnip"));
    if (number(kernel, "spills") > allowed_spills && !tolerated)
        add(fmt::format("{} registers spilled, expected {} or fewer", number(kernel, "spills"), allowed_spills));
    if (number(kernel, "scratch_bytes") > 0 && allowed_spills == 0 && !tolerated)
        add(fmt::format("{} bytes of scratch memory", number(kernel, "scratch_bytes")));
    const bool needs_matrix_units = name.find("matrix") != std::string::npos;
    const bool on_mesa_25 = driver.starts_with("radv Mesa 25.");
    const bool counts_waves = driver.starts_with("radv") || driver.starts_with("NVK");
    const double least_waves = name.starts_with("attention/matrix_gradient") ? kLeastWavesOfMatrixGradients
                               : rare                                        ? kLeastWavesOfRare
                               : on_mesa_25 && needs_matrix_units            ? kLeastWavesOfMatrixOnMesa25
                                                                             : kLeastWaves32;
    if (kind != Kernels::token && counts_waves && kernel.contains("waves") && kernel["waves"].is_number() &&
        number(kernel, "waves") < least_waves)
        add(fmt::format("{} waves at the same time, expected {} or more", number(kernel, "waves"), least_waves));

    const bool multiplies = name.starts_with("matmul/") || name.starts_with("attention/");
    for (const LoopCounts& loop : innermost_loops(assembly)) {
        if (loop.scratch > 0) add(fmt::format("{} accesses of scratch memory in {}", loop.scratch, loop.first_block));
        // A loop that does not multiply (sums of rows, the loading of a tile) is not bound by its loads' width.
        if (kind != Kernels::training || !multiplies || loop.multiply_adds < 16) continue;
        // The log-sum-exp and delta of attention are single floats, one of each per row.
        const int64_t of_rows = name.starts_with("attention/tiled_gradient")    ? kMostRowLoads
                                : name.starts_with("attention/matrix_gradient") ? kMostRecordLoads
                                                                                : 0;
        // With matrix units a row's maximum is exchanged once a block of scores.
        const int64_t of_blocks = name.starts_with("attention/matrix") ? loop.matrix : 0;
        if (loop.narrow_global_loads > of_rows && loads_vectors(name, kernel))
            add(fmt::format("{} global loads of 32 bits or less in {}", loop.narrow_global_loads, loop.first_block));
        if (loop.cross_lane > of_blocks)
            add(fmt::format("{} instructions across lanes in {}", loop.cross_lane, loop.first_block));
    }
    if (needs_matrix_units && !assembly.empty() && !has_matrix_in_loop(assembly))
        add("no instruction of the matrix units in a loop");
    return broken;
}

} // namespace hekla::test
