// Permutation language modelling (Yang et al. 2019): each row has an order of its own; chosen tokens are predicted from
// those before them in that order.
#include "block.hpp"

using namespace hekla::plugin;

namespace {

class Permutation {
public:
    static constexpr int32_t example_kind = HK_EXAMPLE_WINDOW;

    Permutation(const Config&, const hk_tokenizer*) {}
    int64_t tokens_per_example(int64_t length) { return length; }
    // perm_mask[b, i, j] = 1: i does not see j. target_mapping[b, m, j] = 1: prediction m is of token j.
    std::vector<Field> fields(int64_t batch, int64_t length) {
        const int64_t predictions = (length + 5) / 6; // one token in six, as in the paper
        return {{"input_ids", HK_KIND_INT32, {batch, length}},
                {"perm_mask", HK_KIND_FLOAT32, {batch, length, length}},
                {"target_mapping", HK_KIND_FLOAT32, {batch, predictions, length}},
                {"labels", HK_KIND_INT32, {batch, predictions}}};
    }
    void build(Graph& g) {
        const LossSum loss = token_loss(g.ask("logits"), g.input("labels"));
        g.loss("permutation", loss.sum, loss.count);
    }
};

} // namespace

HEKLA_PLUGIN({HK_OBJECTIVE_INTERFACE, "permutation", objective<Permutation>()})
