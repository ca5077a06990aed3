#include "infer/open/sentence_modules.hpp"

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/path_text.hpp"
#include "model/weights.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::infer {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct PoolingName {
    const char* key;  // of a pooling's config.json: true or false
    const char* mode; // value of "pooling_mode", which newer files have instead
    SentencePooling pooling;
};
// In the order in which sentence-transformers joins several.
constexpr std::array<PoolingName, 6> kPoolings{
    PoolingName{"pooling_mode_cls_token", "cls", SentencePooling::first},
    PoolingName{"pooling_mode_max_tokens", "max", SentencePooling::max},
    PoolingName{"pooling_mode_mean_tokens", "mean", SentencePooling::mean},
    PoolingName{"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", SentencePooling::mean_by_root},
    PoolingName{"pooling_mode_weightedmean_tokens", "weightedmean", SentencePooling::weighted_mean},
    PoolingName{"pooling_mode_lasttoken", "lasttoken", SentencePooling::last}};

struct Activation {
    const char* name; // of PyTorch's class
    double (*apply)(double);
};
constexpr std::array<Activation, 6> kActivations{
    Activation{"Identity", [](double x) { return x; }},
    Activation{"Tanh", [](double x) { return std::tanh(x); }},
    Activation{"ReLU", [](double x) { return std::max(x, 0.0); }},
    Activation{"Sigmoid", [](double x) { return 1.0 / (1.0 + std::exp(-x)); }},
    Activation{"SiLU", [](double x) { return x / (1.0 + std::exp(-x)); }},
    Activation{"GELU", [](double x) { return 0.5 * x * (1.0 + std::erf(x / std::sqrt(2.0))); }}};

template<class List>
std::vector<const char*> names_of(const List& list) {
    std::vector<const char*> names;
    for (const auto& one : list) names.push_back(one.name);
    return names;
}

// A JSON object in a file, whose values are read by type.
class Settings {
public:
    static Result<Settings> read(const fs::path& path) {
        HK_ASSIGN(const std::string content, read_file(path));
        Settings settings;
        settings.path_ = path.string();
        HK_ASSIGN(settings.values_, parse_json_object(content, settings.path_));
        return settings;
    }
    static Result<Settings> read_if_there(const fs::path& path) {
        std::error_code ignored;
        return fs::exists(path, ignored) ? read(path) : Result<Settings>(Settings());
    }

    const json& values() const { return values_; }
    Status wrong(const char* key, const char* expected) const {
        return corrupt(fmt::format("{}: \"{}\" is {}, expected {}", path_, key, values_.at(key).dump(), expected));
    }
    Result<bool> boolean(const char* key, bool otherwise) const {
        const auto found = values_.find(key);
        if (found == values_.end() || found->is_null()) return otherwise;
        if (!found->is_boolean()) return wrong(key, "true or false");
        return found->get<bool>();
    }
    Result<std::string> text(const char* key) const {
        const auto found = values_.find(key);
        if (found == values_.end() || found->is_null()) return std::string();
        if (!found->is_string()) return wrong(key, "a string");
        return found->get<std::string>();
    }
    Result<int64_t> count(const char* key, int64_t most) const {
        const auto found = values_.find(key);
        if (found == values_.end() || found->is_null()) return int64_t{0};
        if (!found->is_number_integer() || *found < 1 || *found > most) return wrong(key, "an integer of at least 1");
        return found->get<int64_t>();
    }
    const std::string& path() const { return path_; }

private:
    std::string path_;
    json values_ = json::object();
};

Status read_pooling(const fs::path& folder, SentenceModules& modules) {
    HK_ASSIGN(const Settings settings, Settings::read(folder / "config.json"));
    const auto mode = settings.values().find("pooling_mode");
    if (mode != settings.values().end() && !mode->is_null()) {
        const json modes = mode->is_array() ? *mode : json::array({*mode});
        for (const PoolingName& one : kPoolings)
            if (std::ranges::find(modes, json(one.mode)) != modes.end()) modules.pooling.push_back(one.pooling);
        if (modules.pooling.size() != modes.size())
            return settings.wrong("pooling_mode", "cls, max, mean, mean_sqrt_len_tokens, weightedmean or lasttoken");
    } else {
        for (const PoolingName& one : kPoolings) {
            HK_ASSIGN(const bool wanted, settings.boolean(one.key, one.pooling == SentencePooling::mean));
            if (wanted) modules.pooling.push_back(one.pooling);
        }
    }
    if (modules.pooling.empty())
        return unsupported(
            fmt::format("{}: none of the kinds of pooling that can be computed is true: {}", settings.path(), [] {
                std::vector<const char*> keys;
                for (const PoolingName& one : kPoolings) keys.push_back(one.key);
                return fmt::format("{}", fmt::join(keys, ", "));
            }()));
    HK_ASSIGN(modules.pools_prompt, settings.boolean("include_prompt", true));
    return {};
}

Result<SentenceModules::Dense> read_dense(const fs::path& folder) {
    constexpr int64_t kWidest = 1 << 20;
    HK_ASSIGN(const Settings settings, Settings::read(folder / "config.json"));
    SentenceModules::Dense dense;
    HK_ASSIGN(dense.inputs, settings.count("in_features", kWidest));
    HK_ASSIGN(dense.outputs, settings.count("out_features", kWidest));
    HK_ASSIGN(const bool has_bias, settings.boolean("bias", true));
    HK_ASSIGN(const std::string activation, settings.text("activation_function"));
    dense.activation = activation.substr(activation.rfind('.') + 1);
    if (dense.activation.empty()) dense.activation = "Tanh"; // the default of sentence-transformers
    if (std::ranges::find(kActivations, dense.activation,
                          [](const Activation& one) { return std::string(one.name); }) == kActivations.end())
        return unsupported(fmt::format("{}: \"activation_function\" is \"{}\"; supported: {}", settings.path(),
                                       activation, fmt::join(names_of(kActivations), ", ")));
    HK_ASSIGN(const model::Weights weights, model::Weights::open(folder));
    const auto read = [&](const char* name, const std::vector<int64_t>& shape, std::vector<double>& out) -> Status {
        HK_ASSIGN(const model::TensorView* tensor, weights.get(name));
        if (!std::ranges::equal(tensor->dims, shape))
            return corrupt(fmt::format("{}: the tensor \"{}\" is [{}], and {} has [{}]", weights.path().string(), name,
                                       fmt::join(tensor->dims, ", "), settings.path(), fmt::join(shape, ", ")));
        std::size_t count = 1;
        for (const int64_t size : shape) count *= static_cast<std::size_t>(size);
        out.resize(count);
        return model::load_float64(*tensor, out);
    };
    HK_TRY(read("linear.weight", {dense.outputs, dense.inputs}, dense.weight));
    if (has_bias) HK_TRY(read("linear.bias", {dense.outputs}, dense.bias));
    return dense;
}

Status read_prompts(const fs::path& folder, SentenceModules& modules) {
    HK_ASSIGN(const Settings settings, Settings::read_if_there(folder / "config_sentence_transformers.json"));
    const auto prompts = settings.values().find("prompts");
    if (prompts != settings.values().end() && !prompts->is_null()) {
        if (!prompts->is_object()) return settings.wrong("prompts", "an object with a text for each name");
        for (const auto& [name, text] : prompts->items()) {
            if (!text.is_string()) return settings.wrong("prompts", "an object with a text for each name");
            modules.prompts[name] = text.get<std::string>();
        }
    }
    HK_ASSIGN(modules.default_prompt, settings.text("default_prompt_name"));
    if (!modules.default_prompt.empty() && !modules.prompts.contains(modules.default_prompt))
        return settings.wrong("default_prompt_name", "a name of \"prompts\"");
    return {};
}

Status read_transformer(const fs::path& folder, SentenceModules& modules) {
    modules.model = folder;
    for (const char* name :
         {"sentence_bert_config.json", "sentence_roberta_config.json", "sentence_distilbert_config.json",
          "sentence_albert_config.json", "sentence_xlm-roberta_config.json", "sentence_xlnet_config.json"}) {
        HK_ASSIGN(const Settings settings, Settings::read_if_there(folder / name));
        if (settings.path().empty()) continue;
        HK_ASSIGN(modules.longest, settings.count("max_seq_length", 1 << 24));
        HK_ASSIGN(modules.lower_case, settings.boolean("do_lower_case", false));
        break;
    }
    return {};
}

// Tokens before `skipped` belong to a prompt. The first token is always the row's.
void pool(SentencePooling how, std::span<const double> tokens, std::size_t width, std::size_t skipped,
          std::vector<double>& out) {
    const std::size_t count = tokens.size() / width;
    const std::size_t begin = how == SentencePooling::last ? count - 1 : how == SentencePooling::first ? 0 : skipped;
    const std::size_t end = how == SentencePooling::first ? 1 : count;
    const double nothing = how == SentencePooling::max ? -INFINITY : 0.0;
    std::vector<double> sum(width, nothing);
    double weights = 0.0;
    for (std::size_t t = begin; t < end; ++t) {
        const double weight = how == SentencePooling::weighted_mean ? static_cast<double>(t + 1) : 1.0;
        weights += weight;
        for (std::size_t i = 0; i < width; ++i) {
            const double value = tokens[t * width + i];
            sum[i] = how == SentencePooling::max ? std::max(sum[i], value) : sum[i] + weight * value;
        }
    }
    const double divisor = how == SentencePooling::max            ? 1.0
                           : how == SentencePooling::mean_by_root ? std::sqrt(weights)
                                                                  : weights;
    for (const double value : sum) out.push_back(value / divisor);
}

Status apply(const SentenceModules::Dense& dense, std::vector<double>& vector) {
    if (static_cast<int64_t>(vector.size()) != dense.inputs)
        return corrupt(fmt::format("a dense layer of modules.json takes {} values and is given {}: its \"in_features\" "
                                   "does not fit what comes before it",
                                   dense.inputs, vector.size()));
    const auto* activation =
        std::ranges::find(kActivations, dense.activation, [](const Activation& one) { return std::string(one.name); });
    std::vector<double> made(static_cast<std::size_t>(dense.outputs));
    for (std::size_t o = 0; o < made.size(); ++o) {
        double sum = dense.bias.empty() ? 0.0 : dense.bias[o];
        for (std::size_t i = 0; i < vector.size(); ++i) sum += dense.weight[o * vector.size() + i] * vector[i];
        made[o] = activation->apply(sum);
    }
    vector = std::move(made);
    return {};
}

void apply(const SentenceModules::Normalize&, std::vector<double>& vector) {
    double squares = 0.0;
    for (const double value : vector) squares += value * value;
    const double length = std::max(std::sqrt(squares), 1e-12); // as torch.nn.functional.normalize
    for (double& value : vector) value /= length;
}

} // namespace

Result<std::string> SentenceModules::prompt(std::string_view name) const {
    const std::string_view wanted = name.empty() ? std::string_view(default_prompt) : name;
    if (wanted.empty()) return std::string();
    if (const auto found = prompts.find(wanted); found != prompts.end()) return found->second;
    std::vector<std::string> names;
    for (const auto& [one, text] : prompts) names.push_back(one);
    return not_found(
        names.empty()
            ? fmt::format("the model has no prompts (config_sentence_transformers.json), so none is named "
                          "'{}'; put the text itself before each text",
                          wanted)
            : fmt::format("the model has no prompt '{}'; expected one of {}", wanted, fmt::join(names, ", ")));
}

Result<std::vector<double>> SentenceModules::vector_of(std::span<const double> tokens, std::size_t width,
                                                       std::size_t prompt) const {
    std::vector<double> vector;
    for (const SentencePooling how : pooling) pool(how, tokens, width, pools_prompt ? 0 : prompt, vector);
    for (const auto& module : after) {
        if (const auto* dense = std::get_if<Dense>(&module))
            HK_TRY(apply(*dense, vector));
        else
            apply(std::get<Normalize>(module), vector);
    }
    return vector;
}

Result<std::optional<SentenceModules>> read_sentence_modules(const fs::path& folder, bool pools) {
    using Found = std::optional<SentenceModules>;
    const fs::path file = folder / "modules.json";
    std::error_code ignored;
    if (!fs::is_regular_file(file, ignored)) return Found();
    HK_ASSIGN(const std::string content, read_file(file));
    HK_ASSIGN(const json list, parse_json(content, file.string()));
    if (!list.is_array())
        return corrupt(fmt::format("{}: is {}, expected a list of modules", file.string(), list.type_name()));
    SentenceModules modules;
    modules.model = folder;
    for (std::size_t i = 0; i < (pools ? list.size() : std::min<std::size_t>(list.size(), 1)); ++i) {
        const json& one = list[i];
        const json type = one.is_object() ? one.value("type", json()) : json(),
                   path = one.is_object() ? one.value("path", json()) : json();
        if (!type.is_string() || !path.is_string())
            return corrupt(fmt::format("{}: module {} has no \"type\" or no \"path\"", file.string(), i));
        const auto full = type.get<std::string>();
        const std::string name = full.substr(full.rfind('.') + 1);
        const fs::path part = path_of(path.get<std::string>()).lexically_normal();
        if (part.is_absolute() || part.string().starts_with(".."))
            return corrupt(
                fmt::format("{}: module {}: the path '{}' leaves the folder", file.string(), i, part.string()));
        const fs::path place = part.empty() || part == "." ? folder : folder / part;
        if (name == "Transformer" && i == 0) {
            HK_TRY(read_transformer(place, modules));
        } else if (name == "Pooling" && i > 0 && modules.pooling.empty()) {
            HK_TRY(read_pooling(place, modules));
        } else if (name == "Dense" && !modules.pooling.empty()) {
            HK_ASSIGN(SentenceModules::Dense dense, read_dense(place));
            modules.after.emplace_back(std::move(dense));
        } else if (name == "Normalize" && !modules.pooling.empty()) {
            modules.after.emplace_back(SentenceModules::Normalize());
        } else {
            return unsupported(
                fmt::format("{}: module {} is {}; supported: Transformer first, then Pooling, then any of "
                            "Dense and Normalize; --pooling mean, first or last ignores the modules",
                            file.string(), i, full));
        }
    }
    if (!pools) return Found(std::move(modules));
    if (modules.pooling.empty()) return corrupt(fmt::format("{}: has no Pooling module", file.string()));
    HK_TRY(read_prompts(folder, modules));
    return Found(std::move(modules));
}

} // namespace hekla::infer
