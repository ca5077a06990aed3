// Text inside XML and HTML: SVG pictures and pages are written as text.
#pragma once

#include <string>
#include <string_view>

namespace hekla {

// `text` for an element's content or an attribute in double quotes, of SVG or HTML. Control characters but tab and
// newline become '?': XML cannot hold them. UTF-8 passes as it is.
std::string escape_markup(std::string_view text);

} // namespace hekla
