// Decodes a masked language model's prediction at each mask, for the heads mlm and pretraining.
#pragma once

#include "decoding.hpp"

namespace hekla::plugin {

// Returns {"masks": [{"position", "id", "token", "probability"}]} of one row: at masked_positions whose labels count or
// are unknown, or, if the batch has none, at every mask token.
inline std::string read_masks(const DecodeInput& in, std::size_t row) {
    const hk_output& output = in.output("logits");
    const auto size = static_cast<std::size_t>(output.dims[output.rank - 1]);
    const std::span<const float> logits = in.row(output, row);
    const std::span<const int32_t> ids = in.ints("input_ids")[row];
    const std::optional<int32_t> mask = in.tokens().role("mask");
    std::string out;
    for (std::size_t p = 0; p * size < logits.size(); ++p) {
        const std::size_t place =
            in.has_field("masked_positions") ? static_cast<std::size_t>(in.ints("masked_positions")[row][p]) : p;
        if (in.has_field("labels") && in.has_field("masked_positions") && in.ints("labels")[row][p] == kIgnored)
            continue;
        if (!in.has_field("masked_positions") && (!mask || ids[place] != *mask)) continue;
        const std::vector<double> probabilities = softmax_of(logits.subspan(p * size, size));
        const std::size_t best =
            static_cast<std::size_t>(std::ranges::max_element(probabilities) - probabilities.begin());
        const auto id = static_cast<int32_t>(best);
        out += (out.empty() ? "" : ", ") + std::string("{\"position\": ") + std::to_string(place) +
               ", \"id\": " + std::to_string(id) + ", \"token\": " + json_text(in.tokens().decode(Ids(&id, 1))) +
               ", \"probability\": " + json_number(probabilities[best]) + "}";
    }
    return "{\"masks\": [" + out + "]}";
}

} // namespace hekla::plugin
