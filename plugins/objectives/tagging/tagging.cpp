// A label for every word: parts of speech, names. A word may be several tokens; its label is at the first.
#include "block.hpp"
#include "rows.hpp"

using namespace hekla::plugin;

namespace {

class Tagging {
public:
    static constexpr int32_t example_kind = HK_EXAMPLE_ROW;

    Tagging(const Config& c, const hk_tokenizer* tokenizer)
        : tokens_(tokenizer), layout_(c, tokens_, "tagging"), smoothing_(c.real("label_smoothing", 0.0)) {}
    std::vector<ColumnNeed> columns() {
        return {{"words", HK_COLUMN_WORDS, 0}, {"tags", HK_COLUMN_CLASSES, HK_COLUMN_TARGET}};
    }
    int64_t example_length(const hk_example& raw) {
        return static_cast<int64_t>(Example(raw).get("words").ids().size() + layout_.special(false));
    }
    // word_numbers: the word whose first token is here, -1 for none; for readers of the labels.
    std::vector<Field> fields(int64_t batch, int64_t length) {
        std::vector<Field> all = layout_.fields(batch, length);
        all.push_back({"labels", HK_KIND_INT32, {batch, length}});
        all.push_back({"word_numbers", HK_KIND_INT32, {batch, length}});
        return all;
    }
    // labels: -100 where no label counts (later tokens of a word, special tokens, padding).
    void build(Graph& g) {
        const Value logits = g.ask("logits"), labels = g.input("labels");
        g.loss("tagging", token_loss(logits, labels, smoothing_));
        accuracy_metric(g, "accuracy", logits, labels);
    }
    void collate(const hk_batch& raw, hk_field* storage, uint32_t count) {
        const FieldSet fields(storage, count);
        const BatchView batch(raw);
        fields.ints("labels").fill_from(0, kIgnored);
        fields.ints("word_numbers").fill_from(0, -1);
        for (uint32_t row = 0; row < batch.size(); ++row) {
            const Example example = batch[row];
            const ColumnView words = example.get("words"), tags = example.find("tags");
            const RowLayout::Placed placed = layout_.write(fields, row, words.ids(), {}, false);
            for (std::size_t w = 0; w < words.parts(); ++w) {
                if (words.part_begin(w) >= placed.first_size) break; // truncated
                const std::size_t at = placed.first_at + words.part_begin(w);
                fields.ints("word_numbers")[row][at] = static_cast<int32_t>(w);
                if (tags && tags.ids()[w] >= 0) fields.ints("labels")[row][at] = tags.ids()[w];
            }
        }
        layout_.write_empty(fields, batch.size());
    }

private:
    Tokens tokens_;
    RowLayout layout_;
    double smoothing_;
};

} // namespace

HEKLA_PLUGIN({HK_OBJECTIVE_INTERFACE, "tagging", objective<Tagging>()})
