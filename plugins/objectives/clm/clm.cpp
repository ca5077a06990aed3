// Causal language modeling: the next token from those before it.
#include "block.hpp"
#include "collate.hpp"

using namespace hekla::plugin;

namespace {

class Clm {
public:
    static constexpr int32_t example_kind = HK_EXAMPLE_WINDOW;

    Clm(const Config&, const hk_tokenizer*) {}

    int64_t tokens_per_example(int64_t length) { return length + 1; }

    std::vector<Field> fields(int64_t batch, int64_t length) {
        return {{"input_ids", HK_KIND_INT32, {batch, length}}, {"next_ids", HK_KIND_INT32, {batch, length}}};
    }

    // next_ids: the token after each one, as collate writes it. labels: the tokens themselves, as in the reference;
    // then position i is scored against label i + 1 and the last one is not scored.
    void build(Graph& g) {
        Value targets;
        if (g.has_field("next_ids")) {
            targets = g.input("next_ids");
        } else {
            Value labels = g.input("labels");
            if (labels.rank() == 3) labels = reshape(labels, {-1, labels.dim(-1)});
            const int64_t batch = labels.dim(0), length = labels.dim(1);
            targets = concat({slice(labels, 1, 1, length - 1), g.fill({batch, 1}, -100, HK_KIND_INT32)}, 1);
        }
        const Value logits = g.ask("logits");
        g.loss("clm", token_loss(logits, targets));
    }

    void collate(const hk_batch& raw, hk_field* storage, uint32_t count) {
        const FieldSet fields(storage, count);
        const BatchView batch(raw);
        const FieldRows<int32_t> ids = fields.ints("input_ids"), next = fields.ints("next_ids");
        next.fill_from(0, kIgnored);
        for (uint32_t row = 0; row < batch.size(); ++row) {
            const Ids tokens = batch[row].get("text").ids();
            std::ranges::copy(tokens.first(std::min(tokens.size(), ids.width())), ids[row].begin());
            if (!tokens.empty())
                std::ranges::copy(tokens.subspan(1, std::min(tokens.size() - 1, ids.width())), next[row].begin());
        }
    }
};

} // namespace

HEKLA_PLUGIN({HK_OBJECTIVE_INTERFACE, "clm", objective<Clm>()})
