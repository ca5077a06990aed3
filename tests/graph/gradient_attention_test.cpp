// Cases of the gradient check: attention with every option, alone and in combination.
#include "gradient_cases.hpp"

namespace hekla::test {

namespace {

using Values = std::span<const ValueId>;

// All options of attention.
struct Options {
    int64_t batch = 2, heads = 2, key_heads = 2, queries = 3, keys = 5, width = 3, value_width = 2;
    int64_t bias_batch = 0, bias_heads = 0; // 0: no bias
    bool distance_bias = false, query_distance = false, key_distance = false, query_class = false;
    bool key_padding = false, query_padding = false, groups = false, positions = false, prefix = false, sinks = false;
    int64_t mask_batch = 0, mask_heads = 0; // 0: no mask
    int64_t causal = 0, window = 0, window_after = 0, empty_row = 0;
    double scale = 0, dropout = 0, softcap = 0;
};

constexpr std::size_t kInputs = 19; // attention's, in the table's order

GradientCase attention(const std::string& name, const Options& o) {
    std::vector<Variable> variables;
    std::vector<std::size_t> places; // the input that each variable is used as
    const auto variable = [&](std::size_t place, const Shape& shape) {
        variables.push_back({shape});
        places.push_back(place);
    };
    variable(0, {o.batch, o.heads, o.queries, o.width});
    variable(1, {o.batch, o.key_heads, o.keys, o.width});
    variable(2, {o.batch, o.key_heads, o.keys, o.value_width});
    if (o.bias_batch > 0) variable(3, {o.bias_batch, o.bias_heads, o.queries, o.keys});
    if (o.distance_bias) variable(4, {o.heads, 3});
    if (o.query_distance) variable(5, {o.batch, o.heads, o.queries, 3});
    if (o.key_distance) variable(6, {o.batch, o.heads, o.keys, 4});
    if (o.query_class) variable(7, {o.batch, o.heads, o.queries, 2});
    if (o.sinks) variable(18, {o.heads});
    const auto describe = [=](Builder& b, Values x) {
        std::vector<ValueId> inputs(kInputs, kNone);
        for (std::size_t i = 0; i < places.size(); ++i) inputs[places[i]] = x[i];
        const auto pattern = [&](const Shape& shape, const std::function<int64_t(int64_t)>& value) {
            std::vector<double> data(static_cast<std::size_t>(shape.elements()));
            for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<double>(value(static_cast<int64_t>(i)));
            return b.constant(Kind::int32, shape, data);
        };
        const Shape query_row{o.batch, o.queries}, key_row{o.batch, o.keys};
        if (o.query_class) {
            inputs[8] = pattern(query_row, [](int64_t i) { return i % 2; });
            inputs[9] = pattern(key_row, [](int64_t i) { return i / 3 % 2; });
        }
        if (o.key_padding) inputs[10] = pattern(key_row, [](int64_t i) { return i % 4 == 3 ? 0 : 1; });
        if (o.query_padding) inputs[11] = pattern(query_row, [](int64_t i) { return i % 3 == 2 ? 0 : 1; });
        if (o.mask_batch > 0)
            inputs[12] = pattern({o.mask_batch, o.mask_heads, o.queries, o.keys}, [&](int64_t i) {
                return i / o.keys % 7 == 1 || i % 3 == 0 ? 0 : 1;
            }); // one row is empty
        if (o.groups) {
            inputs[13] = pattern(query_row, [](int64_t i) { return i % 2; });
            inputs[14] = pattern(key_row, [](int64_t i) { return i % 3; });
        }
        if (o.positions) {
            inputs[15] = pattern(query_row, [](int64_t i) { return (i * 5 + 2) % 7; });
            inputs[16] = pattern(key_row, [](int64_t i) { return i * 3 % 7; });
        }
        if (o.prefix) inputs[17] = pattern({o.batch}, [](int64_t i) { return i * 3; });
        std::vector<NamedAttribute> attributes = {
            {"scale", o.scale},     {"causal", o.causal},       {"window", o.window},  {"window_after", o.window_after},
            {"softcap", o.softcap}, {"empty_row", o.empty_row}, {"dropout", o.dropout}};
        if (o.distance_bias || o.query_distance) {
            attributes.push_back({"distance_first", int64_t{-2}});
            attributes.push_back({"distance_table", std::vector<int64_t>{2, 1, 0, 1}});
        }
        if (o.key_distance) {
            attributes.push_back({"key_distance_first", int64_t{-1}});
            attributes.push_back({"key_distance_table", std::vector<int64_t>{3, 0, 1}}); // entry 2 is never used
        }
        const std::vector<ValueId> outputs = b.emit(Op::attention, inputs, attributes);
        return outputs.empty() ? outputs : std::vector{outputs[0]};
    };
    return {"attention " + name, variables, describe};
}

// Enables option i of kOptionCount in addition to those already set.
constexpr int kOptionCount = 20;
const char* add_option(Options& o, int i) {
    switch (i) {
    case 0: o.bias_batch = o.batch, o.bias_heads = o.heads; return "bias";
    case 1: o.bias_batch = 1, o.bias_heads = o.heads; return "bias[1]";
    case 2: o.bias_batch = o.batch, o.bias_heads = 1; return "bias[b,1]";
    case 3: o.distance_bias = true; return "distance_bias";
    case 4: o.query_distance = true; return "query_distance";
    case 5: o.key_distance = true; return "key_distance";
    case 6: o.query_class = true; return "query_class";
    case 7: o.key_padding = true; return "key_padding";
    case 8: o.query_padding = true; return "query_padding";
    case 9: o.groups = true; return "groups";
    case 10: o.positions = true; return "positions";
    case 11: o.causal = 1; return "causal";
    case 12: o.causal = 1, o.prefix = true; return "prefix";
    case 13: o.window = 2; return "window";
    case 14: o.mask_batch = o.batch, o.mask_heads = 1; return "mask";
    case 15: o.mask_batch = 1, o.mask_heads = o.heads, o.empty_row = 1; return "mask, empty rows zero";
    case 16: o.sinks = true; return "sinks";
    case 17: o.softcap = 0.6; return "softcap";
    case 18: o.window = 2, o.window_after = 2; return "window on both sides";
    default: o.dropout = 0.3, o.scale = 0.7; return "dropout, scale";
    }
}

} // namespace

std::vector<GradientCase> attention_cases() {
    std::vector<GradientCase> cases;
    Options plain;
    cases.push_back(attention("plain", plain));
    cases.push_back(attention(
        "ones", {.batch = 1, .heads = 1, .key_heads = 1, .queries = 1, .keys = 1, .width = 1, .value_width = 1}));
    for (const int64_t key_heads : {1, 2, 4})
        cases.push_back(
            attention(fmt::format("4 heads on {}", key_heads), {.heads = 4, .key_heads = key_heads, .causal = 1}));
    for (int i = 0; i < kOptionCount; ++i) {
        Options alone;
        const std::string name = add_option(alone, i);
        cases.push_back(attention(name, alone));
        for (int j = 0; j < i; ++j) {
            Options two = {.heads = 2, .key_heads = 1, .queries = 2, .keys = 3};
            const std::string other = add_option(two, j);
            cases.push_back(attention(add_option(two, i) + (" and " + other), two));
        }
    }
    Options all = {.heads = 4, .key_heads = 2};
    for (int i = 0; i < kOptionCount; ++i) add_option(all, i);
    all.mask_batch = all.batch;
    cases.push_back(attention("everything", all));
    all.empty_row = 0;
    all.window = 4;
    cases.push_back(attention("everything, empty rows the mean", all));
    return cases;
}

} // namespace hekla::test
