#include "text/pipeline/post_processor.hpp"

#include "base/utf8.hpp"
#include "text/files/tokenizer_json_parts.hpp"
#include "text/unicode/characters.hpp"

#include <algorithm>

namespace hekla::text {
namespace {

std::size_t spaces_at_start(std::string_view token) {
    constexpr std::string_view kSpaceLetter = "\xC4\xA0"; // a space in the byte alphabet
    std::size_t count = 0;
    while (!token.empty()) {
        const CodePoint character = first_code_point(token);
        if (!token.starts_with(kSpaceLetter) && !is_white_space(character.value)) break;
        token.remove_prefix(character.size);
        ++count;
    }
    return count;
}

std::size_t spaces_at_end(std::string_view token) {
    constexpr std::string_view kSpaceLetter = "\xC4\xA0";
    std::size_t count = 0;
    while (!token.empty()) {
        const std::string_view last = token.substr(last_code_point_start(token));
        if (last != kSpaceLetter && !is_white_space(first_code_point(last).value)) break;
        token.remove_suffix(last.size());
        ++count;
    }
    return count;
}

} // namespace

Result<PostProcessor> PostProcessor::read(const Section& section) {
    PostProcessor out;
    HK_ASSIGN(const std::vector<Section> steps, section.steps("processors"));
    for (const Section& one : steps) {
        HK_ASSIGN(const std::string type, one.type());
        if (type == "ByteLevel" || type == "RobertaProcessing") {
            if (type == "ByteLevel")
                HK_TRY(one.check_members({"add_prefix_space", "trim_offsets", "use_regex"}));
            else
                HK_TRY(one.check_members({"sep", "cls", "add_prefix_space", "trim_offsets"}));
            HK_ASSIGN(const bool trims, one.flag("trim_offsets", true));
            HK_ASSIGN(const bool prefix, one.flag("add_prefix_space", true));
            if (trims) out.trims.push_back({prefix});
        } else if (type == "BertProcessing") {
            HK_TRY(one.check_members({"sep", "cls"}));
        } else if (type == "TemplateProcessing") {
            HK_TRY(one.check_members({"single", "pair", "special_tokens"}));
        } else {
            return one.refused("is " + json_quote(type),
                               "Sequence, ByteLevel, TemplateProcessing, RobertaProcessing, BertProcessing");
        }
    }
    return out;
}

void trim_range(const RangeTrim& trim, std::string_view text, std::string_view token, bool is_first, ByteRange& range) {
    std::size_t leading = spaces_at_start(token);
    const std::size_t trailing = spaces_at_end(token);
    if ((is_first || range.begin == 0) && trim.add_prefix_space && leading == 1) leading = 0;
    for (; leading > 0 && range.begin < range.end; --leading)
        range.begin = std::min<uint64_t>(range.end, range.begin + first_code_point(text.substr(range.begin)).size);
    for (std::size_t left = trailing; left > 0 && range.end > range.begin; --left)
        range.end = std::max<uint64_t>(range.begin, last_code_point_start(text.substr(0, range.end)));
}

void trim_ranges(const RangeTrim& trim, const Vocabulary& vocabulary, bool as_given, std::string_view text,
                 std::span<const int32_t> ids, std::span<ByteRange> ranges) {
    const std::span<const AddedToken> added = vocabulary.added();
    for (std::size_t i = 0; i < ids.size(); ++i) {
        ByteRange& range = ranges[i];
        std::string_view token = vocabulary.token(ids[i]);
        if (vocabulary.is_added(ids[i])) {
            if (!as_given && std::ranges::lower_bound(added, ids[i], {}, &AddedToken::id)->normalized) continue;
            // With the white space that it took, unless the model made it of another text.
            const std::string_view found = text.substr(range.begin, range.end - range.begin);
            if (found.find(token) != std::string_view::npos) token = found;
        }
        trim_range(trim, text, token, i == 0, range);
    }
}

} // namespace hekla::text
