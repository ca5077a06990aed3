// A low-rank adapter with a scale, and a combiner that averages its branches. Both are correct unless HEKLA_FAULT names
// a fault.
#include "combiner.hpp"

#include "fault.hpp"

#include <cmath>

using namespace hekla::plugin;

namespace {

class Scaled {
public:
    explicit Scaled(const Config& config) : rank_(config.integer("rank")) {}

    bool wants(const Site& site) const { return site.linear() && !site.of_head; }

    SiteAnswer adapt(Graph& g, const Site& site, const SiteValues& v) const {
        const auto [a, b, shift] = tensors(g, site);
        Value y = linear(linear(v.x, a), b) * scale() + shift;
        if (fault("adapter_averages_tokens") && y.rank() == 3) y = y + mean(y, {1}, {.keep = 1});
        if (fault("adapter_reads_another_row") && y.rank() == 3) y = y + 0.1 * flip(y, 0);
        if (fault("adapter_drops_in_evaluation")) y = y * to_float(less(random_uniform(g, y.shape()), 0.9));
        if (fault("adapter_stops_its_gradient")) y = 0.5 * y + 0.5 * stop_gradient(y);
        if (fault("adapter_divides_by_length") && y.rank() == 3) y = y / static_cast<double>(y.dim(1));
        if (fault("adapter_divides_by_rows")) y = y / static_cast<double>(y.dim(0));
        return delta(y);
    }

    MergedSite merge(Graph& g, const Site& site, const SiteValues& v) const {
        const auto [a, b, shift] = tensors(g, site);
        Value change = matmul(b, a) * scale();
        if (fault("merge_forgets_the_scale")) change = matmul(b, a);
        if (fault("merge_scales_twice")) change = change * scale();
        if (fault("merge_takes_away")) change = -change;
        if (fault("merge_transposes") && site.in == site.out) change = transpose(change, {1, 0});
        if (fault("merge_takes_the_root")) change = matmul(b, a) / std::sqrt(static_cast<double>(rank_));
        if (fault("merge_replaces")) return {change, v.bias + shift};
        if (fault("merge_adds_twice")) return {v.weight + change + change, v.bias + shift};
        if (fault("merge_forgets_the_bias")) return {v.weight + change, v.bias};
        if (fault("merge_of_the_first_rank"))
            return {v.weight + matmul(slice(b, 1, 0, 1), slice(a, 0, 0, 1)) * scale(), v.bias + shift};
        return {v.weight + change, v.bias + shift};
    }

private:
    struct Tensors {
        Value a, b, shift;
    };
    Tensors tensors(Graph& g, const Site& site) const {
        const Value a = g.parameter("a", {rank_, site.in}, normal(0.1));
        const Value b = g.parameter("b", {site.out, rank_}, normal(0.1));
        return {a, b, g.parameter("shift", {site.out}, zeros())};
    }
    double scale() const { return 1.0 / static_cast<double>(rank_); }
    int64_t rank_;
};

struct Average {
    explicit Average(const Config&) {}
    Combined combine(Graph& g, const Site&, const SiteValues& v, const std::vector<Branch>& branches) {
        const std::vector<Branch> found = acting(branches);
        const auto count = static_cast<int64_t>(found.size());
        Value y = weighted_sum(found, g.fill({count}, 1.0 / static_cast<double>(count)));
        if (fault("combiner_reads_another_row") && v.y.rank() == 3) y = y + 0.1 * flip(y, 0);
        if (fault("combiner_averages_tokens") && v.y.rank() == 3) y = y + mean(y, {1}, {.keep = 1});
        if (fault("combiner_draws_weights")) y = y * (1.0 + 0.1 * sum_all(random_normal(g, {1})));
        if (fault("combiner_stops_its_gradient")) y = 0.5 * y + 0.5 * stop_gradient(y);
        if (fault("combiner_divides_by_rows")) y = y / static_cast<double>(v.y.dim(0));
        return {y};
    }
};

} // namespace

HEKLA_PLUGIN({HK_ADAPTER_INTERFACE, "planted_scaled", adapter<Scaled>()},
             {HK_COMBINER_INTERFACE, "planted_average", combiner<Average>()})
