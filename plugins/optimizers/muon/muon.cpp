// Muon (Jordan et al. 2024), as torch.optim.Muon in float32: the momentum of a matrix, made nearly orthogonal by a
// Newton-Schulz iteration.
#include "optimizer.hpp"

#include <algorithm>

using namespace hekla::plugin;

namespace {

class Muon {
public:
    explicit Muon(const Config& config)
        : momentum_(config.real("momentum")), eps_(config.real("eps")), weight_decay_(config.real("weight_decay")),
          steps_(config.integer("ns_steps")), nesterov_(config.boolean("nesterov")),
          adjust_(config.string("adjust_lr_fn")) {
        if (config.count("ns_coefficients") != 3) throw invalid("ns_coefficients needs 3 numbers");
        for (int i = 0; i < 3; ++i) coefficients_.push_back(config.real("ns_coefficients." + std::to_string(i)));
        if (adjust_ != "original" && adjust_ != "match_rms_adamw" && adjust_ != "spectral_unclamped")
            throw invalid("adjust_lr_fn is '" + adjust_ +
                          "', expected original, match_rms_adamw or spectral_unclamped");
    }

    bool takes(const Optimized& parameter) const { return parameter.rank() == 2 && !parameter.is_table; }

    Value update(Graph& g, const Optimized& parameter, const UpdateValues& v) const {
        const Value buffer =
            next("momentum_buffer", lerp(state(g, "momentum_buffer", parameter.dims), v.gradient, 1.0 - momentum_));
        const Value direction = nesterov_ ? lerp(v.gradient, buffer, momentum_) : buffer;
        return decayed(parameter, v, weight_decay_) -
               v.learning_rate * factor(parameter) * orthogonal(g, parameter, direction);
    }

private:
    // Of the learning rate.
    double factor(const Optimized& parameter) const {
        const auto rows = static_cast<double>(parameter.dims[0]), columns = static_cast<double>(parameter.dims[1]);
        if (adjust_ == "match_rms_adamw") return 0.2 * std::sqrt(std::max(rows, columns));
        const double ratio = rows / columns;
        return std::sqrt(adjust_ == "original" ? std::max(1.0, ratio) : ratio);
    }

    // The iteration works on the smaller product of the matrix with itself.
    Value orthogonal(Graph& g, const Optimized& parameter, Value x) const {
        const bool tall = parameter.dims[0] > parameter.dims[1];
        x = x / maximum(sqrt(sum_all(x * x)), g.number(eps_));
        for (int64_t i = 0; i < steps_; ++i) {
            const Value gram = tall ? matmul(x, x, {.transpose_a = 1}) : matmul(x, x, {.transpose_b = 1});
            const Value polynomial = gram * coefficients_[1] + matmul(gram, gram) * coefficients_[2];
            x = x * coefficients_[0] + (tall ? matmul(x, polynomial) : matmul(polynomial, x));
        }
        return x;
    }

    double momentum_, eps_, weight_decay_;
    int64_t steps_;
    bool nesterov_;
    std::string adjust_;
    std::vector<double> coefficients_;
};

} // namespace

HEKLA_PLUGIN({HK_OPTIMIZER_INTERFACE, "muon", optimizer<Muon>()})
