// LoRA (Hu et al. 2021): adds to a frozen matrix W [m, n] the product of two small trained ones, W + alpha / rank * up
// [m, rank] down [rank, n]. `up` is initialized to zeros, so the model is unchanged before the first step.
#include "draft_adapter.hpp"

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

using namespace hekla::plugin;

namespace {

// '*' in the pattern matches any text.
bool matches(std::string_view pattern, std::string_view name) {
    const std::size_t star = pattern.find('*');
    if (star == std::string_view::npos) return pattern == name;
    if (name.substr(0, star) != pattern.substr(0, star)) return false;
    const std::string_view rest = pattern.substr(star + 1);
    for (std::size_t at = star; at <= name.size(); ++at)
        if (matches(rest, name.substr(at))) return true;
    return false;
}

class Lora {
public:
    explicit Lora(const Config& config) : rank_(config.integer("rank")), alpha_(config.real("alpha")) {
        const uint64_t count = config.count("targets");
        for (uint64_t i = 0; i < count; ++i) targets_.push_back(config.string("targets." + std::to_string(i)));
    }

    Value adapt(Graph& g, std::string_view parameter, Value w) {
        if (w.rank() != 2) return {};
        bool wanted = false;
        for (const std::string& target : targets_) wanted = wanted || matches(target, parameter);
        if (!wanted) return {};
        const std::string name(parameter);
        const int64_t rows = w.dim(0), columns = w.dim(1);
        const double bound = 1.0 / std::sqrt(static_cast<double>(columns > 0 ? columns : 1));
        const Value down = g.parameter(name + ".lora_down", {rank_, columns}, uniform(-bound, bound));
        const Value up = g.parameter(name + ".lora_up", {rows, rank_}, zeros());
        return w + matmul(up, down) * (alpha_ / static_cast<double>(rank_));
    }

private:
    int64_t rank_;
    double alpha_;
    std::vector<std::string> targets_;
};

const void* drafts(hk_string draft, hk_string id) {
    return offered({{HK_ADAPTER_DRAFT, "lora", adapter<Lora>()}}, draft, id);
}
const hk_draft_offers kDraftOffers = {drafts};

} // namespace

HEKLA_PLUGIN({HK_DRAFT_OFFERS_INTERFACE, "", &kDraftOffers})
