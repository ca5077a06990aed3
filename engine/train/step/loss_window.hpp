// The last 128 finite losses, and how far a new one deviates from them.
#pragma once

#include <deque>

namespace hekla::train {

class LossWindow {
public:
    // Returns the distance of `loss` from the window's mean in standard deviations; 0 while it holds fewer than 8.
    double z(double loss) const;
    void add(double loss);                                       // ignores NaN and infinity
    const std::deque<double>& losses() const { return losses_; } // oldest first

private:
    std::deque<double> losses_;
};

} // namespace hekla::train
