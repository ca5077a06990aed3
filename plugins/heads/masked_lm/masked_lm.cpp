// Masked language model head for bodies without their own: a linear layer, a norm, and the embedding as decoder.
#include "block.hpp"
#include "mask_reading.hpp"
#include "pretraining.hpp"
#include "span_boundary.hpp"

using namespace hekla::plugin;

namespace {

class Mlm {
public:
    explicit Mlm(const Config&) {}
    void build(Graph& g) {
        g.offer("logits", masked_head(g, predicted_positions(g, g.ask("hidden")), g.ask("embedding.weight"),
                                      {.dense = "head.mlm.dense", .norm = "head.mlm.norm", .bias = "head.mlm.bias"}));
    }
    static std::vector<const char*> ports() { return {"logits"}; }
    std::string decode(const DecodeInput& in, std::size_t row) const { return read_masks(in, row); }
};

} // namespace

HEKLA_PLUGIN({HK_HEAD_INTERFACE, "mlm", decoding_head<Mlm>()},
             {HK_HEAD_INTERFACE, "pretraining", decoding_head<Pretraining>()},
             {HK_HEAD_INTERFACE, "span_boundary", head<SpanBoundary>()})
