#include "infer/adapters/combined_parameters.hpp"

#include "infer/open/tensors.hpp"
#include "plugin/composition/plugin_set.hpp"

#include "hekla/plugin/adapter.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace hekla::infer {

bool is_of_combiner(const std::string& parameter) {
    return parameter.starts_with(std::string(plugin::kAdapter) + "combine."); // not the name of an adapter
}

Status check_combined(const graph::Graph& described, const std::string& how) {
    if (described.find_leaf(graph::Op::input, plugin::kAdapterRows) != graph::kNone)
        return unsupported(
            fmt::format("combine.how is '{}', by which each row chooses one of the adapters, and rows do "
                        "not choose here: remove it; `hekla generate` has --adapter-rows",
                        how));
    for (const graph::Node& node : described.nodes) {
        if (node.op != graph::Op::parameter || (node.integer("flags") & HK_INITIAL_FIXED) != 0) continue;
        if (const std::string name = node.text("name"); is_of_combiner(name))
            return unsupported(
                fmt::format("combine.how is '{}', whose '{}' is trained, and the adapters' folders do not "
                            "have it: train the combination with a recipe's [combine], and give the "
                            "folder of that run as the model",
                            how, name));
    }
    return {};
}

Status compute_initial(const graph::Graph& described, const std::map<std::string, const model::TensorView*>& stored,
                       const std::function<bool(const std::string&)>& wanted, const std::string& advice,
                       const std::function<Status(const std::string&, std::vector<float>)>& give) {
    for (const auto& [output, value] : described.outputs) {
        if (!output.starts_with(plugin::kInitial)) continue;
        const std::string name = output.substr(std::string_view(plugin::kInitial).size());
        if (!wanted(name)) continue;
        const Result<graph::Tensor> values = evaluate_stored(described, value, stored);
        if (!values.ok()) return values.status().with_context(fmt::format("'{}': {}", name, advice));
        if (!std::ranges::all_of(values->data, [](double one) { return std::isfinite(one); }))
            return invalid_argument(fmt::format("'{}' would begin with a value that is not finite: {}, whose matrices "
                                                "are not zeros",
                                                name, advice));
        HK_TRY(give(name, std::vector<float>(values->data.begin(), values->data.end())));
    }
    return {};
}

} // namespace hekla::infer
