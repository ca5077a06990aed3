#include "panels/embedding_panel.hpp"

#include "gui/text_field.hpp"
#include "shaders.hpp"

#include <array>
#include <cctype>

namespace observatory {
namespace {

constexpr uint32_t kNear = 0x100, kKind = 0xFF;
constexpr std::size_t kNeighbors = 16;

struct TokenKind {
    const char* name;
    ImU32 color;
};
// The same values as in points.vert.
constexpr std::array<TokenKind, 6> kKinds{{{"begins a word", color::kBlue},
                                           {"inside a word", color::kGreen},
                                           {"number", color::kOrange},
                                           {"sign", color::kRed},
                                           {"white space", color::kViolet},
                                           {"special, or other bytes", color::kGrey}}};

uint32_t kind_of(std::string text) {
    const bool begins = text.starts_with("·");
    for (const char* space : {"·", "⏎", "→"})
        for (std::size_t at = text.find(space); at != std::string::npos; at = text.find(space))
            text.erase(at, std::string(space).size());
    if (text.empty()) return 4;
    bool letters = true, digits = true, signs = true;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        const bool letter = std::isalpha(byte) != 0 || (byte >= 0x80 && text.find("\xEF\xBF\xBD") == std::string::npos);
        letters = letters && letter;
        digits = digits && std::isdigit(byte) != 0;
        signs = signs && std::ispunct(byte) != 0;
    }
    if (text.starts_with("#") && text.size() > 1) return 5;
    return digits ? 2 : letters ? (begins ? 0 : 1) : signs ? 3 : 5;
}

} // namespace

EmbeddingPanel::EmbeddingPanel(Device& device, VkRenderPass pass, Table& table)
    : device_(device), table_(table), axes_(device), likeness_(device),
      points_(device, shaders::points_vert, shaders::points_frag, pass) {}

bool EmbeddingPanel::is_settled(Observatory& app) {
    if (app.model() == nullptr || !table_.problem().empty()) return true;
    return framed_ && axes_.rounds() == PrincipalAxes::kRounds && wanted_ == kNone && asked_at_ == 0 && !turns_;
}

void EmbeddingPanel::change(Observatory& app, bool) {
    if (app.model() == nullptr || number_ == app.model_number()) return;
    const hk_tensor* table = table_.embedding();
    if (table == nullptr || table->rank != 2) return;
    number_ = app.model_number();
    app.wait_for_frames();
    axes_.begin(*table);
    classify(*app.model());
    framed_ = false;
    hovered_ = chosen_ = wanted_ = kNone;
    neighbors_.clear();
    asked_at_ = 0;
}

void EmbeddingPanel::classify(const Model& model) {
    const uint32_t tokens = axes_.rows();
    kinds_ = Buffer(device_, std::max(tokens, 1U) * sizeof(uint32_t), Buffer::Storage::mapped);
    for (uint32_t i = 0; i < tokens; ++i) kinds_.as<uint32_t>()[i] = kind_of(model.label(static_cast<int32_t>(i)));
}

void EmbeddingPanel::record(Observatory& app, VkCommandBuffer commands, bool shown) {
    if (number_ == 0 || number_ != app.model_number()) return;
    const hk_tensor* table = table_.embedding();
    if (table == nullptr) return;
    if (shown) axes_.record(commands);
    if (wanted_ != kNone) {
        likeness_.record(commands, *table, wanted_);
        asked_at_ = app.frame;
        wanted_ = kNone;
    }
}

glm::vec3 EmbeddingPanel::place(uint32_t token) const {
    const float* p = axes_.places() + std::size_t{token} * 4;
    return {p[0], p[1], p[2]};
}

void EmbeddingPanel::choose(uint32_t token) {
    chosen_ = wanted_ = token;
    neighbors_.clear();
    asked_at_ = 0;
    for (uint32_t i = 0; i < axes_.rows(); ++i) kinds_.as<uint32_t>()[i] &= kKind;
}

uint32_t EmbeddingPanel::under_mouse(ImVec2 low, ImVec2 size, const glm::mat4& view) const {
    const ImVec2 mouse = ImGui::GetIO().MousePos;
    uint32_t nearest = kNone;
    float best = 11.0F * 11.0F, depth = 1e30F;
    for (uint32_t i = 0; i < axes_.rows(); ++i) {
        const glm::vec4 clip = view * glm::vec4(place(i), 1.0F);
        if (clip.w <= 0.0F) continue;
        const float x = low.x + (clip.x / clip.w + 1.0F) / 2.0F * size.x - mouse.x,
                    y = low.y + (clip.y / clip.w + 1.0F) / 2.0F * size.y - mouse.y, distance = x * x + y * y;
        if (distance > best || (distance > best * 0.5F && clip.w > depth)) continue;
        best = distance;
        depth = clip.w;
        nearest = i;
    }
    return nearest;
}

void EmbeddingPanel::draw_cloud(Observatory& app, ImVec2 size) {
    ImGui::BeginChild("cloud", size, true, ImGuiWindowFlags_NoScrollbar | ImGuiWindowFlags_NoScrollWithMouse);
    const ImVec2 low = ImGui::GetCursorScreenPos(), room = ImGui::GetContentRegionAvail();
    const ImVec2 high{low.x + room.x, low.y + room.y};
    const ImGuiIO& io = ImGui::GetIO();
    const Model& model = *app.model();
    if (!framed_ && axes_.rounds() >= PrincipalAxes::kRounds) {
        // Frame 85 % of the points, so that a few distant ones do not make the rest small.
        std::vector<float> far;
        for (uint32_t i = 0; i < axes_.rows(); ++i) far.push_back(glm::length(place(i)));
        const auto most = far.begin() + static_cast<std::ptrdiff_t>(far.size() * 85 / 100);
        std::nth_element(far.begin(), most, far.end());
        camera_.show(glm::vec3(0.0F), std::max(*most, 1e-6F));
        framed_ = true;
    }
    ImGui::InvisibleButton("space", room, ImGuiButtonFlags_MouseButtonLeft | ImGuiButtonFlags_MouseButtonRight);
    app.controls.place("embeddings/space");
    const bool over = ImGui::IsItemHovered(), held = ImGui::IsItemActive();
    if (held && ImGui::IsMouseDragging(ImGuiMouseButton_Left, 3.0F)) {
        camera_.turn(io.MouseDelta.x, io.MouseDelta.y);
        turns_ = false;
    }
    if (held && ImGui::IsMouseDragging(ImGuiMouseButton_Right, 1.0F))
        camera_.shift(io.MouseDelta.x, io.MouseDelta.y, room.y);
    if (over && io.MouseWheel != 0.0F) camera_.zoom(io.MouseWheel);
    if (turns_) camera_.turn(io.DeltaTime * 30.0F, 0.0F);
    const glm::mat4 view = camera_.to_clip(room.x, room.y);
    hovered_ = over && !ImGui::IsMouseDragging(ImGuiMouseButton_Left, 3.0F) ? under_mouse(low, room, view) : kNone;
    if (over && hovered_ != kNone && ImGui::IsMouseReleased(ImGuiMouseButton_Left) &&
        ImGui::GetMouseDragDelta(ImGuiMouseButton_Left, 3.0F).x == 0.0F)
        choose(hovered_);
    ImDrawList& list = *ImGui::GetWindowDrawList();
    list.PushClipRect(low, high, true);
    const auto on_screen = [&](glm::vec3 point) {
        const glm::vec4 clip = view * glm::vec4(point, 1.0F);
        return glm::vec3(low.x + (clip.x / clip.w + 1.0F) / 2.0F * room.x,
                         low.y + (clip.y / clip.w + 1.0F) / 2.0F * room.y, clip.w);
    };
    // The three axes, each two standard deviations long in either direction.
    for (int axis = 0; axis < 3 && framed_; ++axis) {
        glm::vec3 end(0.0F);
        end[axis] = 2.0F * std::sqrt(axes_.deviations()[axis]);
        const glm::vec3 from = on_screen(-end), to = on_screen(end);
        if (from.z <= 0.0F || to.z <= 0.0F) continue;
        list.AddLine({from.x, from.y}, {to.x, to.y}, color::kFrame, 1.0F);
        list.AddText(app.gui.fonts().small, app.gui.fonts().small->FontSize, {to.x + 4, to.y - 6}, color::kDim,
                     axis == 0   ? "1st"
                     : axis == 1 ? "2nd"
                                 : "3rd");
    }
    list.PopClipRect();
    const struct {
        glm::mat4 view;
        VkDeviceAddress places, kinds;
        glm::vec2 pixel;
        float size;
        uint32_t hovered, chosen;
        float near, far;
    } push{view,
           axes_.places_address(),
           kinds_.address(),
           {2.0F / room.x, 2.0F / room.y},
           size_ * app.scale * camera_.distance(),
           hovered_,
           chosen_,
           camera_.distance() * 0.6F,
           camera_.distance() * 1.5F};
    static_assert(sizeof push <= Pipeline::kPushBytes);
    const uint32_t tokens = axes_.rows();
    app.gui.canvas().add(low, high,
                         [this, push, tokens](VkCommandBuffer commands) { points_.draw(commands, push, 6, tokens); });
    // Labels of the selected token, its nearest neighbors, and the token under the mouse.
    list.PushClipRect(low, high, true);
    const auto label = [&](uint32_t token, ImU32 c) {
        const glm::vec3 point = on_screen(place(token));
        if (point.z <= 0.0F) return;
        const ImVec2 at{point.x + 10.0F, point.y - ImGui::GetFontSize() / 2.0F};
        const std::string& text = model.label(static_cast<int32_t>(token));
        const ImVec2 extent = ImGui::CalcTextSize(text.c_str());
        list.AddRectFilled({at.x - 4, at.y - 2}, {at.x + extent.x + 4, at.y + extent.y + 2}, IM_COL32(16, 18, 24, 205),
                           4.0F);
        list.AddText(at, c, text.c_str());
    };
    for (std::size_t i = 0; i < std::min<std::size_t>(neighbors_.size(), 5); ++i)
        label(neighbors_[i].row, color::kText);
    if (chosen_ != kNone) label(chosen_, color::kOrange);
    if (hovered_ != kNone && hovered_ != chosen_) label(hovered_, color::kText);
    // The legend of the colors.
    float y = low.y + 4.0F;
    for (const TokenKind& kind : kKinds) {
        list.AddCircleFilled({low.x + 10.0F, y + 8.0F * app.scale}, 4.5F, kind.color);
        list.AddText(app.gui.fonts().small, app.gui.fonts().small->FontSize, {low.x + 22.0F, y}, color::kDim,
                     kind.name);
        y += 19.0F * app.scale;
    }
    list.AddText(app.gui.fonts().small, app.gui.fonts().small->FontSize, {low.x + 4.0F, high.y - 18.0F * app.scale},
                 color::kDim, "drag: turn     right drag: move     wheel: nearer     click: choose");
    list.PopClipRect();
    if (hovered_ != kNone) app.controls.value("embeddings/hovered", model.label(static_cast<int32_t>(hovered_)));
    ImGui::EndChild();
}

void EmbeddingPanel::draw_side(Observatory& app, ImVec2 size) {
    const Model& model = *app.model();
    ImGui::BeginChild("neighbors", size, true);
    ImGui::SetNextItemWidth(-1);
    if (text_field("##search", search_, "find a token", ImGuiInputTextFlags_EnterReturnsTrue) && !search_.empty()) {
        for (uint32_t i = 0; i < axes_.rows(); ++i) {
            const std::string& label = model.label(static_cast<int32_t>(i));
            if (label == search_ || label == "·" + search_) {
                choose(i);
                break;
            }
        }
    }
    ImGui::SetNextItemWidth(120 * app.scale);
    ImGui::SliderFloat("size", &size_, 1.5F, 14.0F, "%.1f px");
    ImGui::SameLine();
    ImGui::Checkbox("turn", &turns_);
    app.controls.place("embeddings/turn");
    const float* variance = axes_.deviations();
    ImGui::TextDisabled("%u tokens; deviations %.3g, %.3g, %.3g", axes_.rows(),
                        std::sqrt(static_cast<double>(variance[0])), std::sqrt(static_cast<double>(variance[1])),
                        std::sqrt(static_cast<double>(variance[2])));
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("Along the three axes in which the tokens differ most");
    ImGui::Separator();
    if (chosen_ == kNone) {
        ImGui::TextWrapped("Click a point: the tokens whose embeddings are most like it are listed here.");
        ImGui::EndChild();
        return;
    }
    ImGui::TextColored(ImGui::ColorConvertU32ToFloat4(color::kOrange), "%s",
                       model.label(static_cast<int32_t>(chosen_)).c_str());
    ImGui::SameLine();
    ImGui::TextDisabled("token %u, nearest by cosine", chosen_);
    ImDrawList& list = *ImGui::GetWindowDrawList();
    for (std::size_t i = 0; i < neighbors_.size(); ++i) {
        const Likeness::Neighbor neighbor = neighbors_[i];
        const ImVec2 corner = ImGui::GetCursorScreenPos();
        const float room = ImGui::GetContentRegionAvail().x, high = ImGui::GetTextLineHeight() + 6.0F;
        ImGui::PushID(static_cast<int>(i));
        const bool pressed = ImGui::InvisibleButton("neighbor", {room, high});
        ImGui::PopID();
        app.controls.place("neighbor/" + std::to_string(i));
        if (ImGui::IsItemHovered()) {
            list.AddRectFilled(corner, {corner.x + room, corner.y + high}, color::kGrid, 4.0F);
            hovered_ = neighbor.row;
        }
        const float share = std::max(neighbor.cosine, 0.0F);
        list.AddText({corner.x + 6, corner.y + 3}, color::kText,
                     model.label(static_cast<int32_t>(neighbor.row)).c_str());
        list.AddRectFilled({corner.x + room * 0.48F, corner.y + 7},
                           {corner.x + room * (0.48F + 0.36F * share), corner.y + high - 7},
                           with_alpha(color::kBlue, 0.75F), 2.0F);
        std::array<char, 16> text{};
        std::snprintf(text.data(), text.size(), "%.3f", static_cast<double>(neighbor.cosine));
        list.AddText({corner.x + room * 0.86F, corner.y + 3}, color::kDim, text.data());
        if (pressed) {
            camera_.turn_towards(place(neighbor.row));
            choose(neighbor.row);
            break;
        }
    }
    ImGui::EndChild();
}

void EmbeddingPanel::draw(Observatory& app) {
    if (app.model() == nullptr) {
        ImGui::TextDisabled("Open a model first: the button is above.");
        return;
    }
    if (!table_.problem().empty()) {
        ImGui::TextWrapped("This model's embeddings cannot be shown: %s", table_.problem().c_str());
        return;
    }
    if (number_ != app.model_number() || axes_.rows() == 0) {
        ImGui::ProgressBar(static_cast<float>(table_.progress()), {240 * app.scale, 0}, "reading the weights");
        return;
    }
    if (asked_at_ > 0 && app.frame >= asked_at_ + Target::kFramesInFlight) {
        neighbors_ = likeness_.nearest(kNeighbors);
        for (const Likeness::Neighbor& one : neighbors_) kinds_.as<uint32_t>()[one.row] |= kNear;
        asked_at_ = 0;
    }
    app.controls.value("embeddings/chosen", chosen_ != kNone ? app.model()->label(static_cast<int32_t>(chosen_)) : "");
    app.controls.value("embeddings/neighbors", static_cast<double>(neighbors_.size()));
    const ImVec2 room = ImGui::GetContentRegionAvail();
    const float right = 330.0F * app.scale;
    draw_cloud(app, {room.x - right - ImGui::GetStyle().ItemSpacing.x, room.y});
    ImGui::SameLine();
    draw_side(app, {right, room.y});
}

} // namespace observatory
