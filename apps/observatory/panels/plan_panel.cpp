#include "panels/plan_panel.hpp"

#include "gui/text_field.hpp"

#include <array>
#include <cstdio>
#include <sstream>

namespace observatory {
namespace {

struct PlannedFor {
    const char* label;
    const char* name; // for hk_device_limits_named
};
constexpr std::array kDevices{PlannedFor{"this device", ""}, PlannedFor{"a desktop GPU", "desktop"},
                              PlannedFor{"a phone's GPU", "mobile"}, PlannedFor{"a CPU", "cpu"}};

struct Share {
    const char* name;
    uint64_t hk_plan_report::*bytes;
    ImU32 color;
    const char* about;
};
constexpr std::array kShares{
    Share{"weights", &hk_plan_report::weights, color::kBlue, "parameters, as they are stored"},
    Share{"gradients", &hk_plan_report::gradients, color::kGreen, "one for each parameter that learns"},
    Share{"optimizer", &hk_plan_report::optimizer, color::kViolet, "moments, counters, averages"},
    Share{"states", &hk_plan_report::states, color::kOrange, "key-value caches and what stays between passes"},
    Share{"activations", &hk_plan_report::activations, color::kRed, "what one pass keeps; all passes share it"},
    Share{"programs", &hk_plan_report::programs, color::kGrey, "constants, inputs, outputs, arguments"},
    Share{"staging", &hk_plan_report::staging, color::kDim, "copies on their way to the device"}};

std::string size_of(uint64_t bytes) {
    std::array<char, 32> text{};
    const double kibibytes = static_cast<double>(bytes) / 1024.0;
    if (kibibytes < 1024.0)
        std::snprintf(text.data(), text.size(), "%.1f KiB", kibibytes);
    else if (kibibytes < 1048576.0)
        std::snprintf(text.data(), text.size(), "%.1f MiB", kibibytes / 1024.0);
    else
        std::snprintf(text.data(), text.size(), "%.2f GiB", kibibytes / 1048576.0);
    return text.data();
}

std::string time_of(double microseconds) {
    std::array<char, 32> text{};
    if (microseconds < 1e3)
        std::snprintf(text.data(), text.size(), "%.0f us", microseconds);
    else if (microseconds < 1e6)
        std::snprintf(text.data(), text.size(), "%.1f ms", microseconds / 1e3);
    else
        std::snprintf(text.data(), text.size(), "%.2f s", microseconds / 1e6);
    return text.data();
}

// Draws a rectangle whose width is its share of the available width.
void draw_share(double share, ImU32 c) {
    const ImVec2 corner = ImGui::GetCursorScreenPos();
    const float wide = ImGui::GetContentRegionAvail().x, high = ImGui::GetTextLineHeight();
    ImGui::GetWindowDrawList()->AddRectFilled(corner, {corner.x + static_cast<float>(share) * wide, corner.y + high}, c,
                                              2.0F);
    ImGui::Dummy({wide, high});
}

} // namespace

void PlanPanel::work_out(Observatory& app) {
    const Model* model = app.model();
    if ((mode_ == HK_PLAN_TRAIN ? recipe_.empty() : model == nullptr) || is_working_.exchange(true)) return;
    app.engine.jobs().add([this, &engine = app.engine, recipe = recipe_, overrides = overrides_, mode = mode_,
                           length = length_, rows = rows_, wanted = kDevices[device_], measures = measures_,
                           folder = model != nullptr ? model->path() : std::string()] {
        std::istringstream stream(overrides);
        std::vector<std::string> words;
        for (std::string word; stream >> word;) words.push_back(word);
        std::vector<hk_string> views;
        for (const std::string& one : words) views.push_back(hk::view(one));
        hk::Error error;
        hk_device_limits limits{};
        limits.struct_size = sizeof limits;
        const bool described = *wanted.name != 0;
        if (described) error.take(hk_device_limits_named(hk::view(wanted.name), &limits, error.c()));
        Plan plan;
        hk_plan_options options{};
        options.struct_size = sizeof options;
        options.mode = mode;
        if (mode == HK_PLAN_TRAIN) {
            options.recipe = hk::view(recipe);
            options.overrides = views.data();
            options.override_count = views.size();
            options.measure = measures && !described ? 1 : 0;
        } else {
            options.model = hk::view(folder);
            options.rows = rows;
            options.length = length;
        }
        options.limits = described ? &limits : nullptr;
        options.user = &plan;
        options.report = [](void* user, const hk_plan_report* report) {
            Plan& into = *static_cast<Plan*>(user);
            into.report = *report;
            into.text = hk::view(report->text);
            for (uint64_t i = 0; i < report->node_count; ++i)
                into.nodes.push_back({std::string(hk::view(report->nodes[i].name)), report->nodes[i].dispatches,
                                      report->nodes[i].microseconds});
        };
        if (error.message().empty()) error.take(hk_plan(engine.context(), &options, error.c()));
        const std::lock_guard guard(mutex_);
        plan_ = std::move(plan);
        problem_ = error.message();
        is_working_ = false;
    });
}

void PlanPanel::draw_choices(Observatory& app) {
    ImGui::RadioButton("training", &mode_, HK_PLAN_TRAIN);
    ImGui::SameLine();
    ImGui::RadioButton("writing", &mode_, HK_PLAN_GENERATE);
    ImGui::SameLine();
    ImGui::RadioButton("one pass", &mode_, HK_PLAN_FORWARD);
    ImGui::SameLine();
    ImGui::SetNextItemWidth(170 * app.scale);
    if (ImGui::BeginCombo("##device", kDevices[device_].label)) {
        for (std::size_t i = 0; i < kDevices.size(); ++i)
            if (ImGui::Selectable(kDevices[i].label, device_ == i)) device_ = i;
        ImGui::EndCombo();
    }
    if (mode_ == HK_PLAN_TRAIN) {
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
        ImGui::BeginDisabled(device_ != 0);
        ImGui::Checkbox("measure", &measures_);
        ImGui::EndDisabled();
        if (ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled))
            ImGui::SetTooltip("Makes it all and runs the first batch a few times; without it times are estimated.");
    } else {
        ImGui::AlignTextToFramePadding();
        if (app.model() == nullptr)
            ImGui::TextDisabled("Open a model first.");
        else
            ImGui::TextUnformatted(app.model()->path().c_str());
        ImGui::SameLine();
        ImGui::SetNextItemWidth(120 * app.scale);
        ImGui::InputInt("rows", &rows_);
        ImGui::SameLine();
        ImGui::SetNextItemWidth(120 * app.scale);
        ImGui::InputInt("tokens of a row", &length_, 16, 128);
        rows_ = std::max(rows_, 1);
        length_ = std::max(length_, 1);
    }
    ImGui::SameLine();
    ImGui::BeginDisabled((mode_ == HK_PLAN_TRAIN ? recipe_.empty() : app.model() == nullptr) || is_working_);
    if (ImGui::Button("Work out")) work_out(app);
    ImGui::EndDisabled();
    app.controls.place("plan/work out");
    if (is_working_) {
        ImGui::SameLine();
        ImGui::TextDisabled("describing, planning");
    }
}

void PlanPanel::draw_plan(Observatory& app, const Plan& plan) const {
    const hk_plan_report& r = plan.report;
    const double total = static_cast<double>(std::max<uint64_t>(r.total, 1));
    ImGui::PushFont(app.gui.fonts().large);
    ImGui::Text("%s", size_of(r.total).c_str());
    ImGui::SameLine(0, 40 * app.scale);
    ImGui::Text("%s %s", time_of(r.microseconds).c_str(),
                mode_ == HK_PLAN_TRAIN      ? "a step"
                : mode_ == HK_PLAN_GENERATE ? "a token"
                                            : "a pass");
    ImGui::PopFont();
    ImGui::TextDisabled(
        "%lld parameters, %llu dispatches, largest allocation %s%s%s; time %s", static_cast<long long>(r.parameters),
        static_cast<unsigned long long>(r.dispatches), size_of(r.largest).c_str(), r.available > 0 ? ", free " : "",
        r.available > 0 ? size_of(r.available).c_str() : "", r.time == HK_TIME_ESTIMATED ? "estimated" : "measured");
    const ImVec2 corner = ImGui::GetCursorScreenPos();
    const float wide = ImGui::GetContentRegionAvail().x, high = 22 * app.scale;
    float x = corner.x;
    for (const Share& share : kShares) {
        const float next = x + static_cast<float>(static_cast<double>(r.*share.bytes) / total) * wide;
        ImGui::GetWindowDrawList()->AddRectFilled({x, corner.y}, {next, corner.y + high}, share.color);
        if (ImGui::IsMouseHoveringRect({x, corner.y}, {next, corner.y + high}))
            ImGui::SetTooltip("%s: %s (%s)", share.name, size_of(r.*share.bytes).c_str(), share.about);
        x = next;
    }
    ImGui::Dummy({wide, high + 6 * app.scale});
    constexpr ImGuiTableFlags kFlags = ImGuiTableFlags_RowBg | ImGuiTableFlags_SizingFixedFit;
    if (ImGui::BeginTable("memory", 3, kFlags)) {
        ImGui::TableSetupColumn("memory", ImGuiTableColumnFlags_WidthFixed, 140 * app.scale);
        ImGui::TableSetupColumn("bytes", ImGuiTableColumnFlags_WidthFixed, 120 * app.scale);
        ImGui::TableSetupColumn("share", ImGuiTableColumnFlags_WidthStretch);
        for (const Share& share : kShares) {
            if (r.*share.bytes == 0) continue;
            ImGui::TableNextColumn();
            ImGui::TextUnformatted(share.name);
            if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", share.about);
            ImGui::TableNextColumn();
            ImGui::TextUnformatted(size_of(r.*share.bytes).c_str());
            ImGui::TableNextColumn();
            draw_share(static_cast<double>(r.*share.bytes) / total, share.color);
        }
        ImGui::EndTable();
    }
    ImGui::Spacing();
    ImGui::TextUnformatted("Most expensive nodes of the graph");
    const double most_expensive = plan.nodes.empty() ? 1.0 : std::max(plan.nodes.front().microseconds, 1e-9);
    if (ImGui::BeginTable("nodes", 4, kFlags | ImGuiTableFlags_ScrollY)) {
        ImGui::TableSetupScrollFreeze(0, 1);
        ImGui::TableSetupColumn("node", ImGuiTableColumnFlags_WidthFixed, 420 * app.scale);
        ImGui::TableSetupColumn("dispatches", ImGuiTableColumnFlags_WidthFixed, 90 * app.scale);
        ImGui::TableSetupColumn("time", ImGuiTableColumnFlags_WidthFixed, 90 * app.scale);
        ImGui::TableSetupColumn("", ImGuiTableColumnFlags_WidthStretch);
        ImGui::TableHeadersRow();
        for (const Plan::Node& node : plan.nodes) {
            ImGui::TableNextColumn();
            ImGui::TextUnformatted(node.name.c_str());
            ImGui::TableNextColumn();
            ImGui::Text("%llu", static_cast<unsigned long long>(node.dispatches));
            ImGui::TableNextColumn();
            ImGui::TextUnformatted(time_of(node.microseconds).c_str());
            ImGui::TableNextColumn();
            draw_share(node.microseconds / most_expensive, color::kBlue);
        }
        ImGui::EndTable();
    }
}

void PlanPanel::draw(Observatory& app) {
    draw_choices(app);
    const std::lock_guard guard(mutex_);
    app.controls.value("plan/characters", static_cast<double>(plan_.text.size()));
    app.controls.value("plan/bytes", static_cast<double>(plan_.report.total));
    if (!problem_.empty()) {
        ImGui::PushStyleColor(ImGuiCol_Text, color::kRed);
        ImGui::TextWrapped("%s", problem_.c_str());
        ImGui::PopStyleColor();
    }
    ImGui::BeginChild("plan", {0, 0}, true);
    if (plan_.text.empty())
        ImGui::TextDisabled("Nothing is made, and nothing is trained: choose what to plan, and press Work out.");
    else
        draw_plan(app, plan_);
    ImGui::EndChild();
}

} // namespace observatory
