// An example of a batch.
#pragma once

#include "data/encoded.hpp"

#include <cstdint>

namespace hekla::batch {

struct DrawnExample {
    data::EncodedExample example;
    uint64_t epoch = 0;
    int64_t row = 0; // of the batch, where its rows hold several examples (packed_fields.hpp)
};

} // namespace hekla::batch
