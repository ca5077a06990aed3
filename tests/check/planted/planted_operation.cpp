// Three operations that are correct unless HEKLA_FAULT names a fault: planted.blend has two inputs, an attribute and
// two outputs, planted.product is a matrix product, planted.shift adds a vector to rows.
#include "own_operation.hpp"

#include "fault.hpp"

using namespace hekla::plugin;

namespace {

// y = a b + strength a^2, z = a - b
struct Blend {
    static OperationText describe() {
        OperationText text{.inputs = {{"a"}, {"b"}}, .attributes = {attribute("strength", 0.5)}, .outputs = {"y", "z"}};
        text.glsl =
            fault("kernel_swaps_outputs")
                ? "void operation(uint i) { store_z(i, load_a(i) * load_b(i) + strength * load_a(i) * load_a(i));\n"
                  "    store_y(i, load_a(i) - load_b(i)); }"
            : fault("kernel_in_bfloat16")
                ? "void operation(uint i) { float a = uintBitsToFloat(floatBitsToUint(load_a(i)) & 0xffff0000u);\n"
                  "    store_y(i, a * load_b(i) + strength * a * a); store_z(i, a - load_b(i)); }"
            : fault("kernel_forgets_the_last")
                ? "void operation(uint i) { if (i + 1u == a_size) { store_y(i, 0.0); store_z(i, 0.0); return; }\n"
                  "    store_y(i, load_a(i) * load_b(i) + strength * load_a(i) * load_a(i));\n"
                  "    store_z(i, load_a(i) - load_b(i)); }"
                : "void operation(uint i) { store_y(i, load_a(i) * load_b(i) + strength * load_a(i) * load_a(i));\n"
                  "    store_z(i, load_a(i) - load_b(i)); }";
        return text;
    }
    static void shape(OperationUse& use) {
        use.require_same_shape(0, 1);
        use.give(0, use.shape(0));
        use.give(1, use.shape(0));
    }
    static std::vector<Value> gradient(const OperationGradient& d) {
        const double strength = fault("gradient_ignores_strength") ? 0.5 : d.real("strength");
        const Value a = d.inputs[0], b = d.inputs[1], dy = d.output_gradients[0], dz = d.output_gradients[1];
        Value da = dy * (b + 2.0 * strength * a) + dz, db = dy * a - dz;
        if (fault("gradient_doubled")) db = dy * a * 2.0 - dz;
        if (fault("gradient_of_other_sign")) da = -da;
        if (fault("gradients_swapped")) std::swap(da, db);
        if (fault("gradient_forgets_the_square")) da = dy * b + dz;
        if (fault("gradient_forgets_the_second")) da = dy * (b + 2.0 * strength * a);
        if (fault("gradient_without_dy")) db = a - dz;
        if (fault("gradient_without_b")) db = {};
        if (fault("gradient_of_one_sign")) db = dy * abs(a) - dz;
        return {da, db};
    }
    static void reference(OperationUse& use) {
        const double strength = use.real("strength");
        for (std::size_t i = 0; i < use.output(0).size(); ++i) {
            const double a = use.input(0)[i], b = use.input(1)[i];
            use.output(0)[i] = a * b + strength * a * a;
            use.output(1)[i] = a - b;
        }
    }
};

// y [m, n] = a [m, k] b [n, k]^T
struct Product {
    static OperationText describe() {
        return {.inputs = {{"a"}, {"b"}},
                .attributes = {},
                .outputs = {"y"},
                .glsl = "void operation(uint i) { const uint k = a_dim(1u), n = b_dim(0u);\n"
                        "    float s = 0.0;\n"
                        "    for (uint j = 0u; j < k; ++j) s += load_a(i / n * k + j) * load_b(i % n * k + j);\n"
                        "    store_y(i, s); }"};
    }
    static void shape(OperationUse& use) {
        use.require_rank(0, 2);
        use.require_rank(1, 2);
        if (use.shape(0)[1] != use.shape(1)[1]) throw invalid("a and b have rows of different lengths");
        use.give(0, {use.shape(0)[0], use.shape(1)[0]});
    }
    static std::vector<Value> gradient(const OperationGradient& d) {
        const Value a = d.inputs[0], b = d.inputs[1], dy = d.output_gradients[0];
        Value da = matmul(dy, b), db = matmul(dy, a, {.transpose_a = 1});
        if (fault("gradient_transposed") && a.dim(0) == b.dim(0)) da = matmul(dy, b, {.transpose_a = 1});
        if (fault("gradient_of_the_wrong_factor") && a.dim(0) == b.dim(0)) db = matmul(dy, b, {.transpose_a = 1});
        return {da, db};
    }
    static void reference(OperationUse& use) {
        const auto k = static_cast<std::size_t>(use.shape(0)[1]), n = static_cast<std::size_t>(use.shape(1)[0]);
        for (std::size_t i = 0; i < use.output(0).size(); ++i) {
            double s = 0.0;
            for (std::size_t j = 0; j < k; ++j) s += use.input(0)[i / n * k + j] * use.input(1)[i % n * k + j];
            use.output(0)[i] = s;
        }
    }
};

// y [..., n] = x + b, where b is [n]
struct Shift {
    static OperationText describe() {
        return {.inputs = {{"x"}, {"b"}},
                .attributes = {},
                .outputs = {"y"},
                .glsl = "void operation(uint i) { store_y(i, load_x(i) + load_b(i % max(b_size, 1u))); }"};
    }
    static void shape(OperationUse& use) {
        use.require_rank(1, 1);
        const Dims x = use.shape(0);
        if (x.empty() || x.back() != use.shape(1)[0]) throw invalid("b needs one number for each column of x");
        use.give(0, x);
    }
    static std::vector<Value> gradient(const OperationGradient& d) {
        const Value dy = d.output_gradients[0];
        Dims axes;
        for (int i = 0; i + 1 < dy.rank(); ++i) axes.push_back(i);
        if (axes.empty()) return {dy, dy};
        Value db = sum(dy, axes);
        if (fault("gradient_is_a_mean")) db = mean(dy, axes);
        if (fault("gradient_of_the_first_row"))
            db = reshape(slice(reshape(dy, {-1, dy.dim(-1)}), 0, 0, 1), {dy.dim(-1)});
        return {dy, db};
    }
    static void reference(OperationUse& use) {
        const std::size_t n = use.input(1).size();
        for (std::size_t i = 0; i < use.output(0).size(); ++i) use.output(0)[i] = use.input(0)[i] + use.input(1)[i % n];
    }
};

} // namespace

HEKLA_PLUGIN({HK_OPERATION_INTERFACE, "planted.blend", operation<Blend>()},
             {HK_OPERATION_INTERFACE, "planted.product", operation<Product>()},
             {HK_OPERATION_INTERFACE, "planted.shift", operation<Shift>()})
