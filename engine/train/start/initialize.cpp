#include "train/start/initialize.hpp"

#include "base/hash.hpp"
#include "base/philox.hpp"

#include <cmath>

namespace hekla::train {

std::vector<float> initial_values(const graph::Node& parameter, uint64_t seed) {
    const graph::Shape shape(parameter.ints("shape"));
    std::vector<float> values(static_cast<std::size_t>(shape.elements()));
    const double a = parameter.real("a"), b = parameter.real("b");
    RandomStream random(seed, hash64(parameter.text("name")));
    switch (parameter.integer("initializer")) {
    case 1: // normal
        for (float& value : values) value = static_cast<float>(a + b * random.next_normal());
        break;
    case 2: // uniform
        for (float& value : values) value = static_cast<float>(a + (b - a) * random.next_unit());
        break;
    case 3: // normal, truncated at two standard deviations
        for (float& value : values) {
            double z = random.next_normal();
            while (std::abs(z) > 2.0) z = random.next_normal();
            value = static_cast<float>(a + b * z);
        }
        break;
    default:
        for (float& value : values) value = static_cast<float>(a);
    }
    return values;
}

} // namespace hekla::train
