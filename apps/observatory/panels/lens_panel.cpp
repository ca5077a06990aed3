#include "panels/lens_panel.hpp"

#include "panels/text_bar.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace observatory {
namespace {

// Returns a color from dark to blue to pale, by a layer's probability.
ImU32 shade(float probability) {
    const float t = std::sqrt(std::min(std::max(probability, 0.0F), 1.0F));
    const auto mix = [&](float a, float b, float c) {
        return static_cast<int>(t < 0.5F ? a + (b - a) * t * 2 : b + (c - b) * (t - 0.5F) * 2);
    };
    return IM_COL32(mix(30, 38, 74), mix(34, 84, 158), mix(44, 140, 205), 255);
}

} // namespace

void LensPanel::draw_table(Observatory& app, ImVec2 size) {
    const Looking& looking = app.looking;
    const Model& model = *app.model();
    const std::size_t layers = looking.lenses(), tokens = looking.followed().size();
    const Fonts& fonts = app.gui.fonts();
    ImGui::BeginChild("lens", size, true, ImGuiWindowFlags_HorizontalScrollbar);
    ImGui::TextDisabled("Each cell: the token that this layer finds likeliest to follow. The brighter, the surer; "
                        "green: it is what follows.");
    const float label = 74.0F * app.scale;
    const float wide = std::clamp((ImGui::GetContentRegionAvail().x - label) / static_cast<float>(tokens),
                                  66.0F * app.scale, 120.0F * app.scale);
    const float room = ImGui::GetContentRegionAvail().y - 34.0F * app.scale;
    const float high = std::min(std::max(room / static_cast<float>(layers + 1), 24.0F * app.scale), 72.0F * app.scale);
    ImDrawList& list = *ImGui::GetWindowDrawList();
    const ImVec2 corner = ImGui::GetCursorScreenPos();
    const auto write = [&](ImVec2 low, ImVec2 end, const std::string& text, ImU32 c, ImFont* font) {
        const ImVec2 extent = font->CalcTextSizeA(font->FontSize, FLT_MAX, 0.0F, text.c_str());
        const float x = low.x + std::max(4.0F, (end.x - low.x - extent.x) / 2.0F);
        const ImVec4 clip{low.x + 2, low.y, end.x - 2, end.y};
        list.AddText(font, font->FontSize, {x, low.y + (end.y - low.y - extent.y) / 2.0F}, c, text.c_str(), nullptr,
                     0.0F, &clip);
    };
    const int32_t next = static_cast<int32_t>(tokens);
    for (std::size_t row = 0; row < layers; ++row) {
        const std::size_t layer = layers - 1 - row;
        const float y = corner.y + static_cast<float>(row) * high;
        write({corner.x, y}, {corner.x + label, y + high},
              layer + 1 == layers ? "output"
              : layer == 0        ? "embedded"
                                  : "layer " + std::to_string(layer),
              color::kDim, fonts.small);
        for (std::size_t token = 0; token < tokens; ++token) {
            const TopTokens::Row& guess = looking.top().row(layer, token);
            const ImVec2 low{corner.x + label + static_cast<float>(token) * wide, y},
                end{low.x + wide - 2, low.y + high - 2};
            const float probability = guess.tokens[0].probability;
            list.AddRectFilled(low, end, shade(probability), 3.0F);
            const auto id = static_cast<int32_t>(guess.tokens[0].id);
            // Whether the text continues with this token.
            const bool right = static_cast<int32_t>(token) + 1 < next && looking.followed()[token + 1] == id;
            const bool bright = probability > 0.4F;
            write(low, end, model.label(id),
                  right    ? (bright ? IM_COL32(4, 60, 34, 255) : color::kGreen)
                  : bright ? IM_COL32(12, 20, 32, 255)
                           : color::kText,
                  fonts.text);
            ImGui::SetCursorScreenPos(low);
            ImGui::PushID(static_cast<int>(layer * 100000 + token));
            if (ImGui::InvisibleButton("cell", {wide - 2, high - 2})) {
                layer_ = layer;
                token_ = token;
            }
            ImGui::PopID();
            app.controls.place("lens/" + std::to_string(layer) + "/" + std::to_string(token));
            const bool hovered = ImGui::IsItemHovered();
            if (hovered) {
                ImGui::BeginTooltip();
                ImGui::TextDisabled("after %s", model.label(looking.followed()[token]).c_str());
                for (std::size_t k = 0; k < 5; ++k)
                    ImGui::Text("%5.1f %%  %s", static_cast<double>(guess.tokens[k].probability) * 100.0,
                                model.label(static_cast<int32_t>(guess.tokens[k].id)).c_str());
                ImGui::TextDisabled("%.2f bits of doubt", static_cast<double>(guess.entropy));
                ImGui::EndTooltip();
            }
            if (layer == layer_ && token == token_)
                list.AddRect(low, end, color::kOrange, 3.0F, 0, 2.0F);
            else if (hovered)
                list.AddRect(low, end, color::kText, 3.0F);
        }
    }
    const float y = corner.y + static_cast<float>(layers) * high;
    write({corner.x, y}, {corner.x + label, y + high}, "text", color::kDim, fonts.small);
    for (std::size_t token = 0; token < tokens; ++token) {
        const float x = corner.x + label + static_cast<float>(token) * wide;
        write({x, y}, {x + wide - 2, y + high}, model.label(looking.followed()[token]), color::kText, fonts.text);
    }
    ImGui::SetCursorScreenPos(corner);
    ImGui::Dummy({label + static_cast<float>(tokens) * wide, static_cast<float>(layers + 1) * high});
    if (scrolls_ > 0) { // to the last token
        ImGui::SetScrollX(ImGui::GetScrollMaxX());
        --scrolls_;
    }
    ImGui::EndChild();
}

void LensPanel::draw_next(Observatory& app, ImVec2 size) {
    const Looking& looking = app.looking;
    const Model& model = *app.model();
    const TopTokens::Row& guess = looking.top().row(layer_, token_);
    const Fonts& fonts = app.gui.fonts();
    ImGui::BeginChild("next", size, true);
    const bool last = token_ + 1 == looking.followed().size(), output = layer_ + 1 == looking.lenses();
    const bool goes_on = !model.is_encoder_decoder(); // its input and output are one text
    ImGui::Text("What follows %s", model.label(looking.followed()[token_]).c_str());
    const std::string place = output        ? "the model"
                              : layer_ == 0 ? "what is embedded"
                                            : "layer " + std::to_string(layer_);
    ImGui::TextDisabled("predicted by %s; entropy %.2f bits", place.c_str(), static_cast<double>(guess.entropy));
    ImGui::Spacing();
    ImDrawList& list = *ImGui::GetWindowDrawList();
    const float high = 30.0F * app.scale, label = 92.0F * app.scale, number = 62.0F * app.scale;
    for (uint32_t k = 0; k < TopTokens::kCount; ++k) {
        const auto id = static_cast<int32_t>(guess.tokens[k].id);
        if (id < 0) continue; // the vocabulary is smaller
        const ImVec2 corner = ImGui::GetCursorScreenPos();
        const float room = ImGui::GetContentRegionAvail().x;
        ImGui::PushID(static_cast<int>(k));
        const bool pressed = ImGui::InvisibleButton("token", {room, high - 4}) && goes_on;
        ImGui::PopID();
        app.controls.place("next/" + std::to_string(k));
        if (goes_on && ImGui::IsItemHovered()) {
            list.AddRectFilled(corner, {corner.x + room, corner.y + high - 4}, color::kGrid, 4.0F);
            ImGui::SetTooltip("%s", last ? "Click to append it" : "Click to cut the text here and append it");
        }
        const float text = corner.y + (high - 4 - fonts.text->FontSize) / 2;
        const ImVec4 clip{corner.x, corner.y, corner.x + label - 6, corner.y + high};
        list.AddText(fonts.text, fonts.text->FontSize, {corner.x + 8, text}, color::kText, model.label(id).c_str(),
                     nullptr, 0.0F, &clip);
        const float bar = std::max(0.0F, room - label - number) * guess.tokens[k].probability;
        list.AddRectFilled({corner.x + label, corner.y + 6},
                           {corner.x + label + std::max(bar, 1.5F), corner.y + high - 10},
                           k == 0 ? color::kBlue : with_alpha(color::kBlue, 0.6F), 2.0F);
        std::array<char, 16> percent{};
        std::snprintf(percent.data(), percent.size(), "%.1f %%",
                      static_cast<double>(guess.tokens[k].probability) * 100.0);
        list.AddText({corner.x + label + bar + 8, text}, color::kDim, percent.data());
        if (!pressed) continue;
        std::vector<int32_t> ids(looking.ids().begin(),
                                 looking.ids().begin() + static_cast<std::ptrdiff_t>(token_) + 1);
        ids.push_back(id);
        app.text = model.decode(ids);
        app.look();
    }
    ImGui::Spacing();
    if (goes_on) ImGui::TextWrapped("Click a token to append it to the text.");
    ImGui::EndChild();
}

void LensPanel::draw(Observatory& app) {
    if (!text_bar(app)) return;
    const Looking& looking = app.looking;
    if (looking.lenses() == 0) {
        ImGui::TextWrapped("There is no lens for this model: %s", looking.lens_problem().c_str());
        return;
    }
    if (!looking.has_top(app.frame)) return;
    if (seen_ != looking.followed()) { // another text: select its last token
        seen_ = looking.followed();
        layer_ = looking.lenses() - 1;
        token_ = seen_.size() - 1;
        scrolls_ = 2; // frames, since the width is known only in the second
    }
    layer_ = std::min(layer_, looking.lenses() - 1);
    app.controls.value("lens/layer", static_cast<double>(layer_));
    app.controls.value("lens/token", static_cast<double>(token_));
    app.controls.value("next/0",
                       app.model()->label(static_cast<int32_t>(looking.top().row(layer_, token_).tokens[0].id)));
    const ImVec2 room = ImGui::GetContentRegionAvail();
    const float right = 390.0F * app.scale;
    draw_table(app, {room.x - right - ImGui::GetStyle().ItemSpacing.x, room.y});
    ImGui::SameLine();
    draw_next(app, {right, room.y});
}

} // namespace observatory
