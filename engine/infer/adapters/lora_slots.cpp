#include "infer/adapters/lora_slots.hpp"

#include "infer/adapters/adapter_folder.hpp"

#include "base/nearest_name.hpp"
#include "base/trimmed.hpp"
#include "infer/adapters/stored_adapter.hpp"
#include "model/finite.hpp"
#include "plugin/composition/composition_spec.hpp"
#include "plugin/composition/model_names.hpp"
#include "plugin/composition/plugin_set.hpp"
#include "text/expression.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace hekla::infer {
namespace {

using nlohmann::json;

constexpr std::string_view kA = ".lora_A.weight", kB = ".lora_B.weight", kTransposedB = ".lora_B.transposed";

// "adapter.MODULE.lora_A.weight" -> "MODULE"; empty if it is another tensor.
std::string module_of(std::string_view name, std::string_view ending) {
    const std::string_view prefix = plugin::kAdapter;
    if (!name.starts_with(prefix) || !name.ends_with(ending) || name.size() <= prefix.size() + ending.size()) return {};
    return std::string(name.substr(prefix.size(), name.size() - prefix.size() - ending.size()));
}

// A parameter of slots: A [slots, r, in], or B [slots, r, out].
struct SlotParameter {
    explicit SlotParameter(const plugin::ModelTensor& parameter)
        : is_a(parameter.name.ends_with(kA)), module(module_of(parameter.name, is_a ? kA : kTransposedB)),
          slots(parameter.shape[0]), rank(parameter.shape[1]), width(parameter.shape[2]) {}
    bool is_a;
    std::string module;
    int64_t slots, rank, width;
    std::size_t size() const { return static_cast<std::size_t>(rank * width); }
};

// Copies what an adapter has at the module into `to`, zeros of the slot's size.
Status fill(const SlotParameter& parameter, const SlotContent& content, std::span<float> to) {
    const auto found = content.modules.find(parameter.module);
    if (found == content.modules.end()) return {};
    const SlotMatrices& m = found->second;
    const int64_t width = parameter.is_a ? m.in : m.out;
    if (width != parameter.width)
        return corrupt(
            fmt::format("{}: its matrices at '{}' are for {} {}, expected {}: the adapter is of another body",
                        content.path, parameter.module, width, parameter.is_a ? "inputs" : "outputs", parameter.width));
    if (m.rank > parameter.rank)
        return unsupported(fmt::format("{}: its rank at '{}' is {}; a slot has {}", content.path, parameter.module,
                                       m.rank, parameter.rank));
    if (parameter.is_a) {
        std::ranges::copy(m.a, to.begin());
        return {};
    }
    const auto rank = static_cast<std::size_t>(m.rank), places = static_cast<std::size_t>(width);
    for (std::size_t i = 0; i < rank; ++i)
        for (std::size_t place = 0; place < places; ++place) to[i * places + place] = m.b[place * rank + i];
    return {};
}

} // namespace

Result<double> lora_scale(const json& adapter_config, const std::string& module, int64_t rank) {
    double alpha = adapter_config.value("lora_alpha", 8.0);
    constexpr std::size_t kMostPatterns = 1 << 12; // as plugins/sdk/target_modules.hpp has it
    const json patterns = adapter_config.value("alpha_pattern", json::object());
    if (patterns.size() > kMostPatterns)
        return invalid_argument(
            fmt::format("alpha_pattern has {} members; expected {} at most", patterns.size(), kMostPatterns));
    for (const auto& [expression, value] : patterns.items()) {
        HK_ASSIGN(const bool matched, text::matches_expression("(.*\\.)?(" + expression + ")", module));
        if (!matched) continue;
        alpha = value.get<double>();
        break;
    }
    const auto r = static_cast<double>(rank);
    return alpha / (adapter_config.value("use_rslora", false) ? std::sqrt(r) : r);
}

int64_t SlotContent::rank() const {
    int64_t largest = 1;
    for (const auto& [name, matrices] : modules) largest = std::max(largest, matrices.rank);
    return largest;
}

std::string not_in_a_slot(const StoredAdapter& adapter) {
    if (adapter.id != "lora") return fmt::format("it is '{}', and slots are for 'lora'", adapter.id);
    if (adapter.foreign && adapter.foreign->library == kAdapterHub)
        return "it is a folder of AdapterHub, which names its modules otherwise";
    if (adapter.config.value("use_dora", false)) return "it is a DoRA, which changes the lengths of weights";
    if (adapter.config.value("slots", 0) != 0) return "it has slots itself";
    if (!adapter.config.value(plugin::kInvocationTokens, json()).is_null())
        return fmt::format("it acts from its {} on (aLoRA)", plugin::kInvocationTokens);
    for (const model::TensorView& tensor : adapter.tensors())
        if (module_of(tensor.name, kA).empty() && module_of(tensor.name, kB).empty())
            return fmt::format("it contains '{}', which is not a matrix of a linear layer", tensor.name);
    return {};
}

Result<SlotContent> slot_content(const StoredAdapter& adapter) {
    const std::string where = adapter.path.string();
    if (const std::string reason = not_in_a_slot(adapter); !reason.empty())
        return unsupported(fmt::format("{}: {}", where, reason));
    std::map<std::string, const model::TensorView*, std::less<>> as, bs;
    for (const model::TensorView& tensor : adapter.tensors()) {
        HK_TRY(model::check_finite(tensor).with_context(where));
        if (tensor.dims.size() != 2)
            return corrupt(fmt::format("{}: tensor {} is {}; expected two dimensions", where,
                                       model::in_quotes(tensor.name), model::format_dims(tensor.dims)));
        const std::string a = module_of(tensor.name, kA);
        (a.empty() ? bs : as).emplace(a.empty() ? module_of(tensor.name, kB) : a, &tensor);
    }
    SlotContent content{where, adapter.weights, {}};
    for (const auto& [module, b] : bs)
        if (!as.contains(module)) return corrupt(fmt::format("{}: '{}' has a matrix B, but no A", where, module));
    for (const auto& [module, a] : as) {
        const auto b = bs.find(module);
        if (b == bs.end()) return corrupt(fmt::format("{}: '{}' has a matrix A, but no B", where, module));
        SlotMatrices m{a->dims[0], a->dims[1], b->second->dims[0], {}, {}};
        if (m.rank == 0 || b->second->dims[1] != m.rank)
            return corrupt(fmt::format("{}: the matrices of '{}' are {} and {}; expected [r, in] and [out, r]", where,
                                       module, model::format_dims(a->dims), model::format_dims(b->second->dims)));
        HK_ASSIGN(const double scale, lora_scale(adapter.config, module, m.rank));
        const auto read = [](const model::TensorView& tensor, double factor, std::vector<float>& to) -> Status {
            std::vector<double> values(static_cast<std::size_t>(tensor.dims[0] * tensor.dims[1]));
            HK_TRY(model::load_float64(tensor, values));
            for (const double value : values) to.push_back(static_cast<float>(value * factor));
            return {};
        };
        HK_TRY(read(*a, 1.0, m.a));
        HK_TRY(read(*b->second, scale, m.b));
        content.modules.emplace(module, std::move(m));
    }
    return content;
}

Status check_slot_count(std::size_t adapters, int64_t slots) {
    if (static_cast<int64_t>(adapters) <= slots) return {};
    return invalid_argument(fmt::format("{} adapters for {} slots", adapters, slots));
}

Tensors slot_fields(int64_t rows) {
    const graph::Shape shape{rows};
    const auto count = static_cast<std::size_t>(rows);
    return {{plugin::kAdapterRows, {graph::Kind::int32, shape, std::vector<double>(count, -1.0)}},
            {plugin::kAdapterScales, {graph::Kind::float32, shape, std::vector<double>(count, 1.0)}}};
}

Result<plugin::AdapterSpec> slots_spec(std::span<const SlotContent> contents, const SlotOptions& options) {
    const auto count = options.count > 0 ? options.count : static_cast<int64_t>(contents.size());
    HK_TRY(check_slot_count(contents.size(), count));
    int64_t rank = options.rank > 0 ? options.rank : contents.empty() ? kSlotRank : 1;
    json modules = json::array();
    for (const SlotContent& content : contents) {
        if (options.rank == 0) rank = std::max(rank, content.rank());
        for (const auto& [module, matrices] : content.modules)
            if (std::ranges::find(modules, json(module)) == modules.end()) modules.push_back(module);
    }
    json targets = contents.empty() ? json(kAllLinear) : modules;
    if (options.targets == kAllLinear) {
        targets = kAllLinear;
    } else if (!options.targets.empty()) {
        targets = json::array();
        for (std::string_view rest = options.targets; !rest.empty();) {
            const std::size_t comma = std::min(rest.find(','), rest.size());
            targets.push_back(std::string(trimmed(rest.substr(0, comma))));
            rest.remove_prefix(std::min(comma + 1, rest.size()));
        }
    }
    const json config = {
        {"slots", count}, {"slots_transposed", true}, {"r", rank}, {"lora_alpha", rank}, {"target_modules", targets}};
    return plugin::AdapterSpec{"", {"lora", config}};
}

Result<std::vector<float>> slots_values(const plugin::ModelTensor& parameter, std::span<const SlotContent> contents) {
    const SlotParameter p(parameter);
    std::vector<float> values(p.size() * static_cast<std::size_t>(p.slots));
    for (std::size_t slot = 0; slot < contents.size(); ++slot)
        HK_TRY(fill(p, contents[slot], std::span(values).subspan(slot * p.size(), p.size())));
    return values;
}

Status check_slots_exist(const std::string& folder, std::size_t parameters) {
    if (parameters > 0) return {};
    return invalid_argument(
        fmt::format("{}: no linear layer of the model is among the adapter targets: give ends of the names that "
                    "`hekla inspect` lists, or \"{}\"",
                    folder, kAllLinear));
}

Result<std::vector<float>> slot_values(const plugin::ModelTensor& parameter, const SlotContent* content) {
    const SlotParameter p(parameter);
    std::vector<float> values(p.size());
    if (content != nullptr) HK_TRY(fill(p, *content, values));
    return values;
}

Status check_slot(const SlotContent& content, const std::string& weights, const std::string& folder,
                  std::span<const plugin::ModelTensor> parameters) {
    if (!content.weights.empty() && !weights.empty() && content.weights != weights)
        return failed_precondition(
            fmt::format("{}: was trained with another body (hash {}) than {} contains (hash {}): "
                        "name the body that it was trained with",
                        content.path, content.weights, folder, weights));
    std::vector<std::string> known;
    for (const plugin::ModelTensor& parameter : parameters)
        if (const std::string module = module_of(parameter.name, kA); !module.empty()) known.push_back(module);
    for (const auto& [module, matrices] : content.modules) {
        if (std::ranges::find(known, module) != known.end()) continue;
        const std::string_view near = nearest_name(module, known);
        return corrupt(fmt::format("{}: '{}' is not a linear layer with slots in {}{}", content.path, module, folder,
                                   near.empty() ? "" : fmt::format("; the nearest is '{}'", near)));
    }
    return {};
}

} // namespace hekla::infer
