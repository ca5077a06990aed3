// %NAME%: a low-rank matrix that is added to every linear layer of a trained body: y + B A x (LoRA, Hu et al. 2021).
#include "adapter.hpp"

using namespace hekla::plugin;

namespace {

class %CLASS% {
public:
    explicit %CLASS%(const Config& config) : rank_(config.integer("rank")) {}

    // Where it acts.
    bool wants(const Site& site) const { return site.linear() && !site.of_head; }

    // What is added to y. B begins with zeros, so that nothing changes before training.
    SiteAnswer adapt(Graph& g, const Site& site, const SiteValues& v) const {
        const auto [a, b] = matrices(g, site);
        return delta(linear(linear(v.x, a), b), v.x);
    }

    // The weight with which the layer alone computes the same.
    MergedSite merge(Graph& g, const Site& site, const SiteValues& v) const {
        const auto [a, b] = matrices(g, site);
        return {v.weight + matmul(b, a), v.bias};
    }

private:
    struct Matrices {
        Value a, b; // [rank, in], [out, rank]
    };
    Matrices matrices(Graph& g, const Site& site) const {
        return {g.parameter("a", {rank_, site.in}, normal(0.02)), g.parameter("b", {site.out, rank_}, zeros())};
    }
    int64_t rank_;
};

} // namespace

HEKLA_PLUGIN({HK_ADAPTER_INTERFACE, "%NAME%", adapter<%CLASS%>()})
