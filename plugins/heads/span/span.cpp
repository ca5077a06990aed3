// Start and end of an answer in a row (Devlin et al. 2019): two scores per token.
#include "body_states.hpp"
#include "decoding.hpp"

using namespace hekla::plugin;

namespace {

class Span {
public:
    explicit Span(const Config& c) : port_(c.string("port", "hidden")), dropout_(c.real("dropout", 0.1)) {}

    // start_logits, end_logits [B, T]; padding cannot be either.
    void build(Graph& g) {
        const Value hidden = body_states(g, port_);
        const Value both = linear_layer(g, drop(g, hidden, dropout_), "head.span", 2);
        const auto of = [&](int64_t which, const char* port) {
            Value x = reshape(slice(both, 2, which, 1), {hidden.dim(0), hidden.dim(1)});
            if (g.has_field("attention_mask")) x = where(g.input("attention_mask"), x, like(x, -1e9));
            g.offer(port, x);
        };
        of(0, "start_logits");
        of(1, "end_logits");
    }

    static std::vector<const char*> ports() { return {"start_logits", "end_logits"}; }
    // Returns the best pair of positions where an answer is allowed (in_context, if the batch has it) and the end is
    // not before the start.
    std::string decode(const DecodeInput& in, std::size_t row) const {
        const std::span<const float> start = in.row(in.output("start_logits"), row),
                                     end = in.row(in.output("end_logits"), row);
        std::vector<int32_t> allowed(start.size(), 1);
        if (in.has_field("in_context")) std::ranges::copy(in.ints("in_context")[row], allowed.begin());
        std::optional<std::size_t> best_start;
        std::size_t from = 0, to = 0;
        double best = -1e30;
        for (std::size_t t = 0; t < end.size(); ++t) {
            if (allowed[t] == 0) continue;
            if (!best_start || start[t] > start[*best_start]) best_start = t;
            const double score = static_cast<double>(start[*best_start]) + static_cast<double>(end[t]);
            if (score <= best) continue;
            best = score;
            from = *best_start;
            to = t;
        }
        const Ids ids = Ids(in.ints("input_ids")[row]).subspan(from, to - from + 1);
        return "{\"span\": [" + std::to_string(from) + ", " + std::to_string(to) +
               "], \"text\": " + json_text(in.tokens().decode(ids)) + "}";
    }

private:
    std::string port_;
    double dropout_;
};

} // namespace

HEKLA_PLUGIN({HK_HEAD_INTERFACE, "span", decoding_head<Span>()})
