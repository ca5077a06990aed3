#include "generate/token_scores.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace hekla::generate {

std::vector<TokenScore> score_tokens(std::span<const float> logits, int32_t token, std::size_t likeliest) {
    const double top = *std::ranges::max_element(logits);
    double sum = 0.0;
    for (const float logit : logits) sum += std::exp(logit - top);
    const double normalizer = top + std::log(sum);
    std::vector<int32_t> order(likeliest > 0 ? logits.size() : 0);
    std::iota(order.begin(), order.end(), 0);
    const auto logit_of = [&](int32_t id) { return logits[static_cast<std::size_t>(id)]; };
    const auto end = order.begin() + static_cast<std::ptrdiff_t>(std::min(likeliest, order.size()));
    std::ranges::partial_sort(order, end, [&](int32_t a, int32_t b) {
        return logit_of(a) != logit_of(b) ? logit_of(a) > logit_of(b) : a < b;
    });
    std::vector<TokenScore> scores{{token, logit_of(token) - normalizer}};
    std::for_each(order.begin(), end, [&](int32_t id) { scores.push_back({id, logit_of(id) - normalizer}); });
    return scores;
}

} // namespace hekla::generate
