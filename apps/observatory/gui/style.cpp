#include "gui/style.hpp"

#include "failure.hpp"

#include <filesystem>

namespace observatory {
namespace {

constexpr const char* kSans = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf";
constexpr const char* kMono = "/usr/share/fonts/truetype/dejavu/DejaVuSansMono.ttf";

// Latin with accents, Greek, Cyrillic, and the symbols that the window itself uses.
constexpr ImWchar kGlyphs[] = {0x0020, 0x024F, 0x0370, 0x03FF, 0x0400, 0x04FF, 0x2010, 0x2027, 0x20A0,
                               0x20BF, 0x2190, 0x21FF, 0x2200, 0x22FF, 0x23CE, 0x23CE, 0x2420, 0x2423,
                               0x2500, 0x25FF, 0x2713, 0x2717, 0xFFFD, 0xFFFD, 0};

ImFont* load(const std::string& file, float size) {
    ImFontConfig config;
    config.OversampleH = 2;
    config.OversampleV = 2;
    return ImGui::GetIO().Fonts->AddFontFromFileTTF(file.c_str(), size, &config, kGlyphs);
}

ImVec4 rgb(int r, int g, int b, float alpha = 1.0F) {
    return {static_cast<float>(r) / 255.0F, static_cast<float>(g) / 255.0F, static_cast<float>(b) / 255.0F, alpha};
}

void set_colors(ImGuiStyle& style) {
    ImVec4* c = style.Colors;
    c[ImGuiCol_Text] = rgb(226, 229, 236);
    c[ImGuiCol_TextDisabled] = rgb(146, 153, 166);
    c[ImGuiCol_WindowBg] = rgb(19, 21, 27);
    c[ImGuiCol_ChildBg] = rgb(25, 28, 36);
    c[ImGuiCol_PopupBg] = rgb(31, 35, 45);
    c[ImGuiCol_Border] = rgb(255, 255, 255, 0.07F);
    c[ImGuiCol_FrameBg] = rgb(38, 43, 55);
    c[ImGuiCol_FrameBgHovered] = rgb(48, 55, 71);
    c[ImGuiCol_FrameBgActive] = rgb(56, 64, 84);
    c[ImGuiCol_TitleBg] = c[ImGuiCol_TitleBgActive] = rgb(31, 35, 45);
    c[ImGuiCol_ScrollbarBg] = rgb(0, 0, 0, 0.0F);
    c[ImGuiCol_ScrollbarGrab] = rgb(64, 71, 88);
    c[ImGuiCol_ScrollbarGrabHovered] = rgb(84, 93, 114);
    c[ImGuiCol_CheckMark] = rgb(92, 160, 242);
    c[ImGuiCol_SliderGrab] = rgb(92, 160, 242, 0.65F);
    c[ImGuiCol_SliderGrabActive] = rgb(134, 186, 250, 0.8F);
    c[ImGuiCol_PlotHistogram] = rgb(58, 106, 176);
    c[ImGuiCol_Button] = rgb(45, 60, 86);
    c[ImGuiCol_ButtonHovered] = rgb(58, 82, 122);
    c[ImGuiCol_ButtonActive] = rgb(74, 106, 160);
    c[ImGuiCol_Header] = rgb(45, 60, 86);
    c[ImGuiCol_HeaderHovered] = rgb(54, 72, 104);
    c[ImGuiCol_HeaderActive] = rgb(66, 90, 132);
    c[ImGuiCol_Separator] = rgb(255, 255, 255, 0.08F);
    c[ImGuiCol_Tab] = rgb(25, 28, 36);
    c[ImGuiCol_TabHovered] = rgb(58, 82, 122);
    c[ImGuiCol_TabActive] = rgb(45, 64, 98);
    c[ImGuiCol_TableHeaderBg] = rgb(33, 37, 48);
    c[ImGuiCol_TableBorderLight] = rgb(255, 255, 255, 0.05F);
    c[ImGuiCol_TableBorderStrong] = rgb(255, 255, 255, 0.09F);
    c[ImGuiCol_TableRowBgAlt] = rgb(255, 255, 255, 0.018F);
    c[ImGuiCol_TextSelectedBg] = rgb(58, 92, 150);
    c[ImGuiCol_ModalWindowDimBg] = rgb(6, 7, 10, 0.6F);
}

} // namespace

Fonts set_style(const std::string& font, float scale) {
    ImGui::StyleColorsDark();
    ImGuiStyle& style = ImGui::GetStyle();
    style.WindowRounding = 0.0F;
    style.ChildRounding = 6.0F;
    style.FrameRounding = style.GrabRounding = style.TabRounding = 4.0F;
    style.PopupRounding = 6.0F;
    style.ScrollbarRounding = 6.0F;
    style.WindowPadding = {12, 10};
    style.FramePadding = {10, 5};
    style.ItemSpacing = {10, 7};
    style.CellPadding = {8, 3};
    style.ScrollbarSize = 12.0F;
    style.WindowBorderSize = 0.0F;
    style.ChildBorderSize = 1.0F;
    style.ScaleAllSizes(scale);
    set_colors(style);
    const bool given = !font.empty();
    if (given && !std::filesystem::exists(font)) throw Failure("--font " + font + ": there is no such file");
    const std::string sans = given ? font : kSans, mono = kMono;
    Fonts fonts;
    if (std::filesystem::exists(sans)) {
        fonts.text = load(sans, 15.0F * scale);
        fonts.large = load(sans, 20.0F * scale);
        fonts.small = load(sans, 12.5F * scale);
    }
    if (given && fonts.text == nullptr) throw Failure("--font " + font + " is not a TrueType font");
    if (std::filesystem::exists(mono)) fonts.mono = load(mono, 13.5F * scale);
    if (fonts.text == nullptr) fonts.text = fonts.large = fonts.small = ImGui::GetIO().Fonts->AddFontDefault();
    if (fonts.mono == nullptr) fonts.mono = fonts.text;
    return fonts;
}

} // namespace observatory
