// A single-line text input, with a hint while it is empty.
#pragma once

#include <imgui.h>
#include <imgui_stdlib.h>
#include <string>

namespace observatory {

inline bool text_field(const char* label, std::string& text, const char* hint, ImGuiInputTextFlags flags = 0) {
    return ImGui::InputTextWithHint(label, hint, &text, flags);
}

} // namespace observatory
