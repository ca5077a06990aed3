#include "plan_panel.hpp"

#include "text_field.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>

namespace observatory {
namespace {

struct Part {
    std::string name, size; // "activations", "5.3 MiB"
    double bytes = 0;
};

double bytes_of_unit(const std::string& unit) {
    return unit == "GiB" ? 1073741824.0 : unit == "MiB" ? 1048576.0 : unit == "KiB" ? 1024.0 : unit == "B" ? 1.0 : 0.0;
}

// The plan's first lines, a name and a size each, as far as "total".
std::vector<Part> parts_of(const std::string& plan) {
    std::istringstream lines(plan);
    std::vector<Part> parts;
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        Part part;
        double number = 0;
        std::string unit;
        if (!(words >> part.name >> number >> unit) || bytes_of_unit(unit) == 0.0) break;
        part.bytes = number * bytes_of_unit(unit);
        part.size = line.substr(line.find_first_of("0123456789"));
        parts.push_back(part);
        if (part.name == "total") return parts;
    }
    return {};
}

void draw_parts(Observatory& app, const std::vector<Part>& parts) {
    constexpr ImU32 kColours[] = {colour::kBlue,   colour::kGreen, colour::kOrange,
                                  colour::kViolet, colour::kRed,   colour::kGrey};
    const double total = std::max(parts.back().bytes, 1.0);
    ImGui::Text("Memory on the device: %s", parts.back().size.c_str());
    ImGui::Spacing();
    ImDrawList& list = *ImGui::GetWindowDrawList();
    const ImVec2 bar = ImGui::GetCursorScreenPos();
    const float room = ImGui::GetContentRegionAvail().x, high = 34.0F * app.scale;
    float x = bar.x;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
        const float wide = room * static_cast<float>(parts[i].bytes / total);
        list.AddRectFilled({x, bar.y}, {x + std::max(wide - 1.0F, 0.0F), bar.y + high}, kColours[i % 6]);
        x += wide;
    }
    ImGui::Dummy({room, high + 8.0F * app.scale});
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
        const ImVec2 at = ImGui::GetCursorScreenPos();
        const float line = ImGui::GetTextLineHeight();
        list.AddRectFilled({at.x, at.y + 2}, {at.x + line - 4, at.y + line - 2}, kColours[i % 6], 2.0F);
        list.AddText({at.x + line + 6, at.y}, colour::kText, parts[i].name.c_str());
        list.AddText({at.x + 150 * app.scale, at.y}, colour::kDim, parts[i].size.c_str());
        char share[16];
        std::snprintf(share, sizeof share, "%.1f %%", 100.0 * parts[i].bytes / total);
        list.AddText({at.x + 250 * app.scale, at.y}, colour::kDim, share);
        ImGui::Dummy({room, line});
    }
}

} // namespace

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
    const std::vector<Part> parts = parts_of(plan_);
    const float right = parts.empty() ? 0.0F : std::floor(ImGui::GetContentRegionAvail().x * 0.45F);
    ImGui::BeginChild("plan", {-right, 0}, true, ImGuiWindowFlags_HorizontalScrollbar);
    ImGui::PushFont(app.gui.fonts().mono);
    if (plan_.empty())
        ImGui::TextDisabled("Nothing is trained and no parameter changes: choose a recipe and press Work out.");
    ImGui::TextUnformatted(plan_.data(), plan_.data() + plan_.size());
    ImGui::PopFont();
    ImGui::EndChild();
    if (parts.empty()) return;
    ImGui::SameLine();
    ImGui::BeginChild("parts", {0, 0}, true);
    draw_parts(app, parts);
    ImGui::EndChild();
}

} // namespace observatory
