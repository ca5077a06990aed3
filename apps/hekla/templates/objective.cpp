// %NAME%: causal language modelling with focal loss (Lin et al. 2017): what is already likely counts less.
#include "block.hpp"
#include "collate.hpp"

using namespace hekla::plugin;

namespace {

class %CLASS% {
public:
    // Examples are windows of a text. Objectives that read tables have columns() instead of tokens_per_example().
    static constexpr int32_t example_kind = HK_EXAMPLE_WINDOW;

    %CLASS%(const Config& config, const hk_tokenizer*) : gamma_(config.real("gamma")) {}

    int64_t tokens_per_example(int64_t length) { return length + 1; }

    // What collate writes and build reads.
    std::vector<Field> fields(int64_t batch, int64_t length) {
        return {{"input_ids", HK_KIND_INT32, {batch, length}}, {"next_ids", HK_KIND_INT32, {batch, length}}};
    }

    // Runs on a worker thread: a pure function of the batch, so that a run can be repeated bit for bit.
    void collate(const hk_batch& raw, hk_field* storage, uint32_t count) {
        const FieldSet fields(storage, count);
        const BatchView batch(raw);
        const FieldRows<int32_t> ids = fields.ints("input_ids"), next = fields.ints("next_ids");
        next.fill_from(0, kIgnored); // rows of a short last batch count nothing
        for (uint32_t row = 0; row < batch.size(); ++row) {
            const Ids tokens = batch[row].get("text").ids();
            if (tokens.size() < 2) continue;
            const std::size_t size = std::min(tokens.size() - 1, ids.width());
            std::ranges::copy(tokens.first(size), ids[row].begin());
            std::ranges::copy(tokens.subspan(1, size), next[row].begin());
        }
    }

    // The loss, as a part of the graph. Its gradient is the engine's.
    void build(Graph& g) {
        const Value logits = g.ask("logits"), labels = g.input("next_ids");
        const Value surprise = cross_entropy(logits, labels); // -log p of each label; 0 where it is ignored
        const Value base = 1.0 - exp(-surprise) + 1e-6;
        const Value focus = pow(base, like(surprise, gamma_));
        // In which order a compiler evaluates arguments is its own choice, and must not be the graph's: one a statement.
        const Value total = sum_all(focus * surprise);
        const Value counted = sum_all(not_equal(labels, static_cast<double>(kIgnored)));
        g.loss("%NAME%", total, counted);
    }

private:
    double gamma_;
};

} // namespace

HEKLA_PLUGIN({HK_OBJECTIVE_INTERFACE, "%NAME%", objective<%CLASS%>()})
