// Prefix tuning (Li and Liang 2021): the tokens of a row attend to trained keys and values before them, in every layer.
// Keys and initial values are PEFT's, which stores all layers' in one tensor.
#include "adapter.hpp"

using namespace hekla::plugin;

namespace {

class PrefixTuning {
public:
    explicit PrefixTuning(const Config& config) : count_(config.integer("num_virtual_tokens")) {}

    hekla::plugin::VirtualTokens virtual_tokens() const { return {count_, true}; }
    bool wants(const Site& site) const { return site.attention(); }

    SiteAnswer adapt(Graph& g, const Site& site, const SiteValues& v) {
        const int64_t keys = site.out * site.in, values = site.out * v.y.dim(3);
        const Value both =
            g.parameter("prompt_embeddings." + std::to_string(site.index), {count_, keys + values}, normal(1.0));
        const auto heads = [&](Value part, int64_t width) {
            return transpose(reshape(part, {count_, site.out, width}), {1, 0, 2});
        };
        return at_virtual_tokens(heads(slice(both, 1, 0, keys), site.in),
                                 heads(slice(both, 1, keys, values), v.y.dim(3)));
    }

    void write(ConfigWriter& out) const {
        out.set("peft_type", "PREFIX_TUNING");
        out.set("num_virtual_tokens", count_);
        out.set("prefix_projection", false);
        out.set("num_transformer_submodules", 1);
    }

private:
    int64_t count_;
};

} // namespace

HEKLA_PLUGIN({HK_ADAPTER_INTERFACE, "prefix_tuning", adapter<PrefixTuning>()})
