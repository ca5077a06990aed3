// Bottleneck adapters (Houlsby et al. 2019; Pfeiffer et al. 2021; He et al. 2022): down-projection, activation and
// up-projection where a block's part is added to the residual stream. Keys, names of parameters and initial values are
// those of AdapterHub's library (BnConfig).
#include "block.hpp"
#include "target_modules.hpp"

#include <cmath>
#include <map>

using namespace hekla::plugin;

namespace {

enum class ResidualFrom { part, sum, input }; // residual_before_ln: true, "post_add", false
enum class Scaling { number, learned, channel };

// What AdapterHub's presets differ in.
struct Preset {
    bool mh_adapter = false, output_adapter = true, original_ln_before = false, original_ln_after = true;
    bool is_parallel = false;
    ResidualFrom residual = ResidualFrom::part;
    double reduction_factor = 16.0, scaling = 1.0, stochastic_depth = 0.0;
    Scaling scaled_by = Scaling::number;
    const char* non_linearity = "relu";
    const char* init_weights = "bert";
};

Preset preset_of(const std::string& name) {
    Preset p;
    if (name == "seq_bn") {
        p.original_ln_before = true;
    } else if (name == "double_seq_bn") {
        p.mh_adapter = true;
        p.non_linearity = "swish";
    } else if (name == "par_bn") {
        p.is_parallel = true;
        p.reduction_factor = 2.0;
        p.scaling = 4.0;
        p.init_weights = "mam_adapter";
    } else if (name == "adapter_plus") {
        p.original_ln_before = true;
        p.original_ln_after = false;
        p.residual = ResidualFrom::input;
        p.reduction_factor = 96.0;
        p.scaled_by = Scaling::channel;
        p.stochastic_depth = 0.1;
        p.non_linearity = "gelu";
        p.init_weights = "houlsby";
    } else {
        throw invalid("preset is '" + name +
                      "'; expected \"seq_bn\" (Pfeiffer), \"double_seq_bn\" (Houlsby), \"par_bn\" or \"adapter_plus\"");
    }
    return p;
}

// Runs `first`, or `second` if the value has not the type that `first` reads.
template<class First, class Second>
void read_either(const First& first, const Second& second) {
    try {
        first();
    } catch (const Error&) { second(); }
}

class Bottleneck {
public:
    explicit Bottleneck(const Config& config) {
        const Preset p = preset_of(config.string("preset"));
        mh_ = config.boolean("mh_adapter", p.mh_adapter);
        output_ = config.boolean("output_adapter", p.output_adapter);
        cross_ = config.boolean("cross_adapter");
        original_ln_before_ = config.boolean("original_ln_before", p.original_ln_before);
        original_ln_after_ = config.boolean("original_ln_after", p.original_ln_after);
        ln_before_ = config.boolean("ln_before");
        ln_after_ = config.boolean("ln_after");
        parallel_ = config.boolean("is_parallel", p.is_parallel);
        gating_ = config.boolean("use_gating");
        adds_before_ln_ = config.boolean("adapter_residual_before_ln");
        activation_ = config.string("non_linearity", p.non_linearity);
        init_ = config.string("init_weights", p.init_weights);
        dropout_ = config.real("dropout");
        depth_ = config.real("stochastic_depth", p.stochastic_depth);
        read_residual(config, p);
        read_scaling(config, p);
        read_reduction(config, p);
        for (uint64_t i = 0; i < config.count("leave_out"); ++i)
            leave_out_.push_back(config.integer("leave_out." + std::to_string(i)));
        check();
        for (const char* key : {"phm_layer", "inv_adapter"}) refuse(config, key);
    }

    bool wants(const Site& site) const {
        if (!site.residual() || site.of_head) return false;
        const std::optional<int64_t> layer = block_of(site.name);
        if (layer && std::ranges::count(leave_out_, *layer) > 0) return false;
        return site.of_attention ? (site.of_cross ? cross_ : mh_) : output_;
    }

    SiteAnswer adapt(Graph& g, const Site& site, const SiteValues& v) {
        const Value sum = v.x + v.y;
        const Value in = parallel_ ? v.x : original_ln_before_ ? v.normed : v.y;
        const Value residual = residual_ == ResidualFrom::part ? v.y : residual_ == ResidualFrom::sum ? sum : in;
        Value out = layers(g, site, in);
        // Combiners weigh what is added to the part, so a sum with the part is a delta.
        if (original_ln_after_ && (parallel_ || (residual_ == ResidualFrom::part && !adds_before_ln_))) {
            if (ln_after_) out = layer_norm_layer(g, out, "adapter_norm_after", kEpsilon);
            return delta(out, in);
        }
        if (!parallel_ && adds_before_ln_) out = out + residual;
        if (ln_after_) out = layer_norm_layer(g, out, "adapter_norm_after", kEpsilon);
        if (!parallel_ && !adds_before_ln_) out = out + residual;
        if (parallel_) return result(out + v.y);
        return original_ln_after_ ? instead(out, in) : result(out);
    }

private:
    static constexpr double kEpsilon = 1e-5; // of torch's LayerNorm

    // Returns the number of a module's block: the first number in its name.
    static std::optional<int64_t> block_of(std::string_view name) {
        while (!name.empty()) {
            const std::size_t end = std::min(name.find('.'), name.size());
            if (const std::optional<int64_t> number = number_in(name.substr(0, end))) return number;
            name.remove_prefix(std::min(end + 1, name.size()));
        }
        return {};
    }
    static void refuse(const Config& config, const std::string& key) {
        if (!config.has(key)) return;
        bool off = false;
        read_either([&] { off = !config.boolean(key); }, [] {});
        if (!off) throw unsupported(key + " is not supported");
    }
    void read_residual(const Config& config, const Preset& p) {
        const std::string key = "residual_before_ln";
        residual_ = p.residual;
        if (!config.has(key)) return;
        read_either([&] { residual_ = config.boolean(key) ? ResidualFrom::part : ResidualFrom::input; },
                    [&] {
                        if (config.string(key) != "post_add")
                            throw invalid(key + " is '" + config.string(key) +
                                          "'; expected true, false or \"post_add\"");
                        residual_ = ResidualFrom::sum;
                    });
    }
    void read_scaling(const Config& config, const Preset& p) {
        scale_ = p.scaling;
        scaled_by_ = p.scaled_by;
        if (!config.has("scaling")) return;
        read_either(
            [&] {
                scale_ = config.real("scaling");
                scaled_by_ = Scaling::number;
            },
            [&] {
                const std::string by = config.string("scaling");
                if (by != "learned" && by != "channel")
                    throw invalid("scaling is '" + by + "'; expected a number, \"learned\" or \"channel\"");
                scaled_by_ = by == "learned" ? Scaling::learned : Scaling::channel;
            });
    }
    void read_reduction(const Config& config, const Preset& p) {
        const std::string key = "reduction_factor";
        reduction_ = p.reduction_factor;
        if (!config.has(key)) return;
        if (!config.holds_members(key)) {
            reduction_ = config.real(key);
            return;
        }
        reduction_ = 0.0; // until "default" sets it
        for (const std::string& layer : members_of(config, key)) {
            const double factor = config.real(key + "." + layer);
            if (layer == "default")
                reduction_ = factor;
            else if (const std::optional<int64_t> number = number_in(layer))
                reductions_[*number] = factor;
            else
                throw invalid(key + ": '" + layer + "' is not the number of a layer or \"default\"");
            if (!(factor > 0.0) || !std::isfinite(factor)) throw invalid(key + "." + layer + " is not above 0");
        }
    }
    void check() const {
        if (reductions_.empty() && (!(reduction_ > 0.0) || !std::isfinite(reduction_)))
            throw invalid("reduction_factor is not above 0");
        if (!std::isfinite(scale_)) throw invalid("scaling is not finite; expected a number");
        for (const auto& [key, p] : {std::pair{"dropout", dropout_}, {"stochastic_depth", depth_}})
            if (!(p >= 0.0 && p < 1.0)) throw invalid(std::string(key) + " is not from 0 to below 1");
        if (init_ != "bert" && init_ != "mam_adapter" && init_ != "houlsby")
            throw invalid("init_weights is '" + init_ + "'; expected \"bert\", \"mam_adapter\" or \"houlsby\"");
        if (!mh_ && !output_ && !cross_)
            throw invalid("mh_adapter, output_adapter and cross_adapter are false: the adapter acts nowhere");
    }

    int64_t width(const Site& site) const {
        double factor = reduction_;
        if (const std::optional<int64_t> layer = block_of(site.name); layer && reductions_.contains(*layer))
            factor = reductions_.at(*layer);
        if (factor == 0.0)
            throw invalid("reduction_factor: neither the layer of " + std::string(site.name) +
                          " nor \"default\" has a factor");
        return std::max<int64_t>(1, static_cast<int64_t>(std::floor(static_cast<double>(site.out) / factor)));
    }
    Value project(Graph& g, Value x, const std::string& name, int64_t out, bool up) const {
        const double bound = 1.0 / std::sqrt(static_cast<double>(x.dim(-1)));
        const Initializer weights = init_ == "bert"      ? normal(0.02)
                                    : init_ == "houlsby" ? Initializer{HK_INITIALIZE_TRUNCATED_NORMAL, 0.0, 0.01}
                                    : up                 ? zeros()
                                                         : uniform(-bound, bound); // torch's kaiming_uniform_, sqrt(5)
        return linear_layer(g, x, name, out, {.initializer = weights});
    }
    // Everything but residual and the norm after it.
    Value layers(Graph& g, const Site& site, Value in) const {
        Value x = in;
        if (ln_before_) x = layer_norm_layer(g, x, "adapter_norm_before", kEpsilon);
        x = project(g, x, ln_before_ ? "adapter_down.1" : "adapter_down.0", width(site), false);
        x = project(g, activation(x, activation_ == "leakyrelu" ? "leaky_relu" : activation_), "adapter_up", site.out,
                    true);
        if (g.training() && depth_ > 0.0) x = x * dropout(g.fill({x.dim(0), 1, 1}, 1.0), depth_); // whole rows
        switch (scaled_by_) {
        case Scaling::number: x = scale_ == 1.0 ? x : x * scale_; break;
        case Scaling::learned: x = x * g.parameter("scaling", {1}, ones()); break;
        case Scaling::channel: x = x * g.parameter("scaling", {site.out}, ones()); break;
        }
        x = drop(g, x, dropout_);
        if (!gating_) return x;
        if (g.mode() == HK_MODE_DECODE)
            throw unsupported("use_gating takes the mean over a row's tokens, which generation does not have");
        const Initializer weights = init_ == "houlsby" ? uniform(-1.0 / std::sqrt(static_cast<double>(site.out)),
                                                                 1.0 / std::sqrt(static_cast<double>(site.out)))
                                                       : normal(0.02);
        const Value gate = sigmoid(linear_layer(g, in, "gate", 1, {.initializer = weights}));
        return x * mean(gate, {1}, {.keep = 1});
    }

    bool mh_, output_, cross_, original_ln_before_, original_ln_after_, ln_before_, ln_after_, parallel_, gating_;
    bool adds_before_ln_;
    std::string activation_, init_;
    double dropout_, depth_, scale_ = 1.0, reduction_ = 16.0;
    ResidualFrom residual_ = ResidualFrom::part;
    Scaling scaled_by_ = Scaling::number;
    std::map<int64_t, double> reductions_; // of single layers
    std::vector<int64_t> leave_out_;
};

} // namespace

HEKLA_PLUGIN({HK_ADAPTER_INTERFACE, "bottleneck", adapter<Bottleneck>()})
