#include "scaling/fit_json.hpp"

#include <cmath>
#include <fmt/format.h>

namespace hekla::scaling {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

ordered_json fitted_of(const Law& law) {
    ordered_json all = ordered_json::array();
    for (std::size_t i = 0; i < law.count(); ++i) all.push_back(law.fitted[i]);
    return all;
}

double number(const json& value) {
    const double read = value.get<double>();
    if (!std::isfinite(read)) throw std::out_of_range("not finite");
    return read;
}

Law law_of(Form form, const json& values) {
    Law law{form, {}};
    if (values.size() != law.count()) throw std::out_of_range("another number of constants");
    for (std::size_t i = 0; i < law.count(); ++i) law.fitted[i] = number(values.at(i));
    return law;
}

} // namespace

ordered_json fit_json(const Fit& fit) {
    ordered_json constants, resampled = ordered_json::array();
    for (std::size_t i = 0; i < fit.law.count(); ++i) {
        ordered_json& constant = constants[constant_names(fit.law.form)[i]];
        constant["value"] = fit.law.constant(i);
        if (fit.resampled.empty()) continue;
        const Range range = fit.constant_range(i);
        constant["low"] = range.low;
        constant["high"] = range.high;
    }
    for (const Law& law : fit.resampled) resampled.push_back(fitted_of(law));
    return {{"law", form_name(fit.law.form)},
            {"without_embeddings", fit.without_embeddings},
            {"constants", std::move(constants)},
            {"objective", fit.objective},
            {"backtest", fit.backtest ? ordered_json(*fit.backtest) : ordered_json(nullptr)},
            {"cost",
             {{"fixed", fit.cost.fixed}, {"per_parameter", fit.cost.per_parameter}, {"measured", fit.measured_cost}}},
            {"fitted", fitted_of(fit.law)},
            {"residuals", fit.residuals},
            {"resampled", std::move(resampled)}};
}

Result<Fit> fit_of_json(const json& value, const std::string& where) {
    Fit fit;
    try {
        const std::optional<Form> form = form_of_name(value.at("law").get<std::string>());
        if (!form) throw std::out_of_range("an unknown law");
        fit.law = law_of(*form, value.at("fitted"));
        fit.without_embeddings = value.at("without_embeddings").get<bool>();
        fit.objective = number(value.at("objective"));
        if (value.contains("backtest") && !value.at("backtest").is_null()) fit.backtest = number(value.at("backtest"));
        const json& cost = value.at("cost");
        fit.cost = {number(cost.at("fixed")), number(cost.at("per_parameter"))};
        fit.measured_cost = cost.at("measured").get<bool>();
        for (const json& residual : value.at("residuals")) fit.residuals.push_back(number(residual));
        for (const json& one : value.at("resampled")) fit.resampled.push_back(law_of(*form, one));
        if (fit.residuals.empty() || fit.cost.per_parameter <= 0.0 || fit.cost.fixed < 0.0)
            throw std::out_of_range("a number is outside its range");
    } catch (const std::exception& error) {
        return corrupt(fmt::format("{}: is not a fit that `hekla scale fit` wrote ({}): fit again", where,
                                   std::string_view(error.what()).substr(0, 120)));
    }
    return fit;
}

} // namespace hekla::scaling
