#include "lora_model.hpp"
#include "infer/adapters/adapter_use.hpp"
#include "model/folder.hpp"

#include "infer/adapters/lora_slots.hpp"
#include "infer/adapters/peft_adapter.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace hekla::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

Result<lora::Matrix> matrix_of(const model::TensorView& tensor) {
    if (tensor.dims.size() != 2)
        return corrupt(fmt::format("tensor {} is {}; expected two dimensions", model::in_quotes(tensor.name),
                                   model::format_dims(tensor.dims)));
    lora::Matrix matrix(tensor.dims[0], tensor.dims[1]);
    HK_TRY(model::load_float64(tensor, matrix.data));
    return matrix;
}

model::TensorSource float32_source(std::string name, lora::Matrix matrix) {
    model::TensorSource source;
    source.name = std::move(name);
    source.dtype = model::DType::f32;
    source.dims = {matrix.rows, matrix.columns};
    source.stream = [matrix = std::move(matrix)](const model::Sink& sink) -> Status {
        std::vector<std::byte> bytes(matrix.data.size() * sizeof(float));
        HK_TRY(model::from_float64(model::DType::f32, matrix.data, bytes));
        return sink(bytes);
    };
    return source;
}

// Returns the rank that most modules have.
int64_t usual_rank(const std::vector<LoraModule>& modules) {
    std::map<int64_t, std::size_t> counts;
    for (const LoraModule& module : modules) ++counts[module.factors.rank()];
    const auto most =
        std::ranges::max_element(counts, {}, [](const auto& one) { return std::pair(one.second, one.first); });
    return most != counts.end() ? most->first : 1;
}

} // namespace

Result<std::vector<LoraModule>> lora_modules(const AdaptedModel& m) {
    if (!m.is_lora()) return unsupported(fmt::format("the adapter is '{}'; expected 'lora'", m.adapter_text()));
    std::map<std::string, const model::TensorView*, std::less<>> tensors;
    for (const model::TensorView& tensor : m.adapter_tensors) tensors.emplace(tensor.name, &tensor);
    std::vector<LoraModule> modules;
    for (const plugin::Site& site : m.described.sites) {
        if (!site.wanted) continue;
        LoraModule module{site.name, site.kind == HK_SITE_EMBEDDING, {}, 1.0};
        const std::string prefix = plugin::kAdapter + site.name + ".";
        const auto a = tensors.find(prefix + (module.embedding ? "lora_embedding_A" : "lora_A.weight"));
        const auto b = tensors.find(prefix + (module.embedding ? "lora_embedding_B" : "lora_B.weight"));
        if (a == tensors.end() || b == tensors.end()) // checked when it was opened
            return internal_error(fmt::format("the adapter has no matrices for {}", site.name));
        HK_ASSIGN(module.factors.a, matrix_of(*a->second));
        HK_ASSIGN(module.factors.b, matrix_of(*b->second));
        HK_ASSIGN(module.scale, infer::lora_scale(m.adapter_config(), site.name, module.factors.rank()));
        modules.push_back(std::move(module));
    }
    return modules;
}

model::ModelContents lora_contents(const std::vector<LoraModule>& modules, const fs::path& body, bool conv1d,
                                   LoraExtras extras) {
    const int64_t rank = usual_rank(modules);
    ordered_json names = ordered_json::array(), ranks = ordered_json::object();
    model::ModelContents contents;
    for (const LoraModule& module : modules) {
        names.push_back(module.name);
        if (module.factors.rank() != rank) ranks[module.name] = module.factors.rank();
        const auto add = [&](const char* matrix, const lora::Matrix& values) {
            const std::string name = fmt::format("{}{}.{}", plugin::kAdapter, module.name, matrix);
            contents.tensors.push_back(float32_source(infer::peft_name(name, {}), values));
        };
        add(module.embedding ? "lora_embedding_A" : "lora_A.weight", module.factors.a);
        add(module.embedding ? "lora_embedding_B" : "lora_B.weight", module.factors.b);
    }
    for (model::TensorSource& tensor : extras.whole) contents.tensors.push_back(std::move(tensor));
    std::error_code problem;
    const ordered_json config = {
        {"peft_type", "LORA"},
        {"task_type", nullptr},
        {"base_model_name_or_path", fs::weakly_canonical(body, problem).string()},
        {"inference_mode", true},
        {"r", rank},
        {"lora_alpha", rank},
        {"lora_dropout", 0.0},
        {"target_modules", names},
        {"rank_pattern", ranks},
        {"alpha_pattern", ranks}, // so that every scale is 1
        {"use_rslora", false},
        {"use_dora", false},
        {"bias", extras.lora_only_biases ? "lora_only" : "none"},
        {"fan_in_fan_out", conv1d},
        {"init_lora_weights", true},
        {"modules_to_save", extras.modules_to_save.empty() ? ordered_json() : ordered_json(extras.modules_to_save)}};
    contents.config_json = config.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
    contents.config_name = "adapter_config.json";
    contents.weights_stem = "adapter_model";
    return contents;
}

} // namespace hekla::app
