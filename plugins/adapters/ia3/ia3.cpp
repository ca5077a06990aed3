// IA3 (Liu et al. 2022): multiplies the results of keys and values, and the inputs of the feed-forward network's second
// layer, by a trained vector, which is initialized to ones. Keys and names are PEFT's.
#include "target_modules.hpp"

using namespace hekla::plugin;

namespace {

class Ia3 {
public:
    explicit Ia3(const Config& config) : targets_(config), feedforward_(texts_of(config, "feedforward_modules")) {}

    bool wants(const Site& site) const { return site.linear() && targets_.wants(site); }

    SiteAnswer adapt(Graph& g, const Site& site, const SiteValues& v) {
        const Value factor = factors(g, site);
        if (!scales_input(site)) return instead(v.y * reshape(factor, {-1}));
        return instead(linear(v.x * reshape(factor, {-1}), v.weight, {.bias = v.bias}));
    }

    MergedSite merge(Graph& g, const Site& site, const SiteValues& v) {
        const Value factor = factors(g, site); // [out, 1] or [1, in]
        const bool scaled = v.bias && !scales_input(site);
        return {v.weight * factor, scaled ? v.bias * reshape(factor, {-1}) : v.bias};
    }

    void write(ConfigWriter& out) const {
        out.set("peft_type", "IA3");
        targets_.write(out);
        out.set("feedforward_modules", feedforward_);
        out.set("init_ia3_weights", true);
    }

private:
    bool scales_input(const Site& site) const { return names_module(feedforward_, site.name); }
    Value factors(Graph& g, const Site& site) const {
        return g.parameter("ia3_l", scales_input(site) ? Dims{1, site.in} : Dims{site.out, 1}, ones());
    }

    TargetModules targets_;
    std::vector<std::string> feedforward_;
};

} // namespace

HEKLA_PLUGIN({HK_ADAPTER_INTERFACE, "ia3", adapter<Ia3>()})
