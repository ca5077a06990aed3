// An example of a batch.
#pragma once

#include "data/encoded.hpp"

#include <cstdint>

namespace hekla::batch {

struct DrawnExample {
    data::EncodedExample example;
    uint64_t epoch = 0;
};

} // namespace hekla::batch
