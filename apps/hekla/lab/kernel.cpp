#include "lab/kernel.hpp"

#include "base/philox.hpp"
#include "gpu/shader.hpp"
#include "lab_shaders.hpp"
#include "program/lowering/half.hpp"
#include "program/program_bench.hpp"
#include "program/runtime.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>

namespace hekla::lab {

bool has_kernel(const std::string& name) {
    const auto kernels = embedded::lab();
    return std::ranges::find(kernels, name, &gpu::EmbeddedShader::name) != kernels.end();
}

Result<program::Dispatch> dispatch_of(const std::string& name, std::vector<uint32_t> constants) {
    HK_ASSIGN(const gpu::Shader shader, gpu::Shader::find(embedded::lab(), name));
    program::Dispatch dispatch;
    dispatch.shader = "lab/" + name;
    dispatch.words = std::make_shared<const std::vector<uint32_t>>(shader.words().begin(), shader.words().end());
    dispatch.constants = std::move(constants);
    dispatch.label = name;
    return dispatch;
}

program::Record begin_record() {
    program::Record record;
    record.put(0u);
    record.put(0u);
    return record;
}

Result<std::unique_ptr<program::TuningBench>> make_bench(program::Runtime& runtime) {
    return program::tuning_benches(runtime).make();
}

Status warm_up(program::Runtime& runtime) { return program::raise_clock(runtime); }

std::vector<std::byte> random_numbers(int64_t elements, program::Storage storage, uint64_t stream) {
    RandomStream random(1766, stream);
    const std::size_t size = program::bytes_of(storage);
    std::vector<std::byte> bytes(static_cast<std::size_t>(elements) * size);
    const std::size_t different = std::min(static_cast<std::size_t>(elements), std::size_t{1} << 20);
    for (std::size_t i = 0; i < different; ++i) {
        const auto x = static_cast<float>(2.0 * random.next_unit() - 1.0);
        if (size == 2) {
            const uint16_t half = program::to_half(storage, x);
            std::memcpy(bytes.data() + i * 2, &half, 2);
        } else {
            std::memcpy(bytes.data() + i * 4, &x, 4);
        }
    }
    for (std::size_t at = different * size; at < bytes.size(); at += different * size)
        std::memcpy(bytes.data() + at, bytes.data(), std::min(different * size, bytes.size() - at));
    return bytes;
}

double number_at(std::span<const std::byte> bytes, program::Storage storage, uint64_t i) {
    if (program::bytes_of(storage) == 2) {
        uint16_t half = 0;
        std::memcpy(&half, bytes.data() + i * 2, 2);
        return static_cast<double>(program::from_half(storage, half));
    }
    float x = 0;
    std::memcpy(&x, bytes.data() + i * 4, 4);
    return static_cast<double>(x);
}

Product shortened(Product product, double flops_per_second, int64_t least) {
    // Half of the peak is usual.
    const double most = std::max(1e6, 0.5 * flops_per_second * kMeasured);
    while (product.flops() > most) {
        int64_t& largest = product.m >= product.n && product.m >= product.k ? product.m
                           : product.n >= product.k                         ? product.n
                                                                            : product.k;
        if (largest <= least) break;
        largest = std::max(least, largest / 2 / 128 * 128);
    }
    return product;
}

report::Outcome not_measured(const std::string& why) {
    report::Outcome outcome;
    outcome.result["not_measured"] = why;
    outcome.text = "not measured: " + why;
    return outcome;
}

std::string compare_product(const Product& p, std::span<const std::byte> a, std::span<const std::byte> b,
                            program::Storage factors, std::span<const std::byte> c, program::Storage result,
                            double (*f)(double, double), std::span<const std::byte> x) {
    const double rounding = result == program::Storage::f16 ? 0x1p-10 : result == program::Storage::bf16 ? 0x1p-7 : 0.0;
    RandomStream random(1766, 99);
    for (int i = 0; i < 64; ++i) {
        const uint64_t row = random.next_below(static_cast<uint64_t>(p.m)),
                       column = random.next_below(static_cast<uint64_t>(p.n));
        const auto k = static_cast<uint64_t>(p.k), m = static_cast<uint64_t>(p.m), n = static_cast<uint64_t>(p.n);
        double sum = 0, size = 0;
        for (uint64_t j = 0; j < k; ++j) {
            const double term = number_at(a, factors, p.transpose_a ? j * m + row : row * k + j) *
                                number_at(b, factors, p.transpose_b ? column * k + j : j * n + column);
            sum += term;
            size += std::abs(term);
        }
        if (f != nullptr) sum = f(sum, x.empty() ? 0.0 : number_at(x, program::Storage::f16, row * n + column));
        const double got = number_at(c, result, row * n + column);
        // Matrix units cut sums off, once for each multiplication.
        if (!(std::abs(got - sum) <= (1e-6 + 0x1p-23 * static_cast<double>(k) / 8) * size + rounding * std::abs(sum)))
            return fmt::format("element [{}, {}] of {} x {} x {} is {:.6g}; float64 computes {:.6g}", row, column, p.m,
                               p.n, p.k, got, sum);
    }
    return {};
}

Result<double> peak_of(const Input& input, program::Storage factors) {
    if (const report::Line* const units = report::result_of(input.before, "units");
        units != nullptr && units->contains("peak_flops"))
        if (const auto known = (*units)["peak_flops"].find(program::storage_name(factors));
            known != (*units)["peak_flops"].end())
            return known->get<double>();
    return program::peak_flops(input.runtime, factors);
}

const char* component_name(gpu::ComponentType type) {
    switch (type) {
    case gpu::ComponentType::float16: return "f16";
    case gpu::ComponentType::bfloat16: return "bf16";
    case gpu::ComponentType::float32: return "f32";
    case gpu::ComponentType::other: break;
    }
    return "other";
}

double rounded(double value) {
    if (value == 0 || !std::isfinite(value)) return 0;
    const double digits = 3 - std::floor(std::log10(std::abs(value)));
    const double unit = std::pow(10.0, std::abs(digits));
    return digits >= 0 ? std::round(value * unit) / unit : std::round(value / unit) * unit;
}

} // namespace hekla::lab
