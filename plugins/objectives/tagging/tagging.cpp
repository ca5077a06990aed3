// A label for every token: parts of speech, names.
#include "block.hpp"

using namespace hekla::plugin;

namespace {

class Tagging {
public:
    static constexpr int32_t example_kind = HK_EXAMPLE_ROW;

    Tagging(const Config& c, const hk_tokenizer*) : smoothing_(c.real("label_smoothing", 0.0)) {}
    int64_t tokens_per_example(int64_t length) { return length; }
    std::vector<Field> fields(int64_t batch, int64_t length) {
        return {{"input_ids", HK_KIND_INT32, {batch, length}},
                {"attention_mask", HK_KIND_INT32, {batch, length}},
                {"labels", HK_KIND_INT32, {batch, length}}};
    }
    // labels: -100 where no label counts (later pieces of a word, padding).
    void build(Graph& g) {
        const LossSum loss = token_loss(g.ask("logits"), g.input("labels"), smoothing_);
        g.loss("tagging", loss.sum, loss.count);
    }

private:
    double smoothing_;
};

} // namespace

HEKLA_PLUGIN({HK_OBJECTIVE_INTERFACE, "tagging", objective<Tagging>()})
