// The text that attention and lens are of: typed, begun anew, or gone on with.
#pragma once

#include "observatory.hpp"

namespace observatory {

// Draws it, and what it lacks where there is nothing to see. Whether there is.
bool text_bar(Observatory& app);

} // namespace observatory
