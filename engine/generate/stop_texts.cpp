#include "generate/stop_texts.hpp"

#include <algorithm>
#include <utility>

namespace hekla::generate {

std::string StopTexts::push(std::string_view piece) {
    if (found_) return {};
    held_ += piece;
    std::size_t begin = std::string::npos, end = std::string::npos;
    for (const std::string& text : texts_) {
        const std::size_t at = held_.find(text);
        if (at == std::string::npos) continue;
        found_ = true;
        if (const std::size_t end_of = at + text.size(); end_of < end || (end_of == end && at < begin)) {
            begin = at;
            end = end_of;
        }
    }
    if (found_) {
        held_.resize(begin);
        return std::exchange(held_, std::string());
    }
    std::size_t held = 0; // bytes at the end with which a stop text may begin
    for (const std::string& text : texts_)
        for (std::size_t size = std::min(text.size() - 1, held_.size()); size > held; --size)
            if (std::string_view(held_).ends_with(std::string_view(text).substr(0, size))) held = size;
    std::string certain = held_.substr(0, held_.size() - held);
    held_.erase(0, certain.size());
    return certain;
}

std::string StopTexts::finish() { return std::exchange(held_, std::string()); }

} // namespace hekla::generate
