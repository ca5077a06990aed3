// The bidirectional language model of ELMo (Peters et al. 2018): predicts token t from the tokens before it and, with
// another network, from the tokens after it. The loss is the mean of the two.
#include "block.hpp"
#include "collate.hpp"

using namespace hekla::plugin;

namespace {

class Bilm {
public:
    static constexpr int32_t example_kind = HK_EXAMPLE_WINDOW;

    Bilm(const Config&, const hk_tokenizer*) {}
    int64_t tokens_per_example(int64_t length) { return length; }
    // labels: the tokens, -100 in rows without an example.
    std::vector<Field> fields(int64_t batch, int64_t length) {
        return {{"input_ids", HK_KIND_INT32, {batch, length}}, {"labels", HK_KIND_INT32, {batch, length}}};
    }

    // forward.logits[t] is scored against token t + 1, backward.logits[t] against token t - 1. The last and the first
    // position have no such token.
    void build(Graph& g) {
        const Value ids = g.has_field("labels") ? g.input("labels") : g.input("input_ids");
        const int64_t length = ids.dim(1);
        const Value none = g.fill({ids.dim(0), 1}, -100, HK_KIND_INT32);
        const LossSum forward = token_loss(g.ask("forward.logits"), concat({slice(ids, 1, 1, length - 1), none}, 1));
        const LossSum backward = token_loss(g.ask("backward.logits"), concat({none, slice(ids, 1, 0, length - 1)}, 1));
        g.loss("forward", forward, 0.5);
        g.loss("backward", backward, 0.5);
    }
    void collate(const hk_batch& raw, hk_field* storage, uint32_t count) {
        const FieldSet fields(storage, count);
        const BatchView batch(raw);
        fields.ints("labels").fill_from(0, kIgnored);
        for (uint32_t row = 0; row < batch.size(); ++row) {
            const Ids tokens = batch[row].get("text").ids();
            for (const char* name : {"input_ids", "labels"}) {
                const std::span<int32_t> out = fields.ints(name)[row];
                std::ranges::copy(tokens.first(std::min(tokens.size(), out.size())), out.begin());
            }
        }
    }
};

} // namespace

HEKLA_PLUGIN({HK_OBJECTIVE_INTERFACE, "bilm", objective<Bilm>()})
