// What a row is: one class of several, several at once, or numbers.
#include "block.hpp"

using namespace hekla::plugin;

namespace {

// Squared error, averaged over rows and numbers. logits [B, C], labels [B] or [B, C].
void squared_error(Graph& g, Value logits, Value labels) {
    const Value y = labels.kind() == HK_KIND_INT32 ? to_float(labels) : labels;
    const Value difference = logits - reshape(y, logits.shape());
    g.loss("squared_error", sum_all(difference * difference), g.integer(logits.dim(0) * logits.dim(1)));
}

class Regression {
public:
    static constexpr int32_t example_kind = HK_EXAMPLE_ROW;

    Regression(const Config&, const hk_tokenizer*) {}
    int64_t tokens_per_example(int64_t length) { return length; }
    std::vector<Field> fields(int64_t batch, int64_t length) {
        return {{"input_ids", HK_KIND_INT32, {batch, length}},
                {"attention_mask", HK_KIND_INT32, {batch, length}},
                {"labels", HK_KIND_FLOAT32, {batch}}};
    }
    void build(Graph& g) { squared_error(g, g.ask("logits"), g.input("labels")); }
};

class Classification {
public:
    static constexpr int32_t example_kind = HK_EXAMPLE_ROW;

    Classification(const Config& c, const hk_tokenizer*)
        : problem_(c.string("problem_type", "")), smoothing_(c.real("label_smoothing", 0.0)) {
        require(problem_.empty() || problem_ == "regression" || problem_ == "single_label_classification" ||
                    problem_ == "multi_label_classification",
                "the problem_type '" + problem_ +
                    "' is not regression, single_label_classification or multi_label_classification");
    }
    int64_t tokens_per_example(int64_t length) { return length; }
    std::vector<Field> fields(int64_t batch, int64_t length) {
        return {{"input_ids", HK_KIND_INT32, {batch, length}},
                {"attention_mask", HK_KIND_INT32, {batch, length}},
                {"labels", problem_ == "regression" ? HK_KIND_FLOAT32 : HK_KIND_INT32, {batch}}};
    }

    // Without a problem_type, as the reference decides: one logit is a number, integer labels are classes, and floats
    // are one judgement a class.
    void build(Graph& g) {
        const Value logits = g.ask("logits"), labels = g.input("labels");
        if (problem_ == "regression" || (problem_.empty() && logits.dim(-1) == 1))
            return squared_error(g, logits, labels);
        if (problem_ == "single_label_classification" || (problem_.empty() && labels.kind() == HK_KIND_INT32)) {
            const LossSum loss = token_loss(logits, labels, smoothing_);
            return g.loss("classification", loss.sum, loss.count);
        }
        const Value y = labels.kind() == HK_KIND_INT32 ? to_float(labels) : labels;
        g.loss("binary", sum_all(softplus(logits) - logits * y), g.integer(logits.dim(0) * logits.dim(1)));
    }

private:
    std::string problem_;
    double smoothing_;
};

} // namespace

HEKLA_PLUGIN({HK_OBJECTIVE_INTERFACE, "classification", objective<Classification>()},
             {HK_OBJECTIVE_INTERFACE, "regression", objective<Regression>()})
