// Lion (Chen et al. 2023, Symbolic Discovery of Optimization Algorithms): the sign of an average of gradients.
#include "optimizer.hpp"

using namespace hekla::plugin;

namespace {

class Lion {
public:
    explicit Lion(const Config& config)
        : betas_(fractions(config, "betas", 2)), weight_decay_(config.real("weight_decay")) {}

    Value update(Graph& g, const Optimized& parameter, const UpdateValues& v) const {
        const Value mean = state(g, "exp_avg", parameter.dims);
        const Value direction = sign(lerp(mean, v.gradient, 1.0 - betas_[0]));
        next("exp_avg", lerp(mean, v.gradient, 1.0 - betas_[1]));
        return decayed(parameter, v, weight_decay_) - v.learning_rate * direction;
    }

private:
    std::vector<double> betas_;
    double weight_decay_;
};

} // namespace

HEKLA_PLUGIN({HK_OPTIMIZER_INTERFACE, "lion", optimizer<Lion>()})
