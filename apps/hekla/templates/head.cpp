// %NAME%: classes of a row, from the mean of its tokens' states through a hidden layer.
#include "decoding.hpp"
#include "pooling.hpp"

using namespace hekla::plugin;

namespace {

class %CLASS% {
public:
    explicit %CLASS%(const Config& config)
        : labels_(config.integer("num_labels", 2)), inner_(config.integer("inner_size")) {}

    // Asks the body for what it offers, and offers what the objective asks for.
    void build(Graph& g) {
        const Value row = pool_tokens(g, g.ask("hidden"), PoolingKind::mean, "%NAME%.pooler");
        const Value inner = gelu(linear_layer(g, row, "%NAME%.inner", inner_));
        g.offer("logits", linear_layer(g, inner, "%NAME%.out", labels_));
    }

    // The result of a row, as JSON, from the ports named here.
    static std::vector<const char*> ports() { return {"logits"}; }
    std::string decode(const DecodeInput& in, std::size_t row) const {
        const std::span<const float> logits = in.row(in.output("logits"), row);
        return "{\"label\": " + std::to_string(best_of(logits)) +
               ", \"probabilities\": " + json_numbers(softmax_of(logits)) + "}";
    }

private:
    int64_t labels_, inner_;
};

} // namespace

HEKLA_PLUGIN({HK_HEAD_INTERFACE, "%NAME%", decoding_head<%CLASS%>()})
