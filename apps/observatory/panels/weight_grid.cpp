#include "panels/weight_grid.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace observatory {
namespace {

// The colors of attention maps (shaders/attention.frag).
ImU32 heat_of(float weight) {
    constexpr std::array<std::array<float, 3>, 7> kStops{{{0.035F, 0.03F, 0.085F},
                                                          {0.20F, 0.06F, 0.36F},
                                                          {0.45F, 0.12F, 0.43F},
                                                          {0.72F, 0.21F, 0.33F},
                                                          {0.93F, 0.39F, 0.20F},
                                                          {0.98F, 0.65F, 0.20F},
                                                          {0.99F, 0.98F, 0.75F}}};
    const float x = std::isfinite(weight) ? std::clamp(weight, 0.0F, 1.0F) * 6.0F : 0.0F;
    const auto i = std::min(static_cast<std::size_t>(x), kStops.size() - 2);
    const auto channel = [&](std::size_t c) {
        return static_cast<int>(
            std::lround(255.0F * std::lerp(kStops[i][c], kStops[i + 1][c], x - static_cast<float>(i))));
    };
    return IM_COL32(channel(0), channel(1), channel(2), 255);
}

float width_of(const std::vector<std::string>& labels, const ImFont& font, float most) {
    float width = 0;
    for (const std::string& label : labels)
        width = std::max(width, font.CalcTextSizeA(font.FontSize, FLT_MAX, 0.0F, label.c_str()).x);
    return std::min(width, most);
}

// Writes the end of a label that is too long, to the left of `right`.
void write_left(ImDrawList& list, ImFont& font, ImVec2 right, float room, ImU32 c, const std::string& label) {
    const float width = font.CalcTextSizeA(font.FontSize, FLT_MAX, 0.0F, label.c_str()).x;
    const ImVec4 clip{right.x - room, right.y, right.x, right.y + font.FontSize + 4};
    list.AddText(&font, font.FontSize, {right.x - width, right.y}, c, label.c_str(), nullptr, 0.0F, &clip);
}

// Writes a label upwards from `at`: it is drawn horizontally, and its vertices are rotated.
void write_upwards(ImDrawList& list, ImFont& font, ImVec2 at, float room, ImU32 c, const std::string& label) {
    const int first = list.VtxBuffer.Size;
    const ImVec4 clip{at.x, at.y, at.x + room, at.y + font.FontSize + 4};
    const ImVec2 low = list.GetClipRectMin(), high = list.GetClipRectMax();
    if (at.x < low.x || at.x > high.x || at.y > high.y || at.y - room < low.y) return;
    list.PushClipRectFullScreen();
    list.AddText(&font, font.FontSize, at, c, label.c_str(), nullptr, 0.0F, &clip);
    for (int v = first; v < list.VtxBuffer.Size; ++v) {
        ImVec2& p = list.VtxBuffer[v].pos;
        p = {at.x + (p.y - at.y), at.y - (p.x - at.x)};
    }
    list.PopClipRect();
}

} // namespace

std::size_t draw_weights(Observatory& app, const WeightGrid& grid, ImVec2 size) {
    std::size_t clicked = SIZE_MAX;
    ImFont& font = *app.gui.fonts().small;
    const float scale = app.scale, line = font.FontSize;
    ImGui::BeginChild(grid.name, size, true, ImGuiWindowFlags_HorizontalScrollbar);
    const ImVec2 corner = ImGui::GetCursorScreenPos(), room = ImGui::GetContentRegionAvail();
    const auto rows = static_cast<float>(grid.rows.size()), columns = static_cast<float>(grid.columns.size());
    const float least = line + 2.0F, narrow = grid.numbers ? 44.0F * scale : least;
    const float left =
        width_of(grid.rows, font, std::max(room.x - narrow * columns - 16.0F * scale, room.x * 0.3F)) + 8.0F * scale;
    const float top = width_of(grid.columns, font, 84.0F * scale) + 8.0F * scale;
    const float wide = std::floor(
        std::clamp((room.x - left - 4) / std::max(columns, 1.0F), least, (grid.numbers ? 64.0F : 40.0F) * scale));
    const float high = std::floor(std::clamp((room.y - top - 4) / std::max(rows, 1.0F), least, 34.0F * scale));
    const ImVec2 low{corner.x + left, corner.y + top}, end{low.x + wide * columns, low.y + high * rows};
    ImGui::Dummy({left + wide * columns, top + high * rows});
    ImGui::SetCursorScreenPos(low);
    ImGui::InvisibleButton("cells", {std::max(end.x - low.x, 1.0F), std::max(end.y - low.y, 1.0F)});
    app.controls.place(std::string("routing/") + grid.name);
    const ImVec2 mouse = ImGui::GetIO().MousePos;
    std::size_t row_at = SIZE_MAX, column_at = SIZE_MAX;
    if (ImGui::IsItemHovered() && mouse.x >= low.x && mouse.y >= low.y && mouse.x < end.x && mouse.y < end.y) {
        row_at = static_cast<std::size_t>((mouse.y - low.y) / high);
        column_at = static_cast<std::size_t>((mouse.x - low.x) / wide);
        const auto weight = static_cast<double>(grid.weight(row_at, column_at));
        ImGui::SetTooltip("%s\n%s\n%.3f", grid.rows[row_at].c_str(), grid.columns[column_at].c_str(), weight);
        app.controls.value("routing/weight", weight);
        if (ImGui::IsItemClicked()) clicked = row_at;
    }
    ImDrawList& list = *ImGui::GetWindowDrawList();
    for (std::size_t row = 0; row < grid.rows.size(); ++row) {
        const float y = low.y + static_cast<float>(row) * high;
        write_left(list, font, {low.x - 6.0F, y + (high - line) / 2}, left - 6.0F,
                   row == row_at || row == grid.marked ? color::kText : color::kDim, grid.rows[row]);
        for (std::size_t column = 0; column < grid.columns.size(); ++column) {
            const float x = low.x + static_cast<float>(column) * wide, weight = grid.weight(row, column);
            list.AddRectFilled({x, y}, {x + wide - 1, y + high - 1}, heat_of(weight));
            if (!grid.numbers) continue;
            std::array<char, 16> text{};
            std::snprintf(text.data(), text.size(), "%.2f", static_cast<double>(weight));
            const float width = font.CalcTextSizeA(line, FLT_MAX, 0.0F, text.data()).x;
            constexpr float kPale = 0.7F; // from here on numbers are dark
            if (width + 4 < wide)
                list.AddText(&font, line, {x + (wide - width) / 2, y + (high - line) / 2},
                             weight > kPale ? IM_COL32(20, 20, 26, 255) : color::kText, text.data());
        }
    }
    for (std::size_t column = 0; column < grid.columns.size(); ++column)
        write_upwards(list, font, {low.x + (static_cast<float>(column) + 0.5F) * wide - line / 2, low.y - 5.0F},
                      top - 6.0F, column == column_at ? color::kText : color::kDim, grid.columns[column]);
    if (grid.marked < grid.rows.size()) {
        const float y = low.y + static_cast<float>(grid.marked) * high;
        list.AddRect({low.x - 1, y - 1}, {end.x, y + high}, color::kBlue);
    }
    ImGui::EndChild();
    return clicked;
}

} // namespace observatory
