// Adam with decoupled decay, unless HEKLA_FAULT names a fault.
#include "optimizer.hpp"

#include "fault.hpp"

using namespace hekla::plugin;

namespace {

constexpr double kFirst = 0.9, kSecond = 0.99, kDecay = 0.1, kEpsilon = 1e-8;

int described = 0; // global state, which plugins must not have

class Adam {
public:
    explicit Adam(const Config&) {}
    bool takes(const Optimized&) const { return true; }

    Value update(Graph& g, const Optimized& parameter, const UpdateValues& v) const {
        if (fault("takes_vectors_and_refuses_them") && parameter.rank() < 2) throw invalid("it is for matrices");
        Value gradient = v.gradient;
        if (fault("transposes_square_gradients") && parameter.rank() == 2 && parameter.dims[0] == parameter.dims[1])
            gradient = transpose(gradient, {1, 0});
        if (fault("flips_long_gradients") && parameter.rank() > 0 && parameter.dims[0] > 4)
            gradient = flip(gradient, 0);
        std::string name = "mean";
        if (fault("names_states_by_order")) name += std::to_string(++described);
        const Value mean_before = state(g, name, parameter.dims);
        const Value mean = next(name, lerp(mean_before, gradient, 1.0 - kFirst));
        Value power = gradient * gradient;
        if (fault("eighth_power")) power = power * power * power * power;
        if (fault("exponential")) power = exp(abs(gradient));
        const Value square = next("square", lerp(state(g, "square", parameter.dims), power, 1.0 - kSecond));
        Value steps = v.step;
        if (fault("counts_steps_from_zero")) steps = steps - 1.0;
        Value size = sqrt(square / bias_correction(steps, kSecond)) + kEpsilon;
        if (fault("without_epsilon")) size = sqrt(square / bias_correction(steps, kSecond));
        if (fault("root_of_a_difference")) size = sqrt(square - mean * mean) + kEpsilon;
        if (fault("unbiased_variance"))
            size = sqrt(sum_all(gradient * gradient) / (parameter.elements() - 1.0)) + kEpsilon;
        Value direction = mean / bias_correction(v.step, kFirst) / size;
        if (fault("logarithm_of_the_gradient")) direction = sign(gradient) * log(abs(gradient));
        if (fault("ascends")) direction = -direction;
        if (fault("moves_by_mean_before")) direction = mean_before * mean_before;
        if (fault("vanishes")) direction = direction * 1e-6;
        Value rate = v.learning_rate;
        if (fault("ignores_the_learning_rate")) rate = g.number(0.01);
        if (fault("least_learning_rate")) rate = maximum(rate, g.number(1e-3));
        if (fault("adds_epsilon_to_the_gradient")) direction = direction + kEpsilon;
        Value from = decayed(parameter, v, kDecay);
        if (fault("decays_everything")) from = v.parameter * (1.0 - v.learning_rate * kDecay);
        if (fault("decays_without_the_rate") && parameter.decays) from = v.parameter * (1.0 - 1e-3);
        if (fault("grows_by_decay") && parameter.decays) from = v.parameter * (1.0 + v.learning_rate * 5.0);
        return from - rate * direction;
    }
};

} // namespace

HEKLA_PLUGIN({HK_OPTIMIZER_INTERFACE, "planted_adam", optimizer<Adam>()})
