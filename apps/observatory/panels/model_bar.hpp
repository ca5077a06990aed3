// The line above everything: the model that is open, and the device.
#pragma once

#include "observatory.hpp"

namespace observatory {

void model_bar(Observatory& app);

} // namespace observatory
