// An adapter that multiplies the result of every site by a trained number, and a combiner that adds up what its
// branches answer, unless HEKLA_FAULT names a fault.
#include "draft_combiner.hpp"

#include <cstdlib>

using namespace hekla::plugin;

namespace {

bool fault(std::string_view name) {
    const char* given = std::getenv("HEKLA_FAULT");
    return given != nullptr && name == given;
}

struct Factor {
    explicit Factor(const Config&) {
        if (fault("throws_in_create")) throw invalid("it does not want to");
    }
    bool wants(const Site&) {
        if (fault("throws_in_wants")) throw invalid("it does not know this site");
        return true;
    }
    SiteAnswer adapt(Graph& g, const Site&, const SiteValues& v) {
        if (fault("throws")) throw 1;
        if (fault("kills")) std::abort();
        if (fault("refuses")) {
            g.fail("no factor for this one");
            return {};
        }
        if (fault("odd_shape")) return instead(reshape(v.y, {-1}));
        if (fault("another_kind")) return delta(g.fill(v.y.shape(), 1, HK_KIND_INT32));
        if (fault("another_answer")) return {7, v.y};
        if (fault("no_value")) return delta({});
        if (fault("wrong_operation")) return delta(matmul(v.y, g.fill({3, 5, 7, 11}, 1.0)));
        if (fault("foreign_value")) return delta({&g, 1u << 20 | 1u});
        if (fault("offers")) g.offer("mine", v.y);
        if (fault("adds_metric")) g.metric("mine", g.number(1.0), g.number(1.0));
        if (fault("open_scope")) g.scope_begin("mine");
        return instead(v.y * g.parameter("factor", {}, ones()));
    }
    MergedSite merge(Graph& g, const Site& site, const SiteValues& v) {
        const Value factor = g.parameter("factor", {}, ones());
        if (fault("merges_shape")) return {reshape(v.weight, {-1}), v.bias};
        if (fault("merges_wrong") && site.linear()) return {v.weight * factor, v.bias};
        return {v.weight * factor, v.bias ? v.bias * factor : v.bias};
    }
};

struct Total {
    explicit Total(const Config&) {
        if (fault("combiner_throws_in_create")) throw invalid("it does not want to");
    }
    Combined combine(Graph& g, const Site&, const SiteValues& v, const std::vector<Branch>& branches) {
        if (fault("combiner_throws")) throw 1;
        if (fault("combiner_gives_nothing")) return {};
        if (fault("combiner_shape")) return {reshape(v.y, {-1})};
        if (fault("combiner_weights")) return {v.y, g.fill({3}, 1.0)};
        if (fault("combiner_loss")) return {v.y, {}, g.fill({2}, 1.0)};
        if (fault("combiner_foreign_value")) return {{&g, 1u << 20 | 1u}};
        if (fault("combiner_offers")) g.offer("mine", v.y);
        if (fault("combiner_open_scope")) g.scope_begin("mine");
        const std::vector<Branch> found = acting(branches);
        return {weighted_sum(found, g.fill({static_cast<int64_t>(found.size())}, 1.0))};
    }
};

const void* drafts(hk_string draft, hk_string id) {
    return offered({{HK_ADAPTER_DRAFT, "factor", adapter<Factor>()}, {HK_COMBINER_DRAFT, "total", combiner<Total>()}},
                   draft, id);
}
const hk_draft_offers draft_offers = {drafts};

} // namespace

HEKLA_PLUGIN({HK_DRAFT_OFFERS_INTERFACE, "", &draft_offers})
