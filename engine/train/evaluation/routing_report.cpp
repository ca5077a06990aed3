#include "train/evaluation/routing_report.hpp"

#include "graph/output.hpp"
#include "plugin/composition/combination.hpp"
#include "program/program.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>

namespace hekla::train {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kRows = 6, kTokens = 48; // of examples that are kept
constexpr std::string_view kRouting = "routing";

// Adds the combiners of a combination: the end of their ports' names before the site -> what they weigh.
void add_combiners(const plugin::Combination& at, std::map<std::string, std::vector<std::string>>& found) {
    if (at.is_adapter()) return;
    std::vector<std::string> of;
    for (const plugin::Combination& part : at.parts) {
        of.push_back(part.text);
        add_combiners(part, found);
    }
    constexpr std::string_view kPlace = "combine";
    if (at.combiner != plugin::kStack) found[at.place.substr(kPlace.size()) + "."] = std::move(of);
}

const data::Field* find_field(std::span<const data::Field> fields, std::string_view name) {
    const auto found = std::ranges::find(fields, name, &data::Field::name);
    return found != fields.end() && found->kind == data::FieldKind::int32 && found->shape.size() == 2 ? &*found
                                                                                                      : nullptr;
}

std::vector<int32_t> numbers(const data::Field& field, std::size_t row) {
    const auto length = static_cast<std::size_t>(field.shape[1]);
    std::vector<int32_t> values(length);
    std::memcpy(values.data(), field.bytes.data() + row * length * sizeof(int32_t), length * sizeof(int32_t));
    return values;
}

// Returns which tokens of a row are not padding.
std::vector<bool> real_tokens(std::span<const data::Field> fields, bool decoder, std::size_t row, std::size_t length) {
    constexpr int32_t kIgnored = -100; // labels of padding
    const data::Field* mask = find_field(fields, decoder ? "labels" : "attention_mask");
    std::vector<bool> real(length, true);
    if (mask == nullptr || static_cast<std::size_t>(mask->shape[1]) != length) return real;
    const std::vector<int32_t> values = numbers(*mask, row);
    for (std::size_t i = 0; i < length; ++i) real[i] = decoder ? values[i] != kIgnored : values[i] != 0;
    return real;
}

double rounded(double value) { return std::round(value * 1e4) / 1e4; }

} // namespace

Result<RoutingReport> RoutingReport::find(const plugin::Composition& composition,
                                          std::span<const plugin::BatchField> fields, const std::string& combination,
                                          std::span<const std::string> adapters) {
    RoutingReport report;
    if (combination.empty()) return report;
    HK_ASSIGN(const plugin::Combination parsed, plugin::parse_combination(combination, adapters));
    std::map<std::string, std::vector<std::string>> combiners;
    add_combiners(parsed, combiners);
    if (combiners.empty()) return report;
    HK_ASSIGN(const graph::Graph graph, composition.build(HK_MODE_EVALUATE, fields, {}, true));
    const bool decodes =
        std::ranges::find(fields, "decoder_input_ids", &plugin::BatchField::name) != std::ranges::end(fields);
    std::vector<std::pair<graph::ValueId, Site>> found;
    for (const auto& [port, value] : graph::outputs_of(graph, graph::OutputKind::port)) {
        if (!port.starts_with(kRouting)) continue;
        const std::string rest = port.substr(kRouting.size());
        // "routing.SITE" of the whole, "routing.1.SITE" of its second part: the longest that fits.
        const auto fits = std::find_if(combiners.rbegin(), combiners.rend(),
                                       [&](const auto& one) { return rest.starts_with(one.first); });
        if (fits == combiners.rend()) continue;
        const std::string name = rest.substr(fits->first.size());
        const bool decoder = decodes && name.find("decoder") != std::string::npos;
        found.push_back({value, {port, name, fits->second, decoder, std::vector<double>(fits->second.size())}});
    }
    std::ranges::stable_sort(found, {}, [](const auto& one) { return one.first; });
    for (auto& [value, site] : found) report.sites_.push_back(std::move(site));
    return report;
}

std::vector<std::string> RoutingReport::ports() const {
    std::vector<std::string> names;
    for (const Site& site : sites_) names.push_back(site.port);
    return names;
}

Status RoutingReport::add(program::Program& program, std::span<const data::Field> fields, std::size_t rows) {
    const std::size_t first = rows_.size(), kept = std::min(kRows - first, rows);
    for (std::size_t row = 0; row < kept; ++row) {
        Row& one = rows_.emplace_back();
        for (const auto& [name, to] :
             {std::pair("input_ids", &one.tokens), std::pair("decoder_input_ids", &one.decoder_tokens)}) {
            const data::Field* ids = find_field(fields, name);
            if (ids == nullptr) continue;
            const std::vector<int32_t> all = numbers(*ids, row);
            const std::vector<bool> real = real_tokens(fields, to == &one.decoder_tokens, row, all.size());
            for (std::size_t i = 0; i < all.size() && to->size() < kTokens; ++i)
                if (real[i]) to->push_back(all[i]);
        }
    }
    for (Site& site : sites_) {
        HK_ASSIGN(const program::HostTensor host, program.read_output(site.port));
        const std::span<const float> values = host.floats();
        const std::size_t branches = site.of.size();
        if (host.shape.rank() < 1 || static_cast<std::size_t>(host.shape[-1]) != branches || values.empty())
            return internal_error(fmt::format("{} is {}, expected {} weights", site.port, host.shape.text(), branches));
        // [rows, tokens, branches], where a number that is equal for all rows or tokens may be there once.
        const std::size_t of_rows = host.shape.rank() > 1 ? static_cast<std::size_t>(host.shape[0]) : 1,
                          tokens = values.size() / branches / of_rows;
        for (std::size_t row = 0; row < rows; ++row) {
            const std::size_t begin = (of_rows == 1 ? 0 : row) * tokens * branches;
            const std::vector<bool> real = real_tokens(fields, site.decoder, row, tokens);
            std::vector<std::vector<double>> weights;
            for (std::size_t token = 0; token < tokens; ++token) {
                if (!real[token]) continue;
                site.tokens += 1.0;
                const std::span<const float> of = values.subspan(begin + token * branches, branches);
                for (std::size_t i = 0; i < branches; ++i) site.sum[i] += static_cast<double>(of[i]);
                if (row < kept && weights.size() < kTokens) weights.emplace_back(of.begin(), of.end());
            }
            if (row < kept) rows_[first + row].weights[site.port] = std::move(weights);
        }
    }
    return {};
}

ordered_json RoutingReport::json(const text::Tokenizer& tokenizer) const {
    if (sites_.empty() || rows_.empty()) return nullptr;
    ordered_json sites = ordered_json::array(), rows = ordered_json::array();
    for (const Site& site : sites_) {
        std::vector<double> mean;
        for (const double sum : site.sum) mean.push_back(rounded(sum / std::max(site.tokens, 1.0)));
        sites.push_back({{"site", site.name}, {"of", site.of}, {"decoder", site.decoder}, {"mean", mean}});
    }
    const auto texts = [&](const std::vector<int32_t>& ids) {
        std::vector<std::string> all;
        for (const int32_t id : ids) {
            std::string text = tokenizer.decode({&id, 1});
            all.push_back(text.empty() ? fmt::format("<{}>", id) : std::move(text));
        }
        return all;
    };
    for (const Row& row : rows_) {
        ordered_json weights = ordered_json::array();
        for (const Site& site : sites_) {
            ordered_json of_site = ordered_json::array();
            for (const std::vector<double>& token : row.weights.at(site.port)) {
                ordered_json one = ordered_json::array();
                for (const double weight : token) one.push_back(rounded(weight));
                of_site.push_back(std::move(one));
            }
            weights.push_back(std::move(of_site));
        }
        rows.push_back({{"tokens", texts(row.tokens)},
                        {"decoder_tokens", texts(row.decoder_tokens)},
                        {"weights", std::move(weights)}});
    }
    return {{"sites", std::move(sites)}, {"rows", std::move(rows)}};
}

} // namespace hekla::train
