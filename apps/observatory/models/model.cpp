#include "models/model.hpp"

#include "failure.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <hekla/hekla.hpp>
#include <nlohmann/json.hpp>

namespace observatory {
namespace {

void take_ids(void* user, const int32_t* given, uint64_t count) {
    static_cast<std::vector<int32_t>*>(user)->assign(given, given + count);
}

} // namespace

std::string short_number(double number) {
    constexpr std::array<const char*, 5> kUnits{"", " k", " M", " G", " T"};
    std::size_t unit = 0;
    while (std::abs(number) >= 999.5 && unit + 1 < kUnits.size()) {
        number /= 1000.0;
        ++unit;
    }
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), unit == 0 || std::abs(number) >= 99.95 ? "%.0f%s" : "%.1f%s", number,
                  kUnits[unit]);
    return text.data();
}

Parameter parameter_of(const hk_parameter& p) {
    Parameter parameter;
    parameter.name = hk::view(p.name);
    parameter.learns = p.learns != 0;
    parameter.elements = 1;
    for (uint32_t i = 0; i < p.rank; ++i) {
        parameter.shape += (i > 0 ? " x " : "") + std::to_string(p.dims[i]);
        parameter.elements *= static_cast<uint64_t>(p.dims[i]);
    }
    if (p.rank == 0) parameter.shape = "1";
    return parameter;
}

Model::Model(hk_context context, const HeklaProgram& program, const std::string& path) : path_(path) {
    hk::Error error;
    if (!error.take(hk_model_open(context, hk::view(path), &model_, error.c()))) throw Failure(error.message());
    hk_model_info info{};
    info.struct_size = sizeof info;
    if (!error.take(hk_model_describe(model_, &info, error.c()))) throw Failure(error.message());
    architecture_ = hk::view(info.architecture);
    head_ = hk::view(info.head);
    elements_ = static_cast<uint64_t>(info.elements);
    vocabulary_ = info.vocabulary;
    encoder_decoder_ = info.encoder_decoder != 0;
    decoder_start_ = info.decoder_start;
    const auto give = [](void* user, const hk_parameter* p) {
        static_cast<std::vector<Parameter>*>(user)->push_back(parameter_of(*p));
    };
    hk_model_parameters(model_, &parameters_, give, nullptr);
    find_routing(program);
}

void Model::find_routing(const HeklaProgram& program) {
    std::vector<std::string> names, modules;
    for (const Parameter& parameter : parameters_) names.push_back(parameter.name);
    if (std::ranges::none_of(names, [](const std::string& name) { return name.starts_with("adapter.combine."); }))
        return;
    try {
        const nlohmann::json found = nlohmann::json::parse(program.run({"adapter", "inspect", path_, "--json"}));
        for (const nlohmann::json& module : found.at("modules"))
            modules.push_back(module.at("name").get<std::string>());
        routing_ = routing_sites(found.at("adapter").get<std::string>(), modules, names);
    } catch (const std::exception& failure) { routing_problem_ = failure.what(); }
}

Model::~Model() { hk_model_destroy(model_); }

std::vector<int32_t> Model::encode(const std::string& text) const {
    std::vector<int32_t> ids;
    hk::Error error;
    if (!error.take(hk_model_encode(model_, hk::view(text), &ids, take_ids, error.c()))) throw Failure(error.message());
    return ids;
}

std::vector<int32_t> Model::encode_source(const std::string& text) const {
    std::vector<int32_t> ids;
    hk::Error error;
    if (!error.take(hk_model_encode_source(model_, hk::view(text), &ids, take_ids, error.c())))
        throw Failure(error.message());
    return ids;
}

int32_t Model::decoder_start() const {
    if (decoder_start_ < 0) throw Failure("config.json has no decoder_start_token_id: what writing begins with.");
    return decoder_start_;
}

std::string Model::decode(const std::vector<int32_t>& ids) const {
    std::string text;
    const auto give = [](void* user, hk_string given) { *static_cast<std::string*>(user) = hk::view(given); };
    hk_model_decode(model_, ids.data(), ids.size(), &text, give, nullptr);
    return text;
}

// Decodes a token after a letter, since spaces at the start of a text are dropped.
std::string Model::behind_a_letter(int32_t id) const {
    try {
        std::vector<int32_t> ids = encode("a");
        const std::size_t letter = decode(ids).size();
        ids.push_back(id);
        const std::string text = decode(ids);
        return text.size() > letter ? text.substr(letter) : std::string();
    } catch (const Failure&) { return {}; } // a tokenizer without letters
}

const std::string& Model::label(int32_t id) const {
    std::string& label = labels_[id];
    if (!label.empty()) return label;
    if (vocabulary_ > 0) {
        std::string text = decode({id});
        if (text.empty()) text = behind_a_letter(id);
        for (const char c : text) {
            if (c == ' ')
                label += "·";
            else if (c == '\n')
                label += "⏎";
            else if (c == '\t')
                label += "→";
            else if (static_cast<unsigned char>(c) >= 0x20)
                label += c;
        }
    }
    if (label.empty()) label = "#" + std::to_string(id);
    return label;
}

} // namespace observatory
