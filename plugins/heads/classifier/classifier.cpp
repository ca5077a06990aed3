// Classes, or numbers, from one vector per row: dropout and a linear layer. For bodies without their own classifier.
#include "body_states.hpp"
#include "decoding.hpp"
#include "pooling.hpp"

using namespace hekla::plugin;

namespace {

class Classifier {
public:
    explicit Classifier(const Config& c)
        : pooling_(pooling_kind(c)), port_(c.string("port", "hidden")), dropout_(c.real("dropout", 0.1)),
          labels_(c.integer("num_labels", 2)) {}

    void build(Graph& g) {
        const Value x = pool_tokens(g, body_states(g, port_), pooling_, "head.pooler");
        g.offer("logits", linear_layer(g, drop(g, x, dropout_), "head.classifier", labels_));
    }

    static std::vector<const char*> ports() { return {"logits"}; }
    std::string decode(const DecodeInput& in, std::size_t row) const {
        const std::span<const float> logits = in.row(in.output("logits"), row);
        if (logits.size() == 1) return "{\"value\": " + json_number(static_cast<double>(logits[0])) + "}";
        return "{\"label\": " + std::to_string(best_of(logits)) +
               ", \"probabilities\": " + json_numbers(softmax_of(logits)) + "}";
    }

private:
    PoolingKind pooling_;
    std::string port_;
    double dropout_;
    int64_t labels_;
};

} // namespace

HEKLA_PLUGIN({HK_HEAD_INTERFACE, "classifier", decoding_head<Classifier>()})
