// Colors, spacing and fonts of the window.
#pragma once

#include <imgui.h>
#include <string>

namespace observatory {

namespace color {
inline constexpr ImU32 kText = IM_COL32(226, 229, 236, 255);
inline constexpr ImU32 kDim = IM_COL32(146, 153, 166, 255);
inline constexpr ImU32 kGrid = IM_COL32(255, 255, 255, 18);
inline constexpr ImU32 kFrame = IM_COL32(255, 255, 255, 40);
inline constexpr ImU32 kBlue = IM_COL32(92, 160, 242, 255);
inline constexpr ImU32 kGreen = IM_COL32(102, 204, 163, 255);
inline constexpr ImU32 kOrange = IM_COL32(250, 178, 84, 255);
inline constexpr ImU32 kRed = IM_COL32(235, 110, 110, 255);
inline constexpr ImU32 kViolet = IM_COL32(186, 140, 240, 255);
inline constexpr ImU32 kGrey = IM_COL32(158, 168, 184, 255);
} // namespace color

inline ImU32 with_alpha(ImU32 c, float alpha) {
    return (c & ~IM_COL32_A_MASK) | static_cast<ImU32>(alpha * 255.0F) << IM_COL32_A_SHIFT;
}

struct Fonts {
    ImFont* text = nullptr;
    ImFont* large = nullptr;
    ImFont* mono = nullptr;
    ImFont* small = nullptr;
};

// Sets ImGui's style and loads fonts; `font` is a TrueType file, or "" for the system's DejaVu, or ImGui's own if that
// is not installed. Throws a Failure if a requested font cannot be read.
Fonts set_style(const std::string& font, float scale);

} // namespace observatory
