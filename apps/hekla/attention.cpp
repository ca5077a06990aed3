#include "attention.hpp"
#include "program/runtime_source.hpp"
#include "text/text_encoder.hpp"

#include "generate/decoder_program.hpp"
#include "generate/decoder_reference.hpp"
#include "generate/generator.hpp"
#include "infer/open/open_model.hpp"
#include "infer/passes/embed.hpp"
#include "infer/passes/forward.hpp"
#include "infer/texts/prompt_fields.hpp"
#include "pages/attention_page.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::app {
namespace {

using graph::Kind;
using graph::Shape;
using graph::Tensor;

constexpr int64_t kMostWritten = 96; // tokens; a larger map is not readable

// Returns the label of each of `length` positions: the tokens of `ids`, or numbers if the network added its own
// positions (patches, a class token).
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
    if (map.queries_written && !map.keys_written && !p.queries.empty()) { // labeled by the token that was written there
        std::ranges::rotate(p.queries, p.queries.begin() + 1);
        p.queries.back() = kEnd;
    }
    const std::size_t size = p.heads * p.queries.size() * p.keys.size(); // of the first row of the batch
    p.weights.assign(weights.data.begin(), weights.data.begin() + static_cast<std::ptrdiff_t>(size));
    return p;
}

// Returns the decoder's input of an encoder-decoder: a start token, then its own output. Empty if the model does not
// generate.
Result<std::vector<int32_t>> decoder_ids(const infer::Model& m, const infer::SourceRows& source,
                                         const std::string& target) {
    HK_ASSIGN(generate::Options options, generate::options_from(m.config, {{"max_new_tokens", kMostWritten}}, 0));
    if (!target.empty()) {
        if (!options.decoder_start)
            return invalid_argument(fmt::format("{}: config.json has no decoder_start_token_id", m.path.string()));
        HK_ASSIGN(std::vector<int32_t> ids, infer::text_encoder(m).encode(text::TextUse::continuation, target));
        ids.insert(ids.begin(), *options.decoder_start);
        return ids;
    }
    if (m.composition->head() != "lm" || !options.decoder_start) return std::vector<int32_t>();
    std::unique_ptr<generate::Decoder> decoder;
    if (m.runtime != nullptr) {
        HK_ASSIGN(decoder, generate::make_program_decoder(*m.runtime, *m.store, *m.composition));
    } else {
        HK_ASSIGN(decoder, generate::make_reference_decoder(*m.composition, m.parameters));
    }
    generate::end_as(options, *m.tokenizer, true);
    generate::Request request;
    request.prompts = source.ids;
    request.fields = source.fields;
    generate::DecodeBatch session;
    session.sources = source.fields;
    session.sources["input_ids"] = row_of(source.ids.front());
    session.length = kMostWritten;
    HK_ASSIGN(options.max_new_tokens, decoder->longest(session));
    HK_ASSIGN(generate::Output output, generate::generate(*decoder, request, options));
    std::vector<int32_t> ids = std::move(output.rows.front().ids);
    if (ids.size() > 1 && std::ranges::find(options.eos, ids.back()) != options.eos.end()) ids.pop_back();
    return ids;
}

Result<infer::Tensors> fields_of(const plugin::Registry& registry, const infer::Model& m, bool writes,
                                 const AttentionArguments& a) {
    if (!a.fields.empty()) return infer::read_fields(a.fields);
    if (m.tokenizer == nullptr) return m.tokenizer_problem;
    if (writes) {
        HK_ASSIGN(infer::SourceRows source, infer::source_rows(registry, m, std::span(&a.text, 1)));
        HK_ASSIGN(const std::vector<int32_t> written, decoder_ids(m, source, a.target));
        infer::Tensors fields = std::move(source.fields);
        fields["input_ids"] = row_of(source.ids.front());
        if (!written.empty()) fields["decoder_input_ids"] = row_of(written);
        return fields;
    }
    if (!a.target.empty())
        return invalid_argument("--target is for models with an encoder and a decoder; this one has one stack");
    HK_ASSIGN(const std::vector<int32_t> ids, infer::text_encoder(m).encode(text::TextUse::features, a.text));
    if (ids.empty()) return invalid_argument("the text is empty: give at least one character");
    return infer::Tensors{{"input_ids", row_of(ids)}};
}

} // namespace

Tensor row_of(const std::vector<int32_t>& ids) {
    return {Kind::int32, Shape{1, static_cast<int64_t>(ids.size())}, {ids.begin(), ids.end()}};
}

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
    DeviceOnDemand device(globals);
    infer::ModelOptions options;
    options.tokenizer_required = false;
    HK_ASSIGN(infer::Model m, infer::open_model(registry, a.reference ? program::RuntimeSource() : device.source(),
                                                a.model, options, globals.log()));
    HK_ASSIGN(const graph::Graph smallest, infer::describe_smallest(m));
    const bool writes = smallest.find_leaf(graph::Op::input, "decoder_input_ids") != graph::kNone;
    HK_ASSIGN(const infer::Tensors fields, fields_of(registry, m, writes, a));
    HK_ASSIGN(const auto forward, infer::Forward::create(m, fields, {}, /*attention=*/true));
    if (forward->attention_maps().empty()) return unsupported(fmt::format("{}: the model has no attention", a.model));
    HK_ASSIGN(const infer::Tensors outputs, forward->run(fields));

    const auto tokens = [&](const char* field) {
        const auto found = fields.find(field);
        return found == fields.end() ? std::vector<std::string>() : token_words(m.tokenizer.get(), found->second);
    };
    const std::vector<std::string> target = tokens("decoder_input_ids");
    // Without it the maps do not tell source positions from target positions.
    const std::vector<std::string> source = writes && target.empty() ? std::vector<std::string>() : tokens("input_ids");
    std::vector<AttentionPicture> pictures;
    for (const graph::AttentionMap& map : forward->attention_maps())
        pictures.push_back(picture(map, outputs.at(map.output), source, target));
    return attention_page(fmt::format("Attention of {}", a.model), pictures);
}

} // namespace hekla::app
