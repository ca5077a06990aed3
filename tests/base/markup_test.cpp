// Text inside XML and HTML.
#include "base/markup.hpp"

#include <doctest/doctest.h>

using namespace hekla;

TEST_CASE("markup: markup characters are escaped, UTF-8 is unchanged") {
    CHECK(escape_markup("a < b && c > \"d\"") == "a &lt; b &amp;&amp; c &gt; &quot;d&quot;");
    CHECK(escape_markup("Snæfell 火山\tx\ny") == "Snæfell 火山\tx\ny");
    CHECK(escape_markup(std::string_view("\0\x01\x7f", 3)) == "???");
    CHECK(escape_markup("").empty());
}
