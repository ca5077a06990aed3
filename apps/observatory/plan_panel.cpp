#include "plan_panel.hpp"

#include "text_field.hpp"

#include <sstream>

namespace observatory {

void PlanPanel::work_out(Observatory& app) {
    if (recipe_.empty() || is_working_.exchange(true)) return;
    app.engine.jobs().add([this, &engine = app.engine, recipe = recipe_, overrides = overrides_] {
        std::istringstream stream(overrides);
        std::vector<std::string> words;
        for (std::string word; stream >> word;) words.push_back(word);
        std::vector<hk_string> views;
        for (const std::string& one : words) views.push_back(hk::view(one));
        std::string plan;
        hk_train_options options{};
        options.struct_size = sizeof options;
        options.recipe = hk::view(recipe);
        options.overrides = views.data();
        options.override_count = views.size();
        options.user = &plan;
        hk::Error error;
        error.take(hk_train_plan(
            engine.context(), &options,
            [](void* user, hk_string text) { *static_cast<std::string*>(user) = hk::view(text); }, error.c()));
        const std::lock_guard guard(mutex_);
        plan_ = std::move(plan);
        problem_ = error.message();
        is_working_ = false;
    });
}

void PlanPanel::draw(Observatory& app) {
    ImGui::AlignTextToFramePadding();
    ImGui::TextUnformatted("Recipe");
    ImGui::SameLine();
    ImGui::SetNextItemWidth(420 * app.scale);
    text_field("##recipe", recipe_, "path of a .toml file");
    ImGui::SameLine();
    if (ImGui::Button("Choose..."))
        app.browse(FileBrowser::Wanted::recipe, recipe_, [this](const std::string& path) { recipe_ = path; });
    app.controls.place("plan/choose");
    ImGui::SameLine();
    ImGui::TextUnformatted("Overrides");
    ImGui::SameLine();
    ImGui::SetNextItemWidth(300 * app.scale);
    text_field("##overrides", overrides_, "model.n_layer=12");
    ImGui::SameLine();
    ImGui::BeginDisabled(recipe_.empty() || is_working_);
    if (ImGui::Button("Work out")) work_out(app);
    ImGui::EndDisabled();
    app.controls.place("plan/work out");
    if (is_working_) {
        ImGui::SameLine();
        ImGui::TextDisabled("running the first batch a few times");
    }
    const std::lock_guard guard(mutex_);
    app.controls.value("plan/characters", static_cast<double>(plan_.size()));
    if (!problem_.empty()) {
        ImGui::PushStyleColor(ImGuiCol_Text, colour::kRed);
        ImGui::TextWrapped("%s", problem_.c_str());
        ImGui::PopStyleColor();
    }
    ImGui::BeginChild("plan", {0, 0}, true, ImGuiWindowFlags_HorizontalScrollbar);
    ImGui::PushFont(app.gui.fonts().mono);
    if (plan_.empty())
        ImGui::TextDisabled("Nothing is trained and no parameter changes: choose a recipe and press Work out.");
    ImGui::TextUnformatted(plan_.data(), plan_.data() + plan_.size());
    ImGui::PopFont();
    ImGui::EndChild();
}

} // namespace observatory
