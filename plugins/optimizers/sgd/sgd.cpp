// Stochastic gradient descent with momentum, as torch.optim.SGD: weight decay is added to the gradient, and the first
// gradient is the first momentum.
#include "optimizer.hpp"

using namespace hekla::plugin;

namespace {

class Sgd {
public:
    explicit Sgd(const Config& config)
        : momentum_(config.real("momentum")), dampening_(config.real("dampening")),
          weight_decay_(config.real("weight_decay")), nesterov_(config.boolean("nesterov")) {
        if (nesterov_ && (momentum_ == 0.0 || dampening_ != 0.0))
            throw invalid("nesterov = true needs a momentum above 0 and a dampening of 0");
    }

    Value update(Graph& g, const Optimized& parameter, const UpdateValues& v) const {
        Value direction = v.gradient;
        if (parameter.decays && weight_decay_ != 0.0) direction = direction + v.parameter * weight_decay_;
        if (momentum_ != 0.0) {
            const Value before = state(g, "momentum_buffer", parameter.dims);
            const Value later = before * momentum_ + direction * (1.0 - dampening_);
            const Value buffer = next("momentum_buffer", where(equal(v.step, 1.0), direction, later));
            direction = nesterov_ ? direction + buffer * momentum_ : buffer;
        }
        return v.parameter - v.learning_rate * direction;
    }

private:
    double momentum_, dampening_, weight_decay_;
    bool nesterov_;
};

} // namespace

HEKLA_PLUGIN({HK_OPTIMIZER_INTERFACE, "sgd", optimizer<Sgd>()})
