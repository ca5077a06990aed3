#include "pages/attention_page.hpp"

#include "output.hpp"
#include "pages/page.hpp"

#include "base/markup.hpp"
#include "text/files/base64.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace hekla::app {
namespace {

// Weights use 16 bits each, which keeps a page of GPT-2's 144 heads over 64 tokens at 1.6 MB.
std::string packed(const std::vector<float>& weights) {
    std::string bytes;
    bytes.reserve(weights.size() * 2);
    for (const float w : weights) {
        const auto level = static_cast<unsigned>(std::lround(std::clamp(w, 0.0F, 1.0F) * 65535.0F));
        bytes.push_back(static_cast<char>(level & 0xffU));
        bytes.push_back(static_cast<char>(level >> 8));
    }
    return text::to_base64(bytes);
}

} // namespace

std::string attention_page(const std::string& title, const std::vector<AttentionPicture>& pictures) {
    nlohmann::ordered_json data{{"title", title}, {"layers", nlohmann::ordered_json::array()}};
    for (const AttentionPicture& p : pictures)
        data["layers"].push_back({{"place", p.place},
                                  {"heads", p.heads},
                                  {"queries", p.queries},
                                  {"keys", p.keys},
                                  {"weights", packed(p.weights)}});
    std::string json = json_line(data);
    // A token may contain the script's end tag, so every "<" is escaped.
    for (std::size_t at = json.find('<'); at != std::string::npos; at = json.find('<', at))
        json.replace(at, 1, "\\u003c");
    return fill_page("attention.html", {{"TITLE", escape_markup(title)},
                                        {"PAGE_CSS", page_file("page.css")},
                                        {"CSS", page_file("attention.css")},
                                        {"DATA", json},
                                        {"SCRIPT", page_file("attention.js")}});
}

} // namespace hekla::app
