// A self-contained HTML page of attention maps: every head of every layer, and one head in detail with its tokens.
#pragma once

#include <string>
#include <vector>

namespace hekla::app {

struct AttentionPicture {
    std::string place;                // "block.3/attention"
    std::size_t heads = 0;            // H
    std::vector<std::string> queries; // Tq tokens, as displayed
    std::vector<std::string> keys;    // Tk
    std::vector<float> weights;       // [H, Tq, Tk], from 0 to 1
};

std::string attention_page(const std::string& title, const std::vector<AttentionPicture>& pictures);

} // namespace hekla::app
