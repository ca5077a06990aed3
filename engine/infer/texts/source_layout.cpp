#include "infer/texts/source_layout.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::infer {
namespace {

using nlohmann::json;

constexpr const char* kTokens = "input_ids";

// Makes two batches with the same lengths and different tokens: differences are tokens of the texts.
std::vector<std::vector<int32_t>> probe(int32_t first) {
    std::vector<std::vector<int32_t>> texts;
    for (const std::size_t length : {7u, 1u, 4u, 2u}) {
        std::vector<int32_t>& text = texts.emplace_back();
        for (std::size_t i = 0; i < length; ++i) text.push_back(first + static_cast<int32_t>((i * 3 + length) % 8));
    }
    return texts;
}

std::vector<int32_t> integers(const graph::Tensor& tensor) { return {tensor.data.begin(), tensor.data.end()}; }

bool same(const SourceRows& a, const SourceRows& b) {
    return a.ids == b.ids && a.fields.size() == b.fields.size() &&
           std::ranges::equal(a.fields, b.fields, [](const auto& x, const auto& y) {
               return x.first == y.first && x.second.shape == y.second.shape && x.second.data == y.second.data;
           });
}

} // namespace

Result<SourceLayout> source_layout(const MakeBatch& make) {
    const auto refuse = [] {
        return unsupported("its objective lays texts out otherwise than between tokens that are always the same");
    };
    SourceRows made[2];
    const int32_t firsts[] = {16, 24};
    for (std::size_t i = 0; i < 2; ++i) {
        HK_ASSIGN(const std::vector<data::Field> fields, make(probe(firsts[i])));
        HK_ASSIGN(made[i], source_rows(fields));
    }
    const std::vector<std::vector<int32_t>> texts = probe(firsts[0]);
    // The first row is the longest, so nothing in it is padding.
    if (made[0].ids.size() != texts.size() || made[1].ids.size() != texts.size()) return refuse();
    const std::vector<int32_t>& row = made[0].ids[0];
    const std::size_t width = row.size(), count = texts[0].size();
    const auto before = static_cast<std::size_t>(std::ranges::mismatch(row, made[1].ids[0]).in1 - row.begin());
    if (before + count > width || made[1].ids[0].size() != width) return refuse();
    SourceLayout layout;
    const auto add = [&](const std::string& name, std::span<const int32_t> longest, std::span<const int32_t> shorter,
                         bool tokens) {
        SourceLayout::Field field;
        field.name = name;
        field.before.assign(longest.begin(), longest.begin() + static_cast<std::ptrdiff_t>(before));
        field.after.assign(longest.begin() + static_cast<std::ptrdiff_t>(before + count), longest.end());
        if (!tokens) field.each = longest[before];
        field.padding = shorter.back();
        layout.fields.push_back(std::move(field));
    };
    add(kTokens, row, made[0].ids[1], true);
    for (const auto& [name, tensor] : made[0].fields) {
        if (!(tensor.shape == graph::Shape{static_cast<int64_t>(texts.size()), static_cast<int64_t>(width)}))
            return refuse();
        const std::vector<int32_t> values = integers(tensor);
        add(name, std::span(values).first(width), std::span(values).subspan(width, width), false);
    }
    for (std::size_t i = 0; i < 2; ++i)
        if (!same(laid_out(layout, probe(firsts[i])), made[i])) return refuse();
    return layout;
}

SourceRows laid_out(const SourceLayout& layout, std::span<const std::vector<int32_t>> texts) {
    std::size_t longest = 0;
    for (const std::vector<int32_t>& text : texts) longest = std::max(longest, text.size());
    SourceRows rows;
    for (const SourceLayout::Field& field : layout.fields) {
        const std::size_t width = field.before.size() + longest + field.after.size();
        graph::Tensor tensor{
            graph::Kind::int32, graph::Shape{static_cast<int64_t>(texts.size()), static_cast<int64_t>(width)}, {}};
        for (const std::vector<int32_t>& text : texts) {
            std::vector<int32_t> row = field.before;
            for (const int32_t token : text) row.push_back(field.each.value_or(token));
            row.insert(row.end(), field.after.begin(), field.after.end());
            row.resize(width, field.padding);
            tensor.data.insert(tensor.data.end(), row.begin(), row.end());
            if (field.name == kTokens) rows.ids.push_back(std::move(row));
        }
        if (field.name != kTokens) rows.fields.emplace(field.name, std::move(tensor));
    }
    return rows;
}

json layout_json(const SourceLayout& layout) {
    json fields = json::array();
    for (const SourceLayout::Field& field : layout.fields)
        fields.push_back({{"name", field.name},
                          {"before", field.before},
                          {"each", field.each ? json(*field.each) : json()},
                          {"after", field.after},
                          {"padding", field.padding}});
    return fields;
}

SourceLayout layout_from(const json& from) {
    SourceLayout layout;
    for (const json& one : from) {
        SourceLayout::Field field;
        field.name = one.at("name").get<std::string>();
        field.before = one.at("before").get<std::vector<int32_t>>();
        field.after = one.at("after").get<std::vector<int32_t>>();
        if (!one.at("each").is_null()) field.each = one.at("each").get<int32_t>();
        field.padding = one.at("padding").get<int32_t>();
        layout.fields.push_back(std::move(field));
    }
    return layout;
}

} // namespace hekla::infer
