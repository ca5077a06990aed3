// The standard normal distribution between two bounds, by the inverse of its distribution function. Probabilities are
// counted from the nearer tail, so that they stay exact far from 0.
#pragma once

#include <cstdint>

namespace hekla::graph {

class TruncatedNormal {
public:
    // low < high; either may be infinite.
    TruncatedNormal(double low, double high);

    // Probabilities of a normal number: less than low, in between, and above high.
    double below() const { return below_; }
    double inside() const { return inside_; }
    double above() const { return above_; }

    // Returns the number of a random word, whose upper 24 bits count.
    double number_of(uint32_t word) const;

private:
    double low_, high_, below_, inside_, above_;
};

} // namespace hekla::graph
