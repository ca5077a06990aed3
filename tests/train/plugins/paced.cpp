// Prediction of the next token where the step decides how many tokens of a row count: a curriculum. Its metrics show
// the step as the graph and as the batch have it.
#include "block.hpp"
#include "collate.hpp"

#include <algorithm>

using namespace hekla::plugin;

namespace {

class Paced {
public:
    static constexpr int32_t example_kind = HK_EXAMPLE_WINDOW;

    Paced(const Config&, const hk_tokenizer*) {}

    int64_t tokens_per_example(int64_t length) { return length + 1; }

    std::vector<Field> fields(int64_t batch, int64_t length) {
        return {{"input_ids", HK_KIND_INT32, {batch, length}}, {"labels", HK_KIND_INT32, {batch, length}}};
    }

    void build(Graph& g) {
        const Value labels = g.input("labels");
        g.loss("paced", token_loss(g.ask("logits"), labels));
        const Value one = g.number(1.0), rows = g.number(static_cast<double>(labels.dim(0)));
        g.metric("step", g.step_scalar("train.step", -1.0), one);
        g.metric("progress", g.step_scalar("train.progress", -1.0), one);
        g.metric("labels", sum(to_float(not_equal(labels, g.integer(kIgnored))), {0, 1}), rows);
    }

    void collate(const hk_batch& raw, hk_field* storage, uint32_t count) {
        const FieldSet fields(storage, count);
        const BatchView batch(raw);
        const FieldRows<int32_t> ids = fields.ints("input_ids"), labels = fields.ints("labels");
        labels.fill_from(0, kIgnored);
        for (uint32_t row = 0; row < batch.size(); ++row) {
            const Ids tokens = batch[row].get("text").ids();
            std::ranges::copy(tokens.first(std::min(tokens.size(), ids.width())), ids[row].begin());
            const std::size_t counted = std::min<std::size_t>(batch.step() + 1, labels.width());
            if (tokens.size() > counted) std::ranges::copy(tokens.subspan(1, counted), labels[row].begin());
        }
    }
};

} // namespace

HEKLA_PLUGIN({HK_OBJECTIVE_INTERFACE, "paced", objective<Paced>()})
