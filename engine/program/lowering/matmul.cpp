// matmul and linear: layouts of the operands, choice of kernel, tile sizes.
#include "program/lowering/common.hpp"
#include "program/lowering/epilogue.hpp"
#include "program/lowering/half.hpp"
#include "program/lowering/matmul_kernels.hpp"
#include "program/lowering/matmul_problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace hekla::program {

namespace {

using graph::Op;

// A matrix [rows, columns] of elements at row * row_stride + column * column_stride, for each of the batches.
struct Matrix {
    View view; // [batch..., rows, columns]
    int64_t row_stride = 0;
    int64_t column_stride = 0;
};

Matrix matrix_of(const View& view, bool transposed) {
    Matrix matrix{view, 0, 0};
    const int rank = view.shape.rank();
    if (transposed) {
        std::swap(matrix.view.shape[-1], matrix.view.shape[-2]);
        std::swap(matrix.view.strides[static_cast<std::size_t>(rank - 1)],
                  matrix.view.strides[static_cast<std::size_t>(rank - 2)]);
    }
    matrix.row_stride = matrix.view.strides[static_cast<std::size_t>(rank - 2)];
    matrix.column_stride = matrix.view.strides[static_cast<std::size_t>(rank - 1)];
    return matrix;
}

// An operand as a kernel reads it: dense along rows (its last dimension) or along columns.
struct Operand {
    View view;
    bool transposed = false; // dense along its rows' dimension
    int64_t leading = 0;
    int64_t panel = 0; // elements between panels of a packed B (shaders/matmul/pack.comp); 0: not packed
};

Operand operand_of(Lowering& lowering, const Matrix& matrix) {
    Operand operand{matrix.view, false, 0};
    const int64_t rows = matrix.view.shape[-2];
    const int64_t columns = matrix.view.shape[-1];
    if ((matrix.column_stride == 1 || columns == 1) && matrix.row_stride >= 0) {
        operand.leading = rows == 1 ? columns : matrix.row_stride;
        return operand;
    }
    if ((matrix.row_stride == 1 || rows == 1) && matrix.column_stride >= 0) {
        operand.transposed = true;
        operand.leading = columns == 1 ? rows : matrix.column_stride;
        return operand;
    }
    operand.view = lowering.contiguous(matrix.view);
    operand.leading = columns;
    return operand;
}

// Operations on a sum before it is stored, in this order.
struct Epilogue {
    View bias; // [N]
    Activation activation = Activation::none;
    View residual; // [M, N], added; rows of any stride
    View other;    // dense, like C: the activation's argument, or for the sum before the activation
    View again;    // dense, like C: for the activation of the argument
    bool stores_before = false;
    bool accumulate = false; // add to the existing content
};

uint32_t epilogue_bits(const Epilogue& epilogue) {
    using namespace kernels::matmul;
    return (epilogue.bias.resource != 0 ? kBias : 0u) | (epilogue.residual.resource != 0 ? kResidual : 0u) |
           (epilogue.accumulate ? kAccumulate : 0u) | (epilogue.stores_before ? kStoreBefore : 0u) |
           (epilogue.again.resource != 0 ? kStoreActivation : 0u) |
           static_cast<uint32_t>(epilogue.activation) << kActivationShift;
}

// Sums of the rows of a factor that is dense along them: of A [K, M], or of B [K, N].
struct FactorSums {
    uint32_t which = 0; // 0, kSumsOfA or kSumsOfB
    View to;            // [M] or [N]
};

// The batches as parts of one product by groups of rows.
struct Grouped {
    uint32_t how = 0;     // 0, kChosenB or kRangesOfK
    View by;              // Record::groups
    int64_t matrices = 0; // of B, with kChosenB
};

struct Problem {
    Operand a, b;
    View c;
    int64_t c_leading = 0; // elements between rows of C
    Epilogue epilogue;
    FactorSums sums;
    Grouped grouped;
    int64_t m = 0, n = 0, k = 0;
    int64_t outer = 1, inner = 1; // batches
    int64_t a_outer = 0, a_inner = 0, b_outer = 0, b_inner = 0, c_outer = 0, c_inner = 0;
};

// A kernel, and how the problem is split.
struct Tiling {
    const MatmulKernel* kernel = nullptr;
    std::string shader;
    int64_t tile_m = 0, tile_n = 0;       // of C
    int64_t splits = 1, split_length = 0; // of K
    bool chosen_splits = false;           // not by rule
    bool has_sums = false;                // the kernel computes Problem::sums
    bool by_rows = false;                 // neighboring tiles share B
    std::vector<uint32_t> constants;
    uint32_t subgroup = 0; // required size; 0: any
};

// Returns TYPES of shaders/matmul/tile.glsl: the storage of A, B and C.
uint32_t types_of(const View& a, const View& b, const View& c) {
    return static_cast<uint32_t>(a.storage) | static_cast<uint32_t>(b.storage) << 2 |
           static_cast<uint32_t>(c.storage) << 4;
}

// Selects the variant with 16-bit storage if an operand needs it.
void set_types(Dispatch& dispatch, uint32_t types) {
    if (types == 0) return;
    if (dispatch.shader.starts_with("matmul/matrix."))
        dispatch.shader += fmt::format("_{}", storage_name(static_cast<Storage>(types & 3)));
    else
        dispatch.shader += dispatch.shader == "matmul/split_sum" ? ".16" : "_16";
    dispatch.constants.push_back(types);
}

bool pairs_of_a(const Problem& p) {
    const int64_t dense = p.a.transposed ? p.m : p.k;
    return even({dense, p.a.leading, static_cast<int64_t>(p.a.view.offset), p.a_outer, p.a_inner});
}

bool pairs_of_b(const Problem& p) {
    const int64_t dense = p.b.transposed ? p.k : p.n;
    return even({dense, p.b.leading, static_cast<int64_t>(p.b.view.offset), p.b_outer, p.b_inner});
}

// Whether elements can be loaded in aligned vectors of four: everything added to the address is a multiple of four.
bool in_vectors(std::initializer_list<int64_t> numbers) {
    return std::ranges::all_of(numbers, [](int64_t number) { return number % 4 == 0; });
}

// Returns VECTORS of shaders/matmul/record.h. Partial sums of a split K are a tensor of their own, without an epilogue.
uint32_t vectors_of(const Problem& p, bool split) {
    using namespace kernels::matmul;
    const auto operand = [](const Operand& x, int64_t dense, int64_t outer, int64_t inner) {
        return in_vectors({dense, x.leading, static_cast<int64_t>(x.view.offset), outer, inner});
    };
    const bool a = operand(p.a, p.a.transposed ? p.m : p.k, p.a_outer, p.a_inner);
    const bool b = operand(p.b, p.b.transposed ? p.k : p.n, p.b_outer, p.b_inner);
    const Epilogue& e = p.epilogue;
    const bool c = in_vectors({p.n}) &&
                   (split || in_vectors({static_cast<int64_t>(p.c.offset), p.c_leading, p.c_outer, p.c_inner,
                                         static_cast<int64_t>(e.bias.offset), static_cast<int64_t>(e.residual.offset),
                                         static_cast<int64_t>(e.other.offset), static_cast<int64_t>(e.again.offset),
                                         e.residual.resource != 0 ? e.residual.strides[0] : 0}));
    return (a ? kVectorsOfA : 0u) | (b ? kVectorsOfB : 0u) | (c ? kVectorsOfC : 0u) |
           (in_vectors({p.k}) ? kWholeK : 0u);
}

// Returns the bits of VECTORS that tell which rows, as stored, can be loaded in aligned units of eight elements.
uint32_t eights_of(const Problem& p) {
    using namespace kernels::matmul;
    const auto operand = [](const Operand& x, int64_t dense, int64_t outer, int64_t inner) {
        return (dense | x.leading | static_cast<int64_t>(x.view.offset) | outer | inner) % 8 == 0;
    };
    return (operand(p.a, p.a.transposed ? p.m : p.k, p.a_outer, p.a_inner) ? kEightsOfA : 0u) |
           (operand(p.b, p.b.transposed ? p.k : p.n, p.b_outer, p.b_inner) ? kEightsOfB : 0u);
}

bool can_sum(const Limits& limits, const Problem& p, const MatmulKernel& kernel) {
    using namespace kernels::matmul;
    // Few registers are all used by the sums of the largest tile.
    if (!limits.many_registers && kernel.tile_m * kernel.columns(limits) >= 128 * 128) return false;
    if (kernel.family != MatmulFamily::tiled && kernel.family != MatmulFamily::matrix) return false;
    if (p.outer * p.inner != 1) return false;
    return (p.sums.which == kSumsOfA && p.a.transposed) || (p.sums.which == kSumsOfB && !p.b.transposed);
}

// Rows of A from which packing a B that is dense along N costs less than it gains.
constexpr int64_t kPackingRows = 192;

bool packs(const Tiling& tiling, const Problem& p) {
    return tiling.kernel->family == MatmulFamily::uniform && p.b.panel == 0 &&
           (p.b.transposed || (p.m >= kPackingRows && p.n > tiling.tile_n));
}

// A B of at most this many elements in 16 bits is packed as float32.
constexpr int64_t kWidenedElements = int64_t{1} << 24;

Storage packed_storage(const Problem& p) { return p.k * p.n <= kWidenedElements ? Storage::f32 : p.b.view.storage; }

// Returns the specialization constants, in the order of the kernel's shader.
std::vector<uint32_t> constants_of(const Tiling& tiling, const Limits& limits, const Problem& p) {
    using namespace kernels::matmul;
    const uint32_t transpose_a = p.a.transposed ? 1u : 0u, transpose_b = p.b.transposed ? 1u : 0u;
    const uint32_t epilogue = tiling.splits > 1 ? 0u : epilogue_bits(p.epilogue);
    const uint32_t vectors = vectors_of(p, tiling.splits > 1), sums = tiling.has_sums ? p.sums.which : 0;
    switch (tiling.kernel->family) {
    case MatmulFamily::uniform: {
        const bool packed = packs(tiling, p);
        View b = p.b.view;
        if (packed) b.storage = packed_storage(p);
        const bool has_16_bit = types_of(p.a.view, b, tiling.splits > 1 ? View{} : p.c) != 0;
        const int64_t most = has_16_bit ? 16 : 64; // MOST of the variants
        const int64_t part = std::min(tiling.split_length, p.k), last = p.k - (tiling.splits - 1) * tiling.split_length;
        const bool some = p.grouped.how == kRangesOfK || std::max(part % most, last % most) >= 16;
        return {limits.subgroup_size,
                transpose_a,
                part >= most ? 1u : 0u,
                some ? 1u : 0u,
                p.k % 16 != 0 ? 1u : 0u,
                tiling.by_rows ? 1u : 0u,
                packed ? static_cast<uint32_t>(tiling.kernel->tile_n)
                       : static_cast<uint32_t>(p.b.panel != 0 ? p.b.leading / limits.subgroup_size : 0),
                epilogue,
                p.grouped.how};
    }
    case MatmulFamily::dot: {
        const bool pairs = pairs_of_a(p) && pairs_of_b(p);
        const uint32_t span = limits.subgroup_size * (pairs && p.b.view.storage != Storage::f32 ? 2 : 1);
        return {limits.subgroup_size, p.k % span != 0 ? 1u : 0u, pairs ? 1u : 0u, epilogue};
    }
    case MatmulFamily::direct: {
        const bool pairs = pairs_of_a(p) && (!p.a.transposed || tiling.tile_m % 2 == 0);
        return {limits.subgroup_size,    transpose_a, transpose_b,  pairs ? 2u : 1u,
                pairs_of_b(p) ? 2u : 1u, epilogue,    p.grouped.how};
    }
    case MatmulFamily::tiled:
        return {transpose_a, transpose_b, vectors & (kVectorsOfA | kVectorsOfB | kVectorsOfC),
                sums,        epilogue,    p.grouped.how};
    case MatmulFamily::matrix: {
        const MatrixTile tile = matrix_tile(*tiling.kernel, limits.subgroup_size);
        const MatrixUnit unit = limits.matrix_unit(p.a.view.storage);
        return {limits.subgroup_size,
                tile.rows,
                tile.columns,
                unit.m,
                unit.n,
                unit.k,
                transpose_a,
                transpose_b,
                (vectors & kVectorsOfC) | eights_of(p),
                invocations_of(*tiling.kernel, limits.subgroup_size),
                sums,
                epilogue,
                p.grouped.how};
    }
    case MatmulFamily::vector:
        return {transpose_a, transpose_b, static_cast<uint32_t>(tiling.tile_n / 4),
                vectors & ((p.a.transposed ? 0u : kVectorsOfA) | kVectorsOfB | kWholeK), epilogue};
    }
    return {};
}

// Rows of a tile's columns of B, 256 bytes each with 16 lanes, that a core's cache holds with A.
constexpr int64_t kCachedRows = 4096;
// Elements of a B that stays in a core's cache as a whole.
constexpr int64_t kCachedElements = int64_t{1} << 16;

Tiling choose_tiling(Lowering& lowering, const Problem& p) {
    const Limits& device = lowering.limits;
    const int64_t batches = p.outer * p.inner;
    const bool has_16_bit = types_of(p.a.view, p.b.view, p.c) != 0;
    const View& residual = p.epilogue.residual;
    const MatmulShape shape{
        batches,
        p.m,
        p.n,
        p.grouped.how == kernels::matmul::kRangesOfK ? divide_up(p.k, batches) : p.k,
        p.a.transposed,
        p.b.transposed,
        p.a.view.storage == p.b.view.storage ? p.a.view.storage : Storage::f32,
        std::max({p.a.leading, p.b.leading, p.c_leading, residual.resource != 0 ? residual.strides[0] : int64_t{0}}),
        p.grouped.how != 0};
    const std::vector<const MatmulKernel*> candidates = matmul_candidates(device, shape);
    const std::string types = has_16_bit ? fmt::format("{} {} {}", storage_name(p.a.view.storage),
                                                       storage_name(p.b.view.storage), storage_name(p.c.storage))
                                         : "f32";
    // Where kernels load unaligned factors more slowly, the alignment is part of the key.
    constexpr uint32_t kInEights = kernels::matmul::kEightsOfA | kernels::matmul::kEightsOfB;
    const bool unaligned = device.matrix_unit(shape.factors) && eights_of(p) != kInEights;
    KernelProblem problem = matmul_problem(device, shape, {p.a.view.storage, p.b.view.storage, p.c.storage});
    problem.key =
        fmt::format("matmul {}{} {} [{}x {}, {}, {}]{}", p.a.transposed ? 'T' : 'N', p.b.transposed ? 'T' : 'N', types,
                    batches, p.m, p.n, shape.k, unaligned ? " unaligned" : "");
    if (shape.grouped) problem.key += " by groups";
    if (unaligned) problem.bucket += " unaligned";
    const KernelChoice choice =
        p.b.panel != 0 ? KernelChoice{std::string(panel_kernel(p.m).name)} : lowering.choose(std::move(problem));

    Tiling tiling;
    tiling.shader = "matmul/" + choice.kernel;
    tiling.kernel = find_matmul_kernel(choice.kernel);
    // An unknown choice, from another version, fails with its name at the shader lookup.
    if (tiling.kernel == nullptr) tiling.kernel = candidates.front();
    const Limits limits =
        choice.lanes != 0 ? device.with_subgroups_of(choice.lanes) : limits_of(device, *tiling.kernel);
    tiling.tile_m = tiling.kernel->tile_m;
    tiling.tile_n = tile_columns(limits, *tiling.kernel, shape);
    tiling.subgroup = tiling.kernel->requires_subgroup_size() ? limits.subgroup_size : choice.lanes;
    // With few tiles a device is partly idle, so K is split too, and a second pass adds the parts in order. On a CPU
    // that pass costs as much as millions of operations.
    const int64_t tiles = divide_up(p.m, tiling.tile_m) * divide_up(p.n, tiling.tile_n) * batches;
    if (p.grouped.how != 0) {
        tiling.splits = 1;
    } else if (choice.splits != 0) {
        tiling.splits = choice.splits;
        tiling.chosen_splits = true;
    } else if (limits.cpu) {
        const bool small = batches * p.m * p.n * p.k < (int64_t{1} << 21);
        const int64_t wanted = small ? 1 : 4;
        const int64_t shortest = 256;
        tiling.splits = std::clamp<int64_t>(std::min(wanted / std::max<int64_t>(tiles, 1), p.k / shortest), 1, 64);
        // A tile's columns of B stay in the cache for the rows below, if they fit in it.
        if (p.m > tiling.tile_m && p.k > kCachedRows)
            tiling.splits = std::clamp<int64_t>(divide_up(p.k, kCachedRows / 4), tiling.splits, 64);
    } else {
        tiling.splits = gpu_splits(limits, *tiling.kernel, tiles, p.k);
    }
    const int64_t step = tiling.kernel->step;
    tiling.split_length = divide_up(divide_up(p.k, tiling.splits), step) * step;
    tiling.splits = std::max<int64_t>(1, divide_up(p.k, tiling.split_length));
    tiling.has_sums = can_sum(limits, p, *tiling.kernel);
    tiling.by_rows = tiling.kernel->family == MatmulFamily::uniform && p.m > tiling.tile_m &&
                     (p.k * p.n > kCachedElements || tiling.splits > 1);
    tiling.constants = constants_of(tiling, limits, p);
    return tiling;
}

// Returns the record of a kernel that multiplies, or of split_sum, whose A is the partial sums and which has no B.
// partial: c is the partial sums.
Record record_of(const Problem& p, const Tiling& tiling, const View& c, bool partial, const View& sums = {}) {
    const Epilogue after = partial ? Epilogue{} : p.epilogue;
    return make_record(kernels::matmul::Record{.a = p.a.view,
                                               .b = p.b.view,
                                               .c = c,
                                               .bias = after.bias,
                                               .residual = after.residual,
                                               .other = after.stores_before ? writes(after.other) : reads(after.other),
                                               .again = after.again,
                                               .sums = sums,
                                               .groups = p.grouped.by,
                                               .m = word(p.m),
                                               .n = word(p.n),
                                               .k = word(p.k),
                                               .lda = word(p.a.leading),
                                               .ldb = word(p.b.leading),
                                               .ldp = word(p.b.panel),
                                               .ldc = word(partial ? p.n : p.c_leading),
                                               .ldr = word(after.residual.strides[0]),
                                               .batch_inner = word(p.inner),
                                               .a_outer = word(p.a_outer),
                                               .a_inner = word(p.a_inner),
                                               .b_outer = word(p.b_outer),
                                               .b_inner = word(p.b_inner),
                                               .c_outer = word(partial ? p.inner * p.m * p.n : p.c_outer),
                                               .c_inner = word(partial ? p.m * p.n : p.c_inner),
                                               .tiles_m = word(divide_up(p.m, tiling.tile_m)),
                                               .tiles_n = word(divide_up(p.n, tiling.tile_n)),
                                               .splits = word(tiling.splits),
                                               .k_split = word(tiling.split_length),
                                               .batches = word(p.outer * p.inner)});
}

// Packs B for the kernel, which reads it by panels.
void pack_b(Lowering& lowering, Problem& p, const MatmulKernel& kernel) {
    const int64_t outer = p.b_outer == 0 ? 1 : p.outer;
    const int64_t inner = p.b_inner == 0 ? 1 : p.grouped.matrices != 0 ? p.grouped.matrices : p.inner;
    const int64_t width = kernel.columns(lowering.limits);
    const int64_t panels = divide_up(p.n, width);
    const Storage stored = p.b.view.storage;
    const Storage packed = packed_storage(p);
    const View to = lowering.allocate({outer, inner, panels, p.k, width}, packed, "a packed operand");
    Dispatch dispatch = subgroup_dispatch(lowering, stored == Storage::f32 ? "matmul/pack" : "matmul/pack.16",
                                          {static_cast<uint32_t>(kernel.tile_n), p.b.transposed ? 1u : 0u,
                                           static_cast<uint32_t>(stored), static_cast<uint32_t>(packed)});
    dispatch.record = make_record(kernels::matmul::PackRecord{.from = p.b.view,
                                                              .to = to,
                                                              .n = word(p.n),
                                                              .k = word(p.k),
                                                              .ld = word(p.b.leading),
                                                              .panels = word(panels),
                                                              .batch_inner = word(inner),
                                                              .outer = word(p.b_outer),
                                                              .inner = word(p.b_inner)});
    const int64_t shares = p.b.transposed ? panels * kernel.tile_n : divide_up(p.k, kernels::matmul::kRowsPacked);
    dispatch.groups = static_cast<uint64_t>(shares * outer * inner);
    dispatch.bytes = static_cast<double>(outer * inner * p.k * p.n) * static_cast<double>(bytes_of(stored)) +
                     static_cast<double>(to.bytes());
    lowering.append(std::move(dispatch));
    const int64_t panel = p.k * width;
    p.b = {to, false, width, panel};
    p.b_inner = p.b_inner == 0 ? 0 : panels * panel;
    p.b_outer = p.b_outer == 0 ? 0 : inner * panels * panel;
}

// Returns the bytes that the epilogue and the result are read and written for.
double bytes_of_result(const Problem& p) {
    const Epilogue& e = p.epilogue;
    uint64_t bytes = p.c.bytes() * (e.accumulate ? 2 : 1);
    for (const View* view : {&e.residual, &e.other, &e.again})
        if (view->resource != 0) bytes += view->bytes();
    return static_cast<double>(bytes);
}

// Returns the product for `length` rows, or columns, of C from `first` on. The last two dimensions of its views are the
// matrix.
Problem part_of(const Problem& p, bool columns, int64_t first, int64_t length) {
    Problem part = p;
    const std::size_t axis = columns ? 3 : 2;
    Operand& operand = columns ? part.b : part.a;
    operand.view = sliced(operand.view, axis, first, length, 1);
    part.c = sliced(part.c, axis, first, length, 1);
    (columns ? part.n : part.m) = length;
    // The part with the first row or column has the sums of the factor that is not cut.
    if (p.sums.which != 0 && (p.sums.which == kernels::matmul::kSumsOfB) == columns)
        part.sums.to = sliced(p.sums.to, 0, first, length, 1);
    else if (first > 0)
        part.sums = {};
    return part;
}

// Adds the partial sums of a split K, and applies the epilogue.
void append_split_sum(Lowering& lowering, const Problem& p, const Tiling& tiling, const View& partial) {
    Dispatch sum;
    sum.shader = "matmul/split_sum";
    sum.constants = {epilogue_bits(p.epilogue)};
    set_types(sum, types_of(partial, partial, p.c));
    Problem rest = p;
    rest.a.view = partial;
    rest.b.view = rest.grouped.by = {};
    sum.record = record_of(rest, tiling, p.c, false);
    sum.groups = static_cast<uint64_t>(p.outer * p.inner * divide_up(p.m * p.n, 64));
    sum.bytes = static_cast<double>(partial.bytes()) + bytes_of_result(p);
    lowering.append(std::move(sum));
}

// Returns whether the sums of the factor are computed too.
bool append_matmul(Lowering& lowering, Problem p, bool may_cut = true) {
    const int64_t batches = p.outer * p.inner;
    const Tiling tiling = choose_tiling(lowering, p);
    const bool cuts = may_cut && !lowering.options.equal_rows && batches == 1 && !tiling.chosen_splits &&
                      (tiling.kernel->family == MatmulFamily::tiled || tiling.kernel->family == MatmulFamily::matrix) &&
                      (epilogue_bits(p.epilogue) & ~kernels::matmul::kAccumulate) == 0;
    if (const ProductCut cut = cuts ? gpu_cut(lowering.limits, *tiling.kernel, p.m, p.n, p.k) : ProductCut{};
        cut.length > 0) {
        const int64_t rest = (cut.columns ? p.n : p.m) - cut.length;
        const bool first = append_matmul(lowering, part_of(p, cut.columns, 0, cut.length), false);
        const Problem second = part_of(p, cut.columns, cut.length, rest);
        const bool both = append_matmul(lowering, second, false) || second.sums.which == 0;
        return first && both;
    }
    if (packs(tiling, p)) pack_b(lowering, p, *tiling.kernel);
    const bool split = tiling.splits > 1;
    View partial, sums; // of each split
    if (tiling.has_sums)
        sums = split
                   ? lowering.allocate({tiling.splits, p.sums.to.elements()}, Storage::f32, "partial sums of a factor")
                   : p.sums.to;
    if (split)
        partial = lowering.allocate({tiling.splits, batches, p.m, p.n}, Storage::f32, "partial sums of a matmul");

    Dispatch dispatch;
    dispatch.shader = tiling.shader;
    dispatch.constants = tiling.constants;
    dispatch.subgroup_size = tiling.subgroup;
    set_types(dispatch, types_of(p.a.view, p.b.view, split ? partial : p.c));
    dispatch.record = record_of(p, tiling, split ? partial : p.c, split, sums);
    dispatch.groups =
        static_cast<uint64_t>(divide_up(p.m, tiling.tile_m) * divide_up(p.n, tiling.tile_n) * batches * tiling.splits);
    const bool ranges = p.grouped.how == kernels::matmul::kRangesOfK; // K is divided between the batches
    dispatch.flops = 2.0 * static_cast<double>((ranges ? 1 : batches) * p.m * p.n) * static_cast<double>(p.k);
    dispatch.bytes = static_cast<double>(p.a.view.bytes() + p.b.view.bytes()) +
                     (split ? static_cast<double>(partial.bytes()) : bytes_of_result(p));
    lowering.append(std::move(dispatch));
    if (split) append_split_sum(lowering, p, tiling, partial);
    if (split && tiling.has_sums) sum_chunks(lowering, sums, p.sums.to, tiling.splits);
    return tiling.has_sums;
}

// Computes c [batch..., M, N] (dense rows) = a [batch..., M, K] b [batch..., K, N], with equal batch dimensions.
// Returns whether the sums are computed too.
bool multiply(Lowering& lowering, const Matrix& a, const Matrix& b, const View& c, const Epilogue& epilogue,
              const FactorSums& sums = {}) {
    Problem p;
    p.m = a.view.shape[-2];
    p.k = a.view.shape[-1];
    p.n = b.view.shape[-1];
    p.epilogue = epilogue;
    if (c.elements() == 0) return false;
    if (p.k == 0) {
        if (epilogue.accumulate) return false; // a product that is added to C does not have a bias
        if (epilogue.bias.resource != 0)
            lowering.copy(broadcast_view(epilogue.bias, c.shape), c);
        else
            lowering.fill_zero(c);
        return false;
    }
    p.a = operand_of(lowering, a);
    p.b = operand_of(lowering, b);
    p.c = c;
    p.c_leading = p.m == 1 ? p.n : c.strides[static_cast<std::size_t>(c.shape.rank() - 2)];
    // Batch dimensions, merged where they are contiguous in all three.
    const auto batch_view = [](View view) {
        view.shape[-1] = 1;
        view.shape[-2] = 1;
        return view;
    };
    const View views[] = {batch_view(c), batch_view(p.a.view), batch_view(p.b.view)};
    const Loop loop = make_loop(views);
    const std::size_t rank = loop.dims.size();
    // A kernel supports two batch dimensions; the host iterates over the rest.
    const std::size_t walked = rank > 2 ? rank - 2 : 0;
    if (rank >= 1) {
        p.inner = loop.dims[rank - 1];
        p.c_inner = loop.strides[0][rank - 1];
        p.a_inner = loop.strides[1][rank - 1];
        p.b_inner = loop.strides[2][rank - 1];
    }
    if (rank >= 2) {
        p.outer = loop.dims[rank - 2];
        p.c_outer = loop.strides[0][rank - 2];
        p.a_outer = loop.strides[1][rank - 2];
        p.b_outer = loop.strides[2][rank - 2];
    }
    // Views of one iteration, for exact accesses.
    const auto part = [&](const View& whole, std::size_t operand, int64_t at_outer, int64_t rows, int64_t columns) {
        View view = whole;
        const int full = whole.shape.rank();
        view.shape = graph::Shape{p.outer, p.inner, rows, columns};
        view.strides.fill(0);
        if (rank >= 2) view.strides[0] = loop.strides[operand][rank - 2];
        if (rank >= 1) view.strides[1] = loop.strides[operand][rank - 1];
        view.strides[2] = whole.strides[static_cast<std::size_t>(full - 2)];
        view.strides[3] = whole.strides[static_cast<std::size_t>(full - 1)];
        view.offset = static_cast<uint64_t>(static_cast<int64_t>(whole.offset) + at_outer);
        return view;
    };
    int64_t walks = 1;
    for (std::size_t d = 0; d < walked; ++d) walks *= loop.dims[d];
    if (walks == 1) p.sums = sums;
    bool has_sums = false;
    for (int64_t walk = 0; walk < walks; ++walk) {
        int64_t at[3] = {0, 0, 0};
        int64_t rest = walk;
        for (std::size_t d = walked; d-- > 0;) {
            const int64_t i = rest % loop.dims[d];
            rest /= loop.dims[d];
            for (std::size_t o = 0; o < 3; ++o) at[o] += i * loop.strides[o][d];
        }
        Problem one = p;
        one.c = part(c, 0, at[0], p.m, p.n);
        one.a.view = part(p.a.view, 1, at[1], p.m, p.k);
        one.b.view = part(p.b.view, 2, at[2], p.k, p.n);
        has_sums = append_matmul(lowering, one);
    }
    return has_sums;
}

void multiply_packed(Lowering& lowering, const View& a, const PackedFactor& b, const View& c,
                     const Epilogue& epilogue) {
    Problem p;
    p.m = a.shape[0];
    p.k = b.rows;
    p.n = b.columns;
    p.epilogue = epilogue;
    p.a = operand_of(lowering, matrix_of(a, false));
    p.b = {b.panels, false, b.panel_width, b.rows * b.panel_width};
    p.c = c;
    p.c_leading = p.m == 1 ? p.n : c.strides[0];
    append_matmul(lowering, p);
}

// Flattens [batch..., rows, columns] to [all rows, columns]; false if strides cannot express it.
bool flattened(const View& view, View& out) {
    const int rank = view.shape.rank();
    if (rank == 2) {
        out = view;
        return true;
    }
    int64_t rows = 1;
    int64_t stride = -1;
    for (int d = rank - 2; d >= 0; --d) {
        if (view.shape[d] == 1) continue;
        const int64_t here = view.strides[static_cast<std::size_t>(d)];
        if (stride < 0)
            stride = here;
        else if (here != stride * rows)
            return false;
        rows *= view.shape[d];
    }
    out = view;
    out.shape = graph::Shape{rows, view.shape[-1]};
    out.strides.fill(0);
    out.strides[0] = stride < 0 ? view.shape[-1] : stride;
    out.strides[1] = view.strides[static_cast<std::size_t>(rank - 1)];
    return true;
}

View with_rank_2(const View& view, int64_t rows, int64_t columns) {
    View out = view;
    out.shape = graph::Shape{rows, columns};
    out.strides.fill(0);
    out.strides[0] = columns;
    out.strides[1] = 1;
    return out;
}

Storage storage_of_product(const Lowering& lowering, const graph::Node& node, graph::ValueId y) {
    if (lowering.graph->shape(node.inputs[0]).elements() == 0) return Storage::f32; // no kernel, only a fill
    return lowering.storage_of(y);
}

// Returns [batch..., width] as rows [all rows, width]; copies (appends a dispatch) if strides cannot express it.
View as_matrix(Lowering& lowering, const View& x) {
    View rows;
    if (x.shape.rank() == 1) {
        rows = x;
        rows.shape = graph::Shape{1, x.shape[0]};
        rows.strides[1] = x.strides[0];
        rows.strides[0] = x.shape[0];
    } else if (!flattened(x, rows)) {
        flattened(lowering.contiguous(x), rows);
    }
    return rows;
}

void lower_linear(Lowering& lowering, const graph::Node& node, const FusedEpilogue* after) {
    const graph::Graph& graph = *lowering.graph;
    const graph::ValueId output = after != nullptr ? after->output : node.outputs[0];
    const graph::Shape& shape = graph.shape(output);
    const View y = lowering.allocate(shape, storage_of_product(lowering, node, output), "linear");
    lowering.views[output] = y;
    const View x = factor_view(lowering, node.inputs[0]);
    const View rows = as_matrix(lowering, x);
    Epilogue epilogue;
    if (node.inputs.size() > 2 && node.inputs[2] != graph::kNone)
        epilogue.bias = lowering.contiguous(lowering.view(node.inputs[2]));
    if (after != nullptr) {
        epilogue.activation = after->activation;
        if (after->residual != graph::kNone) {
            const View& residual = lowering.view(after->residual);
            epilogue.residual = as_matrix(lowering, residual);
            if (epilogue.residual.strides[1] != 1 && shape[-1] > 1)
                epilogue.residual = as_matrix(lowering, lowering.contiguous(residual));
        }
        if (after->argument != graph::kNone) epilogue.other = lowering.contiguous(lowering.view(after->argument));
        if (after->recomputed != graph::kNone) {
            epilogue.again = lowering.allocate(shape, y.storage, "an activation, recomputed");
            lowering.views[after->recomputed] = epilogue.again; // for later readers
        }
        if (after->stores_before) {
            epilogue.stores_before = true;
            epilogue.other = lowering.allocate(shape, y.storage, "linear");
            lowering.views[node.outputs[0]] = epilogue.other;
        }
    }
    const bool transposed = node.integer("input_first") == 0;
    if (const auto stored = lowering.panels.find(node.inputs[1]);
        stored != lowering.panels.end() && stored->second.transposed == transposed) {
        const bool float_ = graph.kind(node.inputs[1]) == graph::Kind::float_;
        const View panels = float_ ? lowering.as_16_bit(stored->second.view) : stored->second.view;
        const View c = with_rank_2(y, rows.shape[0], shape[-1]);
        if (c.elements() > 0)
            multiply_packed(lowering, rows, {panels, rows.shape[1], shape[-1], panels.shape[2]}, c, epilogue);
        return;
    }
    const View weight = factor_view(lowering, node.inputs[1]);
    multiply(lowering, matrix_of(rows, false), matrix_of(weight, transposed), with_rank_2(y, rows.shape[0], shape[-1]),
             epilogue);
}

void lower_product(Lowering& lowering, const graph::Node& node) {
    const graph::Graph& graph = *lowering.graph;
    const graph::Shape& shape = graph.shape(node.outputs[0]);
    const View y = lowering.allocate(shape, storage_of_product(lowering, node, node.outputs[0]), "matmul");
    lowering.views[node.outputs[0]] = y;
    Matrix a = matrix_of(factor_view(lowering, node.inputs[0]), node.integer("transpose_a") != 0);
    Matrix b = matrix_of(factor_view(lowering, node.inputs[1]), node.integer("transpose_b") != 0);
    FactorSums sums;
    const auto found = lowering.column_sums.find(lowering.current);
    graph::ValueId sum = graph::kNone;
    if (found != lowering.column_sums.end()) {
        sum = graph.nodes[found->second.node].outputs[0];
        sums.which = found->second.of_b ? kernels::matmul::kSumsOfB : kernels::matmul::kSumsOfA;
        sums.to = lowering.allocate(graph.shape(sum), Storage::f32, "sum of a product's factor");
    }
    // The same b for all batches: their rows are rows of one product.
    View rows;
    if (b.view.shape.rank() == 2 && flattened(a.view, rows)) {
        if (multiply(lowering, matrix_of(rows, false), b, with_rank_2(y, rows.shape[0], shape[-1]), {}, sums))
            lowering.views[sum] = sums.to;
        return;
    }
    const auto broadcast = [&](const View& view) {
        graph::Shape full = shape;
        full[-2] = view.shape[-2];
        full[-1] = view.shape[-1];
        return broadcast_view(view, full);
    };
    multiply(lowering, matrix_of(broadcast(a.view), false), matrix_of(broadcast(b.view), false), y, {});
}

} // namespace

PackedFactor packed_for_products(Lowering& lowering, const View& b, int64_t rows) {
    const MatmulKernel* const kernel = &panel_kernel(rows);
    const Matrix matrix = matrix_of(b, true);
    Problem p;
    p.k = matrix.view.shape[0];
    p.n = matrix.view.shape[1];
    const MatmulShape shape{1, rows, p.n, p.k, false, true};
    const std::vector<const MatmulKernel*> candidates = matmul_candidates(lowering.limits, shape);
    if (candidates.front() != kernel || matrix.row_stride != 1) return {};
    p.b = operand_of(lowering, matrix);
    pack_b(lowering, p, *kernel);
    return {p.b.view, p.k, p.n, p.b.leading};
}

void multiply(Lowering& lowering, const View& a, const PackedFactor& b, const View& c, const View& bias) {
    Epilogue epilogue;
    epilogue.bias = bias;
    multiply_packed(lowering, a, b, c, epilogue);
}

void multiply(Lowering& lowering, const View& a, bool transpose_a, const View& b, bool transpose_b, const View& c,
              const View& bias, bool accumulate) {
    Epilogue epilogue;
    epilogue.bias = bias;
    epilogue.accumulate = accumulate;
    multiply(lowering, matrix_of(a, transpose_a), matrix_of(b, transpose_b), c, epilogue);
}

void multiply_by_tiles(Lowering& lowering, const View& a, const View& matrix_of_tile, const View& b, bool transpose_b,
                       const View& c) {
    const Matrix matrix = matrix_of(b, transpose_b);
    Problem p;
    p.a = operand_of(lowering, matrix_of(a, false));
    p.b = operand_of(lowering, matrix);
    p.c = c;
    p.inner = a.shape[0];
    p.m = a.shape[1];
    p.k = a.shape[2];
    p.n = c.shape[2];
    p.c_leading = c.strides[1];
    p.a_inner = p.a.view.strides[0];
    p.b_inner = p.b.view.strides[0];
    p.c_inner = c.strides[0];
    p.grouped = {kernels::matmul::kChosenB, matrix_of_tile, b.shape[0]};
    append_matmul(lowering, p);
}

void multiply_ranges(Lowering& lowering, const View& a, const View& b, const View& first, const View& c) {
    Problem p;
    p.a = operand_of(lowering, matrix_of(a, true));
    p.b = operand_of(lowering, matrix_of(b, false));
    p.c = c;
    p.inner = c.shape[0];
    p.m = c.shape[1];
    p.k = a.shape[0];
    p.n = c.shape[2];
    p.c_leading = c.strides[1];
    p.c_inner = c.strides[0];
    p.grouped = {kernels::matmul::kRangesOfK, first, 0};
    append_matmul(lowering, p);
}

Status lower_matmul(Lowering& lowering, graph::NodeId id) {
    const graph::Node& node = lowering.graph->nodes[id];
    if (node.op == Op::linear)
        lower_linear(lowering, node, nullptr);
    else
        lower_product(lowering, node);
    return {};
}

void lower_linear(Lowering& lowering, const FusedEpilogue& epilogue) {
    lower_linear(lowering, lowering.graph->nodes[epilogue.node], &epilogue);
}

} // namespace hekla::program
