#include "pages/alignment.hpp"
#include "program/runtime.hpp"
#include "text/text_encoder.hpp"

#include "attention.hpp"
#include "generate/options.hpp"
#include "infer/open/open_model.hpp"
#include "infer/passes/forward.hpp"
#include "infer/texts/prompt_fields.hpp"
#include "pages/heat_map.hpp"

#include <fmt/format.h>

namespace hekla::app {
namespace {

using graph::Tensor;

// Adds the heads of a map [1, H, Tq, Tk] to `sum` [Tq, Tk] and returns their number.
std::size_t add_heads(const Tensor& map, std::vector<float>& sum) {
    const std::size_t heads = map.data.size() / sum.size();
    for (std::size_t i = 0; i < map.data.size(); ++i) sum[i % sum.size()] += static_cast<float>(map.data[i]);
    return heads;
}

Result<std::optional<Alignment>> align(const plugin::Registry& registry, infer::Model& m, const ReadAndWritten& text,
                                       int32_t start) {
    const std::string sources[] = {text.read};
    HK_ASSIGN(infer::SourceRows rows, infer::source_rows(registry, m, sources));
    HK_ASSIGN(const std::vector<int32_t> written,
              infer::text_encoder(m).encode(text::TextUse::continuation, text.written));
    infer::Tensors fields = std::move(rows.fields);
    const std::vector<int32_t>& read = rows.ids.front();
    fields["input_ids"] = row_of(read);
    std::vector<int32_t> target{start};
    target.insert(target.end(), written.begin(), written.end());
    fields["decoder_input_ids"] = row_of(target);
    HK_ASSIGN(const bool encodes, infer::reads_field(m, fields, "decoder_input_ids"));
    if (!encodes) return std::optional<Alignment>();

    HK_ASSIGN(const auto forward, infer::Forward::create(m, fields, {}, /*attention=*/true));
    HK_ASSIGN(const infer::Tensors outputs, forward->run(fields));

    Alignment a;
    a.weights.assign(target.size() * read.size(), 0.0F);
    std::size_t heads = 0;
    for (const graph::AttentionMap& map : forward->attention_maps())
        if (map.queries_written && !map.keys_written) heads += add_heads(outputs.at(map.output), a.weights);
    if (heads == 0) return std::optional<Alignment>();
    for (float& weight : a.weights) weight /= static_cast<float>(heads);
    a.read = token_words(m.tokenizer.get(), fields.at("input_ids"));
    a.written = token_words(m.tokenizer.get(), row_of(written));
    a.written.emplace_back(kEnd);
    return std::optional(std::move(a));
}

} // namespace

Result<std::vector<Alignment>> alignments(const Globals& globals, const std::string& model,
                                          const std::vector<ReadAndWritten>& texts) {
    std::vector<Alignment> result;
    if (texts.empty()) return result;
    const plugin::Registry registry = scan_plugins(globals);
    // Not create_runtime(), which would log the device a second time after the evaluation.
    HK_ASSIGN(gpu::Context context, gpu::create_context(context_options(globals)));
    HK_ASSIGN(const std::unique_ptr<program::Runtime> runtime, runtime_on(globals, std::move(context)));
    HK_ASSIGN(infer::Model m, infer::open_model(registry, runtime.get(), model, {}, globals.log()));
    HK_ASSIGN(const generate::Options options, generate::options_from(m.config, nlohmann::json::object(), 0));
    if (!options.decoder_start)
        return invalid_argument(fmt::format("{}: config.json has no decoder_start_token_id", model));
    for (const ReadAndWritten& text : texts) {
        HK_ASSIGN(std::optional<Alignment> one, align(registry, m, text, *options.decoder_start));
        if (!one) break;
        result.push_back(*std::move(one));
    }
    return result;
}

std::string alignment_svg(const Alignment& a) {
    return heat_map_svg({a.written, a.read, std::vector<double>(a.weights.begin(), a.weights.end()), /*root=*/true});
}

} // namespace hekla::app
