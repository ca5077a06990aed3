// C++ wrappers for combiners: HEKLA_PLUGIN({HK_COMBINER_INTERFACE, "mean", combiner<Mean>()}). The manifest asks for
// "abi_minor_needed": 1.
#pragma once

#include "adapter.hpp"

#include "hekla/plugin/combiner.h"

namespace hekla::plugin {

// hk_branch.
struct Branch {
    std::string_view name;
    Value delta, input, a{}, b{};
    bool acts() const { return delta.id != 0; }
};

// hk_combined.
struct Combined {
    Value delta, weights{}, loss{};
};

// Returns the branches that act at the site.
inline std::vector<Branch> acting(const std::vector<Branch>& branches) {
    std::vector<Branch> found;
    for (const Branch& branch : branches)
        if (branch.acts()) found.push_back(branch);
    return found;
}

// Returns the sum of the branches that act, each multiplied by its column of weights [..., number of branches].
inline Value weighted_sum(const std::vector<Branch>& branches, Value weights) {
    Value sum;
    for (std::size_t i = 0; i < branches.size(); ++i) {
        if (!branches[i].acts()) continue;
        const Value part = slice(weights, -1, static_cast<int64_t>(i), 1) * branches[i].delta;
        sum = sum.id == 0 ? part : sum + part;
    }
    return sum;
}

// Returns the weights of the branches that act as those of all branches: 0 for the others.
inline Value weights_of_all(Graph& g, const std::vector<Branch>& branches, Value weights) {
    std::vector<Value> columns;
    std::vector<int64_t> column = weights.shape();
    if (column.empty()) return weights; // after an error
    column.back() = 1;
    int64_t next = 0;
    for (const Branch& branch : branches)
        columns.push_back(branch.acts() ? slice(weights, -1, next++, 1) : g.fill(column, 0.0));
    return static_cast<std::size_t>(next) == branches.size() ? weights : concat(columns, -1);
}

// The key "weights": a number for each branch, or none.
class BranchWeights {
public:
    explicit BranchWeights(const Config& config) {
        for (uint64_t i = 0; i < config.count("weights"); ++i)
            numbers_.push_back(config.real("weights." + std::to_string(i)));
    }
    // Throws if there are numbers, but not one for each branch.
    void check(const std::vector<Branch>& branches) const {
        if (!numbers_.empty() && numbers_.size() != branches.size())
            throw invalid("weights has " + std::to_string(numbers_.size()) + " numbers; expected one for each of the " +
                          std::to_string(branches.size()) + " adapters, or none");
    }
    bool given() const { return !numbers_.empty(); }
    double operator[](std::size_t branch) const { return numbers_.empty() ? 1.0 : numbers_[branch]; }

private:
    std::vector<double> numbers_;
};

// A combiner T has: T(const Config&), Combined combine(Graph&, const Site&, const SiteValues&, const
// std::vector<Branch>&).
template<class T>
const hk_combiner* combiner() {
    static const hk_combiner kTable = [] {
        hk_combiner table{};
        table.create = [](const hk_config* config, void** self, hk_error* error) -> int32_t {
            return guarded(error, [&] { *self = std::make_unique<T>(Config(config)).release(); });
        };
        table.destroy = [](void* self) { delete static_cast<T*>(self); };
        table.combine = [](void* self, hk_builder* builder, const hk_adapter_site* site, const hk_site_values* values,
                           const hk_branch* branches, uint32_t count, hk_combined* combined,
                           hk_error* error) -> int32_t {
            return guarded(error, [&] {
                Graph g(builder);
                std::vector<Branch> all;
                for (uint32_t i = 0; i < count; ++i) {
                    const auto& branch = *reinterpret_cast<const hk_branch*>(
                        reinterpret_cast<const char*>(branches) + std::size_t{i} * branches->struct_size); // [abi.5]
                    all.push_back(
                        {view(branch.name), {&g, branch.delta}, {&g, branch.input}, {&g, branch.a}, {&g, branch.b}});
                }
                const SiteValues given{{&g, values->x}, {&g, values->y}, {}, {}, {&g, values->normed}};
                const Combined made = static_cast<T*>(self)->combine(g, Site(*site), given, all);
                combined->delta = made.delta.id;
                combined->weights = made.weights.id;
                combined->loss = made.loss.id;
            });
        };
        return table;
    }();
    return &kTable;
}

} // namespace hekla::plugin
