// An optimizer with a momentum, unless HEKLA_FAULT names a fault.
#include "optimizer.hpp"

#include <cstdlib>

using namespace hekla::plugin;

namespace {

bool fault(std::string_view name) {
    const char* given = std::getenv("HEKLA_FAULT");
    return given != nullptr && name == given;
}

int calls = 0; // global state, which plugins must not have

class HeavyBall {
public:
    explicit HeavyBall(const Config& config) : momentum_(config.real("momentum")) {
        if (fault("throws_in_create")) throw invalid("it does not want to");
    }
    bool takes(const Optimized& parameter) const {
        if (fault("throws_in_takes")) throw invalid("it does not know such parameters");
        return !fault("takes_matrices") || parameter.rank() == 2;
    }
    Value update(Graph& g, const Optimized& parameter, const UpdateValues& v) const {
        if (fault("throws")) throw 1;
        if (fault("refuses")) return g.fail("no update for this one");
        if (fault("no_value")) return {};
        if (fault("odd_shape")) return reshape(v.parameter, {-1, 1});
        if (fault("another_kind")) return g.fill(parameter.dims, 1, HK_KIND_INT32);
        if (fault("foreign_value")) return {&g, 4000u << 20 | 1u};
        if (fault("another_parameter")) return v.parameter + sum_all(g.parameter("wte.weight", {3, 5}));
        if (fault("a_field")) return v.parameter * to_float(sum_all(g.input("input_ids")));
        if (fault("a_scalar")) return v.parameter * g.step_scalar("warmth", 1.0);
        if (fault("random")) return v.parameter + random_normal(g, parameter.dims);
        if (fault("truncated")) return v.parameter + truncated_normal(g, parameter.dims);
        if (fault("offers")) g.offer("mine", v.parameter);
        if (fault("open_scope")) g.scope_begin("mine");
        if (fault("not_declared")) next("velocity", v.gradient);
        if (fault("not_finite")) return v.parameter + v.gradient / sum_all(v.gradient * v.gradient);
        if (fault("impure") && ++calls % 2 == 0) return v.parameter;
        const Value before = state(g, fault("bad_name") ? "a.b" : "velocity", parameter.dims, 0.25);
        if (fault("declared_twice")) return v.parameter - before - state(g, "velocity", parameter.dims);
        if (fault("never_written")) return v.parameter - before;
        if (fault("another_initial")) state_read(v.gradient, "gradient");
        const Value velocity = before * momentum_ + v.gradient;
        if (fault("state_shape")) next("velocity", reshape(velocity, {-1, 1}));
        next("velocity", velocity);
        if (fault("written_twice")) next("velocity", velocity);
        return v.parameter - v.learning_rate * velocity;
    }

private:
    double momentum_;
};

} // namespace

HEKLA_PLUGIN({HK_OPTIMIZER_INTERFACE, "heavy-ball", optimizer<HeavyBall>()})
