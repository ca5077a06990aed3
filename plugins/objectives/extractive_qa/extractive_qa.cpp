// Position of the answer to a question in a text (Rajpurkar et al. 2016): its first and last token, each a choice among
// all positions of the row (Devlin et al. 2019).
#include "block.hpp"
#include "rows.hpp"

using namespace hekla::plugin;

namespace {

class ExtractiveQa {
public:
    static constexpr int32_t example_kind = HK_EXAMPLE_ROW;

    ExtractiveQa(const Config& c, const hk_tokenizer* tokenizer)
        : tokens_(tokenizer), layout_(c, tokens_, "extractive_qa") {}

    // start: the character of the context at which the answer begins, needed if the answer occurs more than once.
    std::vector<ColumnNeed> columns() {
        return {{"question", HK_COLUMN_TOKENS, 0},
                {"context", HK_COLUMN_TOKENS, 0},
                {"answer", HK_COLUMN_SPANS, HK_COLUMN_TARGET},
                {"start", HK_COLUMN_NUMBERS, HK_COLUMN_OPTIONAL}};
    }
    int64_t example_length(const hk_example& raw) {
        const Example example(raw);
        return static_cast<int64_t>(example.get("question").ids().size() + example.get("context").ids().size() +
                                    layout_.special(true));
    }
    // start_positions, end_positions: the answer's first and last position in the row; -100 if unknown or truncated.
    // in_context: where an answer is allowed.
    std::vector<Field> fields(int64_t batch, int64_t length) {
        std::vector<Field> all = layout_.fields(batch, length);
        for (const char* name : {"start_positions", "end_positions"}) all.push_back({name, HK_KIND_INT32, {batch}});
        all.push_back({"in_context", HK_KIND_INT32, {batch, length}});
        return all;
    }
    void build(Graph& g) {
        const auto side = [&](const char* logits, const char* labels, const char* name, const char* accuracy) {
            const Value scores = g.ask(logits), places = g.input(labels);
            g.loss(name, token_loss(scores, places), 0.5);
            accuracy_metric(g, accuracy, scores, places);
        };
        side("start_logits", "start_positions", "start", "start_accuracy");
        side("end_logits", "end_positions", "end", "end_accuracy");
    }
    void collate(const hk_batch& raw, hk_field* storage, uint32_t count) {
        const FieldSet fields(storage, count);
        const BatchView batch(raw);
        for (const char* name : {"start_positions", "end_positions"}) fields.ints(name).fill_from(0, kIgnored);
        for (uint32_t row = 0; row < batch.size(); ++row) {
            const Example example = batch[row];
            const RowLayout::Placed placed =
                layout_.write(fields, row, example.get("question").ids(), example.get("context").ids(), true);
            std::ranges::fill(fields.ints("in_context")[row].subspan(placed.second_at, placed.second_size), 1);
            const ColumnView answer = example.find("answer");
            if (!answer || answer.ids().size() < 2) continue;
            const auto first = static_cast<std::size_t>(answer.ids()[0]),
                       end = static_cast<std::size_t>(answer.ids()[1]);
            if (end > placed.second_size) continue;
            fields.ints("start_positions")[row][0] = static_cast<int32_t>(placed.second_at + first);
            fields.ints("end_positions")[row][0] = static_cast<int32_t>(placed.second_at + end - 1);
        }
        layout_.write_empty(fields, batch.size());
    }

private:
    Tokens tokens_;
    RowLayout layout_;
};

} // namespace

HEKLA_PLUGIN({HK_OBJECTIVE_INTERFACE, "extractive_qa", objective<ExtractiveQa>()})
