#include "panels/attention_panel.hpp"

#include "panels/text_bar.hpp"
#include "shaders.hpp"

#include <algorithm>
#include <cmath>

namespace observatory {
namespace {

constexpr uint32_t kQueries = 1U << 2, kKeys = 1U << 3; // of hk_tensor::decoder_axes

// An encoder and a decoder may have different numbers of heads.
int heads_of(const hk_tensor& layer) { return static_cast<int>(layer.dims[1]); }

// Returns the layer's number within its kind: encoder self-attention, decoder self-attention, or cross-attention.
int number_of(const std::vector<hk_tensor>& layers, int layer) {
    const auto end = layers.begin() + layer;
    return static_cast<int>(std::count_if(layers.begin(), end,
                                          [&](const hk_tensor& one) { return one.decoder_axes == end->decoder_axes; }));
}

std::string name_of(const std::vector<hk_tensor>& layers, int layer, bool encodes) {
    const uint32_t axes = layers[static_cast<std::size_t>(layer)].decoder_axes;
    std::string name = std::to_string(number_of(layers, layer));
    if (encodes) name += axes != 0 ? " of the decoder" : " of the encoder";
    if (axes == kQueries) name += ", at what was read";
    return name;
}

// Returns a short name.
std::string mark_of(const std::vector<hk_tensor>& layers, int layer) {
    const uint32_t axes = layers[static_cast<std::size_t>(layer)].decoder_axes;
    return (axes == kQueries ? "r" : axes != 0 ? "w" : "") + std::to_string(number_of(layers, layer));
}

} // namespace

AttentionPanel::AttentionPanel(Device& device, VkRenderPass pass)
    : map_(device, pass), probe_(device, shaders::probe_comp), weight_(device, sizeof(float), Buffer::Storage::mapped) {
}

bool AttentionPanel::is_settled(Observatory& app) { return !app.looking.is_busy(); }

void AttentionPanel::record(Observatory& app, VkCommandBuffer commands, bool shown) {
    const std::vector<hk_tensor>& layers = app.looking.attention();
    if (!shown || !app.looking.is_shown() || row_ == HeatMap::kNone || layers.empty()) return;
    const hk_tensor& layer = layers[static_cast<std::size_t>(layer_) % layers.size()];
    const HeadMap map = head_of(layer, static_cast<uint32_t>(head_ % heads_of(layer)));
    if (row_ >= map.queries || column_ >= map.keys) return;
    const struct {
        VkDeviceAddress from, to;
        uint32_t index;
    } push{map.address, weight_.address(), row_ * map.keys + column_};
    probe_.dispatch(commands, push, 1);
    barrier(commands);
}

// One row per layer, the first at the bottom, as networks are drawn; one column per head.
void AttentionPanel::draw_all(Observatory& app, ImVec2 size) {
    const std::vector<hk_tensor>& layers = app.looking.attention();
    ImGui::BeginChild("all heads", size, true);
    ImGui::TextDisabled("Every layer (the first below) and head%s",
                        app.model()->is_encoder_decoder() ? "; w: what is written, r: from there at what was read"
                                                          : "");
    int heads = 0;
    for (const hk_tensor& layer : layers) heads = std::max(heads, heads_of(layer));
    const auto count = static_cast<int>(layers.size());
    const ImVec2 room = ImGui::GetContentRegionAvail();
    const float label = 26.0F * app.scale, gap = 5.0F * app.scale;
    const float side = std::clamp(
        std::min((room.x - label) / static_cast<float>(heads), (room.y - label) / static_cast<float>(count)) - gap,
        18.0F * app.scale, 320.0F * app.scale);
    ImDrawList& list = *ImGui::GetWindowDrawList();
    const ImVec2 corner = ImGui::GetCursorScreenPos();
    const Fonts& fonts = app.gui.fonts();
    for (int row = 0; row < count; ++row) {
        const int layer = count - 1 - row;
        const float y = corner.y + static_cast<float>(row) * (side + gap);
        list.AddText(fonts.small, fonts.small->FontSize, {corner.x, y + side / 2 - fonts.small->FontSize / 2},
                     color::kDim, mark_of(layers, layer).c_str());
        for (int head = 0; head < heads_of(layers[static_cast<std::size_t>(layer)]); ++head) {
            const ImVec2 low{corner.x + label + static_cast<float>(head) * (side + gap), y},
                high{low.x + side, low.y + side};
            ImGui::SetCursorScreenPos(low);
            ImGui::PushID(layer * 1000 + head);
            if (ImGui::InvisibleButton("head", {side, side})) {
                layer_ = layer;
                head_ = head;
            }
            ImGui::PopID();
            app.controls.place("attention/" + std::to_string(layer) + "/" + std::to_string(head));
            const bool hovered = ImGui::IsItemHovered();
            if (hovered)
                ImGui::SetTooltip("layer %s, head %d",
                                  name_of(layers, layer, app.model()->is_encoder_decoder()).c_str(), head);
            map_.add(app.gui.canvas(), low, high,
                     head_of(layers[static_cast<std::size_t>(layer)], static_cast<uint32_t>(head)), gamma_);
            if (layer == layer_ && head == head_)
                list.AddRect({low.x - 2, low.y - 2}, {high.x + 2, high.y + 2}, color::kBlue, 2.0F, 0, 2.5F);
            else if (hovered)
                list.AddRect({low.x - 1, low.y - 1}, {high.x + 1, high.y + 1}, color::kText, 1.0F, 0, 1.0F);
        }
    }
    const float y = corner.y + static_cast<float>(count) * (side + gap);
    for (int head = 0; head < heads; ++head)
        list.AddText(fonts.small, fonts.small->FontSize,
                     {corner.x + label + static_cast<float>(head) * (side + gap) + side / 2 - 4, y}, color::kDim,
                     std::to_string(head).c_str());
    ImGui::SetCursorScreenPos({corner.x, y});
    ImGui::Dummy({label + static_cast<float>(heads) * (side + gap), label});
    ImGui::EndChild();
}

void AttentionPanel::draw_one(Observatory& app, ImVec2 size) {
    const std::vector<hk_tensor>& layers = app.looking.attention();
    const hk_tensor& layer = layers[static_cast<std::size_t>(layer_)];
    const HeadMap map = head_of(layer, static_cast<uint32_t>(head_));
    const Model& model = *app.model();
    const Fonts& fonts = app.gui.fonts();
    const float font = fonts.small->FontSize;
    ImGui::BeginChild("one head", size, true);
    ImGui::Text("Layer %s, head %d", name_of(layers, layer_, model.is_encoder_decoder()).c_str(), head_);
    ImGui::SameLine();
    const bool aligns = layer.decoder_axes == kQueries;
    ImGui::TextDisabled("%s; a row's sum is 1",
                        aligns ? "rows are written, columns were read" : "rows look at columns");
    const auto label_of = [&](const std::vector<int32_t>& ids, uint32_t token) {
        return token < ids.size() ? model.label(ids[token]) : std::to_string(token);
    };
    const auto key = [&](uint32_t token) {
        return label_of((layer.decoder_axes & kKeys) != 0 ? app.looking.written() : app.looking.ids(), token);
    };
    const auto query = [&](uint32_t token) -> std::string {
        if (!aligns) return key(token);
        return token + 1 < map.queries ? label_of(app.looking.written(), token + 1) : "(end)";
    };
    float wide = 0;
    const auto measure = [&](const std::string& text) {
        wide = std::max(wide, fonts.small->CalcTextSizeA(font, FLT_MAX, 0.0F, text.c_str()).x);
    };
    for (uint32_t i = 0; i < map.queries; ++i) measure(query(i));
    for (uint32_t i = 0; i < map.keys; ++i) measure(key(i));
    wide = std::min(wide, 110.0F * app.scale) + 8.0F;
    const ImVec2 corner = ImGui::GetCursorScreenPos(), room = ImGui::GetContentRegionAvail();
    const float top = std::min(wide, 84.0F * app.scale);
    const float cell = std::max(1.0F, std::floor(std::min((room.x - wide - 8) / static_cast<float>(map.keys),
                                                          (room.y - top - 8) / static_cast<float>(map.queries))));
    const ImVec2 low{corner.x + wide, corner.y + top},
        high{low.x + cell * static_cast<float>(map.keys), low.y + cell * static_cast<float>(map.queries)};
    ImGui::SetCursorScreenPos(low);
    ImGui::InvisibleButton("map", {high.x - low.x, high.y - low.y});
    app.controls.place("attention/map");
    const ImVec2 mouse = ImGui::GetIO().MousePos;
    row_ = column_ = HeatMap::kNone;
    if (ImGui::IsItemHovered()) {
        row_ = std::min(static_cast<uint32_t>((mouse.y - low.y) / cell), map.queries - 1);
        column_ = std::min(static_cast<uint32_t>((mouse.x - low.x) / cell), map.keys - 1);
        ImGui::BeginTooltip();
        ImGui::Text("%s", query(row_).c_str());
        ImGui::SameLine();
        ImGui::TextDisabled("looks at");
        ImGui::SameLine();
        ImGui::Text("%s", key(column_).c_str());
        ImGui::Text("%.1f %%", static_cast<double>(*weight_.as<float>()) * 100.0);
        ImGui::EndTooltip();
        app.controls.value("attention/weight", static_cast<double>(*weight_.as<float>()));
    }
    map_.add(app.gui.canvas(), low, high, map, gamma_, row_, column_);
    ImDrawList& list = *ImGui::GetWindowDrawList();
    list.AddRect({low.x - 1, low.y - 1}, {high.x + 1, high.y + 1}, color::kFrame);
    // Labels every token if there is room, else every n-th.
    const auto every = static_cast<uint32_t>(std::max(1.0F, std::ceil((font + 1.0F) / cell)));
    for (uint32_t i = 0; i < map.queries; i += every) {
        const std::string text = query(i);
        const float width = std::min(fonts.small->CalcTextSizeA(font, FLT_MAX, 0.0F, text.c_str()).x, wide - 8.0F);
        const ImVec2 at{low.x - width - 6, low.y + (static_cast<float>(i) + 0.5F) * cell - font / 2};
        const ImVec4 clip{low.x - wide, at.y, low.x, at.y + font + 4};
        list.AddText(fonts.small, font, at, i == row_ ? color::kText : color::kDim, text.c_str(), nullptr, 0.0F, &clip);
    }
    // Column labels are vertical: each is drawn horizontally and its vertices are rotated.
    for (uint32_t i = 0; i < map.keys; i += every) {
        const std::string text = key(i);
        const ImVec2 at{low.x + (static_cast<float>(i) + 0.5F) * cell - font / 2, low.y - 6};
        const int first = list.VtxBuffer.Size;
        const ImVec4 clip{at.x, at.y, at.x + top - 6, at.y + font + 4};
        list.PushClipRectFullScreen();
        list.AddText(fonts.small, font, at, i == column_ ? color::kText : color::kDim, text.c_str(), nullptr, 0.0F,
                     &clip);
        for (int v = first; v < list.VtxBuffer.Size; ++v) {
            ImVec2& p = list.VtxBuffer[v].pos;
            p = {at.x + (p.y - at.y), at.y - (p.x - at.x)};
        }
        list.PopClipRect();
    }
    ImGui::EndChild();
}

void AttentionPanel::draw(Observatory& app) {
    if (!text_bar(app)) return;
    const std::vector<hk_tensor>& layers = app.looking.attention();
    if (layers.empty()) {
        ImGui::TextDisabled("This model has no attention.");
        return;
    }
    layer_ = std::min(layer_, static_cast<int>(layers.size()) - 1);
    head_ = std::min(head_, heads_of(layers[static_cast<std::size_t>(layer_)]) - 1);
    app.controls.value("attention/layer", layer_);
    app.controls.value("attention/head", head_);
    ImGui::SetNextItemWidth(180 * app.scale);
    ImGui::SliderFloat("contrast", &gamma_, 0.15F, 1.5F, "weight ^ %.2f");
    app.controls.place("attention/contrast");
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("Small weights are brighter to the left; 1: as they are");
    ImGui::SameLine();
    ImGui::TextDisabled("drawn from the engine's buffers; click a head to see it large");
    const ImVec2 room = ImGui::GetContentRegionAvail();
    // The large map is a square; the small ones fill the rest.
    const float left = std::floor(std::max(room.x * 0.3F, room.x - room.y - 60.0F * app.scale));
    draw_all(app, {left, room.y});
    ImGui::SameLine();
    draw_one(app, {room.x - left - ImGui::GetStyle().ItemSpacing.x, room.y});
}

} // namespace observatory
