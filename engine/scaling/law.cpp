#include "scaling/law.hpp"

#include <algorithm>
#include <cmath>

namespace hekla::scaling {
namespace {

constexpr const char* kChinchilla[] = {"E", "A", "B", "alpha", "beta"};
constexpr const char* kKaplan[] = {"Nc", "Dc", "alpha_N", "alpha_D"};

// log(exp(a) + exp(b))
double log_sum(double a, double b) {
    const double most = std::max(a, b);
    return most + std::log1p(std::exp(std::min(a, b) - most));
}

} // namespace

const char* form_name(Form form) { return form == Form::chinchilla ? "chinchilla" : "kaplan"; }

std::optional<Form> form_of_name(std::string_view name) {
    for (const Form form : kForms)
        if (name == form_name(form)) return form;
    return std::nullopt;
}

std::span<const char* const> constant_names(Form form) {
    if (form == Form::chinchilla) return kChinchilla;
    return kKaplan;
}

double Law::constant(std::size_t i) const {
    const bool is_log = form == Form::chinchilla ? i < 3 : i < 2;
    return is_log ? std::exp(fitted[i]) : fitted[i];
}

double Law::log_loss(double parameters, double tokens) const {
    const double n = std::log(parameters), d = std::log(tokens);
    const auto& [p0, p1, p2, p3, p4] = fitted;
    if (form == Form::chinchilla) return log_sum(p0, log_sum(p1 - p3 * n, p2 - p4 * d));
    return p3 * log_sum(p2 / p3 * (p0 - n), p1 - d);
}

double Law::loss(double parameters, double tokens) const { return std::exp(log_loss(parameters, tokens)); }

std::array<double, 5> Law::gradient(double parameters, double tokens) const {
    const double n = std::log(parameters), d = std::log(tokens);
    const auto& [p0, p1, p2, p3, p4] = fitted;
    if (form == Form::chinchilla) {
        const double by_size = p1 - p3 * n, by_data = p2 - p4 * d, sum = log_sum(p0, log_sum(by_size, by_data));
        const double size = std::exp(by_size - sum), data = std::exp(by_data - sum);
        return {std::exp(p0 - sum), size, data, -size * n, -data * d};
    }
    const double by_size = p2 / p3 * (p0 - n), by_data = p1 - d, sum = log_sum(by_size, by_data);
    const double size = std::exp(by_size - sum), data = std::exp(by_data - sum);
    return {size * p2, data * p3, size * (p0 - n), sum - size * by_size, 0.0};
}

double Law::floor() const { return form == Form::chinchilla ? std::exp(fitted[0]) : 0.0; }

std::optional<double> Law::tokens_for(double parameters, double loss) const {
    const double n = std::log(parameters);
    const auto& [p0, p1, p2, p3, p4] = fitted;
    if (form == Form::chinchilla) {
        const double left = loss - std::exp(p0) - std::exp(p1 - p3 * n);
        if (left <= 0.0) return std::nullopt;
        return std::exp((p2 - std::log(left)) / p4);
    }
    const double left = std::pow(loss, 1.0 / p3) - std::exp(p2 / p3 * (p0 - n));
    if (!(left > 0.0)) return std::nullopt;
    return std::exp(p1 - std::log(left));
}

Optimum optimum(const Law& law, const Cost& cost, double flops) {
    const auto loss_at = [&](double n) {
        const double parameters = std::exp(n);
        return law.log_loss(parameters, cost.tokens(parameters, flops));
    };
    // The loss falls, then rises with the size. Golden section search in log N, from one parameter to one token.
    double low = 0.0, high = std::log(std::max(flops / std::max(cost.per_parameter, 1e-300), 2.0));
    const double ratio = (std::sqrt(5.0) - 1.0) / 2.0;
    double a = high - ratio * (high - low), b = low + ratio * (high - low), at_a = loss_at(a), at_b = loss_at(b);
    for (int i = 0; i < 100 && high - low > 1e-9; ++i) {
        if (at_a < at_b) {
            high = b, b = a, at_b = at_a;
            a = high - ratio * (high - low), at_a = loss_at(a);
        } else {
            low = a, a = b, at_a = at_b;
            b = low + ratio * (high - low), at_b = loss_at(b);
        }
    }
    const double parameters = std::exp((low + high) / 2.0), tokens = cost.tokens(parameters, flops);
    return {parameters, tokens, law.loss(parameters, tokens)};
}

} // namespace hekla::scaling
