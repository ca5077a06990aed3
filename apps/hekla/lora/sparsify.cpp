#include "lora/sparsify.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace hekla::lora {
namespace {

void keep_largest(std::vector<double>& values, double density) {
    const auto kept = static_cast<std::size_t>(density * static_cast<double>(values.size()));
    std::vector<std::size_t> order(values.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order,
                             [&](std::size_t a, std::size_t b) { return std::abs(values[a]) > std::abs(values[b]); });
    for (std::size_t i = kept; i < order.size(); ++i) values[order[i]] = 0.0;
}

void keep_some(std::vector<double>& values, double density, RandomStream& random) {
    for (double& value : values) value = random.next_unit() < density ? value / density : 0.0;
}

double sign_of(double value) { return value > 0.0 ? 1.0 : value < 0.0 ? -1.0 : 0.0; }

} // namespace

std::vector<double> combined(std::vector<std::vector<double>> tensors, std::span<const double> weights,
                             const Sparsifying& how, RandomStream& random) {
    for (std::vector<double>& tensor : tensors) {
        if (how.density >= 1.0) break;
        if (how.pruning == Pruning::magnitude) keep_largest(tensor, how.density);
        if (how.pruning == Pruning::random) keep_some(tensor, how.density, random);
    }
    std::vector<double> result(tensors.empty() ? 0 : tensors[0].size());
    for (std::size_t i = 0; i < result.size(); ++i) {
        double majority = 0.0;
        for (const std::vector<double>& tensor : tensors)
            majority += how.majority == MajoritySign::total ? tensor[i] : sign_of(tensor[i]);
        const double elected = majority >= 0.0 ? 1.0 : -1.0;
        double sum = 0.0, count = 0.0;
        for (std::size_t t = 0; t < tensors.size(); ++t) {
            if (how.elect_signs && sign_of(tensors[t][i]) != elected) continue;
            sum += tensors[t][i] * weights[t];
            count += 1.0;
        }
        result[i] = how.elect_signs ? sum / std::max(count, 1.0) : sum;
    }
    return result;
}

} // namespace hekla::lora
