#include "peft_prefix.hpp"
#include "infer/adapters/adapter_use.hpp"
#include "model/folder.hpp"

#include "infer/open/tensors.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <memory>

namespace hekla::app {
namespace {

using nlohmann::json;

// The keys and values [tokens, width] of one row of PEFT's layers.
struct LayerRow {
    model::DType dtype = model::DType::f32;
    std::vector<int64_t> dims;
    std::vector<std::byte> bytes; // empty: zeros, which nothing reads
};

Result<const model::TensorView*> own_tensor(const AdaptedModel& m, const std::string& name) {
    const auto found = std::ranges::find(m.adapter_tensors, plugin::kAdapter + name, &model::TensorView::name);
    if (found == m.adapter_tensors.end()) return corrupt(fmt::format("the adapter has no tensor '{}'", name));
    return &*found;
}

// Returns x [rows, in] W^T + bias, in float64.
Result<graph::Tensor> linear(const AdaptedModel& m, const graph::Tensor& x, const std::string& name,
                             const std::string& end) {
    HK_ASSIGN(const model::TensorView* weight_view, own_tensor(m, name + ".weight" + end));
    HK_ASSIGN(const model::TensorView* bias_view, own_tensor(m, name + ".bias" + end));
    HK_ASSIGN(const graph::Tensor weight, infer::tensor_of(*weight_view));
    HK_ASSIGN(const graph::Tensor bias, infer::tensor_of(*bias_view));
    const auto rows = static_cast<std::size_t>(x.shape[0]), in = static_cast<std::size_t>(x.shape[1]),
               out = static_cast<std::size_t>(weight.shape[0]);
    graph::Tensor y{graph::Kind::float32, {x.shape[0], weight.shape[0]}, bias.data};
    y.data.resize(rows * out);
    for (std::size_t row = 0; row < rows; ++row)
        for (std::size_t o = 0; o < out; ++o) {
            double sum = bias.data[o];
            for (std::size_t i = 0; i < in; ++i) sum += x.data[row * in + i] * weight.data[o * in + i];
            y.data[row * out + o] = sum;
        }
    return y;
}

Result<LayerRow> projected(const AdaptedModel& m, const graph::Tensor& hidden, int64_t layer) {
    HK_ASSIGN(const graph::Tensor values, linear(m, hidden, "transform.2", fmt::format(".{}", layer)));
    LayerRow row{model::DType::f32, values.shape.vector(), std::vector<std::byte>(values.data.size() * sizeof(float))};
    for (std::size_t i = 0; i < values.data.size(); ++i) {
        const auto rounded = static_cast<float>(values.data[i]);
        std::memcpy(row.bytes.data() + i * sizeof rounded, &rounded, sizeof rounded);
    }
    return row;
}

Result<LayerRow> stored(const AdaptedModel& m, int64_t layer) {
    HK_ASSIGN(const model::TensorView* view, own_tensor(m, fmt::format("prompt_embeddings.{}", layer)));
    return LayerRow{view->dtype, view->dims, {view->bytes.begin(), view->bytes.end()}};
}

// Returns PEFT's rows. In an encoder-decoder, PEFT's layer i reads row 2 i modulo their number.
Result<std::vector<LayerRow>> layer_rows(const AdaptedModel& m, const std::vector<int64_t>& layers, bool decoder) {
    const json config = m.adapter_config();
    const auto shared = config.value("share_layers", int64_t{0});
    const bool projection = config.value("prefix_projection", false);
    graph::Tensor hidden;
    if (projection) {
        HK_ASSIGN(const model::TensorView* view, own_tensor(m, "embedding.weight"));
        HK_ASSIGN(const graph::Tensor tokens, infer::tensor_of(*view));
        HK_ASSIGN(hidden, linear(m, tokens, "transform.0", ""));
        for (double& value : hidden.data) value = std::tanh(value);
    }
    const int64_t count = shared > 0 ? shared : std::ssize(layers);
    if (decoder && shared == 0 && count > 1 && count % 2 == 0)
        return unsupported(fmt::format("PEFT has no form of a prefix in which each of {} layers of a decoder has its "
                                       "own keys and values: its layers share them, as with share_layers = {}",
                                       count, count));
    std::vector<LayerRow> rows(static_cast<std::size_t>(count));
    for (const int64_t layer : layers) {
        const int64_t row = decoder ? 2 * layer % count : layer;
        if (layer >= count || !rows[static_cast<std::size_t>(row)].bytes.empty()) continue;
        HK_ASSIGN(rows[static_cast<std::size_t>(row)],
                  projection ? projected(m, hidden, layer) : stored(m, shared > 0 ? row : layer));
    }
    const LayerRow first = rows[0];
    for (LayerRow& row : rows) {
        if (row.bytes.empty()) row = {first.dtype, first.dims, std::vector<std::byte>(first.bytes.size())};
        if (row.dims != first.dims || row.dtype != first.dtype)
            return unsupported("PEFT has no form of a prefix whose layers are of several sizes");
    }
    return rows;
}

} // namespace

bool is_of_prefix(const AdaptedModel& m, const std::string& tensor) {
    return m.spec.combination.empty() && m.adapter_text() == "prefix_tuning" && tensor.starts_with(plugin::kAdapter);
}

Status add_peft_prefix(const AdaptedModel& m, model::ModelContents& contents, nlohmann::ordered_json& config) {
    std::vector<int64_t> layers;
    const plugin::Site* attention = nullptr;
    for (const plugin::Site& site : m.described.sites)
        if (site.kind == HK_SITE_ATTENTION && site.wanted) {
            layers.push_back(site.index);
            attention = &site;
        }
    if (attention == nullptr) return {};
    const bool decoder = m.config.value("is_encoder_decoder", json()) == true;
    HK_ASSIGN(std::vector<LayerRow> rows, layer_rows(m, layers, decoder));
    const auto count = std::ssize(rows);
    const int64_t tokens = rows[0].dims[0], width = rows[0].dims[1];
    model::TensorSource all;
    all.name = "prompt_embeddings";
    all.dtype = rows[0].dtype;
    all.dims = {tokens, count * width};
    all.stream = [rows = std::make_shared<const std::vector<LayerRow>>(std::move(rows)),
                  tokens](const model::Sink& sink) -> Status {
        for (int64_t token = 0; token < tokens; ++token)
            for (const LayerRow& row : *rows) {
                const std::size_t bytes = row.bytes.size() / static_cast<std::size_t>(tokens);
                HK_TRY(sink(std::span(row.bytes).subspan(static_cast<std::size_t>(token) * bytes, bytes)));
            }
        return {};
    };
    contents.tensors.push_back(std::move(all));
    config["num_transformer_submodules"] = decoder ? 2 : 1;
    config["num_layers"] = count;
    config["num_attention_heads"] = attention->out;
    config["token_dim"] = width / 2;
    const int64_t hidden = m.adapter_config().value("encoder_hidden_size", int64_t{0});
    config["encoder_hidden_size"] = hidden > 0 ? hidden : width / 2;
    return {};
}

} // namespace hekla::app
