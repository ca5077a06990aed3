// An adapter that multiplies the result of every site by a trained number, and a combiner that adds up what its
// branches answer, unless HEKLA_FAULT names a fault.
#include "combiner.hpp"

#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <thread>

using namespace hekla::plugin;

namespace {

bool fault(std::string_view name) {
    const char* given = std::getenv("HEKLA_FAULT");
    return given != nullptr && name == given;
}

[[noreturn]] void hang() {
    for (;;) std::this_thread::sleep_for(std::chrono::milliseconds(50));
}
int calls = 0; // global state, which plugins must not have

struct Factor {
    explicit Factor(const Config&) {
        if (fault("throws_in_create")) throw invalid("it does not want to");
    }
    bool wants(const Site&) {
        if (fault("throws_in_wants")) throw invalid("it does not know this site");
        if (fault("hangs_in_wants")) hang();
        if (fault("impure_wants")) return ++calls % 7 == 0;
        return true;
    }
    SiteAnswer adapt(Graph& g, const Site&, const SiteValues& v) {
        if (fault("throws")) throw 1;
        if (fault("hangs")) hang();
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
        if (fault("merges_without_bias") && site.linear()) return {v.weight * factor, v.bias};
        if (fault("merges_twice") && site.linear())
            return {v.weight * factor * factor, v.bias ? v.bias * factor : v.bias};
        if (fault("merges_transposed") && site.linear() && site.in == site.out)
            return {transpose(v.weight, {1, 0}) * factor, v.bias ? v.bias * factor : v.bias};
        return {v.weight * factor, v.bias ? v.bias * factor : v.bias};
    }
};

struct Total {
    explicit Total(const Config&) {
        if (fault("combiner_throws_in_create")) throw invalid("it does not want to");
    }
    Combined combine(Graph& g, const Site&, const SiteValues& v, const std::vector<Branch>& branches) {
        if (fault("combiner_throws")) throw 1;
        if (fault("combiner_hangs")) hang();
        if (fault("combiner_gives_nothing")) return {};
        if (fault("combiner_shape")) return {reshape(v.y, {-1})};
        if (fault("combiner_weights")) return {v.y, g.fill({3}, 1.0)};
        if (fault("combiner_loss")) return {v.y, {}, g.fill({2}, 1.0)};
        if (fault("combiner_foreign_value")) return {{&g, 1u << 20 | 1u}};
        if (fault("combiner_offers")) g.offer("mine", v.y);
        if (fault("combiner_open_scope")) g.scope_begin("mine");
        const std::vector<Branch> found = acting(branches);
        if (fault("combiner_impure") && ++calls % 7 == 0) return {found[0].delta * 2.0};
        return {weighted_sum(found, g.fill({static_cast<int64_t>(found.size())}, 1.0))};
    }
};

// The tables, with functions that throw an exception across the boundary.
const hk_adapter* throwing_adapter() {
    static const hk_adapter table = [] {
        hk_adapter all = *adapter<Factor>();
        static const auto adapt = all.adapt;
        static const auto wants = all.wants;
        all.adapt = [](void* self, hk_builder* b, const hk_adapter_site* site, const hk_site_values* values,
                       hk_site_answer* answer, hk_error* error) -> int32_t {
            if (fault("throws_out_of_adapt")) throw std::runtime_error("thrown by adapt");
            return adapt(self, b, site, values, answer, error);
        };
        all.wants = [](void* self, const hk_adapter_site* site, int32_t* wanted, hk_error* error) -> int32_t {
            if (fault("throws_out_of_wants")) throw std::runtime_error("thrown by wants");
            return wants(self, site, wanted, error);
        };
        return all;
    }();
    return &table;
}
const hk_combiner* throwing_combiner() {
    static const hk_combiner table = [] {
        hk_combiner all = *combiner<Total>();
        static const auto combine = all.combine;
        all.combine = [](void* self, hk_builder* b, const hk_adapter_site* site, const hk_site_values* values,
                         const hk_branch* branches, uint32_t count, hk_combined* combined, hk_error* error) -> int32_t {
            if (fault("throws_out_of_combine")) throw std::runtime_error("thrown by combine");
            return combine(self, b, site, values, branches, count, combined, error);
        };
        return all;
    }();
    return &table;
}

} // namespace

HEKLA_PLUGIN({HK_ADAPTER_INTERFACE, "factor", throwing_adapter()},
             {HK_COMBINER_INTERFACE, "total", throwing_combiner()})
