// %NAME%: of several adapters, the mean of what they add, times a trained number for each channel.
#include "combiner.hpp"

using namespace hekla::plugin;

namespace {

class %CLASS% {
public:
    explicit %CLASS%(const Config& config) : begin_(config.real("begin")) {}

    // What is added to y, from what each branch would add alone.
    Combined combine(Graph& g, const Site& site, const SiteValues&, const std::vector<Branch>& branches) const {
        Value sum;
        double count = 0.0;
        for (const Branch& branch : branches) {
            if (!branch.acts()) continue; // it has nothing to add at this site
            sum = count == 0.0 ? branch.delta : sum + branch.delta;
            count += 1.0;
        }
        const Value scale = g.parameter("scale", {site.out}, constant_of(begin_));
        return {sum * scale * (1.0 / count)};
    }

private:
    double begin_;
};

} // namespace

HEKLA_PLUGIN({HK_COMBINER_INTERFACE, "%NAME%", combiner<%CLASS%>()})
