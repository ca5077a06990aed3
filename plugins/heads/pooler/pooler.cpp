// One vector per row, for bodies without their own pooler.
#include "body_states.hpp"
#include "decoding.hpp"
#include "pooling.hpp"

using namespace hekla::plugin;

namespace {

class Pooler {
public:
    explicit Pooler(const Config& c)
        : pooling_(pooling_kind(c)), port_(c.string("port", "hidden")), normalize_(c.boolean("normalize", false)) {}

    void build(Graph& g) {
        Value x = pool_tokens(g, body_states(g, port_), pooling_, "head.pooler");
        if (normalize_) x = x / sqrt(reshape(sum(x * x, {1}), {x.dim(0), 1}) + 1e-12);
        g.offer("pooled", x);
    }

    static std::vector<const char*> ports() { return {"pooled"}; }
    std::string decode(const DecodeInput& in, std::size_t row) const {
        return "{\"embedding\": " + json_numbers(in.row(in.output("pooled"), row)) + "}";
    }

private:
    PoolingKind pooling_;
    std::string port_;
    bool normalize_;
};

} // namespace

HEKLA_PLUGIN({HK_HEAD_INTERFACE, "pooler", decoding_head<Pooler>()})
