// Fine-tuning with a language model's loss beside the choice among continuations (Radford et al. 2018): the sum of
// both.
#include "block.hpp"

using namespace hekla::plugin;

namespace {

class DoubleHeads {
public:
    static constexpr int32_t example_kind = HK_EXAMPLE_ROW;
    static constexpr int64_t kChoices = 2;

    DoubleHeads(const Config&, const hk_tokenizer*) {}
    int64_t tokens_per_example(int64_t length) { return kChoices * length; }
    std::vector<Field> fields(int64_t batch, int64_t length) {
        return {{"input_ids", HK_KIND_INT32, {batch, kChoices, length}},
                {"mc_token_ids", HK_KIND_INT32, {batch, kChoices}},
                {"labels", HK_KIND_INT32, {batch, kChoices, length}},
                {"mc_labels", HK_KIND_INT32, {batch}}};
    }

    // labels: the tokens themselves (position i is scored against i + 1). mc_labels: the choice that is real.
    void build(Graph& g) {
        const Value labels = g.input("labels");
        const int64_t batch = labels.dim(0), choices = labels.dim(1), length = labels.dim(2);
        const Value next =
            concat({slice(labels, 2, 1, length - 1), g.fill({batch, choices, 1}, -100, HK_KIND_INT32)}, 2);
        const LossSum tokens = token_loss(g.ask("logits"), next);
        g.loss("clm", tokens.sum, tokens.count);
        const LossSum choice = token_loss(g.ask("choice_logits"), g.input("mc_labels"));
        g.loss("choice", choice.sum, choice.count);
    }
};

} // namespace

HEKLA_PLUGIN({HK_OBJECTIVE_INTERFACE, "double_heads", objective<DoubleHeads>()})
