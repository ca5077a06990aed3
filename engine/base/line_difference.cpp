#include "base/line_difference.hpp"

#include <algorithm>
#include <sstream>
#include <vector>

namespace hekla {
namespace {

struct ComparedLine {
    std::string text, compared;
    bool operator==(const ComparedLine& other) const { return compared == other.compared; }
};

std::vector<ComparedLine> lines_of(const std::string& text, const LineKey& key) {
    std::istringstream stream(text);
    std::vector<ComparedLine> lines;
    for (std::string line; std::getline(stream, line);) lines.push_back({line, key ? key(line) : line});
    return lines;
}

} // namespace

std::string line_difference(const std::string& before, const std::string& after, const LineKey& key) {
    constexpr std::size_t kMost = 4000;
    std::vector<ComparedLine> a = lines_of(before, key), b = lines_of(after, key);
    const auto same_begin = std::ranges::mismatch(a, b);
    a.erase(a.begin(), same_begin.in1);
    b.erase(b.begin(), same_begin.in2);
    while (!a.empty() && !b.empty() && a.back() == b.back()) {
        a.pop_back();
        b.pop_back();
    }
    std::string out;
    std::size_t i = 0, j = 0;
    if (a.size() <= kMost && b.size() <= kMost) {
        // common[i][j]: length for the lines from i and j on.
        std::vector<std::vector<uint16_t>> common(a.size() + 1, std::vector<uint16_t>(b.size() + 1, 0));
        for (std::size_t x = a.size(); x-- > 0;)
            for (std::size_t y = b.size(); y-- > 0;)
                common[x][y] = a[x] == b[y] ? static_cast<uint16_t>(common[x + 1][y + 1] + 1)
                                            : std::max(common[x + 1][y], common[x][y + 1]);
        while (i < a.size() && j < b.size()) {
            if (a[i] == b[j]) {
                ++i;
                ++j;
            } else if (common[i + 1][j] >= common[i][j + 1]) {
                out += "- " + a[i++].text + "\n";
            } else {
                out += "+ " + b[j++].text + "\n";
            }
        }
    }
    for (; i < a.size(); ++i) out += "- " + a[i].text + "\n";
    for (; j < b.size(); ++j) out += "+ " + b[j].text + "\n";
    return out;
}

} // namespace hekla
