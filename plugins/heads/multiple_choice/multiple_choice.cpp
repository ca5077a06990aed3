// Choice between several texts (Radford et al. 2018): [START] premise [DELIM] hypothesis [EXTRACT], one score each, and
// a softmax over them. input_ids [B, C, T], for a body that treats choices as rows.
#include "body_states.hpp"
#include "decoding.hpp"
#include "pooling.hpp"

using namespace hekla::plugin;

namespace {

class MultipleChoice {
public:
    explicit MultipleChoice(const Config& c)
        : pooling_(pooling_kind(c)), port_(c.string("port", "hidden")), dropout_(c.real("dropout", 0.1)) {}

    void build(Graph& g) {
        const Dims shape = g.input("input_ids").shape();
        const Value hidden = body_states(g, port_);
        if (shape.size() != 3 || hidden.rank() != 3 || hidden.dim(0) != shape[0] * shape[1]) {
            g.fail(
                "choices need input_ids [rows, choices, tokens], and a body that takes choices as rows of their own");
            return;
        }
        const Value x = pool_tokens(g, hidden, pooling_, "head.pooler");
        const Value y = linear_layer(g, drop(g, x, dropout_), "head.choice", 1);
        g.offer("choice_logits", reshape(y, {shape[0], shape[1]}));
    }

    static std::vector<const char*> ports() { return {"choice_logits"}; }
    std::string decode(const DecodeInput& in, std::size_t row) const {
        const std::span<const float> scores = in.row(in.output("choice_logits"), row);
        return "{\"choice\": " + std::to_string(best_of(scores)) +
               ", \"probabilities\": " + json_numbers(softmax_of(scores)) + "}";
    }

private:
    PoolingKind pooling_;
    std::string port_;
    double dropout_;
};

} // namespace

HEKLA_PLUGIN({HK_HEAD_INTERFACE, "multiple_choice", decoding_head<MultipleChoice>()})
