#include "text/pipeline/aligned_text.hpp"

#include "base/utf8.hpp"

namespace hekla::text {

AlignedText::AlignedText(std::string_view part, std::size_t begin, bool aligned)
    : text_(part), base_(begin), aligned_(aligned), begins_original_(begin == 0) {
    if (!aligned) return;
    origins_.reserve(part.size());
    for (std::size_t at = 0; at < part.size();) {
        const std::size_t size = first_code_point(part.substr(at)).size;
        origins_.resize(at + size, {begin + at, begin + at + size});
        at += size;
    }
}

AlignedText AlignedText::emptied() const {
    AlignedText out;
    out.base_ = base_;
    out.aligned_ = aligned_;
    return out;
}

void AlignedText::append(const AlignedText& other, std::size_t begin, std::size_t end) {
    if (text_.empty()) begins_original_ = other.begins_original_ && begin == 0;
    text_.append(other.text_, begin, end - begin);
    if (aligned_)
        origins_.insert(origins_.end(), other.origins_.begin() + static_cast<std::ptrdiff_t>(begin),
                        other.origins_.begin() + static_cast<std::ptrdiff_t>(end));
}

void AlignedText::append_inserted(std::string_view inserted, const AlignedText& other, std::size_t at) {
    if (text_.empty() && !inserted.empty()) {
        // Characters that replace several have the origin of the last of these.
        begins_original_ = other.aligned_ ? at == 0 ? base_ == 0 : other.origins_[at - 1].begin == 0
                                          : other.begins_original_ && at <= first_code_point(other.text_).size;
    }
    text_ += inserted;
    if (aligned_) origins_.resize(text_.size(), at == 0 ? ByteRange{base_, base_} : other.origins_[at - 1]);
}

void AlignedText::append_changed(const AlignedText& other, std::size_t begin, std::size_t end,
                                 std::span<const TextChange> changes, std::size_t removed) {
    const std::string_view old = other.text_;
    std::size_t at = begin;
    const auto skip = [&] {
        if (at < end) at += first_code_point(old.substr(at)).size;
    };
    for (std::size_t i = 0; i < removed; ++i) skip();
    for (const TextChange& change : changes) {
        if (text_.empty()) begins_original_ = other.begins_original_ && at == 0;
        ByteRange origin;
        if (aligned_)
            origin = change.change > 0 ? at == 0 ? ByteRange{base_, base_} : other.origins_[at - 1]
                                       : other.origins_[std::min(at, old.size() - 1)];
        put(change.value, origin);
        for (int32_t i = change.change; i <= 0; ++i) skip();
    }
}

void AlignedText::append_prefixed(std::string_view prefix, const AlignedText& other, std::size_t begin,
                                  std::size_t end) {
    if (text_.empty()) begins_original_ = other.begins_original_ && begin == 0;
    text_ += prefix;
    if (aligned_) origins_.resize(text_.size(), other.origins_[begin]);
    append(other, begin, end);
}

void AlignedText::append_spelled(const AlignedText& other, std::size_t begin, std::size_t end,
                                 std::span<const std::string> letters) {
    if (text_.empty()) begins_original_ = other.begins_original_ && begin == 0;
    for (std::size_t at = begin; at < end; ++at) {
        text_ += letters[static_cast<unsigned char>(other.text_[at])];
        if (aligned_) origins_.resize(text_.size(), other.origins_[at]);
    }
}

void AlignedText::put(char32_t value, const ByteRange& origin) {
    append_code_point(text_, value);
    if (aligned_) origins_.resize(text_.size(), origin);
}

} // namespace hekla::text
