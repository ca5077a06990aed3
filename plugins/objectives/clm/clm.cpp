// Causal language modelling: the next token from those before it.
#include "block.hpp"

#include <cstring>

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

    // next_ids: what follows each token, as collate makes it. labels: the tokens themselves, as the reference has them;
    // then position i is scored against label i + 1 and the last one against nothing.
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
        const LossSum loss = token_loss(logits, targets);
        g.loss("clm", loss.sum, loss.count);
    }

    void collate(const hk_example* examples, uint32_t count, uint64_t, uint64_t, hk_field* fields, uint32_t) {
        auto* ids = static_cast<int32_t*>(fields[0].data);
        auto* next = static_cast<int32_t*>(fields[1].data);
        const auto length = static_cast<std::size_t>(fields[0].dims[1]);
        for (uint32_t row = 0; row < count; ++row) {
            const int32_t* tokens = examples[row].columns[0];
            const std::size_t given = static_cast<std::size_t>(examples[row].column_sizes[0]);
            for (std::size_t i = 0; i < length; ++i) {
                ids[row * length + i] = i < given ? tokens[i] : 0;
                next[row * length + i] = i + 1 < given ? tokens[i + 1] : -100;
            }
        }
        for (std::size_t i = count * length; i < static_cast<std::size_t>(fields[0].dims[0]) * length; ++i)
            next[i] = -100;
    }
};

} // namespace

HEKLA_PLUGIN({HK_OBJECTIVE_INTERFACE, "clm", objective<Clm>()})
