// Escapes texts for XML and HTML.
#pragma once

#include <string>
#include <string_view>

namespace hekla {

// Escapes a text for an element's content or an attribute in double quotes, in SVG or HTML. Control characters except
// tab and newline become '?', since XML cannot represent them. UTF-8 is unchanged.
std::string escape_markup(std::string_view text);

} // namespace hekla
