#include "infer/open/model_estimate.hpp"

#include "generate/decoder_program.hpp"
#include "infer/adapters/lora_slots.hpp"
#include "infer/open/model.hpp"
#include "program/estimate.hpp"

namespace hekla::infer {
namespace {

graph::Tensor tokens_of(int64_t rows, int64_t length) {
    const graph::Shape shape{rows, length};
    return {graph::Kind::int32, shape, std::vector<double>(static_cast<std::size_t>(shape.elements()))};
}

// Returns fields for rows of tokens, as the model reads them together with `others`.
Result<Tensors> token_fields(const Model& model, int64_t rows, int64_t length, const Tensors& others = {}) {
    Tensors fields{{"input_ids", tokens_of(rows, length)}, {"attention_mask", tokens_of(rows, length)}};
    Tensors all = fields;
    all.insert(others.begin(), others.end());
    HK_ASSIGN(const bool masked, reads_field(model, all, "attention_mask"));
    if (!masked) fields.erase("attention_mask");
    return fields;
}

// Returns fields of the encoder for generated rows; empty if the model has one stack.
Result<Tensors> encoder_fields(const Model& model, int64_t rows, int64_t length) {
    HK_ASSIGN(const bool encodes, encoder_decoder(model));
    if (!encodes) return Tensors();
    return token_fields(model, rows, length, {{"decoder_input_ids", tokens_of(rows, 1)}});
}

} // namespace

Status estimate_pass(program::Estimator& estimator, Model& model, program::Storage weights, int64_t rows,
                     int64_t length, const std::vector<std::string>& ports, bool attention) {
    HK_TRY(estimator.add_store(model.table, {.weights = weights, .own = model.own}));
    HK_ASSIGN(const Tensors fields, token_fields(model, rows, length));
    return Forward::estimate(estimator, model, fields, ports, attention);
}

Status estimate_generation(program::Estimator& estimator, Model& model, program::Storage weights, int64_t rows,
                           int64_t length) {
    HK_TRY(estimator.add_store(model.table, {.weights = weights, .own = model.own}));
    generate::DecodeBatch batch;
    batch.rows = rows;
    batch.length = length;
    HK_ASSIGN(const Tensors sources, encoder_fields(model, rows, length));
    batch.sources.insert(sources.begin(), sources.end());
    if (model.rows_choose) batch.sources.merge(slot_fields(rows));
    return generate::estimate_decoder(estimator, *model.composition, batch, /*first_steps=*/model.exported == nullptr);
}

} // namespace hekla::infer
