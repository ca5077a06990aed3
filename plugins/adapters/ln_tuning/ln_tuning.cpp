// Training of norms (Zhao et al. 2023) and of biases (BitFit, Zaken et al. 2022): no parameters of its own; the body's
// are trained and saved. Keys are PEFT's, with `bias` added.
#include "target_modules.hpp"

using namespace hekla::plugin;

namespace {

class LnTuning {
public:
    explicit LnTuning(const Config& config) : excluded_(config, "exclude_modules"), bias_(config.string("bias")) {
        if (!config.holds_members("target_modules") && config.string("target_modules") == "all-norms")
            all_ = true;
        else
            targets_ = NamedModules(config, "target_modules");
        if (bias_ != "none" && bias_ != "all") throw invalid("bias is '" + bias_ + "'; expected \"none\" or \"all\"");
    }

    bool wants(const Site&) const { return false; }

    uint32_t trains(const Site& site) const {
        if (site.residual() || excluded_.contain(site.name)) return 0;
        const uint32_t bias = site.bias.empty() ? 0 : HK_TRAINS_BIAS;
        if (site.norm() && (all_ ? !site.of_head : targets_.contain(site.name))) return HK_TRAINS_WEIGHT | bias;
        return bias_ == "all" ? bias : 0;
    }

    void write(ConfigWriter& out) const {
        if (bias_ != "none") throw unsupported("PEFT has no such adapter: bias is \"" + bias_ + "\"");
        out.set("peft_type", "LN_TUNING");
        if (!all_) targets_.write(out, "target_modules"); // otherwise the host names the norms
        excluded_.write_or_null(out, "exclude_modules");
        out.set_null("modules_to_save"); // the host names those that there are
    }

private:
    NamedModules targets_, excluded_;
    std::string bias_;
    bool all_ = false;
};

} // namespace

HEKLA_PLUGIN({HK_ADAPTER_INTERFACE, "ln_tuning", adapter<LnTuning>()})
