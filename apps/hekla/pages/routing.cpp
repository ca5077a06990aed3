#include "pages/routing.hpp"

#include "base/markup.hpp"
#include "pages/heat_map.hpp"

#include <fmt/format.h>
#include <vector>

namespace hekla::app {
namespace {

using nlohmann::ordered_json;
using Labels = std::vector<std::string>;

// Sites that weigh the same things over the same tokens.
struct SiteGroup {
    Labels of;
    bool decoder = false;
    std::vector<std::size_t> sites; // numbers
};

std::vector<SiteGroup> site_groups(const ordered_json& sites) {
    std::vector<SiteGroup> groups;
    for (std::size_t i = 0; i < sites.size(); ++i) {
        const Labels of = sites[i].at("of").get<Labels>();
        const bool decoder = sites[i].at("decoder").get<bool>();
        std::size_t at = 0;
        while (at < groups.size() && (groups[at].of != of || groups[at].decoder != decoder)) ++at;
        if (at == groups.size()) groups.push_back({of, decoder, {}});
        groups[at].sites.push_back(i);
    }
    return groups;
}

std::string name_of(const ordered_json& sites, std::size_t site) { return sites[site].at("site").get<std::string>(); }

// The pictures of one row: the mean of all sites, and each site's for each adapter.
std::string row_pictures(const ordered_json& sites, const ordered_json& row, const SiteGroup& group) {
    const Labels tokens = row.at(group.decoder ? "decoder_tokens" : "tokens").get<Labels>();
    const ordered_json& weights = row.at("weights");
    HeatMap mean{group.of, tokens, std::vector<double>(group.of.size() * tokens.size())};
    std::vector<HeatMap> by_site(group.of.size(), HeatMap{{}, tokens, {}});
    for (const std::size_t site : group.sites) {
        const ordered_json& of_site = weights.at(site);
        if (of_site.size() != tokens.size() && of_site.size() != 1) continue; // not of tokens
        for (std::size_t branch = 0; branch < group.of.size(); ++branch) {
            HeatMap& map = by_site[branch];
            map.rows.push_back(name_of(sites, site));
            for (std::size_t token = 0; token < tokens.size(); ++token)
                map.values.push_back(of_site.at(of_site.size() == 1 ? 0 : token).at(branch).get<double>());
        }
    }
    const std::size_t found = by_site.front().rows.size();
    if (tokens.empty() || found == 0) return {};
    std::string all;
    for (std::size_t branch = 0; branch < group.of.size(); ++branch) {
        for (std::size_t i = 0; i < by_site[branch].values.size(); ++i)
            mean.values[branch * tokens.size() + i % tokens.size()] +=
                by_site[branch].values[i] / static_cast<double>(found);
        all += "<h3>" + escape_markup(group.of[branch]) + "</h3>" + heat_map_svg(by_site[branch]);
    }
    return heat_map_svg(mean) + "<details><summary>By module</summary>" + all + "</details>";
}

} // namespace

std::string routing_section(const ordered_json& routing) {
    if (!routing.is_object()) return {};
    const ordered_json& sites = routing.at("sites");
    std::string out = "<p>Mean weight of each adapter at each module, over all tokens of the data.</p>";
    const std::vector<SiteGroup> groups = site_groups(sites);
    for (const SiteGroup& group : groups) {
        HeatMap map{{}, group.of, {}, false, true};
        for (const std::size_t site : group.sites) {
            map.rows.push_back(name_of(sites, site));
            for (const ordered_json& mean : sites[site].at("mean")) map.values.push_back(mean.get<double>());
        }
        out += heat_map_svg(map);
    }
    out += "<p>Weights by token in some rows: the mean of all modules, and each module.</p>";
    for (const ordered_json& row : routing.at("rows"))
        for (const SiteGroup& group : groups) out += row_pictures(sites, row, group);
    return out;
}

} // namespace hekla::app
