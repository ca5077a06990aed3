// The bar at the top: the open model and the device.
#pragma once

#include "observatory.hpp"

namespace observatory {

void model_bar(Observatory& app);

} // namespace observatory
