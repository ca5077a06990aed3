// The text of the attention and lens panels: typed, replaced or continued.
#pragma once

#include "observatory.hpp"

namespace observatory {

// Draws the bar, and a message if there is nothing to display. Returns whether there is.
bool text_bar(Observatory& app);

} // namespace observatory
