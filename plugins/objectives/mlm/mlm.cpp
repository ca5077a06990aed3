// Masked language modelling (Devlin et al. 2019), alone or with a judgement on a pair of texts: whether the second
// follows the first (BERT) or whether the two stand in their order (ALBERT, Lan et al. 2020).
#include "block.hpp"

using namespace hekla::plugin;

namespace {

class Mlm {
public:
    static constexpr int32_t example_kind = HK_EXAMPLE_WINDOW;

    Mlm(const Config&, const hk_tokenizer*) {}
    int64_t tokens_per_example(int64_t length) { return length; }
    std::vector<Field> fields(int64_t batch, int64_t length) {
        return {{"input_ids", HK_KIND_INT32, {batch, length}},
                {"attention_mask", HK_KIND_INT32, {batch, length}},
                {"labels", HK_KIND_INT32, {batch, length}}};
    }
    // labels: the token that stood there, -100 where none is asked for.
    void build(Graph& g) {
        const LossSum loss = token_loss(g.ask("logits"), g.input("labels"));
        g.loss("mlm", loss.sum, loss.count);
    }
};

// The loss of the masks plus that of the pair: class 0 follows (or is in order), 1 does not.
class MlmPair : public Mlm {
public:
    static constexpr int32_t example_kind = HK_EXAMPLE_DOCUMENT;

    MlmPair(const Config& c, const char* field, const char* name) : Mlm(c, nullptr), field_(field), name_(name) {}
    std::vector<Field> fields(int64_t batch, int64_t length) {
        std::vector<Field> all = Mlm::fields(batch, length);
        all.push_back({"token_type_ids", HK_KIND_INT32, {batch, length}});
        all.push_back({field_, HK_KIND_INT32, {batch}});
        return all;
    }
    void build(Graph& g) {
        Mlm::build(g);
        const LossSum pair = token_loss(g.ask("pair_logits"), g.input(field_));
        g.loss(name_, pair.sum, pair.count);
    }

private:
    const char *field_, *name_;
};

class MlmNsp : public MlmPair {
public:
    MlmNsp(const Config& c, const hk_tokenizer*) : MlmPair(c, "next_sentence_label", "nsp") {}
};

class MlmSop : public MlmPair {
public:
    MlmSop(const Config& c, const hk_tokenizer*) : MlmPair(c, "sentence_order_label", "sop") {}
};

} // namespace

HEKLA_PLUGIN({HK_OBJECTIVE_INTERFACE, "mlm", objective<Mlm>()},
             {HK_OBJECTIVE_INTERFACE, "mlm_nsp", objective<MlmNsp>()},
             {HK_OBJECTIVE_INTERFACE, "mlm_sop", objective<MlmSop>()})
