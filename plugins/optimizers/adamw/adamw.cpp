// AdamW (Loshchilov and Hutter 2019), as torch.optim.AdamW.
#include "optimizer.hpp"

using namespace hekla::plugin;

namespace {

class AdamW {
public:
    explicit AdamW(const Config& config)
        : betas_(fractions(config, "betas", 2)), eps_(config.real("eps")), weight_decay_(config.real("weight_decay")) {}

    Value update(Graph& g, const Optimized& parameter, const UpdateValues& v) const {
        const Value mean = next("exp_avg", lerp(state(g, "exp_avg", parameter.dims), v.gradient, 1.0 - betas_[0]));
        const Value squares = next("exp_avg_sq", state(g, "exp_avg_sq", parameter.dims) * betas_[1] +
                                                     v.gradient * v.gradient * (1.0 - betas_[1]));
        const Value root = sqrt(squares) / sqrt(bias_correction(v.step, betas_[1])) + eps_;
        return decayed(parameter, v, weight_decay_) -
               v.learning_rate / bias_correction(v.step, betas_[0]) * (mean / root);
    }

private:
    std::vector<double> betas_;
    double eps_, weight_decay_;
};

} // namespace

HEKLA_PLUGIN({HK_OPTIMIZER_INTERFACE, "adamw", optimizer<AdamW>()})
