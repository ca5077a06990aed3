// Scaling laws: the loss of a model as a function of its size and of the tokens that it was trained on.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace hekla::scaling {

enum class Form : uint8_t {
    chinchilla, // L = E + A / N^alpha + B / D^beta (Hoffmann et al. 2022, arXiv 2203.15556)
    kaplan,     // L = ((Nc / N)^(alpha_N / alpha_D) + Dc / D)^alpha_D (Kaplan et al. 2020, arXiv 2001.08361)
    // L = (L_inf^(1 / alpha) + (Nc / N)^(alpha_N / alpha) + (Dc / D)^(alpha_D / alpha))^alpha (Droppo and Elibol 2021,
    // arXiv 2106.09488): chinchilla where alpha is 1, kaplan where L_inf is 0 and alpha is alpha_D.
    droppo,
};
inline constexpr Form kForms[] = {Form::chinchilla, Form::kaplan, Form::droppo};
const char* form_name(Form form); // "chinchilla", "kaplan", "droppo"
std::optional<Form> form_of_name(std::string_view name);
// E A B alpha beta; Nc Dc alpha_N alpha_D; L_inf Nc Dc alpha_N alpha_D alpha
std::span<const char* const> constant_names(Form form);

// A law with its constants. Sizes are numbers of parameters, N, and of tokens, D, both above 0.
struct Law {
    Form form = Form::chinchilla;
    // E, A, B, Nc, Dc and L_inf as logarithms, exponents as they are; in the order of constant_names().
    std::array<double, 6> fitted{};

    std::size_t count() const { return constant_names(form).size(); }
    std::size_t first_exponent() const { return form == Form::kaplan ? 2 : 3; } // the others follow it
    double constant(std::size_t i) const;                                       // as it is in the formula
    double log_loss(double parameters, double tokens) const;
    double loss(double parameters, double tokens) const;
    // The derivatives of log_loss() by `fitted`.
    std::array<double, 6> gradient(double parameters, double tokens) const;
    // The loss that no size and no data gets below: E, L_inf, or 0.
    double floor() const;
    // The tokens at which a model of this size has a loss; nothing if it never has.
    std::optional<double> tokens_for(double parameters, double loss) const;
};

// The floating-point operations that training on one token costs, as a linear function of the number of parameters.
struct Cost {
    double fixed = 0.0, per_parameter = 6.0;
    double flops(double parameters, double tokens) const { return (fixed + per_parameter * parameters) * tokens; }
    double tokens(double parameters, double flops) const { return flops / (fixed + per_parameter * parameters); }
};

// The model and the data that reach the lowest loss for a number of floating-point operations.
struct Optimum {
    double parameters = 0.0, tokens = 0.0, loss = 0.0;
};
Optimum optimum(const Law& law, const Cost& cost, double flops);

} // namespace hekla::scaling
