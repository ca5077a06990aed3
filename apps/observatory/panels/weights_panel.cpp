#include "panels/weights_panel.hpp"

#include "failure.hpp"
#include "gui/text_field.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace observatory {
namespace {

void draw_bars(ImDrawList& list, const Histogram& h, ImVec2 low, ImVec2 high, ImU32 c, bool logarithmic) {
    const uint32_t most = *std::ranges::max_element(h.counts);
    if (most == 0) return;
    const auto share = [&](uint32_t count) {
        if (count == 0) return 0.0F;
        return logarithmic ? std::log(1.0F + static_cast<float>(count)) / std::log(1.0F + static_cast<float>(most))
                           : static_cast<float>(count) / static_cast<float>(most);
    };
    const float wide = (high.x - low.x) / static_cast<float>(h.counts.size());
    for (std::size_t i = 0; i < h.counts.size(); ++i) {
        const float x = low.x + static_cast<float>(i) * wide;
        list.AddRectFilled({x, high.y - share(h.counts[i]) * (high.y - low.y)},
                           {x + std::max(wide - 1.0F, 1.0F), high.y}, c);
    }
}

void draw_large(Observatory& app, const char* title, const Histogram& h, uint64_t elements, ImU32 c, ImVec2 size,
                bool logarithmic) {
    const Fonts& fonts = app.gui.fonts();
    const ImVec2 corner = ImGui::GetCursorScreenPos();
    ImGui::InvisibleButton(title, size);
    const bool hovered = ImGui::IsItemHovered();
    ImDrawList& list = *ImGui::GetWindowDrawList();
    const float small = fonts.small->FontSize;
    const ImVec2 low{corner.x + 8, corner.y + small * 2 + 16},
        high{corner.x + size.x - 8, corner.y + size.y - small - 8};
    list.AddText({corner.x + 8, corner.y}, color::kText, title);
    std::array<char, 160> text{};
    std::snprintf(text.data(), text.size(), "mean %.3g   deviation %.3g   least %.3g   greatest %.3g", h.mean,
                  h.deviation, h.least, h.greatest);
    list.AddText(fonts.small, small, {corner.x + 8, corner.y + fonts.text->FontSize + 4}, color::kDim, text.data());
    list.AddLine({low.x, high.y}, {high.x, high.y}, color::kFrame);
    list.AddLine({(low.x + high.x) / 2, low.y}, {(low.x + high.x) / 2, high.y}, color::kGrid);
    draw_bars(list, h, low, high, c, logarithmic);
    for (int i = -2; i <= 2; ++i) {
        std::snprintf(text.data(), text.size(), "%.3g", h.magnitude() * i / 2.0);
        const float width = fonts.small->CalcTextSizeA(small, FLT_MAX, 0.0F, text.data()).x;
        const float x = low.x + (high.x - low.x) * (static_cast<float>(i) + 2.0F) / 4.0F;
        list.AddText(fonts.small, small, {std::clamp(x - width / 2, low.x, high.x - width), high.y + 3}, color::kDim,
                     text.data());
    }
    if (h.not_finite > 0) {
        std::snprintf(text.data(), text.size(), "%llu are not finite", static_cast<unsigned long long>(h.not_finite));
        list.AddText({low.x + 4, low.y}, color::kRed, text.data());
    }
    if (!hovered) return;
    const float at = (ImGui::GetIO().MousePos.x - low.x) / (high.x - low.x);
    if (at < 0.0F || at >= 1.0F) return;
    const auto bin = static_cast<std::size_t>(at * static_cast<float>(Histogram::kBins));
    const double part = h.magnitude() / 32.0, begin = (static_cast<double>(bin) - 32.0) * part;
    ImGui::SetTooltip("%.3g to %.3g: %u, %.3g %%", begin, begin + part, h.counts[bin],
                      100.0 * h.counts[bin] / static_cast<double>(std::max<uint64_t>(elements, 1)));
}

} // namespace

bool WeightsPanel::is_settled(Observatory& app) {
    if (of_training_)
        return app.training->info().state >= HK_SESSION_DONE && app.training->spreads().first == live_step_;
    return app.model() == nullptr || number_ == app.model_number() || !table_.problem().empty();
}

void WeightsPanel::change(Observatory& app, bool shown) {
    // Without a model, show the training.
    of_training_ = app.training != nullptr && (wants_training_ || (app.model() == nullptr && !app.is_opening()));
    if (app.training != nullptr) {
        app.training->want_spreads(shown && of_training_);
        if (shown && of_training_) {
            auto [step, spreads] = app.training->spreads();
            if (step != live_step_) {
                live_step_ = step;
                live_ = std::move(spreads);
            }
        }
    }
    if (!shown || app.model() == nullptr || number_ == app.model_number() || !table_.is_ready()) return;
    number_ = app.model_number();
    spreads_.clear();
    chosen_ = 0;
    std::vector<hk_tensor> tensors;
    for (const Parameter& parameter : app.model()->parameters())
        if (const std::optional<hk_tensor> tensor = table_.parameter(parameter.name)) {
            tensors.push_back(*tensor);
            spreads_.push_back({parameter, {}, {}});
        }
    const std::vector<Histogram> all = histograms_.take(tensors);
    for (std::size_t i = 0; i < all.size(); ++i) spreads_[i].values = all[i];
}

void WeightsPanel::draw_list(Observatory& app, ImVec2 size) {
    const std::vector<Spread>& spreads = of_training_ ? live_ : spreads_;
    ImGui::BeginChild("parameters", size, true);
    ImGui::SetNextItemWidth(-1);
    text_field("##filter", filter_, "a part of the name");
    const bool gradients = of_training_ && gradients_;
    const ImGuiTableFlags flags = ImGuiTableFlags_ScrollY | ImGuiTableFlags_RowBg | ImGuiTableFlags_BordersInnerV |
                                  ImGuiTableFlags_SizingFixedFit;
    if (ImGui::BeginTable("table", gradients ? 5 : 4, flags)) {
        ImGui::TableSetupScrollFreeze(0, 1);
        ImGui::TableSetupColumn("parameter", ImGuiTableColumnFlags_WidthStretch);
        ImGui::TableSetupColumn("shape", 0, 96 * app.scale);
        ImGui::TableSetupColumn("deviation", 0, 78 * app.scale);
        ImGui::TableSetupColumn("values", 0, 110 * app.scale);
        if (gradients) ImGui::TableSetupColumn("gradients", 0, 110 * app.scale);
        ImGui::TableHeadersRow();
        for (std::size_t i = 0; i < spreads.size(); ++i) {
            const Spread& spread = spreads[i];
            if (spread.parameter.name.find(filter_) == std::string::npos) continue;
            ImGui::TableNextRow();
            ImGui::TableNextColumn();
            if (ImGui::Selectable(spread.parameter.name.c_str(), chosen_ == i, ImGuiSelectableFlags_SpanAllColumns))
                chosen_ = i;
            app.controls.place("weights/" + std::to_string(i));
            ImGui::TableNextColumn();
            ImGui::TextDisabled("%s", spread.parameter.shape.c_str());
            ImGui::TableNextColumn();
            ImGui::Text("%.3g", spread.values.deviation);
            const auto mini = [&](const Histogram& h, ImU32 c) {
                ImGui::TableNextColumn();
                const ImVec2 low = ImGui::GetCursorScreenPos();
                const ImVec2 extent{104.0F * app.scale, ImGui::GetTextLineHeight()};
                draw_bars(*ImGui::GetWindowDrawList(), h, low, {low.x + extent.x, low.y + extent.y}, c, logarithmic_);
                ImGui::Dummy(extent);
            };
            mini(spread.values, color::kBlue);
            if (gradients && spread.parameter.learns) mini(spread.gradients, color::kOrange);
        }
        ImGui::EndTable();
    }
    ImGui::EndChild();
}

void WeightsPanel::draw_one(Observatory& app, const Spread& spread, ImVec2 size) {
    ImGui::BeginChild("one parameter", size, true);
    ImGui::TextWrapped("%s", spread.parameter.name.c_str());
    ImGui::TextDisabled("%s, %s numbers", spread.parameter.shape.c_str(),
                        short_number(static_cast<double>(spread.parameter.elements)).c_str());
    ImGui::Spacing();
    const bool both = of_training_ && gradients_ && spread.parameter.learns;
    const ImVec2 room = ImGui::GetContentRegionAvail();
    const ImVec2 each{room.x, both ? (room.y - ImGui::GetStyle().ItemSpacing.y) / 2 : room.y};
    draw_large(app, "Values", spread.values, spread.parameter.elements, color::kBlue, each, logarithmic_);
    if (both)
        draw_large(app, "Gradients", spread.gradients, spread.parameter.elements, color::kOrange, each, logarithmic_);
    ImGui::EndChild();
}

void WeightsPanel::draw(Observatory& app) {
    if (ImGui::RadioButton("of the model", !of_training_)) wants_training_ = false;
    app.controls.place("weights/model");
    ImGui::SameLine();
    ImGui::BeginDisabled(app.training == nullptr);
    if (ImGui::RadioButton("of the training in this window", of_training_)) wants_training_ = true;
    ImGui::EndDisabled();
    app.controls.place("weights/training");
    ImGui::SameLine();
    ImGui::Checkbox("logarithmic counts", &logarithmic_);
    ImGui::SameLine();
    ImGui::BeginDisabled(!of_training_);
    ImGui::Checkbox("gradients", &gradients_);
    ImGui::EndDisabled();
    const std::vector<Spread>& spreads = of_training_ ? live_ : spreads_;
    app.controls.value("weights/count", static_cast<double>(spreads.size()));
    if (of_training_) {
        ImGui::SameLine();
        ImGui::TextDisabled("after step %lld", static_cast<long long>(live_step_));
        app.controls.value("weights/step", static_cast<double>(live_step_));
    }
    if (spreads.empty()) {
        if (of_training_)
            ImGui::TextDisabled("They are counted after the next step, on the device.");
        else if (app.model() == nullptr)
            ImGui::TextDisabled("Open a model first: the button is above.");
        else if (!table_.is_ready())
            ImGui::ProgressBar(static_cast<float>(table_.progress()), {240 * app.scale, 0}, "reading the weights");
        return;
    }
    chosen_ = std::min(chosen_, spreads.size() - 1);
    const ImVec2 room = ImGui::GetContentRegionAvail();
    const float left = std::floor(room.x * 0.58F);
    draw_list(app, {left, room.y});
    ImGui::SameLine();
    draw_one(app, spreads[chosen_], {room.x - left - ImGui::GetStyle().ItemSpacing.x, room.y});
}

} // namespace observatory
