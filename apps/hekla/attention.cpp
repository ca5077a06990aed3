#include "attention.hpp"

#include "attention_page.hpp"
#include "generate/options.hpp"
#include "infer/embed.hpp"
#include "infer/forward.hpp"

#include <fmt/format.h>

namespace hekla::app {
namespace {

using graph::Kind;
using graph::Shape;
using graph::Tensor;

// What stands at each of `length` places: the tokens of `ids`, or numbers where the network made places of its own
// (patches, a class token).
std::vector<std::string> labels(const std::vector<std::string>& ids, int64_t length) {
    std::vector<std::string> result;
    for (int64_t i = 0; i < length; ++i)
        result.push_back(static_cast<int64_t>(ids.size()) == length ? ids[static_cast<std::size_t>(i)]
                                                                    : fmt::format("{}", i));
    return result;
}

AttentionPicture picture(const graph::AttentionMap& map, const Tensor& weights, const std::vector<std::string>& source,
                         const std::vector<std::string>& target) {
    AttentionPicture p;
    p.place = map.place;
    p.heads = static_cast<std::size_t>(map.shape[1]);
    p.queries = labels(map.queries_written ? target : source, map.shape[2]);
    p.keys = labels(map.keys_written ? target : source, map.shape[3]);
    const std::size_t size = p.heads * p.queries.size() * p.keys.size(); // the batch's first row
    p.weights.assign(weights.data.begin(), weights.data.begin() + static_cast<std::ptrdiff_t>(size));
    return p;
}

Result<infer::Tensors> fields_of(const infer::Model& m, const AttentionArguments& a) {
    if (!a.fields.empty()) return infer::read_fields(a.fields);
    if (m.tokenizer == nullptr) return m.tokenizer_problem;
    infer::Tensors fields;
    const auto encode = [&](const std::string& text, const char* field) -> Status {
        HK_ASSIGN(const std::vector<int32_t> ids, m.tokenizer->encode(text));
        if (ids.empty()) return invalid_argument("the text is empty: give at least one character");
        fields.emplace(field,
                       Tensor{Kind::int32, Shape{1, static_cast<int64_t>(ids.size())}, {ids.begin(), ids.end()}});
        return {};
    };
    HK_TRY(encode(a.text, "input_ids"));
    if (!a.target.empty()) {
        HK_TRY(encode(a.target, "decoder_input_ids"));
    } else { // one that writes writes what it reads, a place later
        Tensor written = fields.at("input_ids");
        HK_ASSIGN(const generate::Options options, generate::options_from(m.config, nlohmann::json::object(), 0));
        written.data.pop_back();
        written.data.insert(written.data.begin(), options.decoder_start.value_or(0));
        fields.emplace("decoder_input_ids", std::move(written));
    }
    HK_ASSIGN(const bool writes, infer::reads_field(m, fields, "decoder_input_ids"));
    if (!writes && !a.target.empty())
        return invalid_argument("--target is for models with an encoder and a decoder; this one has one stack");
    if (!writes) fields.erase("decoder_input_ids");
    return fields;
}

} // namespace

std::vector<std::string> token_words(const text::Tokenizer* tokenizer, const Tensor& ids) {
    std::vector<std::string> result;
    const int64_t length = ids.shape[-1];
    for (int64_t i = 0; i < length; ++i) {
        const auto id = static_cast<int32_t>(ids.data[static_cast<std::size_t>(i)]);
        std::string word = tokenizer != nullptr ? tokenizer->decode({&id, 1}) : std::to_string(id);
        if (word.empty()) // a space alone, or a token without a text
            word = tokenizer->text_of(id, false).empty() ? fmt::format("<{}>", id) : "\u2423";
        result.push_back(std::move(word));
    }
    return result;
}

Result<std::string> show_attention(const Globals& globals, const AttentionArguments& a) {
    const plugin::Registry registry = scan_plugins(globals);
    std::unique_ptr<program::Runtime> runtime;
    if (!a.reference) { HK_ASSIGN(runtime, create_runtime(globals)); }
    infer::ModelOptions options;
    options.tokenizer_required = false;
    HK_ASSIGN(infer::Model m, infer::open_model(registry, runtime.get(), a.model, options, globals.log()));
    HK_ASSIGN(const infer::Tensors fields, fields_of(m, a));
    HK_ASSIGN(const auto forward, infer::Forward::create(m, fields, {}, /*attention=*/true));
    if (forward->attention_maps().empty())
        return unsupported(fmt::format("{}: there is no attention in this model", a.model));
    HK_ASSIGN(const infer::Tensors outputs, forward->run(fields));

    const auto tokens = [&](const char* field) {
        const auto found = fields.find(field);
        return found == fields.end() ? std::vector<std::string>() : token_words(m.tokenizer.get(), found->second);
    };
    const std::vector<std::string> source = tokens("input_ids"), target = tokens("decoder_input_ids");
    std::vector<AttentionPicture> pictures;
    for (const graph::AttentionMap& map : forward->attention_maps())
        pictures.push_back(picture(map, outputs.at(map.output), source, target));
    return attention_page(fmt::format("Attention of {}", a.model), pictures);
}

} // namespace hekla::app
