// Random numbers of an example: a pure function of (seed, epoch, index of the example, stream), so that a batch does
// not depend on the thread that makes it or on the order. SplitMix64 (Steele, Lea and Flood 2014), with the state keyed
// by rounds of its output function.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace hekla::plugin {

class Random {
public:
    Random(uint64_t seed, uint64_t epoch, uint64_t index, uint64_t stream) : state_(mix(seed)) {
        for (const uint64_t part : {epoch, index, stream}) state_ = mix(state_ ^ mix(part));
    }

    uint64_t next() {
        state_ += 0x9e3779b97f4a7c15u;
        return mix(state_);
    }
    double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; } // [0, 1)
    // Returns a value in [0, bound), bound > 0; rejects values that would favor small numbers.
    uint64_t below(uint64_t bound) {
        const uint64_t uneven = (0 - bound) % bound;
        uint64_t x = next();
        while (x < uneven) x = next();
        return x % bound;
    }
    // Returns the number of trials up to and including the first success, at most `most`: 1, 2, ...
    uint64_t geometric(double success, uint64_t most) {
        uint64_t trials = 1;
        while (trials < most && unit() >= success) ++trials;
        return trials;
    }
    uint64_t poisson(double mean) { // Knuth's product of uniforms
        const double limit = std::exp(-mean);
        uint64_t k = 0;
        for (double product = unit(); product > limit; product *= unit()) ++k;
        return k;
    }
    template<class T>
    void shuffle(std::vector<T>& items) {
        for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
    }

private:
    static uint64_t mix(uint64_t z) {
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }
    uint64_t state_;
};

} // namespace hekla::plugin
