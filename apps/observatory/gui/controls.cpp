#include "gui/controls.hpp"

#include "base/system_file.hpp"
#include "failure.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace observatory {

void Controls::place(const std::string& name) { place(name, ImGui::GetItemRectMin(), ImGui::GetItemRectMax()); }

void Controls::place(const std::string& name, ImVec2 low, ImVec2 high) {
    if (!file_.empty()) places_[name] = {low.x, low.y, high.x, high.y};
}

void Controls::value(const std::string& name, double number) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.9g", number);
    values_[name] = text.data();
}

void Controls::end_frame() {
    if (!file_.empty()) {
        std::string text;
        for (const auto& [name, r] : places_) {
            std::array<char, 64> numbers{};
            std::snprintf(numbers.data(), numbers.size(), "%.0f\t%.0f\t%.0f\t%.0f", static_cast<double>(r.x0),
                          static_cast<double>(r.y0), static_cast<double>(r.x1), static_cast<double>(r.y1));
            text += "control\t" + name + "\t" + numbers.data() + "\n";
        }
        for (const auto& [name, value] : values_) {
            std::string line = value;
            std::ranges::replace(line, '\n', ' ');
            text.append("value\t").append(name).append("\t").append(line).append("\n");
        }
        if (text != written_) {
            const std::string half = file_ + ".part";
            std::error_code problem = hekla::write_unsynced(half, text);
            if (!problem) problem = hekla::rename_path(half, file_);
            if (problem) throw Failure("--controls " + file_ + ": " + problem.message());
            written_ = text;
        }
    }
    places_.clear();
    values_.clear();
}

} // namespace observatory
