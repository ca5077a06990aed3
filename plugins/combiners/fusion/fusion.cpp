// AdapterFusion (Pfeiffer et al. 2021): at each site, attention over what the adapters answer, with the site's value as
// the query. Keys, names of parameters and initial values are those of AdapterHub's library (BertFusion).
#include "block.hpp"
#include "combiner.hpp"

using namespace hekla::plugin;

namespace {

constexpr double kOffDiagonal = 1e-6; // initial values of the value matrix; 1 on the diagonal

class Fusion {
public:
    explicit Fusion(const Config& config)
        : query_(config.boolean("query")), key_(config.boolean("key")), value_(config.boolean("value")),
          query_before_ln_(config.boolean("query_before_ln")), residual_before_(config.boolean("residual_before")),
          temperature_(config.boolean("temperature")), regularization_(config.real("regularization")),
          dropout_(config.real("dropout_prob")) {}

    Combined combine(Graph& g, const Site& site, const SiteValues& v, const std::vector<Branch>& branches) const {
        const std::vector<Branch> found = acting(branches);
        Value query = query_before_ln_ ? v.y : found.back().input;
        if (query_)
            query = linear_layer(g, query, "query", site.out, {.initializer = normal(0.02)});
        else if (query.dim(-1) != site.out)
            throw invalid("query = false needs values as wide as the result of '" + std::string(site.name) + "', " +
                          std::to_string(site.out) + ", and they have the width " + std::to_string(query.dim(-1)));
        std::vector<Value> scores;
        std::vector<Branch> given = found;
        for (Branch& branch : given) {
            if (residual_before_) branch.delta = branch.delta + v.y;
            const Value key =
                key_ ? linear_layer(g, branch.delta, "key", site.out, {.initializer = normal(0.02)}) : branch.delta;
            scores.push_back(sum(query * key, {-1}, {.keep = 1}));
        }
        Value score = drop(g, concat(scores, -1), dropout_);
        if (temperature_) score = score / g.step_scalar("fusion_temperature", 1.0);
        const Value weights = softmax(score);
        // The value matrix has no bias, so that it may be applied to the sum.
        Value fused = weighted_sum(given, weights);
        Value loss;
        if (value_) {
            const Value number = g.iota(site.out);
            const Value identity =
                cast(equal(reshape(number, {site.out, 1}), reshape(number, {1, site.out})), HK_KIND_FLOAT);
            const Value matrix = initial_parameter(g, "value.weight", identity * (1.0 - kOffDiagonal) + kOffDiagonal);
            fused = linear(fused, matrix);
            if (regularization_ > 0.0 && g.training()) {
                const Value difference = matrix - identity;
                loss = sum(difference * difference, {0, 1}) * regularization_;
            }
        }
        // The host adds it to y, which residual_before has added already.
        if (residual_before_) fused = fused - v.y;
        return {fused, weights_of_all(g, branches, weights), loss};
    }

private:
    bool query_, key_, value_, query_before_ln_, residual_before_, temperature_;
    double regularization_, dropout_;
};

} // namespace

HEKLA_PLUGIN({HK_COMBINER_INTERFACE, "fusion", combiner<Fusion>()})
