// Fixed routing: each row of a batch has the adapter that a field names.
#include "combiner.hpp"

using namespace hekla::plugin;

namespace {

// adapter_rows [B] int32: the number of a row's adapter in the order of the combination; -1: none.
class Fixed {
public:
    explicit Fixed(const Config& config) : weights_(config) {}
    Combined combine(Graph& g, const Site& site, const SiteValues& v, const std::vector<Branch>& branches) const {
        if (!g.has_field("adapter_rows"))
            throw invalid("the batch has no field adapter_rows, which names the adapter of each row");
        weights_.check(branches);
        const Value rows = g.input("adapter_rows");
        if (rows.rank() != 1 || v.y.rank() == 0 || v.y.dim(0) != rows.dim(0))
            throw unsupported("the values of '" + std::string(site.name) + "' have no dimension of the batch's rows");
        Dims column(static_cast<std::size_t>(v.y.rank()), 1);
        column[0] = rows.dim(0);
        const Value row = reshape(rows, column);
        std::vector<Value> weights;
        Value sum;
        for (std::size_t i = 0; i < branches.size(); ++i) {
            const Value chosen = equal(row, static_cast<double>(i));
            weights.push_back(cast(chosen, HK_KIND_FLOAT));
            if (!branches[i].acts()) continue;
            // Not a product: what another row's adapter computes may be infinite.
            const Value delta = weights_.given() ? branches[i].delta * weights_[i] : branches[i].delta;
            const Value part = where(chosen, delta, g.fill({1}, 0.0));
            sum = sum.id == 0 ? part : sum + part;
        }
        return {sum, concat(weights, -1)};
    }

private:
    BranchWeights weights_;
};

} // namespace

HEKLA_PLUGIN({HK_COMBINER_INTERFACE, "fixed", combiner<Fixed>()})
