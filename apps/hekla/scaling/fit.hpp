// Fits a scaling law to trained models, with intervals.
#pragma once

#include "base/status.hpp"
#include "base/stop_poll.hpp"
#include "scaling/law.hpp"
#include "scaling/points.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace hekla::scaling {

struct FitOptions {
    Form form = Form::chinchilla;
    bool without_embeddings = false; // N is Point::without_embeddings
    double delta = 1e-3;             // of the Huber loss of log L
    int64_t resamples = 1000;        // of the bootstrap; 0: no intervals
    uint64_t seed = 1;
    StopPoll stop = {};
};

struct Range {
    double low = 0.0, high = 0.0;
};

// A fitted law.
struct Fit {
    Law law;
    bool without_embeddings = false;
    double objective = 0.0; // the Huber loss, summed over the points
    Cost cost;              // of training on a token; 6 N where the points have no flops
    bool measured_cost = false;
    // How well a law of this form predicts larger models: the root mean square of log(predicted / measured) over the
    // fourth of the points with most FLOPs, by a fit of the others. Set by fit_all(), unless the others are too few.
    std::optional<double> backtest;
    std::vector<double> residuals; // log of measured over fitted loss, by point
    std::vector<Law> resampled;    // the laws of the bootstrap

    double size_of(const Point& point) const {
        return without_embeddings ? point.without_embeddings : point.parameters;
    }
    // The floating-point operations of its training; by the cost where they are not known.
    double flops_of(const Point& point) const {
        return point.flops > 0.0 ? point.flops : cost.flops(size_of(point), point.tokens);
    }
    // The 95 % range of a constant over the bootstrap.
    Range constant_range(std::size_t i) const;
    // The range of the loss that a run has with a probability of 95 %: the laws of the bootstrap, each with a residual
    // of the fit, drawn and scaled by sqrt(n / (n - constants)).
    Range loss_range(double parameters, double tokens) const;
    // The same of the law itself, without the residual of a run.
    Range law_range(double parameters, double tokens) const;
};

// Fits a law to all points that are not held out: minimizes the Huber loss of log L (Hoffmann et al. 2022, appendix
// D.3). For every pair of exponents of a grid the other constants follow from linear least squares; the best of these
// are refined by Levenberg and Marquardt's method. Deterministic. Errors: fewer than 6 points, a single size or a
// single number of tokens, parameters without embeddings that are not known; Code::cancelled by options.stop.
Result<Fit> fit(std::span<const Point> points, const FitOptions& options);

// Returns the points, held out or not, whose loss is below the law's floor by more than rounding: it describes them
// wrongly, whatever their size and data. They point into `points`.
std::vector<const Point*> below_floor(const Fit& fit, std::span<const Point> points);

// Fits laws of these forms, over all parameters and, where they are known, over those without embeddings; of
// options, form is not used, and without_embeddings leaves the former out. The laws with the smallest backtest come
// first; differences of less than 0.1 % do not count, and then the order is that of `forms`. Forms with too many
// constants for the points are left out, unless one form alone is asked for. Errors: as fit().
Result<std::vector<Fit>> fit_all(std::span<const Point> points, std::span<const Form> forms, const FitOptions& options);

// How a law predicts points that it was not fitted to.
struct Prediction {
    const Point* point = nullptr;
    double loss = 0.0;
    Range range;          // Fit::loss_range()
    double error = 0.0;   // predicted / measured - 1
    double as_best = 0.0; // the error of predicting the lowest loss of the fitted points
    double as_line = 0.0; // the error of a straight line of log L over log FLOPs, through the fitted points with the
                          // lowest loss for their FLOPs
};
std::vector<Prediction> predictions(const Fit& fit, std::span<const Point> points);

} // namespace hekla::scaling
