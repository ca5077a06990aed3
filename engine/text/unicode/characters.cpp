#include "text/unicode/characters.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <utf8proc.h>

namespace hekla::text {
namespace {

struct Range {
    char32_t first;
    char32_t last;
};

bool is_in(std::span<const Range> ranges, char32_t value) {
    const auto at = std::ranges::upper_bound(ranges, value, {}, &Range::first);
    return at != ranges.begin() && value <= std::prev(at)->last;
}

// Marks (Mn), marks of every kind, and punctuation added after Unicode 8 or changed since; a range may include
// characters of other categories.
constexpr Range kYoungMarks[] = {{0x7FD, 0x7FD},     {0x898, 0x8E1},     {0x9FE, 0x9FE},     {0xAFA, 0xAFF},
                                 {0xB55, 0xB55},     {0xC04, 0xC3C},     {0xD00, 0xD00},     {0xD3B, 0xD3C},
                                 {0xD81, 0xD81},     {0xEBA, 0xEBA},     {0xECE, 0xECE},     {0x180F, 0x1886},
                                 {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFB},   {0xA82C, 0xA82C},   {0xA8C5, 0xA8C5},
                                 {0xA8FF, 0xA8FF},   {0xA9BD, 0xA9BD},   {0x10D24, 0x10F85}, {0x11070, 0x11074},
                                 {0x110C2, 0x110C2}, {0x111C9, 0x111C9}, {0x111CF, 0x111CF}, {0x1123E, 0x11241},
                                 {0x1133B, 0x1133B}, {0x11438, 0x1145E}, {0x1182F, 0x13455}, {0x16F4F, 0x16F4F},
                                 {0x16FE4, 0x16FE4}, {0x1CF00, 0x1CF46}, {0x1E000, 0x1E4EF}, {0x1E944, 0x1E94A}};
constexpr Range kYoungCombining[] = {
    {0x7FD, 0x7FD},     {0x898, 0x8D3},     {0x9FE, 0x9FE},     {0xAFA, 0xAFF},     {0xB55, 0xB55},
    {0xC04, 0xC3C},     {0xCF3, 0xD00},     {0xD3B, 0xD3C},     {0xD81, 0xD81},     {0xEBA, 0xEBA},
    {0xECE, 0xECE},     {0x1715, 0x1715},   {0x180F, 0x180F},   {0x1ABF, 0x1ACE},   {0x1CF7, 0x1CF7},
    {0x1DF6, 0x1DFA},   {0xA82C, 0xA82C},   {0xA8FF, 0xA8FF},   {0x10D24, 0x10F85}, {0x11070, 0x11074},
    {0x110C2, 0x110C2}, {0x11145, 0x11146}, {0x111C9, 0x111C9}, {0x111CE, 0x111CF}, {0x11241, 0x11241},
    {0x1133B, 0x1133B}, {0x1145E, 0x1145E}, {0x1182C, 0x11A99}, {0x11D31, 0x13455}, {0x16F4F, 0x16F4F},
    {0x16F7F, 0x16F87}, {0x16FE4, 0x16FF1}, {0x1CF00, 0x1CF46}, {0x1E08F, 0x1E4EF}};
constexpr Range kYoungPunctuation[] = {{0x61D, 0x61D},     {0x9FD, 0xA76},     {0xC77, 0xC84},     {0x1B7D, 0x1B7E},
                                       {0x2E43, 0x2E5D},   {0x10EAD, 0x10F89}, {0x1144B, 0x1145D}, {0x11660, 0x116B9},
                                       {0x1183B, 0x11FFF}, {0x12FF1, 0x12FF2}, {0x16E97, 0x16FE2}, {0x1E95E, 0x1E95F}};
constexpr Range kYoungControls[] = {{0x890, 0x8E2}, {0x110CD, 0x1343F}};
// Characters whose decomposition was added after Unicode 12.
constexpr Range kYoungDecompositions[] = {
    {0x32FF, 0x32FF},   {0xA7F2, 0xA7F4},   {0xAB69, 0xAB69},   {0x10781, 0x10785}, {0x10787, 0x107B0},
    {0x107B2, 0x107BA}, {0x11938, 0x11938}, {0x1E030, 0x1E06D}, {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9}};
// Starters that compose with a character before them.
constexpr Range kComposingStarters[] = {{0x9BE, 0x9BE},     {0x9D7, 0x9D7},     {0xB3E, 0xB3E},     {0xB56, 0xB57},
                                        {0xBBE, 0xBBE},     {0xBD7, 0xBD7},     {0xCC2, 0xCC2},     {0xCD5, 0xCD6},
                                        {0xD3E, 0xD3E},     {0xD57, 0xD57},     {0xDCF, 0xDCF},     {0xDDF, 0xDDF},
                                        {0x102E, 0x102E},   {0x1161, 0x1175},   {0x11A8, 0x11C2},   {0x1B35, 0x1B35},
                                        {0x11127, 0x11127}, {0x1133E, 0x1133E}, {0x11357, 0x11357}, {0x114B0, 0x114B0},
                                        {0x114BA, 0x114BA}, {0x114BD, 0x114BD}, {0x115AF, 0x115AF}};
// Symbols (So) that are alphabetic.
constexpr Range kAlphabeticSymbols[] = {{0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};
constexpr Range kChinese[] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF}, {0x20000, 0x2A6DF},
                              {0x2A700, 0x2B81F}, {0x2B920, 0x2CEAF}, // as in the reference; should be 0x2B820
                              {0x2F800, 0x2FA1F}};

// Capital letters that the library does not know (Unicode 16 and 17).
struct CapitalRange {
    char32_t first;
    char32_t last;
    char32_t small; // of `first`; the others follow
};
constexpr CapitalRange kYoungCapitals[] = {
    {0x1C89, 0x1C89, 0x1C8A},    {0xA7CB, 0xA7CB, 0x264},    {0xA7CC, 0xA7CC, 0xA7CD}, {0xA7CE, 0xA7CE, 0xA7CF},
    {0xA7D2, 0xA7D2, 0xA7D3},    {0xA7D4, 0xA7D4, 0xA7D5},   {0xA7DA, 0xA7DA, 0xA7DB}, {0xA7DC, 0xA7DC, 0x19B},
    {0x10D50, 0x10D65, 0x10D70}, {0x16EA0, 0x16EB8, 0x16EBB}};

utf8proc_category_t category(char32_t value) { return utf8proc_category(static_cast<utf8proc_int32_t>(value)); }

} // namespace

bool is_control_character(char32_t value) {
    if (value == '\t' || value == '\n' || value == '\r') return false;
    const auto kind = category(value);
    return (kind == UTF8PROC_CATEGORY_CC || kind == UTF8PROC_CATEGORY_CF || kind == UTF8PROC_CATEGORY_CO) &&
           !is_in(kYoungControls, value);
}

bool is_mark(char32_t value) {
    return value == 0x1734 || (category(value) == UTF8PROC_CATEGORY_MN && !is_in(kYoungMarks, value));
}

bool is_combining_mark(char32_t value) {
    const auto kind = category(value);
    const bool mark = kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_MC || kind == UTF8PROC_CATEGORY_ME;
    return value == 0x1CF2 || value == 0x1CF3 || (mark && !is_in(kYoungCombining, value));
}

bool is_bert_punctuation(char32_t value) {
    if (value < 0x80)
        return (value >= 33 && value <= 47) || (value >= 58 && value <= 64) || (value >= 91 && value <= 96) ||
               (value >= 123 && value <= 126);
    if (value == 0x166D || value == 0x111C9) return true;
    const auto kind = category(value);
    return kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO && !is_in(kYoungPunctuation, value);
}

bool is_chinese_character(char32_t value) { return value >= 0x3400 && is_in(kChinese, value); }

uint8_t combining_class(char32_t value) {
    return static_cast<uint8_t>(utf8proc_get_property(static_cast<utf8proc_int32_t>(value))->combining_class);
}

void append_decomposed(char32_t value, bool compatibility, std::vector<char32_t>& out) {
    utf8proc_int32_t parts[32]; // the longest decomposition, of U+FDFA, has 18
    int ignored = 0;
    const auto options =
        static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE | (compatibility ? UTF8PROC_COMPAT : 0));
    const bool young = value >= 0x32FF && is_in(kYoungDecompositions, value);
    const utf8proc_ssize_t count = young ? 0
                                         : utf8proc_decompose_char(static_cast<utf8proc_int32_t>(value), parts,
                                                                   std::size(parts), options, &ignored);
    if (count <= 0 || count > static_cast<utf8proc_ssize_t>(std::size(parts))) {
        out.push_back(value);
        return;
    }
    for (utf8proc_ssize_t i = 0; i < count; ++i) out.push_back(static_cast<char32_t>(parts[i]));
}

char32_t composed_pair(char32_t first, char32_t second) {
    if (combining_class(second) == 0 && !is_in(kComposingStarters, second)) return 0;
    utf8proc_int32_t pair[] = {static_cast<utf8proc_int32_t>(first), static_cast<utf8proc_int32_t>(second), 0};
    const utf8proc_ssize_t size =
        utf8proc_normalize_utf32(pair, 2, static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
    const auto both = static_cast<char32_t>(pair[0]);
    return size == 1 && !is_in(kYoungDecompositions, both) ? both : 0;
}

bool is_inert(char32_t value, bool compatibility, bool composition) {
    const utf8proc_property_t* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(value));
    if (property->combining_class != 0) return false;
    if (value >= 0xAC00 && value <= 0xD7A3) return composition; // Hangul's syllables are composed of three letters
    if (composition && is_in(kComposingStarters, value)) return false;
    return property->decomp_seqindex == UINT16_MAX || (!compatibility && property->decomp_type != 0);
}

bool is_word_character(char32_t value) {
    if (value < 0x80)
        return (value >= '0' && value <= '9') || (value >= 'A' && value <= 'Z') || value == '_' ||
               (value >= 'a' && value <= 'z');
    const auto kind = category(value);
    return (kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_ME) || kind == UTF8PROC_CATEGORY_ND ||
           kind == UTF8PROC_CATEGORY_NL || kind == UTF8PROC_CATEGORY_PC || value == 0x200C || value == 0x200D ||
           (kind == UTF8PROC_CATEGORY_SO && is_in(kAlphabeticSymbols, value));
}

void order_marks(std::span<char32_t> text) {
    for (std::size_t begin = 0; begin < text.size();) {
        std::size_t end = begin;
        while (end < text.size() && combining_class(text[end]) != 0) ++end;
        if (end - begin > 1)
            std::stable_sort(text.begin() + static_cast<std::ptrdiff_t>(begin),
                             text.begin() + static_cast<std::ptrdiff_t>(end),
                             [](char32_t a, char32_t b) { return combining_class(a) < combining_class(b); });
        begin = end + 1;
    }
}

void append_lower_case(char32_t value, std::vector<char32_t>& out) {
    if (value == 0x130) { // the only character with two lower-case characters
        out.push_back('i');
        out.push_back(0x307);
        return;
    }
    if (value >= 0x1C89)
        for (const CapitalRange& range : kYoungCapitals)
            if (value >= range.first && value <= range.last) {
                out.push_back(value - range.first + range.small);
                return;
            }
    out.push_back(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(value))));
}

bool is_white_space(char32_t value) {
    return (value >= 0x9 && value <= 0xD) || value == 0x20 || value == 0x85 || value == 0xA0 || value == 0x1680 ||
           (value >= 0x2000 && value <= 0x200A) || value == 0x2028 || value == 0x2029 || value == 0x202F ||
           value == 0x205F || value == 0x3000;
}

} // namespace hekla::text
