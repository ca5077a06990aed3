#include "panels/routing_panel.hpp"

#include "panels/text_bar.hpp"
#include "panels/weight_grid.hpp"

#include <algorithm>
#include <cmath>

namespace observatory {
namespace {

// The weights at one site: [tokens, branches], or [1, branches] where they are those of the whole row.
struct SiteWeights {
    SiteWeights(const Looking& looking, std::size_t site, std::size_t branches)
        : values(looking.routing_values(site)), count(branches),
          tokens(values.size() / std::max<std::size_t>(branches, 1)) {}
    float at(std::size_t token, std::size_t branch) const { return values[(tokens == 1 ? 0 : token) * count + branch]; }
    float mean(std::size_t branch) const {
        float sum = 0;
        for (std::size_t token = 0; token < tokens; ++token) sum += at(token, branch);
        return sum / static_cast<float>(std::max<std::size_t>(tokens, 1));
    }
    std::span<const float> values;
    std::size_t count, tokens;
};

} // namespace

bool RoutingPanel::is_settled(Observatory& app) {
    return !app.looking.is_busy() && (app.looking.routings() == 0 || app.looking.has_routing(app.frame));
}

std::string RoutingPanel::problem(Observatory& app) {
    if (!app.looking.problem().empty()) return app.looking.problem();
    if (app.model() != nullptr && !app.model()->routing_problem().empty()) return app.model()->routing_problem();
    return app.looking.routing_problem();
}

void RoutingPanel::find_groups(const Looking& looking, const Model& model) {
    groups_.clear();
    for (std::size_t i = 0; i < model.routing().size(); ++i) {
        const RoutingSite& site = model.routing()[i];
        const std::size_t tokens = SiteWeights(looking, i, site.of.size()).tokens;
        const bool written = model.is_encoder_decoder() && reads_written_text(site.name) &&
                             (tokens == 1 || tokens == looking.written().size());
        if (tokens != 1 && tokens != (written ? looking.written() : looking.ids()).size()) continue; // not of a text
        const std::string combiner = site.combiner + (written ? ", of what was written" : "");
        auto group = std::ranges::find(groups_, combiner, &Group::combiner);
        if (group == groups_.end()) group = groups_.insert(groups_.end(), {combiner, written, site.of, {}});
        group->sites.push_back(i);
    }
}

void RoutingPanel::draw_pictures(Observatory& app, const Group& group) {
    const Model& model = *app.model();
    const Looking& looking = app.looking;
    const std::vector<std::size_t>& sites = group.sites;
    std::vector<std::string> names, labels;
    std::size_t tokens = 1; // 1: all sites weigh whole rows
    for (const std::size_t site : sites) {
        tokens = std::max(tokens, SiteWeights(looking, site, group.of.size()).tokens);
        names.push_back(model.routing()[site].name);
    }
    const std::vector<int32_t>& ids = group.written ? looking.written() : looking.ids();
    if (tokens == 1)
        labels.emplace_back("(all)");
    else
        for (const int32_t id : ids) labels.push_back(model.label(id));
    const auto weights = [&](std::size_t site) { return SiteWeights(looking, site, group.of.size()); };
    const ImVec2 room = ImGui::GetContentRegionAvail();
    const float gap = ImGui::GetStyle().ItemSpacing.x, line = ImGui::GetTextLineHeightWithSpacing();
    const float right =
        std::floor(std::min(room.x * 0.4F, (220.0F + 64.0F * static_cast<float>(group.of.size())) * app.scale));
    const float above =
        std::floor(std::min(room.y * 0.4F, (130.0F + 26.0F * static_cast<float>(group.of.size())) * app.scale));
    const ImVec2 corner = ImGui::GetCursorPos();

    ImGui::TextDisabled("Mean of all modules, by token; click an adapter to see its modules");
    WeightGrid mean{"mean",
                    group.of,
                    labels,
                    [&](std::size_t branch, std::size_t token) {
                        float sum = 0;
                        for (const std::size_t site : sites) sum += weights(site).at(token, branch);
                        return sum / static_cast<float>(sites.size());
                    },
                    false,
                    branch_};
    if (const std::size_t clicked = draw_weights(app, mean, {room.x - right - gap, above - line}); clicked != SIZE_MAX)
        branch_ = clicked;
    ImGui::TextDisabled("Weight of %s, by module and token", group.of[branch_].c_str());
    const WeightGrid modules{"modules", names, labels, [&](std::size_t site, std::size_t token) {
                                 return weights(sites[site]).at(token, branch_);
                             }};
    draw_weights(app, modules, {room.x - right - gap, room.y - above - line - ImGui::GetStyle().ItemSpacing.y});
    ImGui::SetCursorPos({corner.x + room.x - right, corner.y});
    ImGui::BeginGroup();
    ImGui::TextDisabled("Mean of all tokens, by module");
    const WeightGrid means{"means", names, group.of,
                           [&](std::size_t site, std::size_t branch) { return weights(sites[site]).mean(branch); },
                           true};
    draw_weights(app, means, {right, room.y - line});
    ImGui::EndGroup();
    for (std::size_t branch = 0; branch < group.of.size(); ++branch) {
        app.controls.value("routing/first module/" + group.of[branch], static_cast<double>(means.weight(0, branch)));
        float sum = 0;
        for (std::size_t site = 0; site < sites.size(); ++site) sum += means.weight(site, branch);
        app.controls.value("routing/mean/" + group.of[branch],
                           static_cast<double>(sum / static_cast<float>(sites.size())));
    }
}

void RoutingPanel::draw(Observatory& app) {
    if (!text_bar(app)) return;
    const Model& model = *app.model();
    app.controls.value("routing/modules", static_cast<double>(app.looking.routings()));
    if (const std::string why = problem(app); !why.empty()) {
        ImGui::PushStyleColor(ImGuiCol_Text, color::kRed);
        ImGui::TextWrapped("%s", why.c_str());
        ImGui::PopStyleColor();
        return;
    }
    if (model.routing().empty()) {
        ImGui::TextWrapped(
            "This model has no trained combiner. Open the folder of a run whose [combine] weighs adapters with "
            "soft, hard or fusion.");
        return;
    }
    if (!app.looking.has_routing(app.frame)) return;
    find_groups(app.looking, model);
    if (groups_.empty()) {
        ImGui::TextDisabled("The weights are not of tokens of the text.");
        return;
    }
    group_ = std::min(group_, groups_.size() - 1);
    branch_ = std::min(branch_, groups_[group_].of.size() - 1);
    if (groups_.size() > 1) {
        ImGui::SetNextItemWidth(360 * app.scale);
        if (ImGui::BeginCombo("combiner", groups_[group_].combiner.c_str())) {
            for (std::size_t i = 0; i < groups_.size(); ++i)
                if (ImGui::Selectable(groups_[i].combiner.c_str(), i == group_)) group_ = i, branch_ = 0;
            ImGui::EndCombo();
        }
        app.controls.place("routing/combiner");
    } else {
        ImGui::TextUnformatted(groups_[group_].combiner.c_str());
    }
    app.controls.value("routing/combiner", groups_[group_].combiner);
    app.controls.value("routing/combiners", static_cast<double>(groups_.size()));
    draw_pictures(app, groups_[group_]);
}

} // namespace observatory
