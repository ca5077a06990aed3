#include "infer/passes/head_outputs.hpp"

#include "base/json.hpp"
#include "batch/collate.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::infer {

Result<std::vector<nlohmann::json>> decode_rows(const plugin::Composition& composition,
                                                const std::map<std::string, graph::Tensor, std::less<>>& outputs,
                                                std::span<data::Field> fields, std::size_t rows) {
    std::vector<std::vector<float>> values;
    std::vector<hk_output> raw;
    values.reserve(outputs.size()); // spans point into it
    for (const auto& [port, tensor] : outputs) {
        values.emplace_back(tensor.data.begin(), tensor.data.end());
        hk_output output{};
        output.struct_size = sizeof output;
        output.rank = static_cast<uint32_t>(tensor.shape.rank());
        output.port = {port.data(), port.size()};
        output.values = values.back().data();
        std::ranges::copy(tensor.shape.dims(), output.dims);
        raw.push_back(output);
    }
    const std::vector<hk_field> views = batch::field_views(fields);
    hk_decode_input input{};
    input.struct_size = sizeof input;
    input.output_count = static_cast<uint32_t>(raw.size());
    input.outputs = raw.data();
    input.fields = views.data();
    input.field_count = static_cast<uint32_t>(views.size());
    input.row_count = static_cast<uint32_t>(rows);
    input.tokenizer = composition.tokenizer();
    HK_ASSIGN(const std::vector<std::string> texts, composition.decode(input));
    std::vector<nlohmann::json> objects;
    for (const std::string& text : texts) {
        HK_ASSIGN(nlohmann::json object, parse_json_object(text, "the text from the head's decode"));
        objects.push_back(std::move(object));
    }
    return objects;
}

void name_labels(nlohmann::json& prediction,
                 const std::function<nlohmann::json(const nlohmann::json& label)>& name_of) {
    for (const auto& [key, named] : {std::pair{"label", "label_name"}, {"labels", "label_names"}}) {
        const auto label = prediction.find(key);
        if (label == prediction.end()) continue;
        nlohmann::json names;
        if (label->is_array()) {
            names = nlohmann::json::array();
            for (const nlohmann::json& one : *label) names.push_back(name_of(one));
        } else {
            names = name_of(*label);
        }
        prediction[named] = std::move(names);
    }
}

} // namespace hekla::infer
