#include "attention.hpp"

#include "attention_page.hpp"
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

AttentionPicture picture(const std::string& place, const Tensor& map, const std::vector<std::string>& source,
                         const std::vector<std::string>& target, bool cross, bool decoder) {
    const int rank = map.shape.rank();
    AttentionPicture p;
    p.place = place;
    p.heads = rank == 4 ? static_cast<std::size_t>(map.shape[1]) : 1;
    p.queries = labels(decoder ? target : source, map.shape[rank - 2]);
    p.keys = labels(cross || !decoder ? source : target, map.shape[rank - 1]);
    const std::size_t size = p.heads * p.queries.size() * p.keys.size(); // the batch's first row
    p.weights.assign(map.data.begin(), map.data.begin() + static_cast<std::ptrdiff_t>(size));
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
        HK_ASSIGN(const bool encodes, infer::reads_field(m, fields, "decoder_input_ids"));
        if (!encodes)
            return invalid_argument("--target is for models with an encoder and a decoder; this one has one stack");
    }
    return fields;
}

} // namespace

bool looks_at_source(const std::string& place) { return place.find("cross") != std::string::npos; }

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
    HK_ASSIGN(const std::vector<std::string> offered, infer::port_names(m, fields));
    std::vector<std::string> ports;
    if (std::ranges::find(offered, kAttentionPort) != offered.end()) ports.emplace_back(kAttentionPort);
    HK_ASSIGN(const auto forward, infer::Forward::create(m, fields, ports, /*attention=*/true));
    if (forward->attention_maps().empty() && ports.empty())
        return unsupported(fmt::format("{}: there is no attention in this model", a.model));
    HK_ASSIGN(const infer::Tensors outputs, forward->run(fields));

    const auto tokens = [&](const char* field) {
        const auto found = fields.find(field);
        return found == fields.end() ? std::vector<std::string>() : token_words(m.tokenizer.get(), found->second);
    };
    const std::vector<std::string> source = tokens("input_ids"), target = tokens("decoder_input_ids");
    std::vector<AttentionPicture> pictures;
    for (const graph::AttentionMap& map : forward->attention_maps()) {
        const bool cross = looks_at_source(map.place);
        const bool decoder = cross || map.place.find("decoder") != std::string::npos;
        pictures.push_back(picture(map.place, outputs.at(map.output), source, target, cross, decoder));
    }
    if (!ports.empty())
        pictures.push_back(picture(kAttentionPort, outputs.at(kAttentionPort), source, target, true, true));
    return attention_page(fmt::format("Attention of {}", a.model), pictures);
}

} // namespace hekla::app
