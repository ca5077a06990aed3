// A target sequence from a source sequence, with teacher forcing (Sutskever et al. 2014).
#include "block.hpp"
#include "targets.hpp"

using namespace hekla::plugin;

namespace {

class Seq2Seq {
public:
    static constexpr int32_t example_kind = HK_EXAMPLE_ROW;

    Seq2Seq(const Config& c, const hk_tokenizer* tokenizer)
        : tokens_(tokenizer), rows_(c, tokens_, "seq2seq"), smoothing_(c.real("label_smoothing", 0.0)) {}

    std::vector<ColumnNeed> columns() {
        return {{"source", HK_COLUMN_TOKENS, 0}, {"target", HK_COLUMN_TOKENS, HK_COLUMN_TARGET}};
    }
    int64_t example_length(const hk_example& raw) {
        const Example example(raw);
        const ColumnView target = example.find("target");
        return static_cast<int64_t>(
            std::max(example.get("source").ids().size() + rows_.special(), target ? target.ids().size() + 1 : 1));
    }
    std::vector<Field> fields(int64_t batch, int64_t length) { return rows_.fields(batch, length, length); }
    // labels[t]: the token to predict after decoder_input_ids[0..t]; -100 in padding.
    void build(Graph& g) {
        const Value logits = g.ask("logits"), labels = g.input("labels");
        g.loss("seq2seq", token_loss(logits, labels, smoothing_));
        accuracy_metric(g, "token_accuracy", logits, labels);
    }
    void collate(const hk_batch& raw, hk_field* storage, uint32_t count) {
        const FieldSet fields(storage, count);
        const BatchView batch(raw);
        for (uint32_t row = 0; row < batch.size(); ++row) {
            const Example example = batch[row];
            const ColumnView target = example.find("target");
            rows_.write(fields, row, example.get("source").ids(), target ? std::optional(target.ids()) : std::nullopt);
        }
        rows_.write_empty(fields, batch.size());
    }

private:
    Tokens tokens_;
    SourceTargetRows rows_;
    double smoothing_;
};

} // namespace

HEKLA_PLUGIN({HK_OBJECTIVE_INTERFACE, "seq2seq", objective<Seq2Seq>()})
