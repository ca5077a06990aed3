#include "lora/combination.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>

namespace hekla::lora {
namespace {

constexpr std::array<Combination, 11> kCombinations{{
    {"linear", Form::matrices, Pruning::none, false},
    {"cat", Form::stacked, Pruning::none, false},
    {"svd", Form::changes, Pruning::none, false},
    {"ties", Form::matrices, Pruning::magnitude, true},
    {"dare_linear", Form::matrices, Pruning::random, false},
    {"dare_ties", Form::matrices, Pruning::random, true},
    {"magnitude_prune", Form::matrices, Pruning::magnitude, false},
    {"ties_svd", Form::changes, Pruning::magnitude, true},
    {"dare_linear_svd", Form::changes, Pruning::random, false},
    {"dare_ties_svd", Form::changes, Pruning::random, true},
    {"magnitude_prune_svd", Form::changes, Pruning::magnitude, false},
}};

Status check_sizes(std::span<const Term> terms, bool equal_ranks) {
    const LowRank& first = terms[0].factors;
    for (const Term& term : terms) {
        const auto& [b, a] = term.factors;
        if (a.rows == b.columns && a.columns == first.a.columns && b.rows == first.b.rows &&
            (!equal_ranks || a.rows == first.a.rows))
            continue;
        return invalid_argument(
            fmt::format("the matrices are [{}, {}] [{}, {}] in one adapter and [{}, {}] [{}, {}] in another; "
                        "expected equal sizes{}",
                        first.b.rows, first.b.columns, first.a.rows, first.a.columns, b.rows, b.columns, a.rows,
                        a.columns, equal_ranks ? " and ranks; of different ranks are 'cat' and 'svd'" : ""));
    }
    return {};
}

// Returns [scale * weight * A; ...] and [B, ...].
LowRank stacked(std::span<const Term> terms) {
    int64_t rank = 0;
    for (const Term& term : terms) rank += term.factors.rank();
    LowRank all{Matrix(terms[0].factors.b.rows, rank), Matrix(rank, terms[0].factors.a.columns)};
    int64_t at = 0;
    for (const Term& term : terms) {
        const auto& [b, a] = term.factors;
        for (int64_t k = 0; k < a.rows; ++k, ++at) {
            for (int64_t column = 0; column < a.columns; ++column)
                all.a.at(at, column) = a.at(k, column) * term.scale * term.weight;
            for (int64_t row = 0; row < b.rows; ++row) all.b.at(row, at) = b.at(row, k);
        }
    }
    return all;
}

} // namespace

std::span<const Combination> combinations() { return kCombinations; }

std::optional<Combination> combination_named(std::string_view name) {
    const auto found = std::ranges::find(kCombinations, name, &Combination::name);
    return found != kCombinations.end() ? std::optional(*found) : std::nullopt;
}

Result<LowRank> combine(std::span<const Term> terms, const CombinationOptions& options, RandomStream& random) {
    if (terms.empty())
        return invalid_argument("there are no matrices to combine; expected those of an adapter or more");
    const Combination& how = options.how;
    HK_TRY(check_sizes(terms, how.form == Form::matrices));
    if (how.form == Form::stacked) return stacked(terms);
    if (how.form == Form::changes && how.pruning == Pruning::none) { // the exact decomposition of the stacked factors
        HK_ASSIGN(const Decomposition exact, decompose(stacked(terms)));
        return truncated(exact, options.rank);
    }
    const Sparsifying sparsifying{how.pruning, how.elect_signs, options.majority, options.density};
    std::vector<double> weights, signed_weights;
    std::vector<std::vector<double>> all_a, all_b, changes;
    for (const Term& term : terms) {
        const double weight = term.weight * term.scale;
        if (how.form == Form::changes) {
            // The scale is a part of the change, as it decides which elements are the largest.
            Matrix change = product(term.factors);
            for (double& x : change.data) x *= term.scale;
            changes.push_back(std::move(change.data));
            weights.push_back(term.weight);
            continue;
        }
        weights.push_back(std::sqrt(std::abs(weight)));
        signed_weights.push_back(weight < 0.0 ? -weights.back() : weights.back());
        all_a.push_back(term.factors.a.data);
        all_b.push_back(term.factors.b.data);
    }
    LowRank shapes{Matrix(terms[0].factors.b.rows, terms[0].factors.rank()),
                   Matrix(terms[0].factors.rank(), terms[0].factors.a.columns)};
    if (how.form == Form::matrices) {
        shapes.a.data = combined(std::move(all_a), signed_weights, sparsifying, random);
        shapes.b.data = combined(std::move(all_b), weights, sparsifying, random);
        return shapes;
    }
    Matrix change(shapes.b.rows, shapes.a.columns);
    change.data = combined(std::move(changes), weights, sparsifying, random);
    HK_ASSIGN(const Decomposition exact, decompose(change));
    return truncated(exact, options.rank);
}

} // namespace hekla::lora
