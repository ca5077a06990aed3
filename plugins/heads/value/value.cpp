// A value for each token, next to a language model head: "lm+value".
#include "block.hpp"

using namespace hekla::plugin;

namespace {

class ValueHead {
public:
    explicit ValueHead(const Config&) {}
    void build(Graph& g) {
        const Value hidden = g.ask("hidden");
        // It begins as 0, so that the first advantages are those of the rewards alone.
        const Value values = linear_layer(g, hidden, "v_head.summary", 1, {.initializer = zeros()});
        g.offer("values", reshape(values, {hidden.dim(0), hidden.dim(1)}));
    }
};

} // namespace

HEKLA_PLUGIN({HK_HEAD_INTERFACE, "value", head<ValueHead>()})
