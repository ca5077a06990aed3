#include "panels/text_bar.hpp"

#include "gui/text_field.hpp"

namespace observatory {

bool text_bar(Observatory& app) {
    ImGui::AlignTextToFramePadding();
    ImGui::TextUnformatted("Text");
    ImGui::SameLine();
    ImGui::SetNextItemWidth(ImGui::GetContentRegionAvail().x - 230 * app.scale);
    bool look = text_field("##text", app.text, "type what the model should read", ImGuiInputTextFlags_EnterReturnsTrue);
    app.controls.place("text");
    ImGui::SameLine();
    look = ImGui::Button("Look", {90 * app.scale, 0}) || look;
    app.controls.place("text/look");
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("Passes the text through the model (Enter)");
    ImGui::SameLine();
    ImGui::TextDisabled("%zu tokens", app.looking.ids().size());
    app.controls.value("text/tokens", static_cast<double>(app.looking.ids().size()));
    app.controls.value("text", app.text);
    if (look) app.look();
    if (app.model() == nullptr) {
        ImGui::TextDisabled("Open a model first: the button is above.");
        return false;
    }
    if (!app.looking.problem().empty()) {
        ImGui::PushStyleColor(ImGuiCol_Text, color::kRed);
        ImGui::TextWrapped("%s", app.looking.problem().c_str());
        ImGui::PopStyleColor();
        return false;
    }
    if (app.looking.is_busy()) {
        ImGui::ProgressBar(static_cast<float>(app.looking.progress()), {240 * app.scale, 0},
                           app.looking.progress() < 1.0 ? "preparing"
                           : app.looking.is_writing()   ? "writing"
                                                        : "passing");
        return false;
    }
    if (!app.looking.written().empty()) {
        ImGui::TextDisabled("It writes");
        ImGui::SameLine();
        ImGui::TextWrapped("%s", app.looking.writing().c_str());
        app.controls.value("text/written", app.looking.writing());
    }
    return app.looking.is_shown();
}

} // namespace observatory
