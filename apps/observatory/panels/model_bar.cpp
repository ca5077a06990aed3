#include "panels/model_bar.hpp"

#include "base/path_text.hpp"

#include <algorithm>
#include <filesystem>

namespace observatory {

void model_bar(Observatory& app) {
    const Fonts& fonts = app.gui.fonts();
    if (ImGui::Button("Open model...", {130 * app.scale, 0}))
        app.browse(FileBrowser::Wanted::model, app.model() != nullptr ? app.model()->path() : "",
                   [&app](const std::string& path) { app.open(path); });
    app.controls.place("open model");
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("A run's folder, a checkpoint's, or a Hugging Face model's");
    ImGui::SameLine();
    const float right = ImGui::GetContentRegionMax().x;
    if (const Model* model = app.model()) {
        ImGui::PushFont(fonts.large);
        const std::string name = hekla::path_of(model->path()).lexically_normal().filename().string();
        ImGui::TextUnformatted(name.empty() ? model->path().c_str() : name.c_str());
        ImGui::PopFont();
        if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", model->path().c_str());
        ImGui::SameLine();
        ImGui::AlignTextToFramePadding();
        ImGui::TextDisabled("%s%s%s, %s numbers in %zu parameters, %lld tokens", model->architecture().c_str(),
                            model->head().empty() ? "" : " + ", model->head().c_str(),
                            short_number(static_cast<double>(model->elements())).c_str(), model->parameters().size(),
                            static_cast<long long>(model->vocabulary()));
    } else {
        ImGui::AlignTextToFramePadding();
        ImGui::TextDisabled("no model is open");
    }
    if (app.is_opening()) {
        ImGui::SameLine();
        ImGui::TextDisabled("opening...");
    }
    if (const std::vector<std::string> messages = app.engine.messages(); !messages.empty()) {
        ImGui::SameLine();
        ImGui::AlignTextToFramePadding();
        ImGui::TextColored(ImGui::ColorConvertU32ToFloat4(color::kOrange), "%zu messages", messages.size());
        if (ImGui::IsItemHovered()) { // the newest messages
            ImGui::BeginTooltip();
            ImGui::PushTextWrapPos(700 * app.scale);
            for (std::size_t i = messages.size() - std::min<std::size_t>(messages.size(), 12); i < messages.size(); ++i)
                ImGui::TextUnformatted(messages[i].c_str());
            ImGui::PopTextWrapPos();
            ImGui::EndTooltip();
        }
    }
    const std::string& device = app.engine.device().name();
    ImGui::PushFont(fonts.small);
    ImGui::SameLine(right - ImGui::CalcTextSize(device.c_str()).x);
    ImGui::AlignTextToFramePadding();
    ImGui::TextDisabled("%s", device.c_str());
    ImGui::PopFont();
    if (!app.problem().empty()) {
        ImGui::PushStyleColor(ImGuiCol_Text, color::kRed);
        ImGui::TextWrapped("%s", app.problem().c_str());
        ImGui::PopStyleColor();
    }
    app.controls.value("model", app.model() != nullptr ? app.model()->path() : "");
}

} // namespace observatory
