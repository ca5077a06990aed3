#include "scaling/fit.hpp"

#include "base/philox.hpp"
#include "base/within_memory.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numeric>
#include <set>
#include <unsupported/Eigen/NonLinearOptimization>

namespace hekla::scaling {
namespace {

// A point as it is fitted.
struct Sample {
    double parameters = 0.0, tokens = 0.0, log_loss = 0.0;
};
using Samples = std::vector<Sample>;

// The square root of twice the Huber loss, with the sign of the residual: a sum of squares of it is a sum of Huber
// losses.
double huber_root(double residual, double delta) {
    const double size = std::abs(residual);
    if (size <= delta) return residual;
    return std::copysign(std::sqrt(2.0 * delta * size - delta * delta), residual);
}
double huber_root_slope(double residual, double delta) {
    const double root = std::abs(huber_root(residual, delta));
    return std::abs(residual) <= delta ? 1.0 : delta / root;
}

double objective(const Law& law, const Samples& samples, double delta) {
    double sum = 0.0;
    for (const Sample& s : samples) {
        const double root = huber_root(law.log_loss(s.parameters, s.tokens) - s.log_loss, delta);
        sum += 0.5 * root * root;
    }
    return sum;
}

// The residuals as Eigen's Levenberg-Marquardt reads them.
class Residuals {
public:
    Residuals(const Samples& samples, Form form, double delta) : samples_(samples), form_(form), delta_(delta) {}

    Law law(const Eigen::VectorXd& x) const {
        Law law{form_, {}};
        std::copy(x.data(), x.data() + x.size(), law.fitted.begin());
        if (form_ == Form::droppo) law.fitted[5] = std::min(law.fitted[5], 1.0); // alpha; 1 is chinchilla
        return law;
    }
    int values() const { return static_cast<int>(samples_.size()); }
    int operator()(const Eigen::VectorXd& x, Eigen::VectorXd& residuals) const {
        const Law at = law(x);
        for (std::size_t i = 0; i < samples_.size(); ++i)
            residuals[static_cast<Eigen::Index>(i)] = huber_root(difference(at, samples_[i]), delta_);
        return residuals.allFinite() ? 0 : -1;
    }
    int df(const Eigen::VectorXd& x, Eigen::MatrixXd& jacobian) const {
        const Law at = law(x);
        for (std::size_t i = 0; i < samples_.size(); ++i) {
            const Sample& s = samples_[i];
            const double slope = huber_root_slope(difference(at, s), delta_);
            const std::array<double, 6> gradient = at.gradient(s.parameters, s.tokens);
            for (std::size_t j = 0; j < at.count(); ++j)
                jacobian(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(j)) = slope * gradient[j];
            if (form_ == Form::droppo && x[5] > 1.0) jacobian(static_cast<Eigen::Index>(i), 5) = 0.0;
        }
        return jacobian.allFinite() ? 0 : -1;
    }

private:
    static double difference(const Law& law, const Sample& s) {
        return law.log_loss(s.parameters, s.tokens) - s.log_loss;
    }
    const Samples& samples_;
    Form form_;
    double delta_;
};

struct Candidate {
    Law law;
    double objective = 0.0;
};

Candidate refined(const Law& start, const Samples& samples, double delta) {
    Residuals residuals(samples, start.form, delta);
    Eigen::VectorXd x =
        Eigen::Map<const Eigen::VectorXd>(start.fitted.data(), static_cast<Eigen::Index>(start.count()));
    Eigen::LevenbergMarquardt<Residuals> method(residuals);
    method.parameters.maxfev = 4000;
    method.parameters.ftol = 1e-13;
    method.parameters.xtol = 1e-12;
    method.minimize(x);
    const Law law = residuals.law(x);
    const double reached = objective(law, samples, delta), before = objective(start, samples, delta);
    // Exponents of a law are above 0.
    const auto end = law.fitted.begin() + static_cast<std::ptrdiff_t>(law.count());
    const bool is_law =
        x.allFinite() && std::all_of(law.fitted.begin() + static_cast<std::ptrdiff_t>(law.first_exponent()), end,
                                     [](double exponent) { return exponent > 0.0; });
    if (!is_law || !(reached <= before)) return {start, before};
    return {law, reached};
}

// Returns the law whose terms have these exponents, and whose loss is nearest in relative least squares: L^(1 / power)
// is a sum of E, A / N^by_size and B / D^by_data. Logarithms of sizes are centered, so that powers stay near 1.
Law with_exponents(Form form, double by_size, double by_data, double power, const Samples& samples) {
    double n_mean = 0.0, d_mean = 0.0;
    for (const Sample& s : samples) {
        n_mean += std::log(s.parameters) / static_cast<double>(samples.size());
        d_mean += std::log(s.tokens) / static_cast<double>(samples.size());
    }
    const bool has_floor = form != Form::kaplan;
    const auto rows = static_cast<Eigen::Index>(samples.size());
    Eigen::MatrixXd terms(rows, has_floor ? 3 : 2);
    for (Eigen::Index i = 0; i < rows; ++i) {
        const Sample& s = samples[static_cast<std::size_t>(i)];
        const double target = std::exp(s.log_loss / power); // divided by it, all are 1
        terms(i, 0) = std::exp(-by_size * (std::log(s.parameters) - n_mean)) / target;
        terms(i, 1) = std::exp(-by_data * (std::log(s.tokens) - d_mean)) / target;
        if (has_floor) terms(i, 2) = 1.0 / target;
    }
    const Eigen::VectorXd ones = Eigen::VectorXd::Ones(rows);
    Eigen::VectorXd found = terms.colPivHouseholderQr().solve(ones);
    // A term that would be negative is as good as absent; the others are solved again without it.
    for (int round = 0; round < 2 && (found.array() <= 0.0).any(); ++round) {
        Eigen::Index worst = 0;
        found.minCoeff(&worst);
        terms.col(worst).setZero();
        found = terms.colPivHouseholderQr().solve(ones);
    }
    const auto log_of = [&](Eigen::Index i) {
        return std::log(std::max(found[i], 1e-6 * std::max(found.maxCoeff(), 1e-300)));
    };
    const double size = log_of(0) / by_size + n_mean, data = log_of(1) / by_data + d_mean; // log Nc, log Dc
    switch (form) {
    case Form::chinchilla: return {form, {log_of(2), size * by_size, data * by_data, by_size, by_data}};
    case Form::kaplan: return {form, {size, data, by_size * power, power}};
    case Form::droppo: break;
    }
    return {form, {power * log_of(2), size, data, power * by_size, power * by_data, power}};
}

// The best laws over a grid of exponents.
std::vector<Law> grid(Form form, const Samples& samples, double delta, std::size_t best) {
    constexpr int kSteps = 14;
    std::vector<Candidate> all;
    const auto add = [&](double by_size, double by_data, double power) {
        const Law law = with_exponents(form, by_size, by_data, power, samples);
        const double reached = objective(law, samples, delta);
        if (std::isfinite(reached)) all.push_back({law, reached});
    };
    // Exponents from 0.03 to 1.5, in a geometric series.
    const auto exponent = [](int k) { return 0.03 * std::pow(50.0, k / (kSteps - 1.0)); };
    for (int i = 0; i < kSteps; ++i)
        for (int j = 0; j < kSteps; ++j) {
            const double first = exponent(i), second = exponent(j);
            switch (form) {
            case Form::chinchilla: add(first, second, 1.0); break;
            case Form::kaplan: add(first / second, 1.0, second); break;
            case Form::droppo:
                for (const double power : {0.1, 0.2, 0.4, 0.7, 1.0}) add(first / power, second / power, power);
                break;
            }
        }
    best = std::min(best, all.size());
    std::ranges::partial_sort(all, all.begin() + static_cast<std::ptrdiff_t>(best), {}, &Candidate::objective);
    std::vector<Law> laws;
    for (std::size_t i = 0; i < best; ++i) laws.push_back(all[i].law);
    return laws;
}

Candidate best_of(const std::vector<Law>& starts, const Samples& samples, double delta) {
    Candidate best;
    for (const Law& start : starts) {
        const Candidate candidate = refined(start, samples, delta);
        if (&start == &starts.front() || candidate.objective < best.objective) best = candidate;
    }
    return best;
}

bool varied(const Samples& samples) {
    std::set<double> sizes, tokens;
    for (const Sample& s : samples) {
        sizes.insert(s.parameters);
        tokens.insert(s.tokens);
    }
    return sizes.size() > 1 && tokens.size() > 1;
}

// Fits FLOPs per token by relative least squares.
bool measure_cost(std::span<const Point> points, const Fit& fit, Cost& cost) {
    std::vector<const Point*> known;
    for (const Point& p : points)
        if (!p.held_out && p.flops > 0.0) known.push_back(&p);
    if (known.size() < 2) return false;
    Eigen::MatrixXd terms(static_cast<Eigen::Index>(known.size()), 2);
    for (std::size_t i = 0; i < known.size(); ++i) {
        const double a_token = known[i]->flops / known[i]->tokens;
        terms.row(static_cast<Eigen::Index>(i)) << 1.0 / a_token, fit.size_of(*known[i]) / a_token;
    }
    const Eigen::VectorXd ones = Eigen::VectorXd::Ones(terms.rows());
    const Eigen::VectorXd found = terms.colPivHouseholderQr().solve(ones);
    if (!found.allFinite() || found[1] <= 0.0) return false;
    cost = {std::max(found[0], 0.0), found[1]};
    return true;
}

Range middle(std::vector<double> values) {
    if (values.empty()) return {};
    std::ranges::sort(values);
    const auto at = [&](double share) {
        const double place = share * static_cast<double>(values.size() - 1);
        const auto below = static_cast<std::size_t>(place);
        const double part = place - static_cast<double>(below);
        return below + 1 < values.size() ? values[below] * (1.0 - part) + values[below + 1] * part : values[below];
    };
    return {at(0.025), at(0.975)};
}

Status check(std::span<const Point> fitted, const FitOptions& options) {
    if (fitted.size() < 6)
        return invalid_argument(fmt::format("a scaling law needs at least 6 trained models; {} are given that are not "
                                            "held out: train more sizes or more numbers of tokens",
                                            fitted.size()));
    for (const Point& p : fitted)
        if (options.without_embeddings && p.without_embeddings <= 0.0)
            return invalid_argument(fmt::format("{}: its parameters without embeddings are not known: fit all "
                                                "parameters, or add the column parameters_without_embeddings",
                                                p.name));
    return {};
}

} // namespace

Range Fit::constant_range(std::size_t i) const {
    std::vector<double> values;
    for (const Law& one : resampled) values.push_back(one.constant(i));
    return middle(std::move(values));
}

Range Fit::law_range(double parameters, double tokens) const {
    std::vector<double> values;
    for (const Law& one : resampled) values.push_back(one.loss(parameters, tokens));
    return middle(std::move(values));
}

Range Fit::loss_range(double parameters, double tokens) const {
    const auto n = static_cast<double>(residuals.size());
    const double inflated = std::sqrt(n / std::max(n - static_cast<double>(law.count()), 1.0));
    RandomStream random(0, 1);
    std::vector<double> values;
    for (const Law& one : resampled) {
        const double residual = inflated * residuals[random.next_below(residuals.size())];
        values.push_back(std::exp(one.log_loss(parameters, tokens) + residual));
    }
    return middle(std::move(values));
}

Result<Fit> fit(std::span<const Point> points, const FitOptions& options) {
    std::vector<Point> fitted;
    std::ranges::copy_if(points, std::back_inserter(fitted), [](const Point& p) { return !p.held_out; });
    HK_TRY(check(fitted, options));
    Fit made;
    made.without_embeddings = options.without_embeddings;
    Samples samples;
    for (const Point& p : fitted) samples.push_back({made.size_of(p), p.tokens, std::log(p.loss)});
    if (!varied(samples))
        return invalid_argument(
            "a scaling law needs models of several sizes, and trained on several numbers of tokens; "
            "all given ones have the same: train others");
    HK_TRY(within_memory("for a scaling law", [&]() -> Status {
        const Candidate best = best_of(grid(options.form, samples, options.delta, 8), samples, options.delta);
        made.law = best.law;
        made.objective = best.objective;
        for (const Sample& s : samples)
            made.residuals.push_back(s.log_loss - made.law.log_loss(s.parameters, s.tokens));
        made.measured_cost = measure_cost(points, made, made.cost);
        RandomStream random(options.seed, 0);
        for (int64_t i = 0; i < options.resamples; ++i) {
            HK_TRY(options.stop.check("fitting a scaling law"));
            Samples drawn;
            do {
                drawn.clear();
                for (std::size_t k = 0; k < samples.size(); ++k)
                    drawn.push_back(samples[random.next_below(samples.size())]);
            } while (!varied(drawn));
            std::vector<Law> starts = grid(options.form, drawn, options.delta, 1);
            starts.push_back(made.law);
            made.resampled.push_back(best_of(starts, drawn, options.delta).law);
        }
        return {};
    }));
    return made;
}

namespace {

// Fit::backtest of a law of this form.
std::optional<double> backtest(std::span<const Point> points, const FitOptions& options) {
    std::vector<Point> all;
    std::ranges::copy_if(points, std::back_inserter(all), [](const Point& p) { return !p.held_out; });
    std::ranges::stable_sort(all, {}, &Point::known_flops);
    const std::size_t held_out = all.size() / 4, fitted = all.size() - held_out;
    if (held_out == 0 || fitted < constant_names(options.form).size() + 2) return std::nullopt;
    for (std::size_t i = fitted; i < all.size(); ++i) all[i].held_out = true;
    FitOptions once = options;
    once.resamples = 0;
    const Result<Fit> made = fit(all, once);
    if (!made.ok()) return std::nullopt;
    double squares = 0.0;
    for (std::size_t i = fitted; i < all.size(); ++i) {
        const double error = made->law.log_loss(made->size_of(all[i]), all[i].tokens) - std::log(all[i].loss);
        squares += error * error / static_cast<double>(held_out);
    }
    return std::sqrt(squares);
}

} // namespace

Result<std::vector<Fit>> fit_all(std::span<const Point> points, std::span<const Form> forms,
                                 const FitOptions& options) {
    const bool both = !options.without_embeddings &&
                      std::ranges::all_of(points, [](const Point& p) { return p.without_embeddings > 0.0; });
    const auto fitted = static_cast<std::size_t>(std::ranges::count(points, false, &Point::held_out));
    std::vector<Fit> all;
    for (const Form form : forms) {
        if (forms.size() > 1 && fitted >= 6 && fitted < constant_names(form).size() + 1) continue;
        for (int i = 0; i < (both ? 2 : 1); ++i) {
            FitOptions one = options;
            one.form = form;
            one.without_embeddings = options.without_embeddings || i > 0;
            HK_ASSIGN(Fit made, fit(points, one));
            made.backtest = backtest(points, one);
            all.push_back(std::move(made));
        }
    }
    std::ranges::stable_sort(all, {}, [](const Fit& one) { return std::round(1e3 * one.backtest.value_or(1e3)); });
    return all;
}

std::vector<const Point*> below_floor(const Fit& fit, std::span<const Point> points) {
    constexpr double kRounding = 1e-6; // relative
    const double least = fit.law.floor() * (1.0 - kRounding);
    std::vector<const Point*> below;
    for (const Point& p : points)
        if (p.loss < least) below.push_back(&p);
    return below;
}

std::vector<Prediction> predictions(const Fit& fit, std::span<const Point> points) {
    // Log FLOPs and log loss of the fitted points.
    std::vector<std::pair<double, double>> known;
    for (const Point& p : points)
        if (!p.held_out) known.emplace_back(std::log(fit.flops_of(p)), std::log(p.loss));
    if (known.empty()) return {};
    std::ranges::sort(known);
    std::vector<std::pair<double, double>> frontier;
    for (const auto& one : known)
        if (frontier.empty() || one.second < frontier.back().second) frontier.push_back(one);
    double x_mean = 0.0, y_mean = 0.0, xx = 0.0, xy = 0.0;
    for (const auto& [x, y] : frontier) {
        x_mean += x / static_cast<double>(frontier.size());
        y_mean += y / static_cast<double>(frontier.size());
    }
    for (const auto& [x, y] : frontier) {
        xx += (x - x_mean) * (x - x_mean);
        xy += (x - x_mean) * (y - y_mean);
    }
    const double slope = xx > 0.0 ? xy / xx : 0.0, best = std::exp(frontier.back().second);
    std::vector<Prediction> all;
    for (const Point& p : points) {
        if (!p.held_out) continue;
        const double size = fit.size_of(p), loss = fit.law.loss(size, p.tokens);
        all.push_back({&p, loss, fit.loss_range(size, p.tokens), loss / p.loss - 1.0, best / p.loss - 1.0,
                       std::exp(y_mean + slope * (std::log(fit.flops_of(p)) - x_mean)) / p.loss - 1.0});
    }
    return all;
}

} // namespace hekla::scaling
