// Describes a parameter as hk_parameter.
#pragma once

#include "api/boundary.hpp"
#include "graph/shape.hpp"
#include "hekla/model.h"

#include <algorithm>

namespace hekla::api {

// `name` is borrowed.
inline hk_parameter described_parameter(const std::string& name, const graph::Shape& shape, bool learns) {
    hk_parameter p{};
    p.struct_size = sizeof p;
    p.rank = static_cast<uint32_t>(shape.rank());
    p.name = view(name);
    std::ranges::copy(shape.dims(), p.dims);
    p.learns = learns ? 1 : 0;
    return p;
}

} // namespace hekla::api
