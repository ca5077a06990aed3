#include "infer/passes/embed.hpp"

#include "infer/passes/field_tensors.hpp"
#include "infer/passes/forward.hpp"
#include "model/safetensors.hpp"
#include "model/weights.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace hekla::infer {
namespace {

using graph::Shape;
using graph::Tensor;

Status cancelled() { return Status(Code::cancelled, "stopped"); }

// Returns row `row` of [B, ...] with its first `tokens` along axis 1, if it has tokens, pooled.
Result<Tensor> row_of(const Tensor& values, int64_t row, int64_t tokens, bool has_tokens, const EmbedOptions& options) {
    const Pooling pooling = options.pooling;
    const int64_t size = values.shape.elements() / values.shape[0];
    const double* begin = values.data.data() + row * size;
    std::vector<int64_t> dims = values.shape.vector();
    dims.erase(dims.begin());
    if (!has_tokens) return Tensor{values.kind, Shape(dims), std::vector<double>(begin, begin + size)};
    const int64_t length = dims[0], width = length > 0 ? size / length : 0;
    if (pooling == Pooling::none) {
        dims[0] = tokens;
        return Tensor{values.kind, Shape(dims), std::vector<double>(begin, begin + tokens * width)};
    }
    if (options.modules != nullptr && dims.size() == 2) {
        const auto count = static_cast<std::size_t>(tokens), prompt = std::min(options.prompt, count - 1);
        HK_ASSIGN(std::vector<double> vector,
                  options.modules->vector_of({begin, count * static_cast<std::size_t>(width)},
                                             static_cast<std::size_t>(width), prompt));
        const auto size_of = static_cast<int64_t>(vector.size());
        return Tensor{values.kind, Shape{size_of}, std::move(vector)};
    }
    dims.erase(dims.begin());
    std::vector<double> pooled(static_cast<std::size_t>(width), 0.0);
    const int64_t from = pooling == Pooling::last ? tokens - 1 : 0;
    const int64_t to = pooling == Pooling::first ? 1 : tokens;
    for (int64_t t = from; t < to; ++t)
        for (int64_t i = 0; i < width; ++i) pooled[static_cast<std::size_t>(i)] += begin[t * width + i];
    for (double& x : pooled) x /= static_cast<double>(to - from);
    return Tensor{values.kind, Shape(dims), std::move(pooled)};
}

Status check_ids(std::span<const std::vector<int32_t>> rows, int64_t range) {
    for (std::size_t i = 0; i < rows.size(); ++i)
        for (std::size_t t = 0; t < rows[i].size(); ++t)
            if (rows[i][t] < 0 || (range > 0 && rows[i][t] >= range))
                return invalid_argument(fmt::format("row {}: token {} is {}, expected a token id of the model, 0 to {}",
                                                    i + 1, t + 1, rows[i][t], range - 1));
    return {};
}

} // namespace

Result<Pooling> pooling_named(std::string_view name) {
    if (name == "none") return Pooling::none;
    if (name == "first" || name == "cls") return Pooling::first;
    if (name == "last") return Pooling::last;
    if (name == "mean") return Pooling::mean;
    return not_found(fmt::format("unknown pooling '{}': expected none, first, last or mean", name));
}

Status embed_rows(Model& model, std::span<const std::vector<int32_t>> rows, const EmbedOptions& options,
                  const EmbedRow& give) {
    if (rows.empty()) return {};
    for (std::size_t i = 0; i < rows.size(); ++i)
        if (rows[i].empty()) return invalid_argument(fmt::format("row {} has no tokens", i + 1));
    bool padded = false;
    {
        const Tensors smallest{{"input_ids", integers(1, 1, 0)}, {"attention_mask", integers(1, 1, 1)}};
        const Result<bool> reads = reads_field(model, smallest, "attention_mask");
        if (!reads.ok() && model.composition->virtual_tokens().count > 0 &&
            model.config.value("is_encoder_decoder", nlohmann::json()) == true)
            return unsupported(
                "the adapter puts virtual tokens before the rows of the encoder, whose decoder then needs tokens of "
                "its "
                "own, which texts do not have: give a file of fields with input_ids and decoder_input_ids (embed "
                "--fields, hk_embed_options.fields_file), or embed without the adapter");
        HK_ASSIGN(padded, reads);
    }
    std::vector<std::size_t> order(rows.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return rows[a].size() < rows[b].size(); });

    const auto pad = model.config.find("pad_token_id");
    const int64_t padding = pad != model.config.end() && pad->is_number_integer() ? pad->get<int64_t>() : 0;
    std::unique_ptr<Forward> forward;
    Shape compiled;
    for (std::size_t begin = 0; begin < order.size();) {
        // Rows of one pass: as many as fit, of one length if padding would be read as text.
        std::size_t end = begin + 1;
        while (end < order.size() && end - begin < static_cast<std::size_t>(options.batch) &&
               (padded || rows[order[end]].size() == rows[order[begin]].size()))
            ++end;
        const auto count = static_cast<int64_t>(end - begin);
        const auto length = static_cast<int64_t>(rows[order[end - 1]].size());
        Tensors fields{{"input_ids", integers(count, length, padding)}};
        if (padded) fields.emplace("attention_mask", integers(count, length, 0));
        for (int64_t r = 0; r < count; ++r) {
            const std::vector<int32_t>& ids = rows[order[begin + static_cast<std::size_t>(r)]];
            for (std::size_t t = 0; t < ids.size(); ++t) {
                const std::size_t at = static_cast<std::size_t>(r * length) + t;
                fields["input_ids"].data[at] = ids[t];
                if (padded) fields["attention_mask"].data[at] = 1.0;
            }
        }
        if (forward == nullptr || !(compiled == fields["input_ids"].shape)) {
            forward.reset(); // free its memory first
            HK_ASSIGN(forward, Forward::create(model, fields, {options.port}));
            if (begin == 0) HK_TRY(check_ids(rows, forward->id_range("input_ids")));
            compiled = fields["input_ids"].shape;
        }
        HK_ASSIGN(const Tensors outputs, forward->run(fields));
        const Tensor& values = outputs.at(options.port);
        if (values.shape.rank() == 0 || values.shape[0] != count) // not rows of the batch, but a table of the model
            return give(0, values) ? Status() : cancelled();
        const bool has_tokens = values.shape.rank() >= 3 && values.shape[1] == length;
        for (int64_t r = 0; r < count; ++r) {
            const std::size_t row = order[begin + static_cast<std::size_t>(r)];
            HK_ASSIGN(const Tensor made,
                      row_of(values, r, static_cast<int64_t>(rows[row].size()), has_tokens, options));
            if (!give(row, made)) return cancelled();
        }
        begin = end;
    }
    return {};
}

Status embed_fields(Model& model, const Tensors& fields, const EmbedOptions& options, const EmbedRow& give) {
    HK_ASSIGN(const auto forward, Forward::create(model, fields, {options.port}));
    HK_ASSIGN(const Tensors outputs, forward->run(fields));
    const Tensor& values = outputs.at(options.port);
    if (values.shape.rank() == 0)
        return invalid_argument(fmt::format("port '{}' is one number, not rows", options.port));
    const bool has_tokens = values.shape.rank() >= 3;
    const auto mask = fields.find("attention_mask");
    for (int64_t r = 0; r < values.shape[0]; ++r) {
        int64_t tokens = has_tokens ? values.shape[1] : 0;
        if (has_tokens && mask != fields.end() && mask->second.shape == Shape{values.shape[0], values.shape[1]}) {
            const double* row = mask->second.data.data() + r * tokens;
            const int64_t real = std::count_if(row, row + tokens, [](double x) { return x != 0.0; });
            if (std::any_of(row + real, row + tokens, [](double x) { return x != 0.0; }))
                return unsupported(fmt::format("row {} of attention_mask has padding before tokens: pooling expects "
                                               "the tokens first",
                                               r + 1));
            tokens = std::max<int64_t>(real, 1);
        }
        HK_ASSIGN(const Tensor made, row_of(values, r, tokens, has_tokens, options));
        if (!give(static_cast<std::size_t>(r), made)) return cancelled();
    }
    return {};
}

Result<Tensors> read_fields(const std::filesystem::path& file) {
    HK_ASSIGN(const model::SafetensorsFile opened, model::SafetensorsFile::open(file));
    Tensors fields;
    for (const model::TensorView& view : opened.tensors()) {
        Result<Tensor> tensor = tensor_of(view);
        if (!tensor.ok()) return tensor.status().with_context(file.string());
        fields.emplace(view.name, tensor.take());
    }
    if (fields.empty()) return invalid_argument(fmt::format("{}: holds no tensors, expected fields", file.string()));
    return fields;
}

} // namespace hekla::infer
