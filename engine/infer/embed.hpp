// Features: what a model makes of each text at a named place of the network.
#pragma once

#include "infer/model.hpp"

#include <functional>
#include <optional>
#include <span>
#include <string_view>

namespace hekla::infer {

enum class Pooling { none, first, last, mean }; // over the tokens of a row; padding never counts

// not_found names the four.
Result<Pooling> pooling_named(std::string_view name);

struct EmbedOptions {
    std::string port = "hidden"; // "layer.3.hidden", "pooled", "logits", ...; not_found lists those there are
    Pooling pooling = Pooling::mean;
    int64_t batch = 8; // rows at a time
};

// values: [D] pooled, [T, D] with Pooling::none (T: the row's own tokens), or what a port without tokens has.
// Gives false to stop.
using EmbedRow = std::function<bool(std::size_t row, const graph::Tensor& values)>;

// Rows of token ids. Those of like length share a pass, padded where the model reads attention_mask; results come in
// the rows' order within a pass, and by `row` overall. A port that does not depend on rows ("embedding.weight") is
// given whole, once, as row 0. cancelled: `give` said stop.
Status embed_rows(Model& model, std::span<const std::vector<int32_t>> rows, const EmbedOptions& options,
                  const EmbedRow& give);

// A batch that is given whole, by the names of its fields: any kind of model, images too.
Status embed_fields(Model& model, const Tensors& fields, const EmbedOptions& options, const EmbedRow& give);

// The tensors of a .safetensors file as fields: floating ones as float, the others as int32.
Result<Tensors> read_fields(const std::filesystem::path& file);

} // namespace hekla::infer
