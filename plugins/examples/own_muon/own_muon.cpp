// own_muon: Muon (Jordan et al. 2024), the momentum of a matrix made nearly orthogonal by a Newton-Schulz iteration.
#include "optimizer.hpp"

using namespace hekla::plugin;

namespace {

class Muon {
public:
    explicit Muon(const Config& config) : momentum_(config.real("momentum")), steps_(config.integer("ns_steps")) {}

    // AdamW updates vectors, and the tables of embeddings.
    bool takes(const Optimized& parameter) const { return parameter.rank() == 2 && !parameter.is_table; }

    Value update(Graph& g, const Optimized& parameter, const UpdateValues& v) const {
        const Value before = state(g, "momentum", parameter.dims);
        const Value mean = next("momentum", lerp(before, v.gradient, 1.0 - momentum_));
        const Value direction = orthogonal(parameter, lerp(v.gradient, mean, momentum_));
        const double rows = static_cast<double>(parameter.dims[0]), columns = static_cast<double>(parameter.dims[1]);
        const Value rate = v.learning_rate * std::sqrt(rows > columns ? rows / columns : 1.0);
        return v.parameter - rate * direction;
    }

private:
    // The iteration works on the smaller product of the matrix with itself.
    Value orthogonal(const Optimized& parameter, Value x) const {
        const bool tall = parameter.dims[0] > parameter.dims[1];
        x = x / (sqrt(sum_all(x * x)) + 1e-12);
        for (int64_t i = 0; i < steps_; ++i) {
            const Value gram = tall ? matmul(x, x, {.transpose_a = 1}) : matmul(x, x, {.transpose_b = 1});
            const Value square = matmul(gram, gram);
            const Value polynomial = gram * -4.775 + square * 2.0315;
            const Value turned = tall ? matmul(x, polynomial) : matmul(polynomial, x);
            x = x * 3.4445 + turned;
        }
        return x;
    }

    double momentum_;
    int64_t steps_;
};

} // namespace

HEKLA_PLUGIN({HK_OPTIMIZER_INTERFACE, "own_muon", optimizer<Muon>()})
