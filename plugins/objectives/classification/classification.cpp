// Classification of a row (one class of several, or several classes at once), and regression.
#include "block.hpp"
#include "rows.hpp"

using namespace hekla::plugin;

namespace {

// Squared error, averaged over rows and numbers. logits [B, C], labels [B] or [B, C]; row_weight [B], if the batch has
// it: 0 for rows that do not count.
void squared_error(Graph& g, Value logits, Value labels) {
    const Value y = labels.kind() == HK_KIND_INT32 ? to_float(labels) : labels;
    const Value difference = logits - reshape(y, logits.shape());
    Value squares = difference * difference;
    if (!g.has_field("row_weight"))
        return g.loss("squared_error", sum_all(squares), g.integer(logits.dim(0) * logits.dim(1)));
    const Value weight = g.input("row_weight");
    squares = squares * reshape(weight, {logits.dim(0), 1});
    g.loss("squared_error", sum_all(squares), sum_all(weight) * static_cast<double>(logits.dim(1)));
}

// The texts of a row, which both objectives read the same way.
class TextRows {
public:
    TextRows(const Config& c, const hk_tokenizer* tokenizer, const char* objective)
        : tokens_(tokenizer), layout_(c, tokens_, objective) {}

    std::vector<ColumnNeed> columns(const char* target, int32_t kind) const {
        return {{"text", HK_COLUMN_TOKENS, 0},
                {"text_b", HK_COLUMN_TOKENS, HK_COLUMN_OPTIONAL},
                {target, kind, HK_COLUMN_TARGET}};
    }
    int64_t length(const hk_example& raw) const {
        const Example example(raw);
        const ColumnView b = example.find("text_b");
        return static_cast<int64_t>(layout_.special(static_cast<bool>(b)) + example.get("text").ids().size() +
                                    (b ? b.ids().size() : 0));
    }
    std::vector<Field> fields(int64_t batch, int64_t length) const { return layout_.fields(batch, length); }
    void write(const FieldSet& fields, const BatchView& batch) const {
        for (uint32_t row = 0; row < batch.size(); ++row) {
            const Example example = batch[row];
            const ColumnView b = example.find("text_b");
            layout_.write(fields, row, example.get("text").ids(), b ? b.ids() : Ids(), static_cast<bool>(b));
        }
        layout_.write_empty(fields, batch.size());
    }

private:
    Tokens tokens_;
    RowLayout layout_;
};

class Regression {
public:
    static constexpr int32_t example_kind = HK_EXAMPLE_ROW;

    Regression(const Config& c, const hk_tokenizer* tokenizer)
        : texts_(c, tokenizer, "regression"), numbers_(c.integer("num_labels", 1)) {}
    std::vector<ColumnNeed> columns() { return texts_.columns("score", HK_COLUMN_NUMBERS); }
    int64_t example_length(const hk_example& example) { return texts_.length(example); }
    std::vector<Field> fields(int64_t batch, int64_t length) {
        std::vector<Field> all = texts_.fields(batch, length);
        all.push_back({"labels", HK_KIND_FLOAT32, {batch, numbers_}});
        all.push_back({"row_weight", HK_KIND_FLOAT32, {batch}});
        return all;
    }
    void build(Graph& g) { squared_error(g, g.ask("logits"), g.input("labels")); }
    void collate(const hk_batch& raw, hk_field* storage, uint32_t count) {
        const FieldSet fields(storage, count);
        const BatchView batch(raw);
        texts_.write(fields, batch);
        for (uint32_t row = 0; row < batch.size(); ++row) {
            const ColumnView score = batch[row].find("score");
            if (!score) continue;
            const std::span<float> out = fields.floats("labels")[row];
            if (score.numbers().size() != out.size())
                throw invalid("a row has " + std::to_string(score.numbers().size()) + " numbers in 'score', " +
                              std::to_string(out.size()) + " were expected (num_labels)");
            std::ranges::copy(score.numbers(), out.begin());
            fields.floats("row_weight")[row][0] = 1.0f;
        }
    }

private:
    TextRows texts_;
    int64_t numbers_;
};

class Classification {
public:
    static constexpr int32_t example_kind = HK_EXAMPLE_ROW;

    Classification(const Config& c, const hk_tokenizer* tokenizer)
        : texts_(c, tokenizer, "classification"), problem_(c.string("problem_type", "")),
          smoothing_(c.real("label_smoothing", 0.0)) {
        require(problem_.empty() || problem_ == "regression" || problem_ == "single_label_classification" ||
                    problem_ == "multi_label_classification",
                "the problem_type '" + problem_ +
                    "' is not regression, single_label_classification or multi_label_classification");
        if (c.has("class_weights"))
            for (uint64_t i = 0; i < c.count("class_weights"); ++i)
                weights_.push_back(c.real("class_weights." + std::to_string(i)));
    }
    std::vector<ColumnNeed> columns() {
        require(problem_.empty() || problem_ == "single_label_classification",
                "rows of a table have one class each: use the objective 'regression' for numbers");
        return texts_.columns("label", HK_COLUMN_CLASSES);
    }
    int64_t example_length(const hk_example& example) { return texts_.length(example); }
    std::vector<Field> fields(int64_t batch, int64_t length) {
        std::vector<Field> all = texts_.fields(batch, length);
        all.push_back({"labels", problem_ == "regression" ? HK_KIND_FLOAT32 : HK_KIND_INT32, {batch}});
        return all;
    }

    // Without a problem_type the reference's rule applies: one logit is regression, integer labels are classes, and
    // float labels are several classes at once.
    void build(Graph& g) {
        const Value logits = g.ask("logits"), labels = g.input("labels");
        if (problem_ == "regression" || (problem_.empty() && logits.dim(-1) == 1))
            return squared_error(g, logits, labels);
        if (problem_ == "single_label_classification" || (problem_.empty() && labels.kind() == HK_KIND_INT32)) {
            accuracy_metric(g, "accuracy", logits, labels);
            if (weights_.empty()) return g.loss("classification", token_loss(logits, labels, smoothing_));
            if (logits.dim(-1) != static_cast<int64_t>(weights_.size())) {
                g.fail("class_weights has " + std::to_string(weights_.size()) + " numbers, there are " +
                       std::to_string(logits.dim(-1)) + " classes");
                return;
            }
            // Divides by the sum of weights, as the reference does: a row counts as much as its class.
            const Value weights = g.constant(HK_KIND_FLOAT32, {logits.dim(-1)}, weights_);
            const Value rows = cross_entropy(logits, labels, {.weights = weights, .smoothing = smoothing_});
            const Value real = not_equal(labels, static_cast<double>(kIgnored));
            const Value of_rows = gather(weights, labels * real) * to_float32(real);
            return g.loss("classification", sum_all(rows), sum_all(of_rows));
        }
        const Value y = labels.kind() == HK_KIND_INT32 ? to_float(labels) : labels;
        g.loss("binary", sum_all(softplus(logits) - logits * y), g.integer(logits.dim(0) * logits.dim(1)));
    }
    void collate(const hk_batch& raw, hk_field* storage, uint32_t count) {
        const FieldSet fields(storage, count);
        const BatchView batch(raw);
        texts_.write(fields, batch);
        const FieldRows<int32_t> labels = fields.ints("labels");
        labels.fill_from(0, kIgnored);
        for (uint32_t row = 0; row < batch.size(); ++row)
            if (const ColumnView label = batch[row].find("label"); label && label.ids()[0] >= 0)
                labels[row][0] = label.ids()[0];
    }

private:
    TextRows texts_;
    std::string problem_;
    double smoothing_;
    std::vector<double> weights_;
};

} // namespace

HEKLA_PLUGIN({HK_OBJECTIVE_INTERFACE, "classification", objective<Classification>()},
             {HK_OBJECTIVE_INTERFACE, "regression", objective<Regression>()})
