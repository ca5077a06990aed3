// The host's side of hekla.tokenizer/1.
#pragma once

#include "hekla/plugin/tokenizer.h"
#include "text/tokenizer.hpp"

// What a plugin sees as hk_tokenizer: borrowed, and valid as long as the tokenizer.
struct hk_tokenizer {
    const hekla::text::Tokenizer* tokenizer = nullptr;
};

namespace hekla::plugin {

const hk_tokenizer_interface* host_tokenizer_interface();

} // namespace hekla::plugin
