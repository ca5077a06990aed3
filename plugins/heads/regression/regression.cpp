// Numbers from one vector per row: dropout and a linear layer.
#include "body_states.hpp"
#include "decoding.hpp"
#include "pooling.hpp"

using namespace hekla::plugin;

namespace {

class Regression {
public:
    explicit Regression(const Config& c)
        : pooling_(pooling_kind(c)), port_(c.string("port", "hidden")), dropout_(c.real("dropout", 0.1)),
          numbers_(c.integer("num_labels", 1)) {}

    void build(Graph& g) {
        const Value x = pool_tokens(g, body_states(g, port_), pooling_, "head.pooler");
        g.offer("logits", linear_layer(g, drop(g, x, dropout_), "head.regression", numbers_));
    }

    static std::vector<const char*> ports() { return {"logits"}; }
    std::string decode(const DecodeInput& in, std::size_t row) const {
        const std::span<const float> numbers = in.row(in.output("logits"), row);
        if (numbers.size() == 1) return "{\"value\": " + json_number(static_cast<double>(numbers[0])) + "}";
        return "{\"values\": " + json_numbers(numbers) + "}";
    }

private:
    PoolingKind pooling_;
    std::string port_;
    double dropout_;
    int64_t numbers_;
};

} // namespace

HEKLA_PLUGIN({HK_HEAD_INTERFACE, "regression", decoding_head<Regression>()})
