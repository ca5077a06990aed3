// C++ wrappers for optimizers: HEKLA_PLUGIN({HK_OPTIMIZER_INTERFACE, "lion", optimizer<Lion>()}). The manifest asks for
// "abi_minor_needed": 1.
#pragma once

#include "hekla_plugin.hpp"

#include "hekla/plugin/optimizer.h"

#include <cmath>

namespace hekla::plugin {

// hk_optimized.
struct Optimized {
    explicit Optimized(const hk_optimized& raw)
        : dims(raw.dims, raw.dims + raw.rank), decays((raw.flags & HK_OPTIMIZED_DECAYS) != 0),
          is_table((raw.flags & HK_OPTIMIZED_TABLE) != 0) {}
    Dims dims;
    bool decays;   // weight decay applies
    bool is_table; // of an embedding
    int rank() const { return static_cast<int>(dims.size()); }
    double elements() const {
        double count = 1.0;
        for (const int64_t dim : dims) count *= static_cast<double>(dim);
        return count;
    }
};

// hk_update_values.
struct UpdateValues {
    Value parameter, gradient, learning_rate, step;
};

// Declares a state with this value in all elements before the first step, and returns its value. next() sets that of
// the following step.
inline Value state(Graph& g, const std::string& name, const Dims& dims, double initial = 0.0,
                   Location at = Location::here()) {
    return state_read(g.fill(dims, initial, HK_KIND_FLOAT, at), name, at);
}
inline Value next(const std::string& name, Value value, Location at = Location::here()) {
    return state_write(value, name, at);
}

// Returns the parameter after decoupled weight decay (Loshchilov and Hutter 2019).
inline Value decayed(const Optimized& parameter, const UpdateValues& v, double weight_decay) {
    if (!parameter.decays || weight_decay == 0.0) return v.parameter;
    return v.parameter * (1.0 - v.learning_rate * weight_decay);
}

// Returns a + (b - a) * weight, as torch.lerp.
inline Value lerp(Value a, Value b, Value weight) { return a + (b - a) * weight; }
inline Value lerp(Value a, Value b, double weight) { return a + (b - a) * weight; }

// Returns 1 - beta^step without cancellation: tanh(u) (1 + exp(-2u)) with u = -step ln(beta) / 2.
inline Value bias_correction(Value step, double beta) {
    const Value u = step * (-0.5 * std::log(beta));
    return tanh(u) * (1.0 + exp(u * -2.0));
}

// Reads a list of numbers that must have a given length, each at least 0 and below 1.
inline std::vector<double> fractions(const Config& config, const char* key, uint64_t count) {
    if (config.count(key) != count)
        throw invalid(std::string(key) + " has " + std::to_string(config.count(key)) + " numbers, expected " +
                      std::to_string(count));
    std::vector<double> numbers;
    for (uint64_t i = 0; i < count; ++i) {
        numbers.push_back(config.real(std::string(key) + "." + std::to_string(i)));
        if (!(numbers.back() >= 0.0 && numbers.back() < 1.0))
            throw invalid(std::string(key) + " holds " + std::to_string(numbers.back()) +
                          ", expected at least 0 and below 1");
    }
    return numbers;
}

// An optimizer T has: T(const Config&), Value update(Graph&, const Optimized&, const UpdateValues&), which returns the
// new parameter, and, unless it takes every parameter, bool takes(const Optimized&).
template<class T>
const hk_optimizer* optimizer() {
    static const hk_optimizer kTable = [] {
        hk_optimizer table{};
        table.create = [](const hk_config* config, void** self, hk_error* error) -> int32_t {
            return guarded(error, [&] { *self = std::make_unique<T>(Config(config)).release(); });
        };
        table.destroy = [](void* self) { delete static_cast<T*>(self); };
        if constexpr (requires(const T& t, const Optimized& p) { t.takes(p); }) {
            table.takes = [](void* self, const hk_optimized* parameter, int32_t* taken, hk_error* error) -> int32_t {
                return guarded(error, [&] { *taken = static_cast<T*>(self)->takes(Optimized(*parameter)) ? 1 : 0; });
            };
        }
        table.build = [](void* self, hk_builder* builder, const hk_optimized* parameter, const hk_update_values* values,
                         hk_value* updated, hk_error* error) -> int32_t {
            return guarded(error, [&] {
                Graph g(builder);
                const UpdateValues given{
                    {&g, values->parameter}, {&g, values->gradient}, {&g, values->learning_rate}, {&g, values->step}};
                *updated = static_cast<T*>(self)->update(g, Optimized(*parameter), given).id;
            });
        };
        return table;
    }();
    return &kTable;
}

} // namespace hekla::plugin
