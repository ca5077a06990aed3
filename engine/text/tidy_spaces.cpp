#include "text/tidy_spaces.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace hekla::text {

std::string tidy_spaces(std::string text) {
    // Applied in this order, each to the whole text.
    constexpr std::pair<std::string_view, std::string_view> kSpaces[] = {
        {" .", "."},     {" ?", "?"},   {" !", "!"},   {" ,", ","},     {" ' ", "'"},
        {" n't", "n't"}, {" 'm", "'m"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    for (const auto& [from, to] : kSpaces) {
        std::size_t kept = 0, at = 0;
        for (std::size_t found = text.find(from); found != std::string::npos; found = text.find(from, at)) {
            std::copy(text.begin() + static_cast<std::ptrdiff_t>(at), text.begin() + static_cast<std::ptrdiff_t>(found),
                      text.begin() + static_cast<std::ptrdiff_t>(kept));
            kept += found - at;
            std::ranges::copy(to, text.begin() + static_cast<std::ptrdiff_t>(kept));
            kept += to.size();
            at = found + from.size();
        }
        text.erase(kept, at - kept);
    }
    return text;
}

} // namespace hekla::text
