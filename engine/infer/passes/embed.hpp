// Computes features: the values of a named port of the network for each text.
#pragma once

#include "infer/open/model.hpp"
#include "infer/open/sentence_modules.hpp"

#include <functional>
#include <optional>
#include <span>
#include <string_view>

namespace hekla::infer {

enum class Pooling { none, first, last, mean }; // over the tokens of a row, without padding

// Error: not_found, with the four names.
Result<Pooling> pooling_named(std::string_view name);

struct EmbedOptions {
    std::string port = "hidden"; // "layer.3.hidden", "pooled", "logits", ...; not_found lists the model's ports
    Pooling pooling = Pooling::mean;
    int64_t batch = 8;                        // rows per pass
    const SentenceModules* modules = nullptr; // make the vector, instead of `pooling`; null: none
    std::size_t prompt = 0; // tokens at the beginning of every row that are of a prompt, for `modules`
};

// values: [D] pooled, [T, D] with Pooling::none (T: the row's own tokens), or the shape of a port without tokens.
// Returns false to stop.
using EmbedRow = std::function<bool(std::size_t row, const graph::Tensor& values)>;

// Embeds rows of token ids. Rows of similar length share a pass, padded if the model reads attention_mask; `row` is the
// row that a result belongs to. A port that does not depend on rows ("embedding.weight") is passed whole, once, as row
// 0. Error: cancelled, if `give` returns false.
Status embed_rows(Model& model, std::span<const std::vector<int32_t>> rows, const EmbedOptions& options,
                  const EmbedRow& give);

// Embeds a whole batch, given by the names of its fields, for any kind of model, including image models.
Status embed_fields(Model& model, const Tensors& fields, const EmbedOptions& options, const EmbedRow& give);

// Reads the tensors of a .safetensors file as fields: floating ones as float, the others as int32.
Result<Tensors> read_fields(const std::filesystem::path& file);

} // namespace hekla::infer
