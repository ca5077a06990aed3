// %NAME%: each gradient is divided by the root of a running mean of its squares (RMSprop, Hinton 2012).
#include "optimizer.hpp"

using namespace hekla::plugin;

namespace {

class %CLASS% {
public:
    explicit %CLASS%(const Config& config) : alpha_(config.real("alpha")), eps_(config.real("eps")) {}

    // The new parameter. A state begins with zeros, and next() sets it for the following step.
    Value update(Graph& g, const Optimized& parameter, const UpdateValues& v) const {
        const Value before = state(g, "square_avg", parameter.dims);
        const Value squares = next("square_avg", lerp(before, v.gradient * v.gradient, 1.0 - alpha_));
        return v.parameter - v.learning_rate * v.gradient / (sqrt(squares) + eps_);
    }

private:
    double alpha_, eps_;
};

} // namespace

HEKLA_PLUGIN({HK_OPTIMIZER_INTERFACE, "%NAME%", optimizer<%CLASS%>()})
