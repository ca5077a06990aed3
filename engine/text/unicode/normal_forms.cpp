#include "text/unicode/normal_forms.hpp"

#include "base/utf8.hpp"
#include "text/unicode/characters.hpp"

#include <algorithm>

namespace hekla::text {
namespace {

// A decomposed character, and how it changes the text.
struct FormPart {
    char32_t value;
    int32_t change;
    uint8_t rank; // combining class
};

// Sorts each run of marks by their classes. Changes move with their characters.
void order_parts(std::vector<FormPart>& parts) {
    for (std::size_t begin = 0; begin < parts.size();) {
        std::size_t end = begin;
        while (end < parts.size() && parts[end].rank != 0) ++end;
        if (end - begin > 1)
            std::stable_sort(parts.begin() + static_cast<std::ptrdiff_t>(begin),
                             parts.begin() + static_cast<std::ptrdiff_t>(end),
                             [](const FormPart& a, const FormPart& b) { return a.rank < b.rank; });
        begin = end + 1;
    }
}

// Composes characters with the preceding starter where nothing blocks it. A composed character also replaces the
// characters of its parts.
void compose_parts(std::vector<FormPart>& parts) {
    std::vector<FormPart> out;
    out.reserve(parts.size());
    std::size_t starter = SIZE_MAX; // index in `out`
    bool has_marks = false;         // after the starter
    uint8_t last_rank = 0;
    for (const FormPart& part : parts) {
        if (starter != SIZE_MAX && (!has_marks || last_rank < part.rank)) {
            const char32_t both = composed_pair(out[starter].value, part.value);
            if (both != 0) {
                out[starter].value = both;
                out[starter].change += part.change - 1;
                continue;
            }
        }
        if (part.rank == 0) {
            starter = out.size();
            has_marks = false;
        } else if (starter != SIZE_MAX) {
            has_marks = true;
            last_rank = part.rank;
        }
        out.push_back(part);
    }
    parts = std::move(out);
}

} // namespace

void normalize(AlignedText& text, NormalForm form) {
    const bool compatible = form == NormalForm::nfkc || form == NormalForm::nfkd;
    const bool composes = form == NormalForm::nfc || form == NormalForm::nfkc;
    const std::string_view old = text.text();
    const auto is_plain = [&](char32_t value) {
        return value < 0xA0 || (composes && !compatible && value < 0x300) || is_inert(value, compatible, composes);
    };
    AlignedText out = text.emptied();
    std::vector<FormPart> parts;
    std::vector<char32_t> decomposed;
    std::vector<TextChange> changes;
    std::size_t kept = 0; // up to here the text is in `out`
    std::size_t last = 0; // start of the last plain character, if there is one after `kept`
    bool has_changed = false;
    for (std::size_t at = 0; at < old.size();) {
        const CodePoint first = first_code_point(old.substr(at));
        if (is_plain(first.value)) {
            last = at;
            at += first.size;
            continue;
        }
        // A run: what is not plain, and before it the character with which it may compose.
        const std::size_t begin = composes && last >= kept && last < at ? last : at;
        parts.clear();
        std::size_t end = begin;
        while (end < old.size()) {
            const CodePoint next = first_code_point(old.substr(end));
            if (end > begin && is_plain(next.value) && end > at) break;
            end += next.size;
            decomposed.clear();
            append_decomposed(next.value, compatible, decomposed);
            for (std::size_t i = 0; i < decomposed.size(); ++i)
                parts.push_back({decomposed[i], i == 0 ? 0 : 1, combining_class(decomposed[i])});
        }
        order_parts(parts);
        if (composes) compose_parts(parts);
        changes.clear();
        for (const FormPart& part : parts) changes.push_back({part.value, part.change});
        has_changed = true;
        out.append(text, kept, begin);
        out.append_changed(text, begin, end, changes);
        kept = at = end;
        last = 0;
    }
    if (!has_changed) return;
    out.append(text, kept, old.size());
    text = std::move(out);
}

} // namespace hekla::text
