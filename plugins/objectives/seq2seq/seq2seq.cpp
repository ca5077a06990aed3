// A target sequence from a source sequence with teacher forcing (Sutskever et al. 2014): translation, and the denoising
// of BART and T5, which only make the source differently.
#include "block.hpp"

using namespace hekla::plugin;

namespace {

class Seq2Seq {
public:
    static constexpr int32_t example_kind = HK_EXAMPLE_PAIR;

    Seq2Seq(const Config& c, const hk_tokenizer*) : smoothing_(c.real("label_smoothing", 0.0)) {}
    int64_t tokens_per_example(int64_t length) { return length; }
    std::vector<Field> fields(int64_t batch, int64_t length) {
        return {{"input_ids", HK_KIND_INT32, {batch, length}},
                {"attention_mask", HK_KIND_INT32, {batch, length}},
                {"decoder_input_ids", HK_KIND_INT32, {batch, length}},
                {"labels", HK_KIND_INT32, {batch, length}}};
    }
    // labels[t]: what the decoder is to say after decoder_input_ids[0..t]; -100 in padding.
    void build(Graph& g) {
        const LossSum loss = token_loss(g.ask("logits"), g.input("labels"), smoothing_);
        g.loss("seq2seq", loss.sum, loss.count);
    }

private:
    double smoothing_;
};

} // namespace

HEKLA_PLUGIN({HK_OBJECTIVE_INTERFACE, "seq2seq", objective<Seq2Seq>()})
