// LoRA (Hu et al. 2021): adds scale * (x A^T) B^T to a linear layer, with the small matrices A [r, in] and B [out, r].
// B is initialized to zeros, so the model is unchanged before the first step. Keys, names and initial values are
// PEFT's.
#include "target_modules.hpp"

#include <cmath>
#include <utility>

using namespace hekla::plugin;

namespace {

class Lora {
public:
    explicit Lora(const Config& config)
        : targets_(config), r_(config.integer("r")), alpha_(config.real("lora_alpha")),
          dropout_(config.real("lora_dropout")), rank_stabilized_(config.boolean("use_rslora")),
          gaussian_(is_gaussian(config)) {
        for (const auto& [former, now] :
             {std::pair{"rank", "r"}, {"alpha", "lora_alpha"}, {"targets", "target_modules"}})
            if (config.has(former)) throw invalid(std::string("the key '") + former + "' is called '" + now + "' now");
        if (!std::isfinite(alpha_)) throw invalid("lora_alpha is not finite; expected a number");
        if (!(dropout_ >= 0.0 && dropout_ < 1.0)) throw invalid("lora_dropout is not from 0 to below 1");
    }

    bool wants(const Site& site) const { return targets_.wants(site); }

    SiteAnswer adapt(Graph& g, const Site& site, const SiteValues& v) {
        const auto [a, b] = matrices(g, site);
        if (!site.linear()) return delta(linear(embedding(transpose(a, {1, 0}), v.x), b) * scale());
        const Value x = g.training() && dropout_ > 0.0 ? dropout(v.x, dropout_) : v.x;
        return delta(linear(linear(x, a), b) * scale());
    }

    MergedSite merge(Graph& g, const Site& site, const SiteValues& v) {
        const auto [a, b] = matrices(g, site);
        const Value change = matmul(b, a) * scale(); // [out, in]
        return {v.weight + (site.linear() ? change : transpose(change, {1, 0})), v.bias};
    }

    void write(ConfigWriter& out) const {
        out.set("peft_type", "LORA");
        out.set("r", r_);
        out.set("lora_alpha", alpha_);
        out.set("lora_dropout", dropout_);
        out.set("use_rslora", rank_stabilized_);
        out.set("use_dora", false);
        out.set("bias", "none");
        if (gaussian_)
            out.set("init_lora_weights", "gaussian");
        else
            out.set("init_lora_weights", true);
        targets_.write(out);
    }

private:
    static bool is_gaussian(const Config& config) {
        const std::string key = "init_lora_weights";
        const auto refuse = [] {
            throw unsupported("init_lora_weights: expected true (B is zeros, as in PEFT) or \"gaussian\"");
        };
        try {
            if (!config.boolean(key)) refuse();
            return false;
        } catch (const Error& e) {
            if (e.code() == HK_UNSUPPORTED) throw;
        }
        if (config.string(key) != "gaussian") refuse();
        return true;
    }
    struct Matrices {
        Value a, b; // [r, in], [out, r]
    };
    Matrices matrices(Graph& g, const Site& site) const {
        if (!site.linear()) // PEFT: A is zeros and B normal
            return {g.parameter("lora_embedding_A", {r_, site.in}, zeros()),
                    g.parameter("lora_embedding_B", {site.out, r_}, normal(1.0))};
        // torch's kaiming_uniform_ with a = sqrt(5), or a normal distribution of standard deviation 1 / r.
        const double bound = 1.0 / std::sqrt(static_cast<double>(std::max<int64_t>(site.in, 1)));
        return {g.parameter("lora_A.weight", {r_, site.in},
                            gaussian_ ? normal(1.0 / static_cast<double>(r_)) : uniform(-bound, bound)),
                g.parameter("lora_B.weight", {site.out, r_}, zeros())};
    }
    double scale() const {
        const auto r = static_cast<double>(r_);
        return alpha_ / (rank_stabilized_ ? std::sqrt(r) : r);
    }

    TargetModules targets_;
    int64_t r_;
    double alpha_, dropout_;
    bool rank_stabilized_, gaussian_;
};

const void* drafts(hk_string draft, hk_string id) {
    return offered({{HK_ADAPTER_DRAFT, "lora", adapter<Lora>()}}, draft, id);
}
const hk_draft_offers kDraftOffers = {drafts};

} // namespace

HEKLA_PLUGIN({HK_DRAFT_OFFERS_INTERFACE, "", &kDraftOffers})
