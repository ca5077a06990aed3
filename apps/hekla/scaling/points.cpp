#include "scaling/points.hpp"

#include "base/read_real.hpp"
#include "data/examples.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace hekla::scaling {
namespace {

enum Column : std::size_t { kName, kParameters, kWithout, kTokens, kFlops, kLoss, kHeldOut };
constexpr const char* kColumns[] = {"name", "parameters", "parameters_without_embeddings", "tokens", "flops",
                                    "loss", "held_out"};

Result<double> number_of(const std::string& text, const std::string& place, const std::string& column) {
    double value = 0.0;
    const auto [end, error] = read_real(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value) || value <= 0.0)
        return invalid_argument(
            fmt::format("{}: column '{}' is '{}'; expected a number above 0", place, column, text.substr(0, 40)));
    return value;
}

std::string quoted(const std::string& text) {
    if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
    std::string all = "\"";
    for (const char c : text) {
        if (c == '"') all += '"';
        all += c;
    }
    return all + '"';
}

} // namespace

Result<std::vector<Point>> read_points(const std::string& file, const Columns& columns) {
    data::ExampleOptions options;
    options.inputs = {file};
    options.header = true;
    for (const char* const name : kColumns) {
        const auto given = columns.find(name);
        options.columns.push_back({.name = name,
                                   .source = given != columns.end() ? given->second : name,
                                   .required = std::string_view(name) == "parameters" ||
                                               std::string_view(name) == "loss" || given != columns.end()});
    }
    for (const auto& [name, source] : columns)
        if (std::ranges::find(kColumns, name) == std::end(kColumns))
            return invalid_argument(
                fmt::format("'{}' is not a column of points; expected one of: {}", name, fmt::join(kColumns, ", ")));
    HK_ASSIGN(const std::unique_ptr<data::ExampleReader> reader, data::open_examples(options));
    std::vector<Point> points;
    for (data::Example row;;) {
        HK_ASSIGN(const bool more, reader->next(row));
        if (!more) break;
        const std::string place = reader->place(row);
        const auto read = [&](Column column, double& value) -> Status {
            if (!row.values[column].present) return {};
            HK_ASSIGN(value, number_of(row.values[column].text, place, options.columns[column].source));
            return {};
        };
        Point point;
        point.name = row.values[kName].present ? row.values[kName].text : fmt::format("line {}", row.line);
        HK_TRY(read(kParameters, point.parameters));
        HK_TRY(read(kWithout, point.without_embeddings));
        HK_TRY(read(kTokens, point.tokens));
        HK_TRY(read(kFlops, point.flops));
        HK_TRY(read(kLoss, point.loss));
        if (point.tokens <= 0.0 && point.flops <= 0.0)
            return invalid_argument(fmt::format("{}: has neither '{}' nor '{}': one of them is needed", place,
                                                options.columns[kTokens].source, options.columns[kFlops].source));
        if (point.tokens <= 0.0) point.tokens = point.flops / (6.0 * point.parameters);
        if (const data::Value& held = row.values[kHeldOut]; held.present) {
            if (held.text != "0" && held.text != "1")
                return invalid_argument(fmt::format("{}: column '{}' is '{}'; expected 0 or 1", place,
                                                    options.columns[kHeldOut].source, held.text.substr(0, 40)));
            point.held_out = held.text == "1";
        }
        points.push_back(std::move(point));
    }
    return points;
}

std::string points_csv(std::span<const Point> points) {
    std::string all = fmt::format("{}\n", fmt::join(kColumns, ","));
    for (const Point& p : points)
        all += fmt::format("{},{},{},{},{},{},{}\n", quoted(p.name), p.parameters,
                           p.without_embeddings > 0.0 ? fmt::format("{}", p.without_embeddings) : "", p.tokens,
                           p.flops > 0.0 ? fmt::format("{}", p.flops) : "", p.loss, p.held_out ? 1 : 0);
    return all;
}

} // namespace hekla::scaling
