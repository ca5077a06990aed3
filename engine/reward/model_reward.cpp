#include "reward/model_reward.hpp"
#include "hekla/plugin/graph.h"
#include "plugin/composition/compose.hpp"
#include "plugin/host/joint.hpp"

#include "batch/collate.hpp"
#include "batch/rows_by_length.hpp"
#include "infer/open/open_model.hpp"
#include "infer/passes/forward.hpp"
#include "infer/passes/predict.hpp"
#include "program/runtime_source.hpp"
#include "text/text_encoder.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <map>
#include <optional>

namespace hekla::reward {
namespace {

constexpr int64_t kRows = 8; // of a pass
constexpr double kNotScored = std::numeric_limits<double>::quiet_NaN();

class ModelReward final : public Reward {
public:
    ModelReward(infer::Model model, std::vector<data::TaskColumn> columns, std::optional<std::size_t> label,
                bool completion_alone)
        : model_(std::move(model)), columns_(std::move(columns)), label_(label), completion_alone_(completion_alone) {}

    Status score(std::span<const TextToScore> texts, std::span<double> scores) override {
        std::vector<Row> rows;
        std::vector<batch::RowLength> lengths; // of `rows`
        const int64_t most = infer::longest_row(model_);
        for (std::size_t i = 0; i < texts.size(); ++i) {
            scores[i] = kNotScored;
            const std::string text = completion_alone_ ? texts[i].completion : texts[i].prompt + texts[i].completion;
            if (text.empty()) continue;
            Result<data::EncodedExample> encoded =
                data::encode_texts(infer::text_encoder(model_), columns_, {{columns_[0].name, {text}}});
            if (encoded.code() == Code::invalid_argument) continue; // a character without a token
            if (!encoded.ok()) return encoded.status();
            lengths.push_back({rows.size(), infer::pass_length(model_, encoded.value(), most)});
            rows.emplace_back(i, encoded.take());
        }
        for (const auto& one : batch::batches_by_length(std::move(lengths), kRows))
            HK_TRY(score_rows(rows, one, scores));
        return {};
    }

private:
    using Row = std::pair<std::size_t, data::EncodedExample>; // the number of its text

    // Scores a batch of rows of one length.
    Status score_rows(std::span<const Row> rows, std::span<const batch::RowLength> of_batch, std::span<double> scores) {
        const int64_t length = of_batch.front().length;
        std::vector<batch::DrawnExample> drawn;
        for (const batch::RowLength& one : of_batch) drawn.push_back({rows[one.row].second, 0});
        std::vector<data::Field> fields;
        HK_TRY(batch::make_fields(*model_.composition, drawn, nullptr, 0, kRows, length, fields));
        infer::Tensors tensors;
        for (const data::Field& field : fields) tensors.emplace(field.name, batch::tensor_of(field));
        std::unique_ptr<infer::Forward>& pass = passes_[length];
        if (pass == nullptr) { HK_ASSIGN(pass, infer::Forward::create(model_, tensors, {"logits"})); }
        HK_ASSIGN(const infer::Tensors outputs, pass->run(tensors));
        const graph::Tensor& logits = outputs.at("logits");
        const auto width = static_cast<std::size_t>(logits.shape[-1]);
        for (std::size_t i = 0; i < of_batch.size(); ++i)
            scores[rows[of_batch[i].row].first] = score_of(std::span(logits.data).subspan(i * width, width));
        return {};
    }

    double score_of(std::span<const double> logits) const {
        if (!label_) return logits[0];
        double highest = -std::numeric_limits<double>::infinity(), others = 0.0;
        for (std::size_t c = 0; c < logits.size(); ++c)
            if (c != *label_) highest = std::max(highest, logits[c]);
        for (std::size_t c = 0; c < logits.size(); ++c)
            if (c != *label_) others += std::exp(logits[c] - highest);
        return logits[*label_] - highest - std::log(others);
    }

    infer::Model model_;
    std::vector<data::TaskColumn> columns_; // the text's
    std::optional<std::size_t> label_;      // none: the head gives one number
    bool completion_alone_;
    std::map<int64_t, std::unique_ptr<infer::Forward>> passes_; // by length
};

constexpr const char* kExpected = "expected a model that gives a text one number (objective reward), or a classifier "
                                  "with one of its classes in `label`";

// Returns the number of logits of a text.
Result<int64_t> logits_of(const infer::Model& model) {
    constexpr int64_t kLength = 8; // any
    HK_ASSIGN(const std::vector<plugin::BatchField> fields, model.composition->batch_fields(1, kLength));
    const std::string port = "logits";
    HK_ASSIGN(const graph::Graph graph, model.composition->build(HK_MODE_EVALUATE, fields, std::span(&port, 1)));
    const graph::Shape shape = graph.shape(graph.outputs.at(port));
    if (shape.rank() != 2) return unsupported(fmt::format("gives every token its own numbers, {}", kExpected));
    return shape[1];
}

// Returns the number of a class. Errors list the classes.
Result<std::size_t> class_of(const infer::Model& model, const std::string& label, int64_t classes) {
    std::vector<std::string> known;
    const nlohmann::json names = model.config.value("id2label", nlohmann::json());
    for (int64_t c = 0; c < classes; ++c) {
        const auto name = names.find(fmt::format("{}", c));
        known.push_back(name != names.end() && name->is_string() ? name->get<std::string>() : fmt::format("{}", c));
    }
    const auto found = std::ranges::find(known, label);
    if (found == known.end())
        return invalid_argument(fmt::format("the model has no class '{}': it has {}", label, fmt::join(known, ", ")));
    return static_cast<std::size_t>(found - known.begin());
}

struct Opened {
    infer::Model model;
    std::vector<data::TaskColumn> columns;
    std::optional<std::size_t> label;
};
Result<Opened> open(const std::string& from, const std::string& label, const plugin::Registry& registry,
                    const program::RuntimeSource& device, const Log& log) {
    infer::ModelOptions options;
    options.objective = true;
    Opened opened;
    HK_ASSIGN(opened.model, infer::open_model(registry, device, from, options, log));
    Result<std::vector<data::TaskColumn>> columns = infer::text_columns(opened.model);
    if (!columns.ok()) return unsupported(fmt::format("{}: gives a text no number and no class, {}", from, kExpected));
    opened.columns = columns.take();
    std::erase_if(opened.columns, [](const data::TaskColumn& column) { return column.kind != HK_COLUMN_TOKENS; });
    if (opened.columns.empty()) return unsupported(fmt::format("{}: the model reads no text", from));
    opened.columns.resize(1);
    Result<int64_t> count = logits_of(opened.model);
    if (!count.ok()) return count.status().with_context(from);
    if (count.value() == 1 && !label.empty())
        return invalid_argument(fmt::format("{}: the model gives one number, not classes: remove `label`", from));
    if (count.value() == 1) return opened;
    if (label.empty())
        return invalid_argument(fmt::format("{}: the model has {} classes, expected one number (head.num_labels = 1): "
                                            "name a class in `label`",
                                            from, count.value()));
    Result<std::size_t> found = class_of(opened.model, label, count.value());
    if (!found.ok()) return found.status().with_context(from);
    opened.label = found.value();
    return opened;
}

} // namespace

Result<std::unique_ptr<Reward>> make_model_reward(StrictTable& keys, const plugin::Registry& registry,
                                                  const program::RuntimeSource& device, const Log& log) {
    std::string from, label, reads = "all";
    keys.require("from", from);
    keys.read("label", label);
    keys.read("reads", reads);
    if (reads != "all" && reads != "completion")
        keys.fail("reads", fmt::format("is '{}', expected all or completion", reads));
    HK_TRY(keys.finish());
    Result<Opened> opened = open(from, label, registry, device, log);
    if (!opened.ok()) return opened.status().with_context(keys.path_of("from"));
    return std::unique_ptr<Reward>(std::make_unique<ModelReward>(std::move(opened->model), std::move(opened->columns),
                                                                 opened->label, reads == "completion"));
}

} // namespace hekla::reward
