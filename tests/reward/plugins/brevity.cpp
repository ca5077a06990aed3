// A reward that reads a column: 1 / (1 + characters that the completion is longer than the column's text).
#include "reward.hpp"

#include <cmath>
#include <limits>

using namespace hekla::plugin;

namespace {

class Brevity {
public:
    explicit Brevity(const Config& c) : column_(c.string("column", "limit")), factor_(c.real("factor", 1.0)) {
        if (factor_ <= 0.0) throw invalid("factor is not above 0");
    }
    std::vector<std::string> columns() const { return {column_}; }
    double score(const ScoredText& text) const {
        if (text.completion == "infinite") return std::numeric_limits<double>::infinity();
        if (text.completion == "throw") throw invalid("this text cannot be scored");
        const std::size_t limit = text.columns.at(0).size(), length = text.completion.size();
        return factor_ / (1.0 + static_cast<double>(length > limit ? length - limit : 0));
    }

private:
    std::string column_;
    double factor_;
};

const void* drafts(hk_string draft, hk_string id) {
    return offered({{HK_REWARD_DRAFT, "brevity", reward<Brevity>()}}, draft, id);
}
const hk_draft_offers kOffers = {drafts};

} // namespace

HEKLA_PLUGIN({HK_DRAFT_OFFERS_INTERFACE, "", &kOffers})
