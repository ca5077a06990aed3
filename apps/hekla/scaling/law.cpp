#include "scaling/law.hpp"

#include <algorithm>
#include <cmath>

namespace hekla::scaling {
namespace {

constexpr const char* kChinchilla[] = {"E", "A", "B", "alpha", "beta"};
constexpr const char* kKaplan[] = {"Nc", "Dc", "alpha_N", "alpha_D"};
constexpr const char* kDroppo[] = {"L_inf", "Nc", "Dc", "alpha_N", "alpha_D", "alpha"};

// log(exp(a) + exp(b))
double log_sum(double a, double b) {
    const double most = std::max(a, b);
    return most + std::log1p(std::exp(std::min(a, b) - most));
}

} // namespace

const char* form_name(Form form) {
    switch (form) {
    case Form::chinchilla: return "chinchilla";
    case Form::kaplan: return "kaplan";
    case Form::droppo: break;
    }
    return "droppo";
}

std::optional<Form> form_of_name(std::string_view name) {
    for (const Form form : kForms)
        if (name == form_name(form)) return form;
    return std::nullopt;
}

std::span<const char* const> constant_names(Form form) {
    switch (form) {
    case Form::chinchilla: return kChinchilla;
    case Form::kaplan: return kKaplan;
    case Form::droppo: break;
    }
    return kDroppo;
}

double Law::constant(std::size_t i) const { return i < first_exponent() ? std::exp(fitted[i]) : fitted[i]; }

double Law::log_loss(double parameters, double tokens) const {
    const double n = std::log(parameters), d = std::log(tokens);
    const auto& [p0, p1, p2, p3, p4, p5] = fitted;
    switch (form) {
    case Form::chinchilla: return log_sum(p0, log_sum(p1 - p3 * n, p2 - p4 * d));
    case Form::kaplan: return p3 * log_sum(p2 / p3 * (p0 - n), p1 - d);
    case Form::droppo: break;
    }
    return p5 * log_sum(p0 / p5, log_sum(p3 / p5 * (p1 - n), p4 / p5 * (p2 - d)));
}

double Law::loss(double parameters, double tokens) const { return std::exp(log_loss(parameters, tokens)); }

std::array<double, 6> Law::gradient(double parameters, double tokens) const {
    const double n = std::log(parameters), d = std::log(tokens);
    const auto& [p0, p1, p2, p3, p4, p5] = fitted;
    if (form == Form::chinchilla) {
        const double by_size = p1 - p3 * n, by_data = p2 - p4 * d, sum = log_sum(p0, log_sum(by_size, by_data));
        const double size = std::exp(by_size - sum), data = std::exp(by_data - sum);
        return {std::exp(p0 - sum), size, data, -size * n, -data * d};
    }
    if (form == Form::kaplan) {
        const double by_size = p2 / p3 * (p0 - n), by_data = p1 - d, sum = log_sum(by_size, by_data);
        const double size = std::exp(by_size - sum), data = std::exp(by_data - sum);
        return {size * p2, data * p3, size * (p0 - n), sum - size * by_size};
    }
    const double least = p0 / p5, by_size = p3 / p5 * (p1 - n), by_data = p4 / p5 * (p2 - d);
    const double sum = log_sum(least, log_sum(by_size, by_data));
    const double always = std::exp(least - sum), size = std::exp(by_size - sum), data = std::exp(by_data - sum);
    return {always,          size * p3,       data * p4,
            size * (p1 - n), data * (p2 - d), sum - always * least - size * by_size - data * by_data};
}

double Law::floor() const { return form == Form::kaplan ? 0.0 : std::exp(fitted[0]); }

std::optional<double> Law::tokens_for(double parameters, double loss) const {
    const double n = std::log(parameters);
    const auto& [p0, p1, p2, p3, p4, p5] = fitted;
    double left = 0.0, by_data = 0.0, factor = 0.0; // left = exp(by_data - factor * log D)
    switch (form) {
    case Form::chinchilla:
        left = loss - std::exp(p0) - std::exp(p1 - p3 * n);
        by_data = p2, factor = p4;
        break;
    case Form::kaplan:
        left = std::pow(loss, 1.0 / p3) - std::exp(p2 / p3 * (p0 - n));
        by_data = p1, factor = 1.0;
        break;
    case Form::droppo:
        left = std::pow(loss, 1.0 / p5) - std::exp(p0 / p5) - std::exp(p3 / p5 * (p1 - n));
        by_data = p4 / p5 * p2, factor = p4 / p5;
        break;
    }
    if (!(left > 0.0)) return std::nullopt;
    return std::exp((by_data - std::log(left)) / factor);
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
