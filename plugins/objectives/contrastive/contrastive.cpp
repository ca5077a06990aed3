// Sentence embeddings from pairs with the same meaning: the partner of each text against the partners of the other rows
// (InfoNCE, van den Oord et al. 2018; as used by Reimers and Gurevych 2019 and Gao et al. 2021).
#include "block.hpp"
#include "rows.hpp"

using namespace hekla::plugin;

namespace {

class Contrastive {
public:
    static constexpr int32_t example_kind = HK_EXAMPLE_ROW;

    Contrastive(const Config& c, const hk_tokenizer* tokenizer)
        : tokens_(tokenizer), layout_(c, tokens_, "contrastive"), temperature_(c.real("temperature", 0.05)) {
        require(temperature_ > 0.0, "temperature is not above 0");
    }
    std::vector<ColumnNeed> columns() {
        return {{"text", HK_COLUMN_TOKENS, 0}, {"text_b", HK_COLUMN_TOKENS, HK_COLUMN_TARGET}};
    }
    int64_t example_length(const hk_example& raw) {
        const Example example(raw);
        const ColumnView b = example.find("text_b");
        return static_cast<int64_t>(std::max(example.get("text").ids().size(), b ? b.ids().size() : 0) +
                                    layout_.special(false));
    }
    // The first texts of all rows, then their partners: [2 B, T]. pair_labels[b]: 0 where the row counts, else -100.
    std::vector<Field> fields(int64_t batch, int64_t length) {
        std::vector<Field> all = layout_.fields(2 * batch, length);
        all.push_back({"pair_labels", HK_KIND_INT32, {batch}});
        return all;
    }
    void build(Graph& g) {
        const Value given = g.input("pair_labels"), pooled = g.ask("pooled");
        const int64_t batch = given.dim(0);
        if (pooled.rank() != 2 || pooled.dim(0) != 2 * batch) {
            g.fail("contrastive needs a port 'pooled' with one vector a text");
            return;
        }
        const Value unit = pooled / sqrt(reshape(sum(pooled * pooled, {1}), {2 * batch, 1}) + 1e-12);
        const Value likeness = matmul(slice(unit, 0, 0, batch), slice(unit, 0, batch, batch), {.transpose_b = 1});
        // A row without an example has no partner.
        const Value real = not_equal(given, static_cast<double>(kIgnored));
        const Value places = g.iota(batch);
        const Value labels = where(real, places, given); // the partner has the same row number
        const Value logits = where(reshape(real, {1, batch}), likeness / temperature_, like(likeness, -1e9));
        g.loss("contrastive", token_loss(logits, labels));
        accuracy_metric(g, "partner_accuracy", logits, labels);
    }
    void collate(const hk_batch& raw, hk_field* storage, uint32_t count) {
        const FieldSet fields(storage, count);
        const BatchView batch(raw);
        layout_.write_empty(fields, 0);
        const FieldRows<int32_t> labels = fields.ints("pair_labels");
        labels.fill_from(0, kIgnored);
        for (uint32_t row = 0; row < batch.size(); ++row) {
            const Example example = batch[row];
            layout_.write(fields, row, example.get("text").ids(), {}, false);
            const ColumnView partner = example.find("text_b");
            if (!partner) continue;
            layout_.write(fields, labels.rows() + row, partner.ids(), {}, false);
            labels[row][0] = 0;
        }
    }

private:
    Tokens tokens_;
    RowLayout layout_;
    double temperature_;
};

} // namespace

HEKLA_PLUGIN({HK_OBJECTIVE_INTERFACE, "contrastive", objective<Contrastive>()})
