// Language model head for bodies without their own: logits from the body's token embedding.
#include "block.hpp"
#include "decoding.hpp"

using namespace hekla::plugin;

namespace {

class Lm {
public:
    explicit Lm(const Config&) {}
    void build(Graph& g) { g.offer("logits", linear(g.ask("hidden"), g.ask("embedding.weight"))); }

    static std::vector<const char*> ports() { return {"logits"}; }
    // Returns the most likely token after the last one of the row.
    std::string decode(const DecodeInput& in, std::size_t row) const {
        const hk_output& output = in.output("logits");
        const auto size = static_cast<std::size_t>(output.dims[output.rank - 1]);
        const std::span<const float> logits = in.row(output, row);
        std::size_t last = logits.size() / size - 1;
        if (in.has_field("attention_mask")) {
            const std::span<const int32_t> mask = in.ints("attention_mask")[row];
            for (std::size_t t = 0; t < mask.size() && t * size < logits.size(); ++t)
                if (mask[t] != 0) last = t;
        }
        const auto best = static_cast<int32_t>(best_of(logits.subspan(last * size, size)));
        return "{\"next_id\": " + std::to_string(best) + ", \"next\": " + json_text(in.tokens().decode(Ids(&best, 1))) +
               "}";
    }
};

} // namespace

HEKLA_PLUGIN({HK_HEAD_INTERFACE, "lm", decoding_head<Lm>()})
