// Adafactor (Shazeer and Stern 2018), as torch.optim.Adafactor: of matrices it keeps sums over rows and over columns of
// the squared gradient alone.
#include "optimizer.hpp"

using namespace hekla::plugin;

namespace {

class Adafactor {
public:
    explicit Adafactor(const Config& config)
        : beta2_decay_(config.real("beta2_decay")), d_(config.real("d")), weight_decay_(config.real("weight_decay")) {
        eps_ = fractions(config, "eps", 2);
        if (beta2_decay_ > 0.0) throw invalid("beta2_decay is above 0, expected 0 or less");
        if (!(d_ > 0.0)) throw invalid("d is not above 0");
    }

    Value update(Graph& g, const Optimized& parameter, const UpdateValues& v) const {
        const double root_of_count = std::sqrt(parameter.elements());
        const Value scale = maximum(sqrt(sum_all(v.parameter * v.parameter)) / root_of_count, g.number(eps_[1])) *
                            minimum(v.learning_rate, rsqrt(v.step));
        const Value share = pow(v.step, beta2_decay_); // of the new gradient in the averages
        const Value variance = parameter.rank() > 1 ? of_matrix(g, parameter, v.gradient, share)
                                                    : of_vector(g, parameter, v.gradient, share);
        const Value step = rsqrt(maximum(variance, g.number(eps_[0] * eps_[0]))) * v.gradient;
        const Value clipped = maximum(sqrt(sum_all(step * step)) / (root_of_count * d_), g.number(1.0));
        return decayed(parameter, v, weight_decay_) - step * (scale / clipped);
    }

private:
    Value of_vector(Graph& g, const Optimized& parameter, Value gradient, Value share) const {
        return next("variance", lerp(state(g, "variance", parameter.dims), gradient * gradient, share));
    }

    // The product of both averages, over their common mean.
    Value of_matrix(Graph& g, const Optimized& parameter, Value gradient, Value share) const {
        Dims rows = parameter.dims, columns = parameter.dims;
        rows[rows.size() - 1] = 1;
        columns[columns.size() - 2] = 1;
        const Value squares = gradient * gradient;
        const Value row = next("row_var", lerp(state(g, "row_var", rows), mean(squares, {-1}, {.keep = 1}), share));
        const Value column =
            next("col_var", lerp(state(g, "col_var", columns), mean(squares, {-2}, {.keep = 1}), share));
        return row * column / maximum(mean(row, {-2}, {.keep = 1}), g.number(eps_[0]));
    }

    std::vector<double> eps_;
    double beta2_decay_, d_, weight_decay_;
};

} // namespace

HEKLA_PLUGIN({HK_OPTIMIZER_INTERFACE, "adafactor", optimizer<Adafactor>()})
