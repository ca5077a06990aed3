#include "train/step/loss_window.hpp"

#include <cmath>

namespace hekla::train {

double LossWindow::z(double loss) const {
    if (losses_.size() < 8 || !std::isfinite(loss)) return 0.0;
    double mean = 0.0, squares = 0.0;
    for (const double x : losses_) mean += x;
    mean /= static_cast<double>(losses_.size());
    for (const double x : losses_) squares += (x - mean) * (x - mean);
    const double deviation = std::sqrt(squares / static_cast<double>(losses_.size()));
    return deviation > 0.0 ? (loss - mean) / deviation : 0.0;
}

void LossWindow::add(double loss) {
    if (!std::isfinite(loss)) return; // one bad step must not affect the next 128
    losses_.push_back(loss);
    if (losses_.size() > 128) losses_.pop_front();
}

} // namespace hekla::train
