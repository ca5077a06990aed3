// An adapter that multiplies every parameter by a trained number, unless HEKLA_FAULT names a fault.
#include "draft_adapter.hpp"

#include <cstdlib>

using namespace hekla::plugin;

namespace {

bool fault(std::string_view name) {
    const char* given = std::getenv("HEKLA_FAULT");
    return given != nullptr && name == given;
}

struct Factor {
    explicit Factor(const Config&) {
        if (fault("throws_in_create")) throw invalid("it does not want to");
    }
    Value adapt(Graph& g, std::string_view parameter, Value w) {
        if (fault("throws")) throw 1;
        if (fault("kills")) std::abort();
        if (fault("refuses")) return g.fail("no factor for this one");
        if (fault("odd_shape")) return reshape(w, {-1});
        if (fault("another_kind")) return g.fill(w.shape(), 1, HK_KIND_INT32);
        if (fault("wrong_operation")) return matmul(w, g.fill({3, 5, 7, 11}, 1.0));
        if (fault("foreign_value")) return {&g, 1u << 20 | 1u};
        if (fault("offers")) g.offer("mine", w);
        if (fault("adds_metric")) g.metric("mine", g.number(1.0), g.number(1.0));
        if (fault("open_scope")) g.scope_begin("mine");
        return w * g.parameter(std::string(parameter) + ".factor", {}, ones());
    }
};

const void* drafts(hk_string draft, hk_string id) {
    return offered({{HK_ADAPTER_DRAFT, "factor", adapter<Factor>()}}, draft, id);
}
const hk_draft_offers draft_offers = {drafts};

} // namespace

HEKLA_PLUGIN({HK_DRAFT_OFFERS_INTERFACE, "", &draft_offers})
