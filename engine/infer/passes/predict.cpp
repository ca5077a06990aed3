#include "infer/passes/predict.hpp"

#include "batch/collate.hpp"
#include "batch/rows_by_length.hpp"
#include "infer/passes/forward.hpp"
#include "infer/passes/head_outputs.hpp"
#include "program/parameter_store.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::infer {
namespace {

using nlohmann::json;

} // namespace

int64_t longest_row(const Model& model) {
    constexpr int64_t kUsual = 512;
    if (const auto own = model.config.find("hekla"); own != model.config.end() && own->is_object())
        if (const int64_t length = own->value("context_length", int64_t{0}); length > 0) return length;
    for (const char* key : {"max_position_embeddings", "n_positions", "n_ctx"})
        if (const auto value = model.config.find(key); value != model.config.end() && value->is_number_integer())
            return std::min<int64_t>(kUsual, value->get<int64_t>());
    return kUsual;
}

int64_t pass_length(const Model& model, const data::EncodedExample& example, int64_t most) {
    constexpr int64_t kStep = 8;
    const int64_t needed = batch::example_length(*model.composition, example);
    return std::min(most, needed > 0 ? (needed + kStep - 1) / kStep * kStep : most);
}

Result<std::vector<data::TaskColumn>> text_columns(const Model& model) {
    if (!model.composition->can_collate())
        return unsupported(fmt::format("{}: does not say what it was trained for, so no batch can be made of texts",
                                       model.path.string()));
    HK_ASSIGN(const std::vector<plugin::ColumnNeed> needs, model.composition->columns());
    if (needs.empty())
        return unsupported(
            fmt::format("{}: was trained on plain text, not on rows: use `generate` or `embed`", model.path.string()));
    std::vector<data::TaskColumn> columns;
    for (const plugin::ColumnNeed& need : needs)
        if (need.target && need.kind == HK_COLUMN_TOKENS && model.composition->head() == "lm")
            return unsupported(
                fmt::format("{}: its prediction for a row is a text: use `generate`", model.path.string()));
    for (const plugin::ColumnNeed& need : needs)
        if (!need.target) {
            columns.push_back({need.name, need.kind, need.optional, false, ""});
            columns.back().prefix = trained_prefix(model.config, need.name);
        }
    return columns;
}

Status predict(Model& model, std::span<const data::EncodedExample> examples, const PredictOptions& options,
               const PredictRow& give) {
    HK_ASSIGN(const std::vector<std::string> ports, model.composition->decode_ports());
    if (ports.empty())
        return unsupported(fmt::format("{}: its head does not say what its outputs mean", model.path.string()));
    const int64_t most = options.length > 0 ? options.length : longest_row(model);
    std::vector<batch::RowLength> all;
    for (std::size_t i = 0; i < examples.size(); ++i) all.push_back({i, pass_length(model, examples[i], most)});
    const json names = model.config.value("id2label", json());
    const auto name_of = [&](const json& label) -> json {
        const auto found = label.is_number_integer() ? names.find(label.dump()) : names.end();
        return found != names.end() ? *found : json();
    };
    std::unique_ptr<Forward> forward;
    std::pmr::memory_resource* const memory =
        model.store != nullptr ? model.store->host_memory() : std::pmr::new_delete_resource();
    int64_t compiled = 0;
    for (const std::vector<batch::RowLength>& rows : batch::batches_by_length(std::move(all), options.batch)) {
        if (options.stop.stopped()) return Status(Code::cancelled, "stopped between batches");
        const int64_t length = rows.front().length;
        std::vector<batch::DrawnExample> drawn;
        for (const batch::RowLength& row : rows) drawn.push_back({examples[row.row], 0});
        std::vector<data::Field> fields;
        HK_TRY(batch::make_fields(*model.composition, drawn, nullptr, 0, options.batch, length, fields, memory));
        Tensors tensors;
        for (const data::Field& field : fields) tensors.emplace(field.name, batch::tensor_of(field));
        if (forward == nullptr || compiled != length) {
            forward.reset(); // free its memory first
            HK_ASSIGN(forward, Forward::create(model, tensors, ports));
            compiled = length;
        }
        HK_ASSIGN(const Tensors outputs, forward->run(tensors));
        std::map<std::string, graph::Tensor, std::less<>> wanted;
        for (const std::string& port : ports) wanted.emplace(port, outputs.at(port));
        HK_ASSIGN(std::vector<json> predictions, decode_rows(*model.composition, wanted, fields, rows.size()));
        for (std::size_t i = 0; i < predictions.size(); ++i) {
            if (names.is_object()) name_labels(predictions[i], name_of);
            if (!give(rows[i].row, predictions[i])) return Status(Code::cancelled, "stopped");
        }
    }
    return {};
}

} // namespace hekla::infer
