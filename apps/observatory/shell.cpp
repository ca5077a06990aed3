#include "shell.hpp"

#include "panels/adapters_panel.hpp"
#include "panels/attention_panel.hpp"
#include "panels/embedding_panel.hpp"
#include "panels/lens_panel.hpp"
#include "panels/model_bar.hpp"
#include "panels/routing_panel.hpp"
#include "panels/weights_panel.hpp"

#include <algorithm>
#include <cstring>
#include <thread>

namespace observatory {

Shell::Shell(Device& device, Target& target, Engine& engine, Gui& gui, const Arguments& arguments)
    : target_(target), engine_(engine), gui_(gui), frames_(device), controls_(arguments.controls),
      app_(engine, gui, controls_, static_cast<float>(arguments.scale), [this] { frames_.wait_all(); }),
      table_(engine) {
    auto training = std::make_unique<TrainingPanel>(arguments.recipe, arguments.overrides, arguments.log);
    auto writing = std::make_unique<WritingPanel>();
    auto adapters = std::make_unique<AdaptersPanel>(engine, arguments.adapters, arguments.use, arguments.text);
    auto plan = std::make_unique<PlanPanel>(arguments.recipe, arguments.overrides);
    if (arguments.train) training->start(app_);
    if (arguments.plan) plan->work_out(app_);
    if (arguments.write && arguments.panel == "adapters")
        adapters->write_when_open();
    else if (arguments.write)
        writing->write_when_open();
    panels_.push_back(std::move(training));
    panels_.push_back(std::make_unique<AttentionPanel>(device, target.pass()));
    panels_.push_back(std::make_unique<EmbeddingPanel>(device, target.pass(), table_));
    panels_.push_back(std::make_unique<LensPanel>());
    panels_.push_back(std::make_unique<WeightsPanel>(device, table_));
    panels_.push_back(std::move(writing));
    panels_.push_back(std::move(adapters));
    panels_.push_back(std::make_unique<RoutingPanel>());
    panels_.push_back(std::move(plan));
    const auto named = std::ranges::find_if(kPanelNames, [&](const char* name) { return arguments.panel == name; });
    wanted_ = static_cast<int>(named - std::begin(kPanelNames));
    engine.budget = arguments.budget;
    if (!arguments.text.empty()) app_.text = arguments.text;
    if (!arguments.model.empty()) app_.open(arguments.model);
}

// Waits until no frame reads the outputs of sessions before they end.
Shell::~Shell() {
    engine_.jobs().drain();
    frames_.wait_all();
}

bool Shell::is_settled() {
    if (app_.is_opening() || app_.has_more_to_change() || wanted_ >= 0) return false;
    return panels_[shown_]->is_settled(app_);
}

void Shell::finish() {
    if (app_.training == nullptr || app_.training->info().state != HK_SESSION_WORKING) return;
    constexpr double kWhole = 1e6; // microseconds; frame times do not matter any more
    app_.training->stop();
    engine_.budget = kWhole;
    while (app_.training->info().state == HK_SESSION_WORKING) frame(false);
}

std::string Shell::problem() {
    if (!app_.problem().empty()) return app_.problem();
    return panels_[shown_]->problem(app_);
}

bool Shell::is_idle() { return !engine_.is_working() && is_settled(); }

void Shell::layout() {
    ImGui::SetNextWindowPos({0, 0});
    ImGui::SetNextWindowSize(ImGui::GetIO().DisplaySize);
    ImGui::Begin("observatory", nullptr,
                 ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove | ImGuiWindowFlags_NoSavedSettings |
                     ImGuiWindowFlags_NoBringToFrontOnFocus);
    model_bar(app_);
    const float strip = 136.0F * app_.scale;
    const float middle = ImGui::GetContentRegionAvail().y - strip - ImGui::GetStyle().ItemSpacing.y;
    ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {8.0F * app_.scale, 0.0F});
    ImGui::PushStyleColor(ImGuiCol_ChildBg, ImGui::GetStyleColorVec4(ImGuiCol_WindowBg));
    ImGui::BeginChild("middle", {0, middle}, false,
                      ImGuiWindowFlags_NoScrollbar | ImGuiWindowFlags_NoScrollWithMouse |
                          ImGuiWindowFlags_AlwaysUseWindowPadding);
    ImGui::PopStyleColor();
    ImGui::PopStyleVar();
    if (ImGui::BeginTabBar("panels")) {
        for (std::size_t i = 0; i < panels_.size(); ++i) {
            Panel& panel = *panels_[i];
            const ImGuiTabItemFlags flags = wanted_ == static_cast<int>(i) ? ImGuiTabItemFlags_SetSelected : 0;
            const bool open = ImGui::BeginTabItem(panel.name(), nullptr, flags);
            controls_.place(std::string("tab/") + panel.name());
            if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", panel.about());
            if (!open) continue;
            shown_ = i;
            ImGui::Spacing();
            ImGui::PushID(panel.name());
            panel.draw(app_);
            ImGui::PopID();
            ImGui::EndTabItem();
        }
        ImGui::EndTabBar();
    }
    ImGui::EndChild();
    if (wanted_ == static_cast<int>(shown_)) wanted_ = -1;
    controls_.value("panel", panels_[shown_]->name());
    controls_.value("frame", static_cast<double>(app_.frame));
    strip_.draw(app_, {0, 0});
    const std::string chosen = app_.browser.draw(controls_, app_.scale);
    if (!chosen.empty() && app_.browsed) app_.browsed(chosen);
    ImGui::End();
}

void Shell::draw(VkCommandBuffer commands, VkFramebuffer framebuffer) {
    const VkClearValue clear{{{0.07F, 0.08F, 0.10F, 1.0F}}};
    VkRenderPassBeginInfo pass{};
    pass.sType = VK_STRUCTURE_TYPE_RENDER_PASS_BEGIN_INFO;
    pass.renderPass = target_.pass();
    pass.framebuffer = framebuffer;
    pass.renderArea = {{0, 0}, target_.extent()};
    pass.clearValueCount = 1;
    pass.pClearValues = &clear;
    vkCmdBeginRenderPass(commands, &pass, VK_SUBPASS_CONTENTS_INLINE);
    gui_.draw(commands);
    vkCmdEndRenderPass(commands);
}

void Shell::frame(bool draws) {
    app_.change();
    if (const Model* model = app_.model(); model != nullptr) {
        // The weights are opened when the first panel that needs them is shown, and closed with their model.
        const uint64_t number = app_.model_number();
        if (!table_.keeps(number) && !table_.is_empty()) {
            frames_.wait_all();
            table_.forget();
        }
        if (table_.keeps(number) || panels_[shown_]->needs_weights()) table_.keep(*model, number);
    }
    for (std::size_t i = 0; i < panels_.size(); ++i) panels_[i]->change(app_, i == shown_);
    const std::optional<Target::Image> image = target_.acquire(static_cast<uint32_t>(frames_.number() + 1));
    if (!image) { // the window is not visible; Hekla continues
        engine_.advance(VK_NULL_HANDLE, hk_timeline{0, frames_.number()});
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        return;
    }
    const VkCommandBuffer commands = frames_.begin();
    app_.frame = frames_.number();
    if (draws) gui_.begin_frame();
    if (draws) layout();
    engine_.advance(commands, frames_.lease());
    frames_.begin_drawing();
    if (const Model* model = app_.model(); model != nullptr) app_.looking.record(commands, *model, app_.frame);
    for (std::size_t i = 0; i < panels_.size(); ++i) panels_[i]->record(app_, commands, i == shown_);
    if (draws) draw(commands, image->framebuffer);
    frames_.end_drawing();
    frames_.submit(*image);
    target_.present();
    const auto now = std::chrono::steady_clock::now();
    engine_.note(frames_.drawing_microseconds(), std::chrono::duration<double, std::micro>(now - last_).count());
    last_ = now;
    if (draws) controls_.end_frame();
}

} // namespace observatory
