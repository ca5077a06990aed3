// Prefix tuning (Li and Liang 2021): the tokens of a row attend to trained keys and values before them, in every layer;
// in an encoder-decoder, those of the decoder to each other's. With prefix_projection they are trained as what a small
// network makes of one embedding for each virtual token. Keys and initial values are PEFT's, which stores all layers'
// keys and values in one tensor; leave_out and without_positions are AdapterHub's.
#include "adapter.hpp"

#include <algorithm>
#include <cmath>

using namespace hekla::plugin;

namespace {

class PrefixTuning {
public:
    explicit PrefixTuning(const Config& config)
        : count_(config.integer("num_virtual_tokens")), projection_(config.boolean("prefix_projection")),
          hidden_(config.integer("encoder_hidden_size")), shared_(config.integer("share_layers")),
          without_positions_(config.boolean("without_positions")) {
        for (uint64_t i = 0; i < config.count("leave_out"); ++i)
            left_out_.push_back(config.integer("leave_out." + std::to_string(i)));
        if (hidden_ > 0 && !projection_) throw invalid("encoder_hidden_size needs prefix_projection = true");
        if (shared_ > 0 && projection_) throw unsupported("share_layers and prefix_projection cannot be combined");
    }

    hekla::plugin::VirtualTokens virtual_tokens() const { return {count_, true, without_positions_}; }
    bool wants(const Site& site) const {
        if (site.attention() && shared_ > 0 && !site.of_decoder)
            throw unsupported("share_layers is of encoder-decoders, and the body is none: PEFT's "
                              "num_transformer_submodules must be 1");
        return site.attention() && std::ranges::count(left_out_, site.index) == 0 &&
               (shared_ == 0 || site.index < shared_);
    }

    SiteAnswer adapt(Graph& g, const Site& site, const SiteValues& v) {
        const int64_t keys = site.out * site.in, values = site.out * v.y.dim(3);
        const int64_t row = shared_ > 0 ? 2 * site.index % shared_ : site.index;
        const Value both =
            projection_ ? projected(g, site, keys, values)
                        : g.parameter("prompt_embeddings." + std::to_string(row), {count_, keys + values}, normal(1.0));
        const auto heads = [&](Value part, int64_t width) {
            return transpose(reshape(part, {count_, site.out, width}), {1, 0, 2});
        };
        return at_virtual_tokens(heads(slice(both, 1, 0, keys), site.in),
                                 heads(slice(both, 1, keys, values), v.y.dim(3)));
    }

    void write(ConfigWriter& out) const {
        if (without_positions_ || !left_out_.empty())
            throw unsupported("PEFT has no prefixes without positions, or of some layers only");
        out.set("peft_type", "PREFIX_TUNING");
        out.set("num_virtual_tokens", count_);
        out.set("prefix_projection", projection_);
    }

private:
    // Returns the keys and values [count, keys + values]. The last layer's weight is stored in parts, one for each
    // layer of the body. Initial values are those of torch's Embedding and Linear.
    Value projected(Graph& g, const Site& site, int64_t keys, int64_t values) const {
        const int64_t hidden = hidden_ > 0 ? hidden_ : keys;
        const auto layer = [&](Value x, const std::string& name, const std::string& end, int64_t in, int64_t out) {
            const double bound = 1.0 / std::sqrt(static_cast<double>(in));
            return linear(x, g.parameter(name + ".weight" + end, {out, in}, uniform(-bound, bound))) +
                   g.parameter(name + ".bias" + end, {out}, uniform(-bound, bound));
        };
        const Value tokens = g.parameter("embedding.weight", {count_, keys}, normal(1.0));
        return layer(tanh(layer(tokens, "transform.0", "", keys, hidden)), "transform.2",
                     "." + std::to_string(site.index), hidden, keys + values);
    }

    int64_t count_;
    bool projection_;
    int64_t hidden_; // 0: the width of a layer's keys
    int64_t shared_; // 0: each layer has its own keys and values
    bool without_positions_;
    std::vector<int64_t> left_out_;
};

} // namespace

HEKLA_PLUGIN({HK_ADAPTER_INTERFACE, "prefix_tuning", adapter<PrefixTuning>()})
