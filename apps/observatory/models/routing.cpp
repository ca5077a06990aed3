#include "models/routing.hpp"

#include "failure.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace observatory {
namespace {

// A combiner inside a combination.
struct Combiner {
    std::string place; // the numbers of its parts from the whole on: ".1.0"; "" is the whole
    std::string text;
    std::vector<std::string> parts;
};

// Reads a combination, and lists its combiners.
class CombinationReader {
public:
    explicit CombinationReader(std::string_view text) {
        for (const char c : text)
            if (c != ' ' && c != '\t') text_ += c;
    }
    std::vector<Combiner> read() {
        part("");
        if (at_ < text_.size()) fail();
        return std::move(combiners_);
    }

private:
    [[noreturn]] void fail() const {
        throw Failure("'" + text_ + "', character " + std::to_string(at_ + 1) +
                      ": this is not a combination of adapters");
    }
    std::string part(const std::string& place) {
        const std::size_t first = at_;
        at_ = std::min(text_.find_first_of("(),", at_), text_.size());
        if (at_ == first) fail();
        if (at_ == text_.size() || text_[at_] != '(') return text_.substr(first, at_ - first);
        Combiner combiner{place, {}, {}};
        do {
            ++at_;
            combiner.parts.push_back(part(place + "." + std::to_string(combiner.parts.size())));
        } while (at_ < text_.size() && text_[at_] == ',');
        if (at_ == text_.size() || text_[at_] != ')') fail();
        ++at_;
        combiner.text = text_.substr(first, at_ - first);
        combiners_.push_back(combiner);
        return combiner.text;
    }
    std::string text_;
    std::size_t at_ = 0;
    std::vector<Combiner> combiners_; // inner ones first, so that longer places are before their beginnings
};

} // namespace

bool reads_written_text(const std::string& module) {
    const auto contains = [&](std::string_view part) { return module.find(part) != std::string::npos; };
    if (!contains("decoder")) return false;
    constexpr std::array<std::string_view, 2> kAttentions{".encoder_attn.", ".EncDecAttention."};
    for (const std::string_view attention : kAttentions) {
        const std::size_t found = module.find(attention);
        if (found == std::string::npos) continue;
        const char first = module[found + attention.size()]; // "k_proj", "v"
        return first != 'k' && first != 'v';
    }
    return true;
}

std::vector<RoutingSite> routing_sites(const std::string& combination, const std::vector<std::string>& modules,
                                       const std::vector<std::string>& parameters) {
    constexpr std::string_view kCombine = "adapter.combine", kResidual = "residual.";
    const std::vector<Combiner> combiners = CombinationReader(combination).read();
    std::vector<RoutingSite> sites;
    for (const std::string& parameter : parameters) {
        if (!parameter.starts_with(kCombine)) continue;
        const std::string_view rest = std::string_view(parameter).substr(kCombine.size());
        const auto combiner =
            std::ranges::find_if(combiners, [&](const Combiner& one) { return rest.starts_with(one.place + "."); });
        if (combiner == combiners.end()) continue;
        const std::string_view name = rest.substr(combiner->place.size() + 1);
        const std::string* module = nullptr; // the longest that fits
        for (const std::string& one : modules)
            if (name.starts_with(one + ".") && (module == nullptr || one.size() > module->size())) module = &one;
        if (module == nullptr) continue;
        const bool residual = name.substr(module->size() + 1).starts_with(kResidual);
        const std::string site = *module + (residual ? ".residual" : "");
        std::string port = "routing" + combiner->place + "." + site;
        if (std::ranges::find(sites, port, &RoutingSite::port) != sites.end()) continue;
        sites.push_back({std::move(port), site, combiner->text, combiner->parts});
    }
    return sites;
}

} // namespace observatory
