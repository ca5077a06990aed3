#include "program/lowering/attention_kernels.hpp"

#include "program/lowering/common.hpp"
#include "program/lowering/half.hpp"
#include "program/lowering/records.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <span>

namespace hekla::program {

namespace {

using namespace kernels::attention; // the options

constexpr std::size_t kOptionsConstant = 3; // OPTIONS of the kernels for GPUs

constexpr const char* kNames[] = {"forward", "gradient_query", "gradient_key"}; // by AttentionPass
// Names of kernels in choices; after kTiled the variant's.
constexpr const char *kMatrix = "matrix", *kElements = "matrix.elements", *kTiled = "tiled.", *kLane = "lane";

// A variant of the kernels for GPUs, shaders/attention/tiled_*.comp: a workgroup per block of rows. The first that the
// device can run and whose widths suffice is preferred; shaders/TRIED.md has the reasons. A width is the larger of D
// and DV.
struct TiledVariant {
    std::string_view name;
    int64_t own = 0;             // rows that a workgroup computes: queries (forward, dq) or keys (dk, dv)
    int64_t other = 0;           // rows of the other side per iteration
    int64_t width = 0;           // forward and dq, at most
    int64_t few_registers = 0;   // the same without Limits::many_registers
    int64_t key_width = 0;       // dk and dv, at most
    int64_t together_width = 0;  // one dispatch computes dk and dv, at most; otherwise there are two
    bool many_registers = false; // dk and dv need Limits::many_registers
    uint32_t invocations = 0;    // per workgroup
    uint32_t shared_bytes = 0;   // per workgroup
};
constexpr TiledVariant kTiledVariants[] = {
    {.name = "t64x64",
     .own = 64,
     .other = 64,
     .width = 128,
     .few_registers = 64,
     .key_width = 64,
     .together_width = 64,
     .many_registers = true,
     .invocations = 256,
     .shared_bytes = 15360},
    {.name = "t32x128",
     .own = 32,
     .other = 128,
     .width = 256,
     .few_registers = 256,
     .key_width = 256,
     .together_width = 128,
     .invocations = 256,
     .shared_bytes = 12672},
    {.name = "t64x32",
     .own = 64,
     .other = 32,
     .width = 256,
     .few_registers = 256,
     .key_width = 256,
     .together_width = 64,
     .invocations = 128,
     .shared_bytes = 10624},
};

// Returns whether every row of these views begins at a multiple of `elements` and ends at one.
bool rows_of_multiples(int64_t elements, const AttentionSizes& sizes, std::span<const View* const> views) {
    if (sizes.width % elements != 0 || sizes.value_width % elements != 0) return false;
    for (const View* view : views) {
        if (view->resource == 0) continue;
        if (static_cast<int64_t>(view->offset) % elements != 0) return false;
        for (int d = 0; d < 3; ++d)
            if (view->shape[d] > 1 && view->strides[d] % elements != 0) return false;
    }
    return true;
}

// Returns whether offsets inside of N rows have 32 bits.
bool offsets_fit(const AttentionProblem& problem, int64_t rows) {
    return std::ranges::all_of(problem.rows, [&](const View* view) {
        return view->resource == 0 || view->strides[2] < (int64_t{1} << 30) / rows;
    });
}

bool can_run(const TiledVariant& variant, const Limits& limits, const AttentionProblem& problem) {
    const AttentionSizes& sizes = problem.sizes;
    const bool for_keys = problem.pass == AttentionPass::gradient_key;
    if (!limits.kernels_of_gpus() || !limits.long_kernels) return false;
    const int64_t widest = for_keys ? variant.key_width : limits.many_registers ? variant.width : variant.few_registers;
    return variant.invocations <= limits.max_group_invocations && variant.shared_bytes <= limits.shared_memory &&
           std::max(sizes.width, sizes.value_width) <= widest &&
           (!for_keys || !variant.many_registers || limits.many_registers) &&
           offsets_fit(problem, std::max(variant.own, variant.other));
}

// How the kernels for matrix units, shaders/attention/matrix_*.comp, divide a problem.
struct MatrixVariant {
    MatrixUnit unit;
    uint32_t rows = 0;        // per subgroup
    uint32_t invocations = 0; // per workgroup
};
constexpr int64_t kMatrixWidth = 128;   // of heads, at most: sums stay in registers
constexpr int64_t kMatrixTogether = 64; // as TiledVariant::together_width

// A form of these kernels: "matrix+short" is its name in a choice. Only the first is in attention_options();
// `hekla doctor --lab` compares the others with it.
struct MatrixForm {
    std::string_view name;
    uint32_t options = 0; // of OPTIONS
    uint32_t other = 32;  // rows of the other side per iteration
    uint32_t rows = 0;    // per subgroup; 0: by registers
    bool elements = true; // there is one for the kernels of VK_NV_cooperative_matrix2
};
constexpr MatrixForm kMatrixForms[] = {
    {.name = ""},
    {.name = "+exponential", .options = kNativeExponential},
    {.name = "+conversion", .options = kNativeConversion, .elements = false}, // theirs is always the hardware's
    {.name = "+whole", .options = kWholeBlocks},
    {.name = "+short", .options = kNativeExponential | kNativeConversion | kWholeBlocks},
    {.name = "+64keys", .other = 64},
    {.name = "+32rows", .rows = 32},
};

// Returns nothing if the device has no matrix units for the storage of these tensors, or an option needs rows one after
// the other. elements: of the kernels of VK_NV_cooperative_matrix2, where own rows are the columns of a product.
std::optional<MatrixVariant> matrix_variant(const Limits& limits, const AttentionProblem& problem, bool elements,
                                            const MatrixForm& form = kMatrixForms[0]) {
    const AttentionSizes& sizes = problem.sizes;
    const auto& [q, k, v, y, dy, dq, dk, dv] = problem.rows;
    const bool gradient = problem.pass != AttentionPass::forward;
    if (limits.cpu || k->storage != q->storage || v->storage != q->storage) return std::nullopt;
    if (gradient && dy->storage != q->storage) return std::nullopt;
    const MatrixUnit unit = limits.matrix_unit(q->storage);
    if (elements && (!limits.matrix_elements || unit.m != unit.k)) return std::nullopt;
    const uint32_t own_side = elements ? unit.n : unit.m, tile_side = elements ? unit.m : unit.n;
    const int64_t width = std::max(sizes.width, sizes.value_width);
    if (!unit || width > kMatrixWidth || !rows_of_multiples(8, sizes, problem.rows)) return std::nullopt;
    if ((problem.options & (kQueryDistanceGradient | kKeyDistanceGradient | kQueryClassGradient)) != 0)
        return std::nullopt;
    const uint32_t invocations = std::max(128u, 4 * limits.subgroup_size);
    if (limits.max_group_invocations < invocations) return std::nullopt;
    // Fewer rows where a lane keeps more of them in registers, or few lanes have that many registers.
    const bool few = gradient || width > 64 || !limits.large_register_file;
    const uint32_t rows =
        form.rows != 0 ? form.rows : std::max(own_side, std::min(limits.subgroup_size, few ? 16u : 32u));
    if (rows > limits.subgroup_size || rows % own_side != 0) return std::nullopt;
    const uint32_t pad = std::max(tile_side, unit.k);
    const auto line = [&](int64_t of) { return divide_up(of, pad) * pad / 8 + 1; };
    const uint32_t subgroups = invocations / limits.subgroup_size;
    const uint32_t passed = elements ? tile_side : form.other; // columns in a strip
    const uint64_t units = static_cast<uint64_t>(form.other * (line(sizes.width) + line(sizes.value_width) + 1)) +
                           uint64_t{subgroups} * rows * std::max(passed / 4 + 1, unit.k / 8 + 1);
    const bool keeps_quads = elements && (problem.options & kDropout) != 0;
    const uint64_t quads = keeps_quads ? uint64_t{subgroups} * rows * form.other / 4 : 1;
    if (units * 16 + quads * 4 > limits.shared_memory) return std::nullopt;
    if (!offsets_fit(problem, 256)) return std::nullopt;
    return MatrixVariant{unit, rows, invocations};
}

// Splits the keys of a forward pass that has too few rows for the device's cores.
void split_keys(AttentionKernel& kernel, const Limits& limits, const AttentionProblem& problem) {
    constexpr int64_t kLeastKeys = 256; // of a part: fewer do not pay for the second pass
    constexpr int64_t kBlock = 128;     // a multiple of every kernel's block of keys
    const AttentionSizes& sizes = problem.sizes;
    if (problem.pass != AttentionPass::forward || (problem.options & (kWindow | kWindowAfter)) != 0) return;
    const bool ends_at_diagonal = (problem.options & kCausal) != 0 && (problem.options & (kPositions | kPrefix)) == 0;
    const int64_t keys = ends_at_diagonal ? std::min(sizes.keys, sizes.queries) : sizes.keys;
    const int64_t groups = sizes.batch * sizes.heads * divide_up(sizes.queries, kernel.rows);
    const int64_t parts = std::min(limits.cores / std::max<int64_t>(groups, 1), keys / kLeastKeys);
    if (parts < 2) return;
    kernel.part_keys = divide_up(divide_up(keys, parts), kBlock) * kBlock;
    kernel.parts = divide_up(keys, kernel.part_keys);
    if (kernel.parts > 1) kernel.constants[kOptionsConstant] |= kSplit;
}

// Returns whether lanes have two rows each, which halves the loads of the other side and leaves enough workgroups for a
// CPU's cores.
bool pairs_of_rows(const Limits& limits, const AttentionProblem& problem) {
    const AttentionSizes& sizes = problem.sizes;
    const int64_t rows = 2 * int64_t{limits.subgroup_size};
    return limits.uniform_loads && problem.pass == AttentionPass::forward && sizes.queries >= rows &&
           sizes.batch * sizes.heads * divide_up(sizes.queries, rows) >= 64;
}

} // namespace

uint32_t attention_load_width(const AttentionSizes& sizes, std::initializer_list<const View*> views) {
    return rows_of_multiples(2, sizes, {views.begin(), views.size()}) ? 2 : 1;
}

bool attention_rows_of_fours(const AttentionSizes& sizes, std::initializer_list<const View*> views) {
    return rows_of_multiples(4, sizes, {views.begin(), views.size()});
}

std::vector<KernelOption> attention_options(const Limits& device, const AttentionProblem& problem) {
    const Limits limits = device.with_subgroups_of(device.subgroup_of_many_registers());
    std::vector<KernelOption> options;
    for (const bool elements : {true, false}) {
        const auto matrix = matrix_variant(limits, problem, elements);
        if (!matrix) continue;
        KernelOption option{.kernel = elements ? kElements : kMatrix, .matrix_units = true};
        for (const uint32_t size : device.subgroup_sizes(matrix->invocations))
            if (size != limits.subgroup_size && matrix_variant(device.with_subgroups_of(size), problem, elements))
                option.lanes.push_back(size);
        options.push_back(std::move(option));
    }
    for (const TiledVariant& variant : kTiledVariants) {
        if (!can_run(variant, device, problem)) continue;
        KernelOption option{kTiled + std::string(variant.name)};
        for (const uint32_t size : device.subgroup_sizes(variant.invocations))
            if (size != device.subgroup_size && !device.registers_at_any_width) option.lanes.push_back(size);
        options.push_back(std::move(option));
    }
    if (options.empty()) options.push_back({kLane});
    return options;
}

std::vector<std::string> attention_forms(const Limits& device, const AttentionProblem& problem) {
    const Limits limits = device.with_subgroups_of(device.subgroup_of_many_registers());
    std::vector<std::string> names;
    for (const bool elements : {true, false}) {
        const auto usual = matrix_variant(limits, problem, elements);
        for (const MatrixForm& form : std::span(kMatrixForms).subspan(1)) {
            const auto variant = matrix_variant(limits, problem, elements, form);
            if (!usual || !variant || (elements && !form.elements) || form.rows == usual->rows) continue;
            // A mask's word has 32 keys.
            if (form.other > 32 && (problem.options & kMask) != 0) continue;
            names.push_back(fmt::format("{}{}", elements ? kElements : kMatrix, form.name));
        }
    }
    return names;
}

AttentionKernel attention_kernel(const Limits& device, const AttentionProblem& problem, const KernelChoice& choice) {
    const Limits limits =
        device.with_subgroups_of(choice.lanes != 0 ? choice.lanes : device.subgroup_of_many_registers());
    const AttentionSizes& sizes = problem.sizes;
    const int64_t widest = std::max(sizes.width, sizes.value_width);
    const char* name = kNames[static_cast<std::size_t>(problem.pass)];
    const uint32_t width = word(sizes.width), value_width = word(sizes.value_width);
    uint32_t types = 0;
    for (std::size_t i = 0; i < problem.rows.size(); ++i)
        if (problem.rows[i]->resource != 0) types |= static_cast<uint32_t>(problem.rows[i]->storage) << 2 * i;
    const auto* const tiled = std::ranges::find_if(kTiledVariants, [&](const TiledVariant& variant) {
        return choice.kernel == kTiled + std::string(variant.name) && can_run(variant, limits, problem);
    });
    AttentionKernel kernel;
    kernel.rows = limits.subgroup_size;
    const std::string_view base = std::string_view(choice.kernel).substr(0, choice.kernel.find('+'));
    const bool elements = base == kElements;
    const auto* const form =
        std::ranges::find(kMatrixForms, std::string_view(choice.kernel).substr(base.size()), &MatrixForm::name);
    const auto matrix =
        form != std::end(kMatrixForms) ? matrix_variant(limits, problem, elements, *form) : std::nullopt;
    if (matrix && (elements || base == kMatrix)) {
        const auto& [unit, rows, invocations] = *matrix;
        kernel.shader = fmt::format("attention/matrix_{}.{}{}", name, storage_name(problem.rows[0]->storage),
                                    elements ? "_elements" : "");
        kernel.constants = {width,           value_width, rows,   problem.options | form->options,
                            problem.outputs, form->other, types,  limits.subgroup_size,
                            unit.m,          unit.n,      unit.k, limits.compiles_slowly ? 1u : 0u,
                            invocations};
        kernel.subgroup_size = limits.subgroup_size;
        kernel.rows = int64_t{rows} * invocations / limits.subgroup_size;
        kernel.together = widest <= kMatrixTogether;
        split_keys(kernel, limits, problem);
        return kernel;
    }
    if (tiled != std::end(kTiledVariants)) {
        kernel.shader = fmt::format("attention/tiled_{}.{}{}", name, tiled->name, types != 0 ? "_16" : "");
        kernel.constants = {width,           value_width,     rows_of_multiples(4, sizes, problem.rows) ? 4u : 1u,
                            problem.options, problem.outputs, limits.compiles_slowly ? 1u : 0u};
        kernel.subgroup_size = choice.lanes;
        kernel.rows = tiled->own;
        kernel.together = limits.many_registers && widest <= tiled->together_width;
        split_keys(kernel, limits, problem);
    } else if (choice.kernel == kLane) {
        kernel.shader = fmt::format("attention/{}{}", name, types != 0 ? ".16" : "");
        kernel.constants = {limits.subgroup_size, width,
                            value_width,          rows_of_multiples(2, sizes, problem.rows) ? 2u : 1u,
                            sizes.block,          problem.options};
        kernel.subgroup_size = limits.subgroup_size;
        if (types == 0 && pairs_of_rows(limits, problem)) {
            kernel.shader += ".pairs";
            kernel.rows *= 2;
        }
    } else {
        kernel.shader = "attention/" + choice.kernel;
    }
    if (types != 0) kernel.constants.push_back(types);
    return kernel;
}

} // namespace hekla::program
