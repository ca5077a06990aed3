#include "controls.hpp"

#include "failure.hpp"

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

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
        nlohmann::ordered_json all;
        all["controls"] = nlohmann::ordered_json::object();
        for (const auto& [name, r] : places_) all["controls"][name] = {r.x0, r.y0, r.x1, r.y1};
        all["values"] = nlohmann::ordered_json::object();
        for (const auto& [name, text] : values_) all["values"][name] = text;
        const std::string text = all.dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
        if (text != written_) {
            const std::string half = file_ + ".part";
            std::ofstream(half) << text << "\n";
            std::error_code problem;
            std::filesystem::rename(half, file_, problem);
            if (problem) throw Failure("--controls " + file_ + ": " + problem.message());
            written_ = text;
        }
    }
    places_.clear();
    values_.clear();
}

} // namespace observatory
