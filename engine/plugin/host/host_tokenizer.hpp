// The host's side of hekla.tokenizer/1.
#pragma once

#include "hekla/plugin/tokenizer.h"
#include "text/text_encoder.hpp"

#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace hekla::plugin {

// A tokenizer as plugins see it. Thread: any.
class TokenizerView {
public:
    virtual ~TokenizerView() = default;
    virtual int64_t size() const = 0;
    virtual int64_t special(std::string_view role) const = 0; // -1: no such token
    virtual bool begins_word(int64_t id) const = 0;
    virtual bool ends_sentence(int64_t id) const = 0;
    virtual std::string decode(std::span<const int64_t> ids) const = 0;
};

// The tokenizer must outlive the view, which shows its frame by these rules.
std::unique_ptr<TokenizerView> view_of(const text::Tokenizer& tokenizer, const text::TextRules& rules = {});

const hk_tokenizer_interface* host_tokenizer_interface();

} // namespace hekla::plugin

// The definition of hk_tokenizer: borrowed, valid as long as the view.
struct hk_tokenizer {
    const hekla::plugin::TokenizerView* view = nullptr;
};
