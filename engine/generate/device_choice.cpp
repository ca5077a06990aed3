#include "generate/device_choice.hpp"

#include "generate/sampler.hpp"

#include <algorithm>
#include <bit>
#include <iterator>

namespace hekla::generate {

std::optional<program::kernels::generate::ChooseOptions> device_choice(const Options& o) {
    program::kernels::generate::ChooseOptions choice;
    if (o.repetition_penalty != 1.0 || o.no_repeat_ngram_size > 0 || o.encoder_no_repeat_ngram_size > 0 ||
        o.beams > 1 ||
        o.eos.size() + o.suppress.size() + o.forced_eos.size() + o.logit_bias.size() > std::size(choice.ids))
        return std::nullopt;
    choice.on = 1;
    choice.draws = o.sample ? 1 : 0;
    choice.inverse_temperature = static_cast<float>(1.0 / o.temperature);
    choice.top_k = static_cast<uint32_t>(std::clamp<int64_t>(o.top_k, 0, INT32_MAX));
    choice.dropped_share = dropped_share(o.top_p);
    choice.kept_range = kept_range(o.min_p);
    choice.seed_low = static_cast<uint32_t>(o.seed);
    choice.seed_high = static_cast<uint32_t>(o.seed >> 32);
    choice.first_row_low = static_cast<uint32_t>(o.first_row);
    choice.first_row_high = static_cast<uint32_t>(o.first_row >> 32);
    choice.ends = static_cast<uint32_t>(o.eos.size());
    choice.suppressed = static_cast<uint32_t>(o.suppress.size());
    choice.forced = static_cast<uint32_t>(o.forced_eos.size());
    int32_t* to = choice.ids;
    for (const auto* ids : {&o.eos, &o.suppress, &o.forced_eos}) to = std::ranges::copy(*ids, to).out;
    choice.biased = static_cast<uint32_t>(o.logit_bias.size());
    int32_t* bits = choice.biases;
    for (const auto& [token, value] : o.logit_bias) {
        *to++ = token;
        *bits++ = std::bit_cast<int32_t>(value);
    }
    return choice;
}

} // namespace hekla::generate
